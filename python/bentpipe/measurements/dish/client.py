"""A client of the terminal's interface: one method per request, with checked answers and one-line errors."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from bentpipe.errors import UserError, shown
from bentpipe.measurements.dish.errors import MAX_ANSWER_BYTES, DishError, status_error
from bentpipe.measurements.dish.history import History, parse_history
from bentpipe.measurements.dish.obstruction import ObstructionMap, parse_map
from bentpipe.measurements.dish.reflection import Reflected, reflect
from bentpipe.measurements.dish.status import Status, parse_status
from bentpipe.measurements.dish.web import WEB_PORT, GrpcWebTransport
from bentpipe.measurements.dish.wire import HANDLE, Message, all_firmware

__all__ = ["DEFAULT_HOST", "TIMEOUT_S", "DishClient", "DishError", "GrpcTransport", "Transport", "transport_to"]

Record = TypeVar("Record")

#: Default address of a terminal.
_PORT = 9200
DEFAULT_HOST = f"192.168.100.1:{_PORT}"
#: Timeout of a request [s]. Chosen here: answers come within tens of milliseconds over a cable.
TIMEOUT_S = 3.0
#: Time until a failed reflection is tried again [s]. Chosen here.
REFLECTION_RETRY_S = 60.0
#: Field numbers of the answers of routers (Response.wifi_...): 3000 to 3999.
_ROUTER = range(3000, 4000)


class Transport(Protocol):
    """Carries serialised Requests to a terminal and serialised Responses back."""

    def call(self, request: bytes) -> bytes:
        """Send a Request and return the bytes of the Response.

        Raises:
            DishError: There is no answer.
        """

    def reflect(self) -> Reflected | None:
        """Return the messages and fields of the firmware; None if it has no reflection."""

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""


def _with_port(host: str, port: int = _PORT) -> str:
    try:
        return f"[{ipaddress.IPv6Address(host.removeprefix('[').removesuffix(']'))}]:{port}"
    except ValueError:
        return host if ":" in host else f"{host}:{port}"


class GrpcTransport:
    """gRPC over plain HTTP/2, as terminals serve it."""

    def __init__(self, host: str = DEFAULT_HOST, timeout_s: float = TIMEOUT_S) -> None:
        """`host` is ``HOST`` or ``HOST:PORT``, an IPv6 address plain or in brackets. It does not connect yet."""
        self.host = _with_port(host)
        self._timeout_s = timeout_s
        self._channel: grpc.Channel | None = None

    def call(self, request: bytes) -> bytes:
        """Send a Request; see `Transport.call`."""
        try:
            answer: bytes = self._open().unary_unary(HANDLE)(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            self.close()  # gRPC would wait up to two minutes before it tries the same connection again
            status: Any = error  # an RpcError is a Call too, which its type does not say
            raise status_error(self.host, status.code(), str(status.details() or ""), self._timeout_s) from None
        return answer

    def reflect(self) -> Reflected | None:
        """Return the firmware's messages; see `Transport.reflect`."""
        return reflect(self._open(), self._timeout_s)

    def close(self) -> None:
        """Close the connection."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _open(self) -> grpc.Channel:
        if self._channel is None:
            # No proxy: a terminal is on the local network, whatever http_proxy says.
            options = [("grpc.max_receive_message_length", MAX_ANSWER_BYTES), ("grpc.enable_http_proxy", 0)]
            self._channel = grpc.insecure_channel(self.host, options=options)
        return self._channel


def transport_to(host: str, timeout_s: float = TIMEOUT_S) -> Transport:
    """Return the transport to a terminal: gRPC-Web for ``http://HOST[:PORT]`` and port 9201, else gRPC."""
    address = _with_port(host.removeprefix("http://").rstrip("/"), WEB_PORT if host.startswith("http://") else _PORT)
    name, _, port = address.rpartition(":")
    if not host.startswith("http://") and port != str(WEB_PORT):
        return GrpcTransport(address, timeout_s)
    if not (port.isascii() and port.isdigit() and 0 < len(port) < 6 and int(port) < 2**16):
        raise UserError(f"{shown(host)}: {shown(port)} is no port; expected http://HOST:PORT")
    return GrpcWebTransport(name.removeprefix("[").removesuffix("]"), int(port), timeout_s)


class DishClient:
    """Client of a terminal.

    Args:
        transport: The transport; or the host, ``HOST`` or ``HOST:PORT``, or ``http://HOST[:PORT]`` for gRPC-Web.

    Raises:
        DishError: Every method, if there is no valid answer; errors of gRPC and protobuf are converted.
    """

    def __init__(self, transport: Transport | str = DEFAULT_HOST) -> None:
        """Prepare the client; the first request connects."""
        self._transport = transport_to(transport) if isinstance(transport, str) else transport
        self._wire = all_firmware()
        self._request, self._response = self._wire.message("Request"), self._wire.message("Response")
        self._reflected: tuple[str, Reflected | None] | None = None
        self._reflected_s = 0.0

    def status(self) -> Status:
        """Return the current status of the terminal.

        The first answer of a firmware, and the first after a failure, also requests reflection. Without reflection an
        absent field counts as zero, and reflection is requested again after `REFLECTION_RETRY_S`.
        """
        try:
            message = self._call("get_status", "dish_get_status", missing="not-a-dish")
        except DishError:
            self._reflected = None  # the next answer may be from another terminal
            raise
        version = message.device_info.software_version
        known = self._reflected
        if known is not None and known[1] is None:  # a failed reflection costs `TIMEOUT_S` each time
            due = time.monotonic() - self._reflected_s >= REFLECTION_RETRY_S
        else:
            due = known is None or known[0] != version
        if known is None or due:
            known = self._reflected = (version, self._transport.reflect())
            self._reflected_s = time.monotonic()
        reflected = known[1]
        knows = reflected.knows if reflected is not None else None
        return parse_status(message, message.SerializeToString(), knows)

    def history(self) -> History:
        """Return the last minutes, one sample a second."""
        message = self._call("get_history", "dish_get_history")
        return _checked(parse_history, message)

    def obstruction_map(self) -> ObstructionMap:
        """Return the obstruction map."""
        message = self._call("dish_get_obstruction_map", "dish_get_obstruction_map")
        return _checked(parse_map, message)

    def location(self) -> tuple[float, float, float]:
        """Return latitude, longitude [deg] and altitude [m].

        Raises:
            DishError: Also if the owner has not allowed it (kind ``denied``).
        """
        try:
            lla = self._call("get_location", "get_location").lla
        except DishError as error:
            if error.kind == "denied":
                raise DishError(
                    "denied",
                    "the terminal does not give its location: allow it in the Starlink app (Advanced, Debug data, "
                    "access on local network)",
                ) from None
            raise
        return lla.lat, lla.lon, lla.alt

    def clear_obstruction_map(self) -> None:
        """Clear the terminal's obstruction map."""
        self._call("dish_clear_obstruction_map", "dish_clear_obstruction_map")

    def reboot(self) -> None:
        """Reboot the terminal."""
        self._call("reboot", "reboot")

    def named_fields(self, status: Status) -> dict[str, Any] | None:
        """Return all fields of a status under the firmware's own names; None if it has no reflection."""
        if self._reflected is None or self._reflected[1] is None:
            return None
        try:
            return self._reflected[1].as_dict("DishGetStatusResponse", status.raw)
        except (DecodeError, KeyError, ValueError):
            return None

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _call(self, name: str, answer: str, missing: str = "unsupported") -> Message:
        request = self._request()
        getattr(request, name).SetInParent()
        try:
            data = self._transport.call(request.SerializeToString())
        except DishError as error:
            if error.kind == "unsupported" and missing == "not-a-dish":
                raise DishError("not-a-dish", f"{error}; expected a Starlink terminal ({DEFAULT_HOST})") from None
            raise
        try:
            response = self._response.FromString(data)
        except DecodeError:
            raise DishError("malformed", f"the answer to {name} is not a Response ({len(data)} bytes)") from None
        if response.HasField(answer):
            return getattr(response, answer)
        if response.status.code:
            text = " ".join(response.status.message.split())[:200]
            kind = "denied" if response.status.code == grpc.StatusCode.PERMISSION_DENIED.value[0] else "unsupported"
            raise DishError(kind, f"the terminal answers {name} with error {response.status.code}: {text}")
        if _from_router(response):
            raise DishError("not-a-dish", f"this is a Starlink router; the terminal is at {DEFAULT_HOST}")
        raise DishError(missing, f"the answer to {name} holds no {answer}")


def _checked(read: Callable[[Message], Record], message: Message) -> Record:
    try:
        return read(message)
    except UserError as error:
        raise DishError("malformed", str(error)) from None


def _from_router(response: Message) -> bool:
    from google.protobuf.unknown_fields import UnknownFieldSet

    return any(field.field_number in _ROUTER for field in UnknownFieldSet(response))

"""A client of the terminal's interface: one method per question, every answer checked, every failure one sentence."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import grpc
from google.protobuf.message import DecodeError

from bentpipe.errors import UserError, shown
from bentpipe.measurements.dish.history import History, history_of
from bentpipe.measurements.dish.obstruction import ObstructionMap, map_of
from bentpipe.measurements.dish.reflection import Reflected, reflect
from bentpipe.measurements.dish.refusals import MAX_ANSWER_BYTES, DishError, refusal
from bentpipe.measurements.dish.status import Status, status_of
from bentpipe.measurements.dish.web import WEB_PORT, GrpcWebTransport
from bentpipe.measurements.dish.wire import HANDLE, Message, everything

__all__ = ["DEFAULT_HOST", "TIMEOUT_S", "DishClient", "DishError", "GrpcTransport", "Transport", "transport_to"]

Record = TypeVar("Record")

#: Where a terminal listens, whatever the network behind it.
_PORT = 9200
DEFAULT_HOST = f"192.168.100.1:{_PORT}"
#: How long an answer may take [s]. Chosen here: answers come within tens of milliseconds over a cable.
TIMEOUT_S = 3.0
#: A terminal that did not say what its firmware has is asked again after so long [s]. Chosen here.
ASK_AGAIN_S = 60.0
#: Field numbers of answers that routers give (Response.wifi_...): 3000 to 3999.
_ROUTER = range(3000, 4000)


class Transport(Protocol):
    """What carries a serialised Request there and a serialised Response back."""

    def call(self, request: bytes) -> bytes:
        """The answer's bytes.

        Raises:
            DishError: There is none.
        """

    def reflect(self) -> Reflected | None:
        """What the firmware has, if it says so."""

    def close(self) -> None:
        """Ends the connection; the next call makes a new one."""


def _with_port(host: str, port: int = _PORT) -> str:
    try:
        return f"[{ipaddress.IPv6Address(host.removeprefix('[').removesuffix(']'))}]:{port}"
    except ValueError:
        return host if ":" in host else f"{host}:{port}"


class GrpcTransport:
    """gRPC over plain HTTP/2, as terminals have it."""

    def __init__(self, host: str = DEFAULT_HOST, timeout_s: float = TIMEOUT_S) -> None:
        """`host` is ``HOST`` or ``HOST:PORT``, an IPv6 address as it is or in brackets; nothing is connected yet."""
        self.host = _with_port(host)
        self._timeout_s = timeout_s
        self._channel: grpc.Channel | None = None

    def call(self, request: bytes) -> bytes:
        """As `Transport.call`."""
        try:
            answer: bytes = self._open().unary_unary(HANDLE)(request, timeout=self._timeout_s)
        except grpc.RpcError as error:
            self.close()  # gRPC would wait up to two minutes before it tries the same connection again
            status: Any = error  # an RpcError is a Call too, which its type does not say
            raise refusal(self.host, status.code(), str(status.details() or ""), self._timeout_s) from None
        return answer

    def reflect(self) -> Reflected | None:
        """As `Transport.reflect`."""
        return reflect(self._open(), self._timeout_s)

    def close(self) -> None:
        """As `Transport.close`."""
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
    """Asks a terminal.

    Args:
        transport: How; or the host, ``HOST`` or ``HOST:PORT``, ``http://HOST[:PORT]`` for gRPC-Web.

    Every method raises `DishError`, never anything of gRPC's or protobuf's.
    """

    def __init__(self, transport: Transport | str = DEFAULT_HOST) -> None:
        """Nothing is asked yet."""
        self._transport = transport_to(transport) if isinstance(transport, str) else transport
        self._wire = everything()
        self._request, self._response = self._wire.message("Request"), self._wire.message("Response")
        self._reflected: tuple[str, Reflected | None] | None = None
        self._reflected_s = 0.0

    def status(self) -> Status:
        """The terminal now. The first answer of a firmware, or after a failure, has its reflection asked.

        Without an answer it is asked again after `ASK_AGAIN_S`: until then a field that is not there looks like a zero.
        """
        try:
            message = self._ask("get_status", "dish_get_status", missing="not-a-dish")
        except DishError:
            self._reflected = None  # what comes back may be another terminal
            raise
        version = message.device_info.software_version
        known = self._reflected
        if known is not None and known[1] is None:  # a server that does not answer costs `TIMEOUT_S` each time
            due = time.monotonic() - self._reflected_s >= ASK_AGAIN_S
        else:
            due = known is None or known[0] != version
        if known is None or due:
            known = self._reflected = (version, self._transport.reflect())
            self._reflected_s = time.monotonic()
        found = known[1]
        return status_of(message, message.SerializeToString(), found.knows if found is not None else None)

    def history(self) -> History:
        """The last minutes, second by second."""
        message = self._ask("get_history", "dish_get_history")
        return _checked(history_of, message)

    def obstruction_map(self) -> ObstructionMap:
        """What it has seen of its sky."""
        message = self._ask("dish_get_obstruction_map", "dish_get_obstruction_map")
        return _checked(map_of, message)

    def location(self) -> tuple[float, float, float]:
        """Latitude, longitude [deg] and altitude [m].

        Raises:
            DishError: Also where the owner has not allowed it (kind ``denied``).
        """
        try:
            lla = self._ask("get_location", "get_location").lla
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
        """Makes the terminal forget what it has seen."""
        self._ask("dish_clear_obstruction_map", "dish_clear_obstruction_map")

    def reboot(self) -> None:
        """Restarts the terminal."""
        self._ask("reboot", "reboot")

    def named(self, status: Status) -> dict[str, Any] | None:
        """All fields of a status by the terminal's own names; None if its firmware has no reflection."""
        if self._reflected is None or self._reflected[1] is None:
            return None
        try:
            return self._reflected[1].as_dict("DishGetStatusResponse", status.raw)
        except (DecodeError, KeyError, ValueError):
            return None

    def close(self) -> None:
        """Ends the connection."""
        self._transport.close()

    def _ask(self, question: str, answer: str, missing: str = "unsupported") -> Message:
        request = self._request()
        getattr(request, question).SetInParent()
        try:
            data = self._transport.call(request.SerializeToString())
        except DishError as error:
            if error.kind == "unsupported" and missing == "not-a-dish":
                raise DishError("not-a-dish", f"{error}; wanted a Starlink terminal ({DEFAULT_HOST})") from None
            raise
        try:
            response = self._response.FromString(data)
        except DecodeError:
            raise DishError("malformed", f"the answer to {question} is not a Response ({len(data)} bytes)") from None
        if response.HasField(answer):
            return getattr(response, answer)
        if response.status.code:
            said = " ".join(response.status.message.split())[:200]
            kind = "denied" if response.status.code == grpc.StatusCode.PERMISSION_DENIED.value[0] else "unsupported"
            raise DishError(kind, f"the terminal answers {question} with error {response.status.code}: {said}")
        if _from_router(response):
            raise DishError("not-a-dish", f"this is a Starlink router; the terminal is at {DEFAULT_HOST}")
        raise DishError(missing, f"the answer to {question} holds no {answer}")


def _checked(read: Callable[[Message], Record], message: Message) -> Record:
    try:
        return read(message)
    except UserError as error:
        raise DishError("malformed", str(error)) from None


def _from_router(response: Message) -> bool:
    from google.protobuf.unknown_fields import UnknownFieldSet

    return any(field.field_number in _ROUTER for field in UnknownFieldSet(response))

"""Serve a simulated terminal on a port: the service `SpaceX.API.Device.Device` with reflection, over plain HTTP/2.

A second port serves the same calls as gRPC-Web (`bentpipe.measurements.dish.simulation.web`).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from typing import Any, Self

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from bentpipe.errors import UserError
from bentpipe.measurements.dish.simulation.terminal import Refusal, Terminal
from bentpipe.measurements.dish.simulation.web import Handle, WebServer
from bentpipe.measurements.dish.wire import SERVICE

#: Concurrent calls. Chosen here: a terminal has a handful of users.
_WORKERS = 16
#: Open streams of each of the two streaming methods; each holds a worker. One more cancels the oldest.
#: Chosen here: half of the workers always remain for single calls.
_MAX_STREAMS = 4


class _Streams:
    """The open streams of one method; the oldest is cancelled if there are more than `_MAX_STREAMS`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: deque[grpc.ServicerContext] = deque()

    @contextmanager
    def entered(self, context: grpc.ServicerContext) -> Iterator[None]:
        """Count `context` as open inside the context."""
        with self._lock:
            self._open.append(context)
            oldest = self._open.popleft() if len(self._open) > _MAX_STREAMS else None
        if oldest is not None:
            oldest.cancel()
        try:
            yield
        finally:
            with self._lock, suppress(ValueError):
                self._open.remove(context)


class _Reflection:
    """Server reflection with a limit on open streams."""

    def __init__(self, pool: descriptor_pool.DescriptorPool) -> None:
        self._servicer = reflection.ReflectionServicer((SERVICE, reflection.SERVICE_NAME), pool)
        self._streams = _Streams()

    def ServerReflectionInfo(  # noqa: N802 - the service's own name
        self, requests: Iterator[Any], context: grpc.ServicerContext
    ) -> Iterator[Any]:
        """Answer like grpcio's servicer."""
        with self._streams.entered(context):
            yield from self._servicer.ServerReflectionInfo(requests, context)


class Server:
    """A terminal that answers on its ports until `stop`."""

    def __init__(self, terminal: Terminal, server: grpc.Server, port: int, web: WebServer) -> None:
        """Created by `serve`."""
        self.terminal, self.port, self.web_port = terminal, port, web.port
        self._server, self._web = server, web

    def __enter__(self) -> Self:
        """Return the running server."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the server."""
        self.stop()

    def wait(self) -> None:
        """Block until the server is stopped."""
        self._server.wait_for_termination()

    def stop(self) -> None:
        """Close the ports and all connections."""
        self._web.stop()
        self._server.stop(None).wait()


def serve(terminal: Terminal, host: str = "127.0.0.1", port: int = 9200, web_port: int | None = None) -> Server:
    """Serve a terminal on two ports, gRPC and gRPC-Web.

    Args:
        terminal: The simulated terminal.
        host: Address to listen on.
        port: Port of gRPC; 0: a free one.
        web_port: Port of gRPC-Web; 0: a free one; default: `port` + 1, or a free one if that is taken.

    Raises:
        UserError: A port is taken or not allowed.
    """
    response = terminal.wire.message("Response")

    def answered(data: bytes) -> bytes | tuple[grpc.StatusCode, str]:
        try:
            return terminal.handle(data)
        except DecodeError:
            return grpc.StatusCode.INVALID_ARGUMENT, "not a Request"
        except Refusal as refusal:
            return getattr(grpc.StatusCode, refusal.code), str(refusal)

    def handle(data: bytes, context: grpc.ServicerContext) -> bytes:
        answer = answered(data)
        if isinstance(answer, bytes):
            return answer
        context.abort(*answer)
        raise AssertionError("abort returns")

    streams = _Streams()

    def stream(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        with streams.entered(context):
            for data in messages:
                message = terminal.wire.message("ToDevice").FromString(data)
                answer = terminal.wire.message("FromDevice")()
                if message.WhichOneof("message") == "request":
                    answer.response.CopyFrom(response.FromString(handle(message.request.SerializeToString(), context)))
                else:
                    answer.health_check.SetInParent()
                yield answer.SerializeToString()

    methods = {
        "Handle": grpc.unary_unary_rpc_method_handler(handle),
        "Stream": grpc.stream_stream_rpc_method_handler(stream),
    }
    # Without SO_REUSEPORT a second terminal cannot share the port.
    server = grpc.server(futures.ThreadPoolExecutor(_WORKERS), options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    terminal.wire.pool.AddSerializedFile(reflection_pb2.DESCRIPTOR.serialized_pb)  # reflection describes itself too
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(_Reflection(terminal.wire.pool), server)
    try:
        bound = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        bound = 0
    if bound == 0:
        raise UserError(f"{host}:{port}: cannot listen, the port may be in use; try `port` 0 for a free one")
    web = _web_server(answered, host, bound + 1 if 0 < port < 2**16 - 1 else 0, web_port)
    server.start()
    return Server(terminal, server, bound, web)


def _web_server(handle: Handle, host: str, default_port: int, port: int | None) -> WebServer:
    """Listen on `port`; if it is None, on the default port or, if that is taken, on a free one."""
    if port is not None:
        return WebServer(handle, host, port)
    try:
        return WebServer(handle, host, default_port)
    except UserError:
        return WebServer(handle, host, 0)

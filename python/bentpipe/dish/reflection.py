"""What a terminal's firmware has: its own descriptors, asked by gRPC server reflection."""

from __future__ import annotations

from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bentpipe.dish.wire import PACKAGE, SERVICE

#: Most files that a server may name, so that a hostile one cannot keep us asking; terminals have about thirty.
_MOST_FILES = 500


class Reflected:
    """The messages as the terminal declares them."""

    def __init__(self, files: list[bytes]) -> None:
        """Builds a pool from serialised file descriptors.

        Raises:
            ValueError, TypeError: They do not fit together.
        """
        self._pool = descriptor_pool.DescriptorPool()
        pending = {}
        for data in files:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            pending[file.name] = file
        while pending:
            ready = [f for f in pending.values() if not any(name in pending for name in f.dependency)]
            if not ready:
                raise ValueError("the terminal's descriptors depend on each other in a circle")
            for file in ready:
                self._pool.Add(file)
                del pending[file.name]

    def knows(self, message: str, field: str) -> bool:
        """Whether this firmware has the field of a message of `PACKAGE`."""
        try:
            return field in self._pool.FindMessageTypeByName(f"{PACKAGE}.{message}").fields_by_name
        except (KeyError, TypeError):
            return False

    def as_dict(self, message: str, raw: bytes) -> dict[str, Any]:
        """All fields of a message, by the names that the terminal has for them.

        Raises:
            DecodeError: The bytes are not such a message.
            KeyError: There is no such message.
        """
        found = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"{PACKAGE}.{message}"))
        parsed: dict[str, Any] = json_format.MessageToDict(found.FromString(raw), preserving_proto_field_name=True)
        return parsed


def reflect(channel: grpc.Channel, timeout_s: float) -> Reflected | None:
    """The terminal's messages; None if it has no reflection or what it says does not hold together."""
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    files: dict[str, bytes] = {}
    asked: set[str] = set()
    requests = [reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)]
    try:
        while requests and len(files) <= _MOST_FILES:
            wanted: set[str] = set()
            for answer in stub.ServerReflectionInfo(iter(requests), timeout=timeout_s):
                for data in answer.file_descriptor_response.file_descriptor_proto:
                    file = descriptor_pb2.FileDescriptorProto.FromString(data)
                    files[file.name] = data
                    wanted.update(file.dependency)
            new = wanted - files.keys() - asked
            asked |= new
            requests = [reflection_pb2.ServerReflectionRequest(file_by_filename=name) for name in sorted(new)]
        return Reflected(list(files.values())) if files else None
    except (grpc.RpcError, DecodeError, ValueError, TypeError):
        return None

"""Read the firmware's own message descriptors by gRPC server reflection."""

from __future__ import annotations

import time
from graphlib import TopologicalSorter
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bentpipe.measurements.dish.wire import PACKAGE, SERVICE

#: Limits on files, answers and bytes of one reflection, so that a hostile server exhausts neither time nor memory.
#: Chosen here: terminals have about thirty files of 0.3 MB in total, one per answer.
_MAX_FILES = 500
_MAX_BYTES = 4 * 2**20


class Reflected:
    """Messages as the firmware declares them."""

    def __init__(self, files: list[bytes]) -> None:
        """Build a descriptor pool from serialised file descriptors.

        Raises:
            ValueError, TypeError: The descriptors are inconsistent.
        """
        self._pool = descriptor_pool.DescriptorPool()
        parsed = [descriptor_pb2.FileDescriptorProto.FromString(data) for data in files]
        named = {file.name: file for file in parsed}
        depends = {name: set(file.dependency) & named.keys() for name, file in named.items()}
        for name in TopologicalSorter(depends).static_order():  # a cycle is a ValueError
            self._pool.Add(named[name])

    def knows(self, message: str, field: str) -> bool:
        """Return whether this firmware has a field of a message of `PACKAGE`."""
        try:
            return field in self._pool.FindMessageTypeByName(f"{PACKAGE}.{message}").fields_by_name
        except (KeyError, TypeError):
            return False

    def as_dict(self, message: str, raw: bytes) -> dict[str, Any]:
        """Return all fields of a message under the firmware's names.

        Raises:
            DecodeError: The bytes are not such a message.
            KeyError: There is no such message.
        """
        kind = message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"{PACKAGE}.{message}"))
        parsed: dict[str, Any] = json_format.MessageToDict(kind.FromString(raw), preserving_proto_field_name=True)
        return parsed


def reflect(channel: grpc.Channel, timeout_s: float) -> Reflected | None:
    """Return the terminal's messages; None without reflection, or if the answers exceed the limits or are invalid.

    `timeout_s` limits the total time of all streams.
    """
    end_s = time.monotonic() + timeout_s
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    files: dict[str, bytes] = {}
    requested: set[str] = set()
    requests = [reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)]
    answers = size = 0
    try:
        while requests:
            needed: set[str] = set()
            stream = stub.ServerReflectionInfo(iter(requests), timeout=max(0.0, end_s - time.monotonic()))
            try:
                for answer in stream:
                    descriptors = answer.file_descriptor_response.file_descriptor_proto
                    answers += 1
                    size += answer.ByteSize()
                    if answers + len(descriptors) > _MAX_FILES or size > _MAX_BYTES:
                        return None
                    for data in descriptors:
                        file = descriptor_pb2.FileDescriptorProto.FromString(data)
                        files[file.name] = data
                        needed.update(file.dependency)
                    if len(files) > _MAX_FILES:
                        return None
            finally:
                stream.cancel()
            new = needed - files.keys() - requested
            requested |= new
            if len(requested) > _MAX_FILES:
                return None
            requests = [reflection_pb2.ServerReflectionRequest(file_by_filename=name) for name in sorted(new)]
        return Reflected(list(files.values())) if files else None
    except (grpc.RpcError, DecodeError, ValueError, TypeError):
        return None

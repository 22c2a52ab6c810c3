"""Messages of the terminal's interface, built at run time from ``proto/terminal.binpb``.

They have their own descriptor pool, because a pool refuses the generated modules of the same names that other libraries
in the process may load. Generated code would also be tied to one protobuf release, which a descriptor set is not. mypy
therefore does not know the fields of a `Message`; ``proto/terminal.proto`` lists them.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

from bentpipe.errors import UserError

#: A message of the interface; see the module's docstring.
Message = Any

PACKAGE = "SpaceX.API.Device"
SERVICE = f"{PACKAGE}.Device"
HANDLE = f"/{SERVICE}/Handle"

#: Firmware years that the descriptors distinguish (see ``proto/terminal.proto``).
FIRMWARE_YEARS = (2021, 2024, 2025, 2026)

#: Numbers of the options in ``proto/firmware.proto``. That file is not in the pools: its options are read as unknown
#: fields.
_SINCE, _GONE, _SINCE_VALUE = 50001, 50002, 50001
_OURS = "bentpipe/measurements/dish/proto/firmware.proto"


class Wire:
    """Message classes of one firmware year, or of all of them together.

    Args:
        firmware: A year of `FIRMWARE_YEARS`: only the fields of that firmware, and scalars without presence, as
            terminals declare them. None: the fields of all years, each with presence, to read any answer.
    """

    def __init__(self, firmware: int | None = None) -> None:
        """Build the pool."""
        self.pool = descriptor_pool.DescriptorPool()
        self._files = _files(firmware)
        for file in self._files:
            self.pool.Add(file)
        self._classes: dict[str, Message] = {}

    def message(self, name: str) -> Message:
        """Return the class of a message of `PACKAGE`."""
        if name not in self._classes:
            descriptor = self.pool.FindMessageTypeByName(f"{PACKAGE}.{name}")
            self._classes[name] = message_factory.GetMessageClass(descriptor)
        return self._classes[name]

    def has(self, name: str) -> bool:
        """Return whether a message exists."""
        try:
            self.message(name)
        except KeyError:
            return False
        return True

    def serialized(self) -> list[bytes]:
        """Return the serialised file descriptors, as reflection serves them."""
        return [file.SerializeToString() for file in self._files]


@cache
def all_firmware() -> Wire:
    """Return the messages of all firmware years, built once."""
    return Wire()


@cache
def removed_fields() -> frozenset[tuple[str, str]]:
    """Return message and field names that newer firmware no longer has."""
    return frozenset(
        (message.name, field.name)
        for file in _stored().file
        for message in _flat(file.message_type)
        for field in message.field
        if _GONE in _options(field.options)
    )


def _stored() -> Any:  # noqa: ANN401 - protobuf has no types of its own
    data = files("bentpipe.measurements.dish").joinpath("proto", "terminal.binpb").read_bytes()
    return descriptor_pb2.FileDescriptorSet.FromString(data)


def _files(firmware: int | None) -> list[Any]:
    """Return the stored files without options and, for a year, without fields that it does not have."""
    if firmware is not None and firmware not in FIRMWARE_YEARS:
        raise UserError(f"firmware: {firmware}; expected {', '.join(map(str, FIRMWARE_YEARS))}")
    result = []
    for file in _stored().file:
        if file.name == _OURS or file.name.startswith("google/"):
            continue
        if _OURS in file.dependency:
            file.dependency.remove(_OURS)
        for message in _flat(file.message_type):
            _trim(message, firmware)
        for enum in [*file.enum_type, *(e for m in _flat(file.message_type) for e in m.enum_type)]:
            for value in list(enum.value):
                if firmware is not None and _options(value.options).get(_SINCE_VALUE, 0) > firmware:
                    enum.value.remove(value)
                value.ClearField("options")
        if firmware is not None:
            _drop_unused(file)
        result.append(file)
    return result


def _trim(message: Any, firmware: int | None) -> None:  # noqa: ANN401
    for field in list(message.field):
        options = _options(field.options)
        if firmware is not None and not options.get(_SINCE, 0) <= firmware < options.get(_GONE, 9999):
            message.field.remove(field)
            continue
        field.ClearField("options")
        if firmware is not None and field.proto3_optional:
            field.ClearField("proto3_optional")
            field.ClearField("oneof_index")
    if firmware is not None:
        # Presence is a oneof of one field, after the real ones.
        used = {field.oneof_index for field in message.field if field.HasField("oneof_index")}
        del message.oneof_decl[max(used, default=-1) + 1 :]


def _drop_unused(file: Any) -> None:  # noqa: ANN401
    """Remove messages and enums that are not reachable from the service."""
    messages = {f".{file.package}.{m.name}": m for m in file.message_type}
    used_types: set[str] = set()
    todo = [t for s in file.service for m in s.method for t in (m.input_type, m.output_type)]
    while todo:
        name = todo.pop()
        # A nested type is in the pool with its file-level parent.
        name = next((top for top in messages if name == top or name.startswith(f"{top}.")), name)
        if name in used_types:
            continue
        used_types.add(name)
        if name in messages:
            todo += [f.type_name for m in _flat([messages[name]]) for f in m.field if f.type_name]
    if not file.service:
        return
    for kind in (file.message_type, file.enum_type):
        for entry in list(kind):
            if f".{file.package}.{entry.name}" not in used_types:
                kind.remove(entry)


def _flat(messages: Any) -> list[Any]:  # noqa: ANN401
    """Return messages with their nested messages."""
    return [m for message in messages for m in (message, *_flat(message.nested_type))]


def _options(options: Any) -> dict[int, int]:  # noqa: ANN401
    return {field.field_number: int(field.data) for field in UnknownFieldSet(options)}

"""The part of libbpf that is used, from the system's library (`libbpf.so.1`, which iproute2 needs, too).

Source: libbpf's `libbpf.h` and `bpf.h`, version 1.0 and later.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from ctypes import POINTER, byref, c_char, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STRUCT_OPS = 26
"""`BPF_MAP_TYPE_STRUCT_OPS`."""

ARRAY, LRU_HASH = 2, 9
"""`BPF_MAP_TYPE_ARRAY` and `BPF_MAP_TYPE_LRU_HASH`."""

STRUCT_OPS_PROGRAM = 27
"""`BPF_PROG_TYPE_STRUCT_OPS`."""

MOST_MAPS = 64
"""Most maps of a program that are asked for: a controller's use five."""

MOST_KEYS = 4096
"""Most keys of a map that is walked: the sockets that `bpf/kernel/socket.h` remembers."""

FIRST_KEY = bytes(4)
"""Key of the first value of an array, and of a registration."""

LIBRARY = "libbpf.so.1"
"""Name of the library; it has had this one since version 1.0."""

_STRUCT, _POINTER, _FUNCTION = 4, 2, 13
"""Kinds of types in BTF (`BTF_KIND_STRUCT`, `BTF_KIND_PTR`, `BTF_KIND_FUNC_PROTO`)."""

_PRINT = ctypes.CFUNCTYPE(c_int, c_int, c_void_p, c_void_p)
_WARN = 0


class _MapInfo(ctypes.Structure):
    _fields_ = [
        ("type", c_uint32),
        ("id", c_uint32),
        ("key_size", c_uint32),
        ("value_size", c_uint32),
        ("max_entries", c_uint32),
        ("flags", c_uint32),
        ("name", c_char * 16),
        ("_rest", c_char * 64),
    ]


class _ProgramInfo(ctypes.Structure):
    _fields_ = [
        ("type", c_uint32),
        ("id", c_uint32),
        ("_tag_and_code", c_char * 44),
        ("map_count", c_uint32),
        ("map_ids", c_uint64),
        ("name", c_char * 16),
        ("_rest", c_char * 152),
    ]


@cache
def _library() -> Any:  # noqa: ANN401 - a library has no type
    try:
        library = ctypes.CDLL(LIBRARY, use_errno=True)
    except OSError:
        raise UserError(f"{LIBRARY} is not on this machine", hint="install libbpf (apt install libbpf1)") from None
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "libbpf_set_print": (c_void_p, [_PRINT]),
        "bpf_object__open_mem": (c_void_p, [c_char_p, c_size_t, c_void_p]),
        "bpf_object__load": (c_int, [c_void_p]),
        "bpf_object__close": (None, [c_void_p]),
        "bpf_object__find_map_by_name": (c_void_p, [c_void_p, c_char_p]),
        "bpf_map__fd": (c_int, [c_void_p]),
        "bpf_map__value_size": (c_uint32, [c_void_p]),
        "bpf_map__set_initial_value": (c_int, [c_void_p, c_char_p, c_size_t]),
        "btf__parse": (c_void_p, [c_char_p, c_void_p]),
        "btf__free": (None, [c_void_p]),
        "btf__find_by_name_kind": (c_int, [c_void_p, c_char_p, c_uint32]),
        "btf__type_by_id": (POINTER(c_uint32), [c_void_p, c_uint32]),
        "btf__name_by_offset": (c_char_p, [c_void_p, c_uint32]),
        "bpf_map__attach_struct_ops": (c_void_p, [c_void_p]),
        "bpf_map_get_next_id": (c_int, [c_uint32, POINTER(c_uint32)]),
        "bpf_map_get_fd_by_id": (c_int, [c_uint32]),
        "bpf_obj_get_info_by_fd": (c_int, [c_int, c_void_p, POINTER(c_uint32)]),
        "bpf_map_create": (c_int, [c_uint32, c_char_p, c_uint32, c_uint32, c_uint32, c_void_p]),
        "bpf_prog_get_fd_by_id": (c_int, [c_uint32]),
        "bpf_map_lookup_elem": (c_int, [c_int, c_char_p, c_void_p]),
        "bpf_map_update_elem": (c_int, [c_int, c_char_p, c_char_p, c_uint64]),
        "bpf_map_delete_elem": (c_int, [c_int, c_char_p]),
        "bpf_map_get_next_key": (c_int, [c_int, c_char_p, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name, None)
        if function is None:
            raise UserError(f"{LIBRARY} has no {name}", expected="libbpf 1.0 or newer", hint="apt install libbpf1")
        function.restype, function.argtypes = result, arguments
    return library


class KernelRefusedError(Exception):
    """The kernel refused a call.

    Attributes:
        number: Its errno.
        lines: What libbpf and the verifier said.
    """

    def __init__(self, number: int, lines: tuple[str, ...] = ()) -> None:
        """Store both."""
        super().__init__(os.strerror(number))
        self.number, self.lines = number, lines


@dataclass(frozen=True)
class MapInfo:
    """A map in the kernel.

    Attributes:
        id: Number in the kernel.
        type: Type, as `STRUCT_OPS`.
        name: Name, at most 15 characters.
        key_bytes: Size of a key.
        value_bytes: Size of a value.
    """

    id: int
    type: int
    name: str
    key_bytes: int
    value_bytes: int


@contextlib.contextmanager
def _messages() -> Iterator[list[str]]:
    """Collect what libbpf says meanwhile, in place of its output on stderr."""
    lines: list[str] = []
    libc = ctypes.CDLL(None)

    def take(level: int, text: int, arguments: int) -> int:
        if level > _WARN:
            return 0
        buffer = ctypes.create_string_buffer(1 << 20)
        libc.vsnprintf(buffer, c_size_t(len(buffer)), c_void_p(text), c_void_p(arguments))
        lines.extend(buffer.value.decode(errors="replace").splitlines())
        return 0

    callback = _PRINT(take)
    before = _library().libbpf_set_print(callback)
    try:
        yield lines
    finally:
        _library().libbpf_set_print(ctypes.cast(before, _PRINT) if before else _PRINT())


def _checked(result: int, lines: list[str] | None = None) -> int:
    if result < 0:
        raise KernelRefusedError(-result if result != -1 else ctypes.get_errno(), tuple(lines or ()))
    return result


class OtherBuildError(Exception):
    """A compiled object is none that this version of bentpipe can load; the text says why."""


def _map_called(program: int, name: str, value_bytes: int) -> int:
    """Return the map of an object. Raises `OtherBuildError`."""
    library = _library()
    handle = library.bpf_object__find_map_by_name(program, name.encode())
    if not handle or value_bytes not in (0, library.bpf_map__value_size(handle)):
        raise OtherBuildError(f"it has no fitting map {name}")
    return int(handle)


def register(data: bytes, name: str, first: dict[str, bytes], constants: dict[str, bytes]) -> None:
    """Load a compiled object and register its struct_ops map called `name`, which stays when this process ends.

    Args:
        data: The object.
        name: Name of the struct_ops map.
        first: Value at key 0 of these maps, written before the registration.
        constants: Values of these sections of read-only data, set before the verifier sees the programs. An object
            without such a section is loaded without.

    Raises:
        KernelRefusedError: The kernel or the verifier refused it; nothing of it is left.
        OtherBuildError: The object has other maps, or is none.
        UserError: No libbpf.
    """
    library = _library()
    with _messages() as lines:
        program = library.bpf_object__open_mem(data, len(data), None)
        if not program:
            raise OtherBuildError("libbpf cannot read it")
        try:
            operations = _map_called(program, name, 0)
            maps = {each: _map_called(program, each, len(value)) for each, value in first.items()}
            for each, value in constants.items():
                if library.bpf_object__find_map_by_name(program, each.encode()):
                    section = _map_called(program, each, len(value))
                    _checked(library.bpf_map__set_initial_value(section, value, len(value)), lines)
            _checked(library.bpf_object__load(program), lines)
            for each, value in first.items():
                _checked(library.bpf_map_update_elem(library.bpf_map__fd(maps[each]), bytes(4), value, 0), lines)
            # The link is not kept: the registration belongs to the kernel.
            link = library.bpf_map__attach_struct_ops(operations)
            if not link:
                raise KernelRefusedError(ctypes.get_errno(), tuple(lines))
        finally:
            library.bpf_object__close(program)


@dataclass(frozen=True)
class Structure:
    """A structure in a description of types (BTF).

    Attributes:
        arguments: For each member that points to a function, how many arguments this has.
    """

    arguments: dict[str, int]


def structures_of(types: Path, names: list[str]) -> dict[str, Structure]:
    """Return those of the structures called `names` that a file describes.

    Args:
        types: File with BTF, as ``/sys/kernel/btf/vmlinux``, or an object that has it.
        names: Names of structures.

    Raises:
        KernelRefusedError: The file cannot be read, or is no BTF.
        UserError: No libbpf.
    """
    library = _library()
    with _messages() as lines:
        btf = library.btf__parse(str(types).encode(), None)
        if not btf:
            raise KernelRefusedError(ctypes.get_errno(), tuple(lines))
        try:
            numbers = {name: library.btf__find_by_name_kind(btf, name.encode(), _STRUCT) for name in names}
            return {name: _structure(btf, number) for name, number in numbers.items() if number > 0}
        finally:
            library.btf__free(btf)


def _structure(btf: int, number: int) -> Structure:
    # A type is three words: its name, its kind and how many members follow, and its size or the type that it refers to.
    library, arguments = _library(), dict[str, int]()
    words = library.btf__type_by_id(btf, number)
    for first in range(3, 3 + 3 * (words[1] & 0xFFFF), 3):
        pointer = library.btf__type_by_id(btf, words[first + 1])
        if _kind(pointer) != _POINTER or not pointer[2]:
            continue
        function = library.btf__type_by_id(btf, pointer[2])
        if _kind(function) == _FUNCTION:
            arguments[library.btf__name_by_offset(btf, words[first]).decode()] = function[1] & 0xFFFF
    return Structure(arguments)


def _kind(words: Any) -> int:  # noqa: ANN401 - a pointer of ctypes
    return int(words[1]) >> 24 & 0x1F


def maps(prefix: str) -> list[MapInfo]:
    """Return the kernel's maps whose name begins with `prefix`, oldest first.

    Raises:
        KernelRefusedError: As `os.EPERM`: it needs CAP_BPF or CAP_SYS_ADMIN.
    """
    infos: list[MapInfo] = []
    number = c_uint32(0)
    while True:
        result = _library().bpf_map_get_next_id(number, byref(number))
        if result < 0:
            if -result == errno.ENOENT or ctypes.get_errno() == errno.ENOENT:
                return infos
            _checked(result)
        with contextlib.suppress(KernelRefusedError), open_map(number.value) as file:  # it may be gone
            info = info_of(file)
            if info.name.startswith(prefix):
                infos.append(info)


def map_info(number: int) -> MapInfo:
    """Return a map by its number. Raises `KernelRefusedError`, also when it is gone."""
    with open_map(number) as file:
        return info_of(file)


def maps_of_controller(number: int) -> frozenset[int]:
    """Return the numbers of the maps that a program uses; none if it is of another kind than a controller's.

    Raises:
        KernelRefusedError: There is no such program, or this process may not ask.
    """
    ids = (c_uint32 * MOST_MAPS)()
    info = _ProgramInfo(map_count=MOST_MAPS, map_ids=ctypes.addressof(ids))
    file = _checked(_library().bpf_prog_get_fd_by_id(number))
    try:
        _checked(_library().bpf_obj_get_info_by_fd(file, byref(info), byref(c_uint32(ctypes.sizeof(info)))))
    finally:
        os.close(file)
    return frozenset(ids[: min(info.map_count, MOST_MAPS)]) if info.type == STRUCT_OPS_PROGRAM else frozenset()


def new_array(name: str, value_bytes: int) -> int:
    """Create an array of one value; it exists while its descriptor, the result, is open. Raises as `open_map`."""
    return _checked(_library().bpf_map_create(ARRAY, name.encode(), len(FIRST_KEY), value_bytes, 1, None))


@contextlib.contextmanager
def open_map(number: int) -> Iterator[int]:
    """Open a map by its number; the value is a file descriptor. Raises `KernelRefusedError`."""
    file = _checked(_library().bpf_map_get_fd_by_id(number))
    try:
        yield file
    finally:
        os.close(file)


def info_of(file: int) -> MapInfo:
    """Return the map of a descriptor. Raises `KernelRefusedError`."""
    info = _MapInfo()
    _checked(_library().bpf_obj_get_info_by_fd(file, byref(info), byref(c_uint32(ctypes.sizeof(info)))))
    return MapInfo(info.id, info.type, info.name.decode(errors="replace"), info.key_size, info.value_size)


def value_of(file: int, key: bytes, size_bytes: int) -> bytes:
    """Return the value at a key. Raises `KernelRefusedError`."""
    buffer = ctypes.create_string_buffer(size_bytes)
    _checked(_library().bpf_map_lookup_elem(file, key, buffer))
    return buffer.raw


def set_value(file: int, key: bytes, value: bytes) -> None:
    """Set the value at a key. Raises `KernelRefusedError`."""
    _checked(_library().bpf_map_update_elem(file, key, value, 0))


def delete_value(file: int, key: bytes) -> None:
    """Delete a key; that of a struct_ops map ends its registration. Raises `KernelRefusedError`."""
    _checked(_library().bpf_map_delete_elem(file, key))


def keys(file: int, size_bytes: int) -> Iterator[bytes]:
    """Yield the keys of a map, each once, while others may change it: after a key that is gone it begins anew."""
    buffer, last, known = ctypes.create_string_buffer(size_bytes), None, set[bytes]()
    while len(known) < MOST_KEYS and _library().bpf_map_get_next_key(file, last, buffer) == 0:
        last = buffer.raw
        if last in known:
            return
        known.add(last)
        yield last

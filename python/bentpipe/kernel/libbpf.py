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

STRUCT_OPS = 26
"""`BPF_MAP_TYPE_STRUCT_OPS`."""

MOST_KEYS = 4096
"""Most keys of a map that is walked: the sockets that `bpf/kernel/socket.h` remembers."""

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


@cache
def _library() -> Any:  # noqa: ANN401 - a library has no type
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise UserError("libbpf.so.1 is not on this machine", hint="install libbpf (apt install libbpf1)") from None
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "libbpf_set_print": (c_void_p, [_PRINT]),
        "bpf_object__open_mem": (c_void_p, [c_char_p, c_size_t, c_void_p]),
        "bpf_object__load": (c_int, [c_void_p]),
        "bpf_object__close": (None, [c_void_p]),
        "bpf_object__find_map_by_name": (c_void_p, [c_void_p, c_char_p]),
        "bpf_map__fd": (c_int, [c_void_p]),
        "bpf_map__attach_struct_ops": (c_void_p, [c_void_p]),
        "bpf_map_get_next_id": (c_int, [c_uint32, POINTER(c_uint32)]),
        "bpf_map_get_fd_by_id": (c_int, [c_uint32]),
        "bpf_obj_get_info_by_fd": (c_int, [c_int, c_void_p, POINTER(c_uint32)]),
        "bpf_map_lookup_elem": (c_int, [c_int, c_char_p, c_void_p]),
        "bpf_map_update_elem": (c_int, [c_int, c_char_p, c_char_p, c_uint64]),
        "bpf_map_delete_elem": (c_int, [c_int, c_char_p]),
        "bpf_map_get_next_key": (c_int, [c_int, c_char_p, c_void_p]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
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


def register(data: bytes, name: str, first: dict[str, bytes]) -> None:
    """Load a compiled object and register its struct_ops map called `name`, which stays when this process ends.

    Args:
        data: The object.
        name: Name of the struct_ops map.
        first: Value at key 0 of these maps, written before the registration.

    Raises:
        KernelRefusedError: The kernel or the verifier refused it; nothing of it is left.
        UserError: No libbpf.
    """
    library = _library()
    with _messages() as lines:
        program = library.bpf_object__open_mem(data, len(data), None)
        if not program:
            raise KernelRefusedError(ctypes.get_errno(), tuple(lines))
        try:
            _checked(library.bpf_object__load(program), lines)
            for each, value in first.items():
                file = library.bpf_map__fd(library.bpf_object__find_map_by_name(program, each.encode()))
                _checked(library.bpf_map_update_elem(file, bytes(4), value, 0), lines)
            # The link is not kept: the registration belongs to the kernel.
            link = library.bpf_map__attach_struct_ops(library.bpf_object__find_map_by_name(program, name.encode()))
            if not link:
                raise KernelRefusedError(ctypes.get_errno(), tuple(lines))
        finally:
            library.bpf_object__close(program)


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
            info = _info(file)
            if info.name.startswith(prefix):
                infos.append(info)


@contextlib.contextmanager
def open_map(number: int) -> Iterator[int]:
    """Open a map by its number; the value is a file descriptor. Raises `KernelRefusedError`."""
    file = _checked(_library().bpf_map_get_fd_by_id(number))
    try:
        yield file
    finally:
        os.close(file)


def _info(file: int) -> MapInfo:
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

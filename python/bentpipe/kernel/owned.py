"""Maps that belong to loaded controllers. A map's name alone says nothing: any program may choose the same one."""

from __future__ import annotations

import contextlib
import errno
import struct
from functools import lru_cache

from bentpipe.kernel import libbpf

REGISTRATION = "bpc_"
"""Begin of the names of registrations; a controller's name in the kernel follows, as in those of its maps."""
_HEAD_BYTES = 8
"""References and state, before the operations."""


def registrations() -> list[libbpf.MapInfo]:
    """Return the registrations of controllers, oldest first, also of those that sockets keep after `unload`.

    Raises:
        KernelRefusedError: This process may not ask the kernel.
    """
    return [info for info in libbpf.maps(REGISTRATION) if info.type == libbpf.STRUCT_OPS]


def maps_of(registration: libbpf.MapInfo, prefix: str, kind: tuple[int, int, int]) -> list[libbpf.MapInfo]:
    """Return the maps called `prefix` and the controller's name that the programs of a registration use.

    Args:
        registration: One of `registrations`.
        prefix: Begin of the name, as ``bpo_``.
        kind: Type of the map, size of a key and of a value [bytes]; maps of another kind are left out, as those of
            another version of bentpipe.
    """
    name = prefix + registration.name.removeprefix(REGISTRATION)
    infos = []
    with contextlib.suppress(libbpf.KernelRefusedError):  # it is gone, with its programs and their maps
        for number in _map_ids(registration.id, registration.value_bytes):
            info = libbpf.map_info(number)
            if info.name == name and (info.type, info.key_bytes, info.value_bytes) == kind:
                infos.append(info)
    return infos


def owned_maps(prefix: str, kind: tuple[int, int, int]) -> list[libbpf.MapInfo]:
    """Return the maps of all registrations, as `maps_of`. Raises `KernelRefusedError`."""
    return [info for each in registrations() for info in maps_of(each, prefix, kind)]


@lru_cache(maxsize=64)
def _map_ids(registration: int, value_bytes: int) -> frozenset[int]:
    """Return the maps that the programs of a registration use; they stay the same while it is there.

    Raises:
        KernelRefusedError: It is gone, or is still being made.
    """
    with libbpf.open_map(registration) as file:
        value = libbpf.value_of(file, libbpf.FIRST_KEY, value_bytes)
    # In place of a function's address the kernel gives the number of its program (bpf_struct_ops_map_sys_lookup_elem).
    words = {word for (word,) in struct.iter_unpack("<Q", value[_HEAD_BYTES : value_bytes // 8 * 8])}
    ids = frozenset[int]()
    for number in sorted(word for word in words if 0 < word < 2**32):
        with contextlib.suppress(libbpf.KernelRefusedError):
            ids |= libbpf.maps_of_controller(number)
    if not ids:
        raise libbpf.KernelRefusedError(errno.ENOENT)
    return ids

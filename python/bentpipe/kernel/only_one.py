"""One program of a kind at a time in the whole kernel, also across containers, which share no files."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError, printable
from bentpipe.kernel import libbpf, requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "bpl_"
"""Begin of the names of the maps that are held; the task follows."""
PROC = Path("/proc")
_HOLDER_BYTES = 128
_FIRST_PIDS = "pid:[4026531836]"
"""The kernel's first PID namespace (`PROC_PID_INIT_INO`): all processes are visible in it."""


@contextlib.contextmanager
def only_one(task: str, text: str) -> Iterator[None]:
    """Hold a task of this kernel: an array without a pin, which ends with its descriptor, also in a killed process.

    Of two that begin at once, the one with the older map has it. A map counts if it has this type and these sizes, and
    a live process with CAP_SYS_ADMIN has it open: a user without rights may create maps on some kernels, and pin them.
    In a container the processes outside are not visible: there a map without a visible process counts.

    Args:
        task: Name of the task, at most 11 letters.
        text: What the holder does, for the message.

    Raises:
        UserError: Another process has it, or this one may not ask the kernel.

    Example:
        >>> from bentpipe.kernel.only_one import only_one
        >>> with only_one("clock", "keeps the clock of this host"):  # doctest: +SKIP
        ...     pass
    """
    name = f"{PREFIX}{task}"
    try:
        file = libbpf.new_array(name, _HOLDER_BYTES)
    except libbpf.KernelRefusedError as error:
        raise UserError(f"the kernel refused a map: {error}", expected="root on the host") from None
    try:
        holder = f"{os.getpid()} on {socket.gethostname()}".encode()[:_HOLDER_BYTES]
        libbpf.set_value(file, libbpf.FIRST_KEY, holder.ljust(_HOLDER_BYTES, b"\0"))
        if (other := holder_of(task, older_than=libbpf.info_of(file).id)) is not None:
            raise UserError(
                f"process {printable(other)} {text} already",
                hint="end that one; in a container, on its host or within it",
            )
        yield
    finally:
        os.close(file)


def holder_of(task: str, *, older_than: int | None = None) -> str | None:
    """Return who holds a task of this kernel, as `123 on host`; None: nobody.

    Args:
        task: Name of the task.
        older_than: Number of a map: only those before it count, which are older.

    Raises:
        KernelRefusedError: This process may not ask the kernel.
    """
    name = f"{PREFIX}{task}"
    for info in libbpf.maps(name):
        if info.id == older_than:
            break
        if is_lock(info, name) and is_held(info.id):
            return _holder(info)
    return None


def is_lock(info: libbpf.MapInfo, name: str) -> bool:
    """Whether a map has the name, type and sizes of those that `only_one` makes."""
    kind = (libbpf.ARRAY, len(libbpf.FIRST_KEY), _HOLDER_BYTES)
    return info.name == name and (info.type, info.key_bytes, info.value_bytes) == kind


def is_held(number: int) -> bool:
    """Whether a process with rights has the map of this number open, or may have it where not all are visible."""
    processes = [each for each in PROC.iterdir() if each.name.isdecimal() and _has_open(each, number)]
    if processes:
        return any(_has_rights(each) for each in processes)
    return not _sees_all()


def _has_open(process: Path, number: int) -> bool:
    with contextlib.suppress(OSError):  # it has ended
        for file in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                if file.readlink().name == "anon_inode:bpf-map":
                    lines = (process / "fdinfo" / file.name).read_text(encoding="ascii", errors="replace").splitlines()
                    if ["map_id:", str(number)] in (line.split() for line in lines):
                        return True
    return False


def _has_rights(process: Path) -> bool:
    """Whether a process has CAP_SYS_ADMIN in this process's user namespace."""
    with contextlib.suppress(OSError):
        own = (PROC / "self/ns/user").readlink()
        rights = requirements.capabilities(process / "status")
        return (process / "ns/user").readlink() == own and bool(rights & 1 << requirements.CAP_SYS_ADMIN)
    return False


def _sees_all() -> bool:
    with contextlib.suppress(OSError):
        return str((PROC / "self/ns/pid").readlink()) == _FIRST_PIDS
    return False


def _holder(info: libbpf.MapInfo) -> str:
    with contextlib.suppress(libbpf.KernelRefusedError), libbpf.open_map(info.id) as file:
        value = libbpf.value_of(file, libbpf.FIRST_KEY, info.value_bytes)
        return " ".join(value.split(b"\0", 1)[0].decode(errors="replace").split()) or "unknown"
    return "unknown"

"""One program of a kind at a time in the whole kernel, also across containers, which share no files."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

from bentpipe.errors import UserError, printable
from bentpipe.kernel import libbpf

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "bpl_"
"""Begin of the names of the maps that are held; the task follows."""
_HOLDER_BYTES = 128


@contextlib.contextmanager
def only_one(task: str, text: str) -> Iterator[None]:
    """Hold a task of this kernel: an array without a pin, which ends with its descriptor, also in a killed process.

    Of two that begin at once, the one with the older map has it.

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
        first = next((info for info in libbpf.maps(name) if info.name == name), None)
        if first is not None and first.id != libbpf.info_of(file).id:
            raise UserError(
                f"process {printable(_holder(first))} {text} already",
                hint="end that one; in a container, on its host or within it",
            )
        yield
    finally:
        os.close(file)


def _holder(info: libbpf.MapInfo) -> str:
    with contextlib.suppress(libbpf.KernelRefusedError), libbpf.open_map(info.id) as file:
        value = libbpf.value_of(file, libbpf.FIRST_KEY, info.value_bytes)
        return " ".join(value.split(b"\0", 1)[0].decode(errors="replace").split()) or "unknown"
    return "unknown"

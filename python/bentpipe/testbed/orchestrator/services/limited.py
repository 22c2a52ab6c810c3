"""A process with limits, for files that came from a host that may be hostile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import sys
from functools import cache
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.landlock import keep_files, landlock_version

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("bentpipe.testbed")

MEMORY_BYTES = 4 * 10**9
"""Address space of such a process [bytes]."""

LARGEST_OUTPUT = 4 * 1024 * 1024
"""Bytes that such a process may print."""

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
"""Flags of unshare(2)."""


async def run_limited(module: str, *arguments: str, seconds: float) -> tuple[int | None, str]:
    """Run a module of bentpipe, which limits itself by `limit_process`.

    Args:
        module: Its name.
        arguments: Its arguments.
        seconds: Time after which it is killed [s].

    Returns:
        Exit code and output; None: it was killed, as it took too long or printed more than `LARGEST_OUTPUT`.
    """
    _warn_without_landlock()
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "POLARS_MAX_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path[1:]),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # the working folder is none to import from, nor to read
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            output = await _read_all(process.stdout)
            await process.wait()
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode, output.decode(errors="replace").strip()


async def _read_all(stream: asyncio.StreamReader | None) -> bytes:
    """Return what a process prints. Raises `TimeoutError`: it does not end."""
    assert stream is not None
    output = bytearray()
    while part := await stream.read(1 << 16):
        output += part
        if len(output) > LARGEST_OUTPUT:
            raise TimeoutError
    return bytes(output)


def leave_network() -> bool:
    """Give this process a network namespace without interfaces; return False: the system does not allow it.

    It has to be called before there are threads.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    return any(libc.unshare(flags) == 0 for flags in (CLONE_NEWNET, CLONE_NEWUSER | CLONE_NEWNET))


@cache
def _warn_without_landlock() -> None:
    if landlock_version() == 0:
        log.warning(
            "this kernel has no Landlock: the process that reads results could read this user's files, keys too"
        )


def limit_process(seconds: float, folder: Path, written_bytes: int = 0) -> None:
    """Limit memory, processor time [s], written files [bytes], core files, network and files of this process.

    Args:
        seconds: Processor time [s].
        folder: What it may read: this folder, the files that links in it name, and Python's own. Where the kernel has
            no Landlock it may read all files of its user.
        written_bytes: Largest file that it may write, in the folder [bytes]; 0: it writes none.
    """
    os.nice(10)
    leave_network()
    # Root's Python may be in a folder that others may not enter; Landlock holds for what this capability opens, too.
    linux.drop_capabilities(
        {linux.CAP_DAC_READ_SEARCH} if linux.has_capability(linux.CAP_DAC_READ_SEARCH) else set(), None
    )
    linux.forbid_new_privileges()
    targets = [path.resolve() for path in folder.rglob("*") if path.is_symlink()]
    keep_files([folder, *targets], [folder] if written_bytes else [])
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (written_bytes, written_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

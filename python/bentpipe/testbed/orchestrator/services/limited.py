"""A process with limits, for files that came from a host that may be hostile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys

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
    environment = {
        "PATH": os.environ.get("PATH", ""),
        "POLARS_MAX_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path[1:]),
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
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


def limit_process(seconds: float, written_bytes: int = 0) -> None:
    """Limit memory, processor time [s], written files [bytes], core files and network of this process."""
    os.nice(10)
    leave_network()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (written_bytes, written_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

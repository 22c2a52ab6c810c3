"""A process with limits, for files that came from a host that may be hostile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import sys

MEMORY_BYTES = 4 * 10**9
"""Address space of such a process [bytes]."""


async def run_limited(module: str, *arguments: str, seconds: float) -> tuple[int | None, str]:
    """Run a module of bentpipe, which limits itself by `limit_process`.

    Args:
        module: Its name.
        arguments: Its arguments.
        seconds: Time after which it is killed [s].

    Returns:
        Exit code and output; None: it was killed.
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
        output, _ = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        return None, ""
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return process.returncode, output.decode(errors="replace").strip()


def limit_process(seconds: float, written_bytes: int = 0) -> None:
    """Limit memory, processor time [s], sizes of written files [bytes] and core files of this process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (round(seconds), round(seconds)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (written_bytes, written_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

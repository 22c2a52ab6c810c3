"""Packet captures of a run: tcpdump of this machine, on the interface that has only the run's packets.

The run's program has no part in it: tcpdump runs outside of the sandbox, and writes into the result's folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError
from bentpipe.testbed.runners.request import Limits

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.testbed.schemas.desired import End
    from bentpipe.testbed.schemas.experiment import CaptureRule

FILE = "packets.pcap"
MOST_BYTES = Limits().output_bytes
"""Size at which the kernel ends a capture [bytes]; a client's run ends before, as its output counts too."""
LISTEN_S = 5.0
"""How long tcpdump has to listen [s]."""
END_S = 2.0
"""How long it has to end [s]."""


def is_wanted(rule: CaptureRule | None, end: End) -> bool:
    """Return whether an end of a run captures packets.

    Example:
        >>> is_wanted(None, "client")
        False
    """
    return rule is not None and rule.ends in (end, "both")


class Capture:
    """A capture that goes on."""

    def __init__(self, process: asyncio.subprocess.Process, file: Path) -> None:
        """`begin` makes it."""
        self._process, self._file = process, file

    @classmethod
    async def begin(cls, interface: str, folder: Path, snap_bytes: int) -> Capture:
        """Begin; return when every packet from now on is captured.

        Args:
            interface: Interface of this machine.
            folder: Folder for ``packets.pcap``; it is made.
            snap_bytes: Bytes kept of each packet.

        Raises:
            BentpipeError: tcpdump is not installed, or cannot listen there.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / FILE
        command = ["tcpdump", "-i", interface, "-s", str(snap_bytes), "-n", "-U", "--immediate-mode", "-w", "-"]
        try:
            with path.open("wb") as file:  # opened here, as tcpdump gives up root before it opens files
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=asyncio.subprocess.PIPE
                )
        except FileNotFoundError:
            raise BentpipeError("capture: tcpdump is not installed; try `apt install tcpdump`") from None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
        capture = cls(process, path)
        try:
            async with asyncio.timeout(LISTEN_S):
                await capture._until_listening()
        except TimeoutError:
            await capture.end()
            raise BentpipeError(f"capture: tcpdump does not listen within {LISTEN_S:g} s") from None
        return capture

    async def _until_listening(self) -> None:
        assert self._process.stderr is not None
        last = ""
        while line := (await self._process.stderr.readline()).decode(errors="replace").strip():
            if "listening on" in line:
                return
            last = line
        await self._process.wait()
        raise BentpipeError(f"capture: {last or f'tcpdump ended with {self._process.returncode}'}")

    @property
    def size_bytes(self) -> int:
        """Size of the file so far."""
        try:
            return self._file.stat().st_size
        except OSError:
            return 0

    async def end(self) -> None:
        """End it; the file is whole then. May be called repeatedly."""
        if self._process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.communicate(), END_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

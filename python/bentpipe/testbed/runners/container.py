"""A run of the Docker runner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.runners import uplink
from bentpipe.testbed.runners.base import ExitReport, Reason, RunnerError, Traffic
from bentpipe.testbed.runners.inside.spec import STDERR, STDOUT
from bentpipe.testbed.runners.inside.usage import folder_bytes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.testbed.namespaces.network import Link
    from bentpipe.testbed.runners.request import RunRequest
    from bentpipe.testbed.runners.settings import Settings

TICK_S = 0.2
"""Interval at which state and output are looked at [s]: each look is a request to the daemon."""

KILLED = 137


class ContainerRun:
    """One run; `bentpipe.testbed.runners.base.PreparedRun` describes the methods."""

    def __init__(self, request: RunRequest, name: str, folder: Path, settings: Settings | None) -> None:
        """Note the run; the runner sets what it has made."""
        self.run_id, self.name, self.folder = request.run_id, name, folder
        self.settings: list[dict[str, object]] = []
        self.network: int | None = None
        self.link: Link | None = None
        self.pid = 0
        self.pause: Any = None
        self.container: Any = None
        self._request, self._service = request, settings
        self._reason: Reason | None = None
        self._started_at: float | None = None
        self._kill_at: float | None = None
        self._watcher: asyncio.Task[ExitReport] | None = None
        self._last = Traffic(0, 0, 0, 0)
        self._began = asyncio.Event()
        self._removed = False
        self._lock = asyncio.Lock()

    @property
    def interface(self) -> str:
        """Interface of this machine that has the run's packets alone."""
        return self.name

    async def start(self, message: bytes = b"") -> None:
        """Start the container. Raises `RunnerError` if the daemon cannot, for example for want of the program."""
        if self._watcher is not None:
            return
        try:
            await asyncio.to_thread(self.container.start)
        except Exception as error:
            reason = " ".join(str(getattr(error, "explanation", None) or error).split())[:300]
            raise RunnerError(f"{self.run_id}: {reason}") from error
        self._started_at = time.monotonic()
        self._watcher = asyncio.create_task(self._watch())
        self._began.set()

    async def _watch(self) -> ExitReport:
        limits = self._request.limits
        while True:
            try:
                await asyncio.to_thread(self.container.reload)
                state = self.container.attrs["State"]
            except Exception:  # noqa: BLE001 - removed from outside, or the daemon is gone
                return ExitReport(KILLED, "lost")
            if state["Status"] not in ("running", "paused", "restarting"):
                return await self._report(state)
            now = time.monotonic()
            assert self._started_at is not None
            if self._kill_at is not None and now > self._kill_at:
                await self._kill()
            elif self._reason is None and now - self._started_at > limits.duration_s:
                await self._end("time limit", limits.grace_s)
            size = await asyncio.to_thread(folder_bytes, str(self._request.output), limits.output_bytes)
            if size > limits.output_bytes:
                self._reason = "killed: disk"
                await self._kill()
            await asyncio.sleep(TICK_S)

    async def _report(self, state: dict[str, Any]) -> ExitReport:
        self.traffic()
        await asyncio.to_thread(self._store_logs)
        code = int(state["ExitCode"])
        reason: Reason = self._reason or "exited"
        if self._reason is None and (state.get("OOMKilled") or code == KILLED):
            reason = "killed: memory"  # some daemons leave OOMKilled false
        return ExitReport(code, reason)

    def _store_logs(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        for name, streams in ((STDOUT, {"stderr": False}), (STDERR, {"stdout": False})):
            with contextlib.suppress(Exception):  # the run's result stands without them
                logs = self.container.logs(**streams)
                file = os.open(self._request.output / name, flags, 0o644)
                with os.fdopen(file, "wb") as out:
                    out.write(logs)

    async def link_down(self) -> None:
        """Take the run's interface down."""
        if self.link is not None:
            self.traffic()
            await asyncio.to_thread(self.link.down)

    async def freeze(self) -> None:
        """Freeze the container."""
        await self._try(self.container.pause)

    async def thaw(self) -> None:
        """Let the container go on."""
        await self._try(self.container.unpause)

    async def _try(self, action: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):  # it is not running, paused already, or gone
            await asyncio.to_thread(action)

    async def _end(self, reason: Reason, grace_s: float) -> None:
        self._reason = self._reason or reason
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        await self.thaw()  # a frozen container takes no signal
        await self._try(lambda: self.container.kill(signal="SIGTERM"))

    async def _kill(self) -> None:
        await self.thaw()
        await self._try(lambda: self.container.kill(signal="SIGKILL"))

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL `grace_s` later; return when the container has ended."""
        if self._watcher is None or self._watcher.done():
            return
        await self._end("stopped", grace_s)
        await asyncio.wait({self._watcher})

    async def wait(self) -> ExitReport:
        """Wait for the end."""
        await self._began.wait()
        assert self._watcher is not None
        return await asyncio.shield(self._watcher)

    def traffic(self) -> Traffic:
        """Return the counters of the run's interface; after the end, the last ones."""
        counters = None if self.link is None else self.link.counters()
        if counters is not None:
            received, received_packets, sent, sent_packets = counters
            self._last = Traffic(received, sent, received_packets, sent_packets)
        return self._last

    async def remove(self) -> None:
        """Remove everything but the output."""
        async with self._lock:
            if self._removed:
                return
            self.traffic()
            if self._watcher is not None and not self._watcher.done():
                self._reason = self._reason or "stopped"
                await self._kill()
                await asyncio.wait({self._watcher}, timeout=10.0)
                self._watcher.cancel()
            if self._service is not None and self.network is not None:
                await self._service.forget(self.name)
            await asyncio.to_thread(self._remove)
            self._removed = True

    def _remove(self) -> None:
        for container in (self.container, self.pause):
            if container is not None:
                with contextlib.suppress(Exception):  # gone already
                    container.remove(force=True, v=True)
        if self.link is not None:
            self.link.close()
            self.link = None
        if self.network is not None:
            uplink.disconnect(self.name)
            os.close(self.network)
            self.network = None
        shutil.rmtree(self.folder, ignore_errors=True)

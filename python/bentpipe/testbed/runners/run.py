"""A run of the process or the bubblewrap runner, from its gate to its removal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from typing import TYPE_CHECKING, Any, cast

from bentpipe.testbed.runners import uplink
from bentpipe.testbed.runners.base import ExitReport, Reason, RunnerError, Traffic

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.testbed.namespaces.network import Link
    from bentpipe.testbed.runners.cgroups import Cgroup
    from bentpipe.testbed.runners.channel import Channel
    from bentpipe.testbed.runners.request import RunRequest
    from bentpipe.testbed.runners.settings import Settings

PROGRAM_GATE = "program-gate"
"""Pipe in the run's folder at which a loaded program waits."""

LOOK_S = 0.01
"""Time between two looks whether the program has come to its gate [s]."""

KILL_S = 5.0
"""Time that processes have to vanish after SIGKILL before the agent kills their parents too [s]."""


class SandboxedRun:
    """One run; `bentpipe.testbed.runners.base.PreparedRun` describes the methods."""

    def __init__(self, request: RunRequest, name: str, folder: Path, settings: Settings | None) -> None:
        """Note the run; the runner sets what it has made."""
        self.run_id, self.name, self.folder = request.run_id, name, folder
        self.settings: list[dict[str, object]] = []
        self.cgroup: Cgroup | None = None
        self.network: int | None = None
        self.link: Link | None = None
        self.channel: Channel | None = None
        self.gate: int | None = None
        self.pid = 0
        self._request, self._service = request, settings
        self._process: asyncio.subprocess.Process | None = None
        self._answers: dict[str, asyncio.Event] = {}
        self._listener: asyncio.Task[ExitReport] | None = None
        self._last = Traffic(0, 0, 0, 0)
        self._removed = False
        self._lock = asyncio.Lock()

    async def launch(self, line: Sequence[str], descriptors: Sequence[int]) -> None:
        """Start the processes inside and wait until the program is at the gate.

        Raises:
            RunnerError: It did not get there.
        """
        assert self.channel is not None
        log = (self.folder / "log").open("wb")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                *line, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=descriptors
            )
        accept = asyncio.create_task(self.channel.accept())
        ended = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait({accept, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not accept.done():
                raise RunnerError(f"{self.run_id}: the sandbox did not start: {self._log()}")
        finally:  # also when preparing is canceled
            accept.cancel()
            ended.cancel()
        self.pid = accept.result()
        message = await self.channel.receive()
        if message is None or message["type"] != "ready":
            raise RunnerError(f"{self.run_id}: {(message or {}).get('message') or self._log()}")
        self._listener = asyncio.create_task(self._listen())

    def _log(self) -> str:
        text = (self.folder / "log").read_bytes()[-400:].decode(errors="replace")
        return " ".join(text.split()) or "it ended without a message"

    async def _listen(self) -> ExitReport:
        assert self.channel is not None
        assert self._process is not None
        end: dict[str, Any] | None = None
        while (message := await self.channel.receive()) is not None:
            if message["type"] == "exit":
                end = message
                self.traffic()  # the interface of an emulation goes with the run
                break
            if message["type"] in self._answers:
                self._answers.pop(message["type"]).set()
        self.channel.close()
        try:
            await asyncio.wait_for(self._process.wait(), KILL_S + (0 if self._is_uplink else 60))
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        for event in self._answers.values():
            event.set()
        self.traffic()
        return self._report(end)

    @property
    def interface(self) -> str | None:
        """Interface of this machine that has the run's packets alone; None: an emulated path."""
        return self.name if self._is_uplink else None

    @property
    def _is_uplink(self) -> bool:
        return self._request.network.kind == "uplink"

    def _report(self, end: dict[str, Any] | None) -> ExitReport:
        reason = "lost" if end is None else end["reason"]
        code = 137 if end is None else int(end["code"])
        peak = None if end is None else end["peak_memory_bytes"]
        refused = None
        if self.cgroup is not None:
            peak, refused = self.cgroup.peak_memory_bytes(), self.cgroup.forks_refused()
            if self.cgroup.oom_kills() and reason in ("exited", "lost"):
                reason = "killed: memory"
        return ExitReport(code, cast("Reason", reason), peak, refused)

    async def load(self) -> None:
        """Let a program with a gate of its own start, and wait until it has come to that gate.

        Raises:
            RunnerError: It ended before.
        """
        assert self.gate is not None
        assert self._listener is not None
        os.write(self.gate, b"\n")
        os.close(self.gate)
        self.gate = None
        while self.gate is None:
            if self._listener.done():
                report = self._listener.result()
                raise RunnerError(f"{self.run_id}: the program ended before its gate: {report.reason} ({report.code})")
            with contextlib.suppress(OSError):  # nobody reads yet
                self.gate = os.open(self.folder / PROGRAM_GATE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            await asyncio.sleep(LOOK_S)

    async def start(self, message: bytes = b"") -> None:
        """Open the gate."""
        if self.gate is None:
            return
        with contextlib.suppress(BrokenPipeError):  # the program has ended: `wait` says so
            os.write(self.gate, message if self._request.gate is not None else b"\n")
        assert self.channel is not None
        self.channel.send("started")
        os.close(self.gate)
        self.gate = None

    async def link_down(self) -> None:
        """Take the run's interface down."""
        if self.link is not None:
            self.traffic()
            await asyncio.to_thread(self.link.down)

    async def freeze(self) -> None:
        """Stop all processes with SIGSTOP, which none can block; unlike a frozen cgroup they can still be killed."""
        await self._ask("freeze", "frozen")

    async def thaw(self) -> None:
        """Let the processes go on."""
        await self._ask("thaw", "thawed")

    async def _ask(self, command: str, answer: str) -> None:
        if self.channel is None or self._listener is None or self._listener.done():
            return
        event = self._answers.setdefault(answer, asyncio.Event())
        self.channel.send(command)
        await event.wait()

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM to all processes, and SIGKILL `grace_s` later; return when they are gone."""
        if self.channel is None or self._listener is None:
            return
        self.channel.send(f"stop {grace_s}")
        await self._end_within(grace_s + KILL_S)

    async def _end_within(self, seconds: float) -> None:
        assert self._listener is not None
        assert self._process is not None
        done, _ = await asyncio.wait({self._listener}, timeout=seconds)
        if not done:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, 9)  # its child, process 1 of the run, dies with it
            await asyncio.wait({self._listener}, timeout=KILL_S)

    async def wait(self) -> ExitReport:
        """Wait for the end."""
        assert self._listener is not None
        return await asyncio.shield(self._listener)

    def traffic(self) -> Traffic:
        """Return the counters of the run's interface; after the end, the last ones."""
        counters = None if self.link is None else self.link.counters()
        if counters is not None:
            received, received_packets, sent, sent_packets = counters
            if self._is_uplink:  # this machine's end of the pair receives what the run sends
                self._last = Traffic(received, sent, received_packets, sent_packets)
            else:
                self._last = Traffic(sent, received, sent_packets, received_packets)
        return self._last

    async def remove(self) -> None:
        """Remove everything but the output."""
        async with self._lock:
            if self._removed:
                return
            self.traffic()
            if self.channel is not None:
                self.channel.send("kill")
            if self._listener is not None:
                await self._end_within(KILL_S)
            if self.channel is not None:
                self.channel.close()
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.kill()
                await self._process.wait()
            if self._service is not None and self.network is not None:
                await self._service.forget(self.name)
            await asyncio.to_thread(self._remove)
            self._removed = True

    def _remove(self) -> None:
        if self.gate is not None:
            os.close(self.gate)
            self.gate = None
        if self.link is not None:
            self.link.close()
            self.link = None
        if self._is_uplink and self.network is not None:
            uplink.disconnect(self.name)
        if self.network is not None:
            os.close(self.network)
            self.network = None
        if self.cgroup is not None:
            self.cgroup.remove()
            self.cgroup.parent.discard()
        shutil.rmtree(self.folder, ignore_errors=True)

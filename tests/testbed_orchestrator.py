"""For tests of the agent: an orchestrator in memory that speaks its protocol, and a runner without isolation."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from aiohttp import web
from testbed_records import desired

from bentpipe.testbed.runners.base import ExitReport, Traffic
from bentpipe.testbed.schemas.agent_protocol import CommitRequest, EventBatch, Heartbeat
from bentpipe.testbed.schemas.node import NodeReport

if TYPE_CHECKING:
    from bentpipe.testbed.runners.request import RunRequest
    from bentpipe.testbed.schemas.desired import Desired


class Orchestrator:
    """Takes everything; `wanted` is what it wants."""

    def __init__(self) -> None:
        self.wanted: Desired = desired()
        self.heartbeats: list[Heartbeat] = []
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.files: dict[str, bytes] = {}
        self.profiles: dict[str, bytes] = {}
        self.commits: dict[str, CommitRequest] = {}
        self.stale: tuple[str, ...] = ()
        self.streams: set[asyncio.Queue[int]] = set()
        self.ahead_ms = 0.0
        self.reports = 0
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> str:
        app = web.Application()
        add = app.router.add_route
        add("POST", "/agent/v1/heartbeat", self._heartbeat)
        add("POST", "/agent/v1/report", self._report)
        add("POST", "/agent/v1/telemetry", self._nothing)
        add("GET", "/agent/v1/stream", self._stream)
        add("GET", "/agent/v1/desired", self._desired)
        add("POST", "/agent/v1/events", self._events)
        add("GET", "/agent/v1/files/{sha256}", self._profile)
        add("HEAD", "/agent/v1/runs/{run}/{end}/files/{path:.*}", self._offset)
        add("PUT", "/agent/v1/runs/{run}/{end}/files/{path:.*}", self._put)
        add("POST", "/agent/v1/runs/{run}/{end}/commit", self._commit)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]
        return f"http://127.0.0.1:{self.port}"

    async def stop(self) -> None:
        for queue in self.streams:
            queue.put_nowait(-1)
        if self._runner is not None:
            await self._runner.cleanup()

    def want(self, wanted: Desired) -> None:
        self.wanted = wanted
        for queue in self.streams:
            queue.put_nowait(wanted.version)

    def states(self, run: str, end: str = "client") -> list[str]:
        bodies = [event.body for events in self.events.values() for event in events]
        return [body.state for body in bodies if body.kind == "state" and body.run == run and body.end == end]

    def reason(self, run: str) -> str:
        bodies = [event.body for events in self.events.values() for event in events]
        return next((body.reason for body in reversed(bodies) if body.kind == "state" and body.run == run), "")

    async def until(self, condition: Any, timeout_s: float = 20.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.01)

    async def _report(self, request: web.Request) -> web.Response:
        NodeReport.check(await request.json(), "report")
        self.reports += 1
        return web.Response(status=204)

    async def _nothing(self, _: web.Request) -> web.Response:
        return web.Response(status=204)

    async def _heartbeat(self, request: web.Request) -> web.Response:
        now_ms = time.time_ns() / 1e6 + self.ahead_ms
        heartbeat = Heartbeat.check(await request.json(), "heartbeat")
        self.heartbeats.append(heartbeat)
        done = len(self.events[heartbeat.boot_id])
        return web.json_response(
            {"received_at_ms": now_ms, "sent_at_ms": now_ms, "version": self.wanted.version, "next_seq": done + 1}
        )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[int] = asyncio.Queue()
        self.streams.add(queue)
        try:
            version = self.wanted.version
            while version >= 0:
                await response.write(f"event: version\ndata: {version}\n\n".encode())
                version = await queue.get()
        except (ConnectionError, OSError):
            pass
        finally:
            self.streams.discard(queue)
        return response

    async def _desired(self, request: web.Request) -> web.Response:
        if int(request.query["since"]) == self.wanted.version:
            return web.Response(status=204)
        return web.Response(text=self.wanted.model_dump_json(by_alias=True), content_type="application/json")

    async def _profile(self, request: web.Request) -> web.Response:
        return web.Response(body=self.profiles[request.match_info["sha256"]])

    async def _events(self, request: web.Request) -> web.Response:
        batch = EventBatch.check(await request.json(), "events")
        kept = self.events[batch.boot_id]
        for event in batch.events:
            if event.seq == len(kept) + 1:
                kept.append(event)
        return web.json_response({"next_seq": len(kept) + 1, "stale": list(self.stale)})

    async def _offset(self, request: web.Request) -> web.Response:
        return web.Response(headers={"Upload-Offset": str(len(self.files.get(request.path, b"")))})

    async def _put(self, request: web.Request) -> web.Response:
        had, offset = self.files.get(request.path, b""), int(request.query["offset"])
        if offset != len(had):
            return web.Response(status=409, headers={"Upload-Offset": str(len(had))})
        self.files[request.path] = had + await request.read()
        return web.Response(headers={"Upload-Offset": str(len(self.files[request.path]))})

    async def _commit(self, request: web.Request) -> web.Response:
        name = f"{request.match_info['run']}-{request.match_info['end']}"
        self.commits[name] = CommitRequest.check(await request.json(), "commit")
        return web.json_response({"location": name})


class PlainRun:
    """A process of this machine."""

    def __init__(self, request: RunRequest) -> None:
        self.request, self.run_id, self.pid = request, request.run_id, 0
        self.settings: list[dict[str, object]] = []
        self.interface: str | None = None
        self.log: list[str] = []
        self.used = 0
        self._process: asyncio.subprocess.Process | None = None
        self._gate = asyncio.Event()

    async def start(self, message: bytes = b"") -> None:
        self.log.append("start")
        self.request.output.mkdir(parents=True, exist_ok=True)
        if self.request.gate is not None:
            (self.request.output.parent / self.request.gate).write_bytes(message)
        environment = {
            **os.environ,
            **self.request.environment,
            "BENTPIPE_OUTPUT": str(self.request.output),
            "BENTPIPE_INPUTS": str(self.request.output.parent),
        }
        self._process = await asyncio.create_subprocess_exec(
            *self.request.command, env=environment, start_new_session=True
        )
        self.pid = self._process.pid
        self._gate.set()

    async def link_down(self) -> None:
        self.log.append("link_down")

    async def freeze(self) -> None:
        self.log.append("freeze")

    async def thaw(self) -> None:
        self.log.append("thaw")

    async def stop(self, grace_s: float) -> None:
        self.log.append(f"stop {grace_s:g}")
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def wait(self) -> ExitReport:
        await self._gate.wait()
        assert self._process is not None
        code = await self._process.wait()
        return ExitReport(code if code >= 0 else 128 - code, "exited" if code >= 0 else "stopped")

    def traffic(self) -> Traffic:
        return Traffic(self.used, 0, 1, 0)

    async def remove(self) -> None:
        self.log.append("remove")
        await self.stop(0)


class PlainRunner:
    """Runs without isolation."""

    name = "process"

    def __init__(self) -> None:
        self.runs: dict[str, PlainRun] = {}
        self.prepare_s = 0.0

    async def available(self) -> str | None:
        return None

    async def prepare(self, request: RunRequest) -> PlainRun:
        await asyncio.sleep(self.prepare_s)
        self.runs[request.run_id] = PlainRun(request)
        return self.runs[request.run_id]

    async def sweep(self, label: str, keep: Any = ()) -> list[str]:
        return []

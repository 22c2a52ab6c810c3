"""A small Docker daemon for tests: it keeps the requests, and runs each container as ``sleep`` in a namespace."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

from aiohttp import web

IMAGES = {"tool@sha256:" + "1" * 64, "pause@sha256:" + "2" * 64}


class FakeDocker:
    """Serves the part of the API that the runner uses; `containers` has the bodies of the requests."""

    def __init__(self) -> None:
        self.containers: dict[str, dict[str, Any]] = {}
        self.bodies: list[dict[str, Any]] = []
        self.actions: list[str] = []
        self.exit_code = 0
        self.oom = False

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        path = re.sub(r"^/v[\d.]+", "", request.path)
        parts = path.strip("/").split("/")
        if parts[0] == "version":
            return web.json_response({"ApiVersion": "1.43", "Version": "24.0"})
        if parts[0] == "images":
            return self._image("/".join(parts[1:-1]))
        if parts == ["containers", "create"]:
            body = await request.json()
            key = f"{len(self.bodies):064x}"
            self.bodies.append(body)
            self.containers[key] = {"body": body, "process": None, "paused": False, "name": request.query["name"]}
            return web.json_response({"Id": key, "Warnings": []}, status=201)
        if parts == ["containers", "json"]:
            wanted = json.loads(request.query.get("filters", "{}")).get("label", [])
            matching = [
                key
                for key, each in self.containers.items()
                if set(wanted) <= {f"{k}={v}" for k, v in each["body"]["Labels"].items()}
            ]
            return web.json_response([{"Id": key} for key in matching])
        return await self._container(request, parts[1], parts[2] if len(parts) > 2 else "")

    def _image(self, name: str) -> web.Response:
        if name not in IMAGES:
            return web.json_response({"message": f"No such image: {name}"}, status=404)
        return web.json_response({"Id": "sha256:" + "a" * 64, "RepoTags": []})

    async def _container(self, request: web.Request, name: str, action: str) -> web.Response:
        key = next((k for k, each in self.containers.items() if name in (k, each["name"])), None)
        if key is None:
            return web.json_response({"message": f"No such container: {name}"}, status=404)
        container = self.containers[key]
        self.actions.append(action or request.method.lower())
        if request.method == "DELETE":
            self._end(container, signal.SIGKILL)
            del self.containers[key]
        elif action == "json":
            return web.json_response(self._state(key, container))
        elif action == "start":
            joined = container["body"]["HostConfig"]["NetworkMode"] != "none"
            line = ["sleep", "1000"] if joined else ["unshare", "-n", "sleep", "1000"]
            container["process"] = await asyncio.to_thread(subprocess.Popen, line)
            await asyncio.sleep(0.1)  # until it has its namespace
        elif action == "kill":
            self._end(container, getattr(signal, request.query["signal"]))
        elif action in ("pause", "unpause"):
            container["paused"] = action == "pause"
        elif action == "logs":
            return web.Response(body=b"", content_type="application/octet-stream")
        return web.Response(status=204)

    def _state(self, key: str, container: dict[str, Any]) -> dict[str, Any]:
        process = container["process"]
        running = process is not None and process.poll() is None
        status = "created" if process is None else "paused" if container["paused"] else "running"
        return {
            "Id": key,
            "Name": f"/{container['name']}",
            "Config": {"Labels": container["body"]["Labels"], "Tty": False},
            "State": {
                "Status": status if process is None or running else "exited",
                "Pid": process.pid if running else 0,
                "ExitCode": self.exit_code if process is None or running else 128 - process.returncode,
                "OOMKilled": self.oom,
            },
            "HostConfig": {"LogConfig": {"Type": "json-file"}},
        }

    def _end(self, container: dict[str, Any], number: int) -> None:
        process = container["process"]
        if process is not None and process.poll() is None:
            process.send_signal(number)
            process.wait()


async def serve(path: Path) -> tuple[FakeDocker, web.AppRunner]:
    """Serve on a Unix socket; clean up the runner to stop."""
    fake = FakeDocker()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", fake)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.UnixSite(runner, str(path)).start()
    return fake, runner

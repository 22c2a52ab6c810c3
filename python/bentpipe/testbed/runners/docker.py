"""Runner for images, over the Docker API: of Docker or of Podman.

A container that does nothing (``pause``) has the network namespace, so that the network is ready before the program is
loaded. The program's container joins it, and is created but not started until the gate opens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.testbed.namespaces.network import Link
from bentpipe.testbed.runners import surroundings, uplink
from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.container import ContainerRun
from bentpipe.testbed.runners.inside.program import OPEN_FILES
from bentpipe.testbed.runners.names import agent_tag, run_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.testbed.runners.request import RunRequest
    from bentpipe.testbed.runners.settings import Settings

AGENT_LABEL, RUN_LABEL = "bentpipe.agent", "bentpipe.run"
OUTPUT, INPUTS = "/output", "/inputs"
TIMEOUT_S = 60
"""Longest wait for the daemon's answer [s]: the SDK's own default."""


class DockerRunner:
    """Runs an image, given by its digest, that is on this machine already.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.testbed.runners.docker import DockerRunner
        >>> DockerRunner(Path("state"), pause_image="pause@sha256:" + "0" * 64).name
        'docker'
    """

    name = "docker"

    def __init__(
        self, folder: Path, *, pause_image: str | None, settings: Settings | None = None, url: str | None = None
    ) -> None:
        """Prepare.

        Args:
            folder: Folder of the agent for the state of runs.
            pause_image: Image whose program sleeps until it is ended, by its digest; None: the runner is unavailable.
            settings: How kernel settings are applied; None: requests with settings are refused.
            url: Address of the daemon; None: `DOCKER_HOST`, or the usual socket.
        """
        self._folder, self._pause_image, self._settings, self._url = folder, pause_image, settings, url
        self._client: Any = None

    def _docker(self) -> Any:  # noqa: ANN401 - the SDK has no types
        if self._client is None:
            import docker

            if self._url is None:
                self._client = docker.from_env(timeout=TIMEOUT_S)
            else:
                self._client = docker.DockerClient(base_url=self._url, timeout=TIMEOUT_S)
        return self._client

    async def available(self) -> str | None:
        """Return in one line why this machine cannot use the runner; None: it can. Asks the daemon."""
        if self._pause_image is None:
            return "docker: no image for pause; expected its digest in the node's configuration"
        try:
            await asyncio.to_thread(lambda: self._docker().images.get(self._pause_image))
        except Exception as error:  # noqa: BLE001 - of the SDK, of requests, of its import
            return f"docker: {_line(error)}"
        return None

    async def prepare(self, request: RunRequest) -> ContainerRun:
        """Make the network, create the container, leave it unstarted.

        Raises:
            UserError: The request cannot be fulfilled.
            RunnerError: This machine could not do it. Nothing is left behind in either case.
        """
        request.check_program(takes_image=True)
        if request.network.kind != "uplink":
            raise UserError("an emulated path", where="network", expected="the uplink", hint="the bubblewrap runner")
        if request.settings and self._settings is None:
            raise UserError("kernel settings", where="settings", expected="none, since this node has no kernel service")
        name = run_name(request.label, request.run_id)
        folder = surroundings.new_folder(self._folder, name, request.run_id)
        run = ContainerRun(request, name, folder, self._settings)
        try:
            await asyncio.to_thread(self._prepare, request, run)
            if self._settings is not None and run.network is not None:
                run.settings = await self._settings.apply(name, run.network, request.settings)
        except BaseException as error:
            await asyncio.shield(run.remove())
            if isinstance(error, UserError | RunnerError) or not isinstance(error, Exception):
                raise
            raise RunnerError(f"{request.run_id}: {_line(error)}") from error
        return run

    def _prepare(self, request: RunRequest, run: ContainerRun) -> None:
        client = self._docker()
        try:
            client.images.get(request.image)
        except Exception as error:  # images are pulled before, against the node's quota
            raise RunnerError(f"image {request.image}: {_line(error)}; expected it on this machine") from error
        run.pause = client.containers.create(
            self._pause_image,
            name=f"{run.name}-net",
            network_mode="none",
            mem_limit=32 << 20,
            pids_limit=16,
            user="65534:65534",
            **self._hardened(request, run.name),
        )
        run.pause.start()
        run.pause.reload()
        run.pid = int(run.pause.attrs["State"]["Pid"])
        run.network = os.open(f"/proc/{run.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        uplink.connect(request, run.name, run.network, self._folder)
        uplink.cap_rates(run.name, request)
        run.link = Link(run.name)
        run.container = client.containers.create(request.image, **self._options(request, run))

    def _hardened(self, request: RunRequest, name: str) -> dict[str, Any]:
        """Return the options that every container has."""
        return {
            "cap_drop": ["ALL"],
            "security_opt": ["no-new-privileges:true"],
            "read_only": True,
            "labels": {AGENT_LABEL: agent_tag(request.label), RUN_LABEL: name},
            "detach": True,
        }

    def _options(self, request: RunRequest, run: ContainerRun) -> dict[str, Any]:
        from docker.types import LogConfig, Ulimit

        limits = request.limits
        # Docker gives granted capabilities to root alone: this root has no other one, and sees only what is mounted.
        user = 0 if request.raw_sockets else surroundings.run_user(run.name)
        output = surroundings.make_output(request, user)
        volumes = {str(output): {"bind": OUTPUT, "mode": "rw"}}
        volumes[str(surroundings.write_resolv_conf(request, run.folder))] = {"bind": "/etc/resolv.conf", "mode": "ro"}
        for name, file in request.inputs.items():
            volumes[str(file.absolute())] = {"bind": f"{INPUTS}/{name}", "mode": "ro"}
        identity = user if user is not None else os.geteuid()
        fixed = surroundings.environment(request, OUTPUT, INPUTS)
        size = max(4096, min(limits.output_bytes // 2, 64 << 20))
        return {
            **self._hardened(request, run.name),
            **({"command": list(request.command)} if request.command else {}),
            **({"nano_cpus": int(limits.cpus * 1e9)} if limits.cpus is not None else {}),
            **({"cap_add": ["NET_RAW"]} if request.raw_sockets else {}),
            "name": run.name,
            "network_mode": f"container:{run.pause.id}",
            "mem_limit": max(limits.memory_bytes, 6 << 20),  # Docker's least
            "memswap_limit": max(limits.memory_bytes, 6 << 20),
            "pids_limit": limits.pids,
            "shm_size": limits.scratch_bytes,
            "tmpfs": {"/tmp": f"rw,nosuid,nodev,mode=1777,size={limits.scratch_bytes}"},
            "ulimits": [
                Ulimit(name="core", soft=0, hard=0),
                Ulimit(name="fsize", soft=limits.output_bytes, hard=limits.output_bytes),
                Ulimit(name="nofile", soft=OPEN_FILES, hard=OPEN_FILES),
            ],
            "log_config": LogConfig(type="json-file", config={"max-size": str(size), "max-file": "1"}),
            "user": f"{identity}:{identity}",
            "volumes": volumes,
            "environment": {key: value for key, value in fixed.items() if key != "PATH" or key in request.environment},
            "working_dir": OUTPUT,
            "init": True,
        }

    async def sweep(self, label: str, keep: Collection[str] = ()) -> list[str]:
        """Remove what killed agents of this label left behind, except runs with an id in `keep`.

        Returns:
            The names of the runs that were removed.

        Raises:
            RunnerError: The daemon does not answer.
        """
        kept = {run_name(label, run_id) for run_id in keep}
        try:
            names = await asyncio.to_thread(self._sweep_containers, agent_tag(label), kept)
        except Exception as error:
            raise RunnerError(f"docker: {_line(error)}") from error
        return sorted(names | await asyncio.to_thread(surroundings.sweep, agent_tag(label), kept, self._folder))

    def _sweep_containers(self, tag: str, kept: set[str]) -> set[str]:
        names = set()
        for container in self._docker().containers.list(all=True, filters={"label": f"{AGENT_LABEL}={tag}"}):
            name = container.labels.get(RUN_LABEL, "")
            if name not in kept:
                with contextlib.suppress(Exception):  # removed by others meanwhile
                    container.remove(force=True, v=True)
                names.add(name)
        return names


def _line(error: BaseException) -> str:
    """Return an exception of the SDK in one line."""
    explanation = getattr(error, "explanation", None) or error
    return " ".join(str(explanation).split())[:300] or type(error).__name__

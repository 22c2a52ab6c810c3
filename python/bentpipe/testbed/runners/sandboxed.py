"""What the process and the bubblewrap runner share: the processes of `inside`, cgroups, networks, and their removal."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from bentpipe.errors import UserError
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.network import Link, new_network
from bentpipe.testbed.runners import cgroups, emulated, surroundings, uplink
from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.channel import Channel
from bentpipe.testbed.runners.inside.spec import Order
from bentpipe.testbed.runners.names import agent_tag, run_name
from bentpipe.testbed.runners.request import Limits, RunRequest
from bentpipe.testbed.runners.run import PROGRAM_GATE, SandboxedRun

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from bentpipe.testbed.runners.settings import Settings

PREPARE_S = 60.0
"""Time within which a run must be at its gate [s]. Chosen here."""


class SandboxedRunner:
    """Runs programs of this machine as processes in namespaces."""

    name: ClassVar[str]

    def __init__(
        self,
        folder: Path,
        *,
        settings: Settings | None = None,
        hidden: Sequence[Path] = (),
        readable: Sequence[Path] = (),
        use_cgroups: bool = True,
    ) -> None:
        """Prepare.

        Args:
            folder: Folder of the agent for the state of runs; its path must not be visible inside.
            settings: How kernel settings are applied; None: requests with settings are refused.
            hidden: Folders that are empty inside, such as those with the agent's keys (process runner).
            readable: Folders that are visible inside, beside /usr (bubblewrap), or although the folders above them are
                closed to the program's user (process).
            use_cgroups: Use control groups where this process may make them; otherwise limits are polled.
        """
        self._use_cgroups = use_cgroups
        self._folder, self._settings = folder, settings
        self._hidden, self._readable = [*hidden, folder], list(readable)

    def _bubblewrap(self) -> str | None:
        """Return the path of bubblewrap, if this runner uses it."""
        return None

    async def available(self) -> str | None:
        """Return in one line why this machine cannot use the runner; None: it can. Runs a program."""
        if not linux.has_capability(linux.CAP_SYS_ADMIN):
            return f"{self.name}: no rights to make namespaces; try it as root, or in `unshare -Urn`"
        label = f"probe of {self._folder.absolute()}"  # the same each time: a probe that was killed is swept
        with contextlib.suppress(RunnerError):  # its processes have not ended yet
            await self.sweep(label)
        with tempfile.TemporaryDirectory() as folder:
            limits = Limits(memory_bytes=64 << 20, pids=16, duration_s=10.0)
            request = RunRequest(run_id="probe", label=label, output=Path(folder), command=("true",), limits=limits)
            try:
                run = await self.prepare(request)
            except (UserError, RunnerError) as error:
                return f"{self.name}: {error}"
            try:
                await run.start()
                report = await run.wait()
            finally:
                await run.remove()
                with contextlib.suppress(RunnerError):
                    await self.sweep(label)
        return None if report.code == 0 else f"{self.name}: a program that does nothing ended with {report.code}"

    async def prepare(self, request: RunRequest) -> SandboxedRun:
        """Make the namespaces, load the program, leave it waiting at the gate.

        Raises:
            UserError: The request cannot be fulfilled.
            RunnerError: This machine could not do it. Nothing is left behind in either case.
        """
        request.check_program(takes_image=False)
        if request.settings and self._settings is None:
            raise UserError("kernel settings", where="settings", expected="none, since this node has no kernel service")
        name = run_name(request.label, request.run_id)
        folder = surroundings.new_folder(self._folder, name, request.run_id)
        run = SandboxedRun(request, name, folder, self._settings)
        try:
            async with asyncio.timeout(PREPARE_S):
                await self._prepare(request, run)
        except BaseException as error:
            await asyncio.shield(run.remove())
            if isinstance(error, TimeoutError):
                raise RunnerError(f"{request.run_id}: not ready within {PREPARE_S:g} s") from error
            if isinstance(error, OSError | RuntimeError):  # no more threads, processes, descriptors, or disk
                raise RunnerError(f"{request.run_id}: {error}") from error
            raise
        return run

    async def _prepare(self, request: RunRequest, run: SandboxedRun) -> None:
        if self._use_cgroups:
            run.cgroup = await asyncio.to_thread(cgroups.new_cgroup, run.name, request.together)
        if run.cgroup is not None:
            try:
                await asyncio.to_thread(run.cgroup.limit, request.limits)
            except OSError as error:
                raise RunnerError(f"limits of the run: {error}") from error
        network = None
        if request.network.kind == "uplink":
            network = run.network = await asyncio.to_thread(new_network)
            await asyncio.to_thread(uplink.connect, request, run.name, network, self._folder)
            run.link = Link(run.name)
        order = self._order(request, run, network)
        path = run.folder / "order.json"
        path.write_text(order.to_json(), encoding="utf-8")
        os.mkfifo(run.folder / "gate", 0o600)
        run.gate = os.open(run.folder / "gate", os.O_RDWR | os.O_CLOEXEC)
        if request.gate is not None:
            os.mkfifo(run.folder / PROGRAM_GATE)
            (run.folder / PROGRAM_GATE).chmod(0o644)  # the program's user reads it
        run.channel = Channel(run.folder)
        root = str(Path(__file__).parents[3])
        code = f"import sys; sys.path.append({root!r}); from bentpipe.testbed.runners.inside.main import main; main()"
        python = [os.path.realpath(sys.executable), "-I", "-S", "-c", code]
        line = [*python, str(path)]
        if request.network.kind == "emulated":
            line = [*python, "--with-parent", *emulated.command(request.network, request.allowed, line)]
        await run.launch(line, () if network is None else (network,))
        if request.network.kind == "emulated":
            run.network, run.link = await asyncio.to_thread(emulated.enclose, run.pid, request.allowed, request.refused)
        if request.limits.down_bps is not None and network is not None:
            await asyncio.to_thread(uplink.cap_rates, run.name, request)
        if self._settings is not None and run.network is not None:
            run.settings = await self._settings.apply(run.name, run.network, request.settings)
        if request.gate is not None:
            await run.load()

    def _order(self, request: RunRequest, run: SandboxedRun, network: int | None) -> Order:
        limits = request.limits
        user = surroundings.run_user(run.name)
        output = surroundings.make_output(request, user)
        bubblewrap = self._bubblewrap()
        inside = "/output" if bubblewrap else "/tmp/output"
        inputs = "/inputs" if bubblewrap else "/tmp/inputs"
        files = dict(request.inputs)
        if request.gate is not None:
            files[request.gate] = run.folder / PROGRAM_GATE
        return Order(
            folder=str(run.folder),
            command=list(request.command),
            environment=surroundings.environment(request, inside, inputs),
            output=str(output),
            inputs={name: str(file.absolute()) for name, file in files.items()},
            network=network,
            resolv_conf=surroundings.write_resolv_conf(request, run.folder),
            bubblewrap=bubblewrap,
            readable=[str(each) for each in self._readable],
            hidden=[str(each.absolute()) for each in self._hidden],
            user=user,
            capabilities=[linux.CAP_NET_RAW] if request.raw_sockets else [],
            cgroups=run.cgroup.join_files if run.cgroup else [],
            memory_events=run.cgroup.memory_events if run.cgroup else "",
            watches_processes=run.cgroup is None,
            duration_s=limits.duration_s,
            grace_s=limits.grace_s,
            memory_bytes=limits.memory_bytes,
            pids=limits.pids,
            output_bytes=limits.output_bytes,
            scratch_bytes=limits.scratch_bytes,
        )

    async def sweep(self, label: str, keep: Collection[str] = ()) -> list[str]:
        """Remove what killed agents of this label left behind, except runs with an id in `keep`.

        Returns:
            The names of the runs that were removed.

        Raises:
            RunnerError: The kernel refused.
        """
        kept = {run_name(label, run_id) for run_id in keep}
        try:
            return sorted(await asyncio.to_thread(surroundings.sweep, agent_tag(label), kept, self._folder))
        except OSError as error:
            raise RunnerError(f"what {label} left behind: {error}") from error

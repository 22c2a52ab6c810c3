"""Starting and ending the laptop's testbed, and telling the user what happens in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.client import TestbedClient
from bentpipe.testbed.laptop.forwarding import forwarder
from bentpipe.testbed.laptop.household import request_file
from bentpipe.testbed.laptop.plan import HOMES
from bentpipe.testbed.laptop.tour import prefix_beside, tour
from bentpipe.testbed.laptop.until_signal import run_until_signal
from bentpipe.testbed.schemas.quantities import at_text

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    Say = Callable[[str], object]

PROFILE_S = 1800
"""Length of a home's Profile, which is repeated [s]."""
START_S = 60.0
"""How long the orchestrator may take to start [s]."""
NODES_S = 90.0
"""How long the nodes may take to come [s]."""
DISTURBED_S = 8.0
"""Time from the start of the tour's download to the household's video [s]."""
TOUR_H = 2
"""How long the tour's experiments go on [hours]."""


def check_machine() -> None:
    """Raise `UserError` if this machine cannot run it: the rights of namespaces, or a program."""
    import shutil

    from bentpipe.testbed.namespaces import linux

    for program, package in (("nft", "nftables"), ("iperf3", "iperf3")):
        if shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None:
            raise UserError(f"{program} is not installed", where="testbed", hint=f"apt install {package}")
    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        raise UserError("no rights to make namespaces", where="testbed", hint="unshare -Ur make testbed, or root")


def make_profiles(folder: Path, say: Say) -> None:
    """Make the homes' Profiles, if they are missing."""
    from bentpipe import Profile

    for home in HOMES:
        path = folder / f"{home.name}.parquet"
        if not path.exists():
            say(f"making the path of {home.name}: {home.site} to {home.to}, {PROFILE_S // 60} minutes")
            Profile.make(site=home.site, to=home.to, duration=PROFILE_S, seed=home.number + 1).write(path)


@contextlib.asynccontextmanager
async def program(command: list[str], log: Path, *, capture: bool = False) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program; at the end it gets SIGTERM, and 25 s later SIGKILL."""
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE if capture else file,
            stderr=file,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(25):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _first_lines(process: asyncio.subprocess.Process, log: Path) -> list[str]:
    """Return what the orchestrator says when it listens. Raises `UserError`: it ended."""
    assert process.stdout is not None
    lines: list[str] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_S):
            while line := await process.stdout.readline():
                lines.append(line.decode().strip())
                if "for nodes" in lines[-1]:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.3):
                            while line := await process.stdout.readline():
                                lines.append(line.decode().strip())
                                if lines[-1].startswith("dashboard"):
                                    break
                    return lines
    last = log.read_text(errors="replace").splitlines()[-1:]
    raise UserError(f"did not start: {' '.join(last) or 'no message'}", where="orchestrator", hint=f"see {log}")


async def _until_online(client: TestbedClient) -> None:
    wanted = {home.name for home in HOMES} | {"server"}
    async with asyncio.timeout(NODES_S):
        while True:
            nodes = await asyncio.to_thread(client.nodes)
            if wanted <= {node.name for node in nodes if node.online}:
                return
            await asyncio.sleep(0.3)


async def _tell_runs(client: TestbedClient, say: Say, begin_s: float, folder: Path) -> None:
    """Say each change of a run's state, for ever. The first download is disturbed by its household, once."""
    states: dict[str, str] = {}
    is_disturbed = False
    while True:
        with contextlib.suppress(BentpipeError):
            for run in reversed(await asyncio.to_thread(client.runs)):
                if states.get(run.id) != run.state and run.state not in ("planned", "assigned"):
                    reason = f": {run.reason}" if run.reason else ""
                    again = f", attempt {run.attempt}" if run.attempt > 1 else ""
                    cause = f" ({run.cause})" if run.cause != "schedule" else ""
                    seconds = time.monotonic() - begin_s
                    say(f"{seconds:6.1f} s  {run.experiment_name} at {run.node}{again}{cause}: {run.state}{reason}")
                states[run.id] = run.state
                if run.experiment_name.endswith("-download") and run.state == "running" and not is_disturbed:
                    is_disturbed = True
                    asyncio.get_running_loop().call_later(DISTURBED_S, request_file(folder, run.node).touch)
                    say(f"          the household of {run.node} will begin a video in {DISTURBED_S:g} s")
        await asyncio.sleep(0.5)


async def run_laptop(folder: Path, listen: str, agents: str, say: Say, *, with_tour: bool = True) -> None:
    """Run the testbed in a folder until cancelled.

    Args:
        folder: Folder of everything.
        listen: HOST:PORT of the page and the users' interface, on the loopback.
        agents: HOST:PORT of the agents' interface, on the loopback.
        say: Called with lines for the user.
        with_tour: Whether experiments are submitted.

    Raises:
        UserError: This machine cannot, or a port is taken.
    """
    check_machine()
    logs = folder / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    (folder / "nodes").mkdir(exist_ok=True)
    await asyncio.to_thread(make_profiles, folder, say)
    begin_s = time.monotonic()
    for name in ("joins.sock", "agents.sock"):
        (folder / name).unlink(missing_ok=True)
    host, _, port = agents.rpartition(":")
    python = [sys.executable, "-P", "-m"]
    kept = folder / "orchestrator"
    up = [*python, "bentpipe", "testbed", "up", "--home", str(kept), "--listen", listen, "--agents", agents]
    way = await asyncio.start_unix_server(
        forwarder(lambda: asyncio.open_connection(host, int(port))), str(folder / "agents.sock")
    )
    internet = [*python, "bentpipe.testbed.laptop.internet", str(folder)]
    async with way, program(up, logs / "orchestrator.log", capture=True) as orchestrator:
        for line in await _first_lines(orchestrator, logs / "orchestrator.log"):
            if line:
                say(line)
        client = TestbedClient(f"http://{listen}", credentials=kept / "admin.json")
        tokens = {}
        for name in (*(home.name for home in HOMES), "server"):
            joining = await asyncio.to_thread(client.make_join_token, name=name)
            tokens[name] = joining.token
        settings = folder / "laptop.json"
        settings.touch(mode=0o600)
        settings.write_text(json.dumps({"tokens": tokens}))
        async with program(internet, logs / "internet.log"):
            try:
                await _until_online(client)
            except TimeoutError:
                raise UserError("the nodes did not come", where="testbed", hint=f"see {logs}") from None
            say(f"{time.monotonic() - begin_s:6.1f} s  three nodes are online: attic, barn, server")
            if with_tour:
                until = at_text(round(time.time() / 60) * 60_000 + TOUR_H * 3_600_000)
                names = {each.name for each in await asyncio.to_thread(client.experiments)}
                for text in tour(prefix_beside(names), until):
                    await asyncio.to_thread(client.submit, text)
            await _tell_runs(client, say, begin_s, folder)


def serve_laptop_testbed(
    folder: Path,
    *,
    listen: str = "127.0.0.1:8791",
    agents: str = "127.0.0.1:8792",
    with_tour: bool = True,
    say: Say = print,
) -> None:
    """Run the whole testbed on this machine until Ctrl-C: orchestrator, server node, two homes, emulated paths.

    Args:
        folder: Folder of everything; a later start goes on with it.
        listen: HOST:PORT of the page.
        agents: HOST:PORT for the agents.
        with_tour: Whether experiments are submitted.
        say: Called with lines for the user.

    Raises:
        UserError: This machine cannot make namespaces, a program is missing, or a port is taken.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> bp.serve_laptop_testbed(Path("out/testbed"))  # doctest: +SKIP
    """
    program = run_laptop(folder.absolute(), listen, agents, say, with_tour=with_tour)
    run_until_signal(program, lambda: say("stopping: runs end, and their results are kept …"))

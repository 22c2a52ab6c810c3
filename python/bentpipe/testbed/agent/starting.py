"""Starting an agent: its runners, its kernel service, its feeds; then `Agent.run` until a signal."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.describing import describe
from bentpipe.testbed.agent.household import ScavengerMode
from bentpipe.testbed.agent.live import NodeSignals, check_urls, make_feeds, router_counters
from bentpipe.testbed.agent.policy_changes import PolicyFollower
from bentpipe.testbed.agent.program import python_folders
from bentpipe.testbed.agent.settings import AgentSettings, PolicyFile, default_folder
from bentpipe.testbed.agent.waiting import wait_at_most
from bentpipe.testbed.schemas.node import KernelAbilities

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from bentpipe.testbed.kernel_service.client import KernelServiceClient
    from bentpipe.testbed.runners.base import Runner
    from bentpipe.testbed.schemas.node import NodeReport

KERNEL_SOCKET = Path("/run/bentpipe/kernel.sock")
"""Socket of the machine's kernel service, if it runs as a unit of its own."""


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises `UserError`: another agent has it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError("is in use by another agent", where=str(folder), hint="ending that one first") from None
        yield


async def find_runners(
    folder: Path,
    settings: KernelServiceClient | None,
    on_note: Callable[[str], object] = lambda _: None,
    *,
    pause_image: str | None = None,
) -> dict[str, Runner]:
    """Return the runners that work on this machine; why others do not is noted."""
    from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
    from bentpipe.testbed.runners.docker import DockerRunner
    from bentpipe.testbed.runners.process import ProcessRunner

    state = folder / "runs"
    runners: dict[str, Runner] = {}
    candidates: list[Runner] = [
        BubblewrapRunner(state / "bubblewrap", settings=settings, hidden=[folder], readable=list(python_folders())),
        ProcessRunner(state / "process", settings=settings, hidden=[folder], readable=list(python_folders())),
    ]
    if pause_image is not None:  # the host wants containers
        candidates.append(DockerRunner(state / "docker", pause_image=pause_image, settings=settings))
    for runner in candidates:
        reason = await runner.available()
        if reason is None:
            runners[runner.name] = runner
        else:
            on_note(reason)
    return runners


@contextlib.asynccontextmanager
async def kernel_service(folder: Path) -> AsyncIterator[KernelServiceClient | None]:
    """Yield a client of the kernel service: the machine's, or one of our own; None: this user may not have one."""
    from bentpipe.testbed.kernel_service.client import KernelServiceClient

    if KERNEL_SOCKET.exists():
        async with KernelServiceClient(KERNEL_SOCKET) as client:
            yield client
        return
    path = folder / "kernel.sock"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "bentpipe.testbed.kernel_service", str(path)),
        *("--audit", str(folder / "kernel.log"), "--parent", str(os.getpid())),
    )
    try:
        for _ in range(100):
            if path.exists() or process.returncode is not None:
                break
            await asyncio.sleep(0.05)
        if process.returncode is not None or not path.exists():
            yield None
            return
        async with KernelServiceClient(path) as client:
            yield client
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


async def abilities(client: KernelServiceClient | None) -> KernelAbilities:
    """Return what the kernel can do: tried."""
    if client is None:
        return KernelAbilities()
    try:
        answer = await client.call("capabilities")
    except BentpipeError:
        return KernelAbilities()
    return KernelAbilities(controllers=tuple(answer["controllers"]), qdiscs=tuple(answer["qdiscs"]))


def look_around(folder: Path, settings: AgentSettings) -> NodeReport:
    """Return what the node is, for joining: runners and kernel are tried later, when the agent starts.

    Raises:
        UserError: A feed cannot be used, or its URL is not allowed.
    """
    if settings.role == "client":
        check_urls(settings, settings.read_policy())
    feeds = make_feeds(settings, settings.read_policy()) if settings.role == "client" else []
    signals = sorted(name for feed in feeds for name in feed.signals)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return describe(settings, settings.read_policy(), signals=signals)


def serve_node(folder: Path | None = None, on_note: Callable[[str], object] = lambda _: None) -> None:
    """Run the agent of a host that has joined a testbed, until SIGTERM or SIGINT.

    Args:
        folder: Folder of the agent; None: the usual one.
        on_note: Called with one-line notes.

    Raises:
        UserError: The folder has not joined, or is in use.

    Example:
        >>> from pathlib import Path
        >>> import bentpipe as bp
        >>> bp.serve_node(Path("nowhere"))
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: nowhere: has not joined a testbed; try bentpipe node join URL TOKEN
    """
    asyncio.run(run_node(folder or default_folder(), on_note))


async def run_node(folder: Path, on_note: Callable[[str], object] = lambda _: None) -> None:
    """Run the agent of a folder until SIGTERM or SIGINT.

    Raises:
        UserError: The folder has not joined, or is in use.
    """
    settings = AgentSettings.read(folder)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    with locked(folder):
        async with kernel_service(folder) as client:
            while not stopped.is_set():  # again once a policy that did not read at the start is mended
                await _run(folder, settings, client, stopped, on_note)


async def _run(
    folder: Path,
    settings: AgentSettings,
    client: KernelServiceClient | None,
    stopped: asyncio.Event,
    on_note: Callable[[str], object],
) -> None:
    policy_file = PolicyFile(settings)
    policy = policy_file.policy
    if policy_file.trouble is not None:
        on_note(f"the node is paused until its policy is mended: {policy_file.trouble}")
    runners = await find_runners(folder, client, on_note, pause_image=settings.pause_image)
    feeds = make_feeds(settings, policy) if settings.role == "client" else []
    signals = sorted(name for feed in feeds for name in feed.signals)
    report = describe(settings, policy, runners=tuple(runners), kernel=await abilities(client), signals=signals)
    agent = Agent(folder, settings, runners, report)
    if settings.role == "client":
        try:
            check_urls(settings, policy)
        except UserError as error:  # it was allowed when the node joined, and may be again
            on_note(f"{error}; not asked until then")
        scavenger = None
        if settings.dish is not None:  # also if it is off: the host may turn it on
            scavenger = ScavengerMode(
                policy.scavenger,
                executor=lambda: agent.executor,
                on_change=agent.household_changed,
                sent_bytes=lambda: agent.spool.sent_bytes,
            )
            agent.around.household = scavenger
        router = router_counters(settings.router, policy) if settings.router is not None else None
        agent.signals = NodeSignals(feeds, settings.name, agent.executor.fire, scavenger, router)
        agent.policy_follower = PolicyFollower(feeds, scavenger, None if router is None else router[0])
    recording = None
    if settings.dish is not None:
        from bentpipe.testbed.agent.dish import DishRecording
        from bentpipe.testbed.agent.terminal import RecordedTerminal

        recording = DishRecording(settings.dish, folder / "dish", budget_bytes=policy.disk_bytes // 4)
        recording.start()
        agent.recording = agent.policy_follower.recording = recording
        agent.around.terminal = RecordedTerminal(recording, settings.name, lambda: agent.policy_file.policy)
    on_note(f"node {settings.name} runs; Ctrl-C ends it (process {os.getpid()})")
    try:
        if agent.policy_file.trouble is None:
            await agent.run(stopped)
        else:
            await _run_until_mended(agent, stopped)
    finally:
        if recording is not None:
            await asyncio.to_thread(recording.stop)


async def _run_until_mended(agent: Agent, stopped: asyncio.Event) -> None:
    """Run a paused agent until its policy reads: feeds, levels and budgets are made of it."""
    over = asyncio.Event()
    task = asyncio.create_task(agent.run(over))
    while not task.done() and agent.policy_file.trouble is not None:
        if await wait_at_most(stopped, 0.5):
            break
    over.set()
    await task

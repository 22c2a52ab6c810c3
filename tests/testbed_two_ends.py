"""A client node and a server node in network namespaces of their own, each with an agent and the bubblewrap runner.

``python testbed_two_ends.py client FOLDER WORKS``, in a network namespace, makes the other one and starts the server
in it; it prints what each end committed: ``{name: {end: [state, reason, folder]}}``. The server also has a page.
"""

from __future__ import annotations

import asyncio
import functools
import http.server
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from testbed_orchestrator import Orchestrator
from testbed_records import KEY, assignment, desired, policy, work

from bentpipe.testbed.agent.agent import Agent
from bentpipe.testbed.agent.program import python_folders
from bentpipe.testbed.agent.settings import AgentSettings
from bentpipe.testbed.builtins.registry import BUILTINS
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
from bentpipe.testbed.schemas.desired import Desired, Peer, SessionGrant, Work
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.node import NodeReport
from bentpipe.validation.testbed_latency.world import CONTROL, SERVER, connected_network

PAGE_PORT = 8080
RESULTS_S, SERVER_RESULTS_S = 120.0, 20.0
"""How long results may take to come; the server's after the client's [s]."""
POLICY = "schema: bentpipe.policy/1\nrunners: [bubblewrap]\nmax_parallel: 5\nscavenger: {enabled: false}\n"


def make_work(name: str, args: dict[str, Any]) -> Work:
    return work(30.0, bytes_per_run=200_000_000, program={"builtin": name, "args": args})


def wanted(role: str, works: dict[str, dict[str, Any]], start_ms: int) -> Desired:
    """The client's calendar, or the server's grants; each work has a plan of its own."""
    hashes = {name: f"{number:064x}" for number, name in enumerate(works)}
    assignments, grants = [], []
    for name in works:
        plan = derived_id("plan", name)
        if role == "client":
            has_server = BUILTINS[name].server is not None
            peer = Peer(node="server", address=f"{SERVER}:{CONTROL}", key=KEY) if has_server else None
            times = {"due_at_ms": start_ms, "start_at_ms": start_ms, "latest_start_at_ms": start_ms + 300_000}
            assignments.append(assignment(name, 0, **times, work=hashes[name], plan=plan, peer=peer))
        else:
            peer, until_ms = Peer(node="client", key=KEY), start_ms + 3_600_000
            grants.append(SessionGrant(plan=plan, fence=1, work=hashes[name], peer=peer, until_at_ms=until_ms))
    made = {hashes[name]: make_work(name, args) for name, args in works.items()}
    state = desired(assignments, made, version=2, grants=tuple(grants))
    return state.replace(until_at_ms=start_ms + 48 * 3_600_000)


async def serve(
    role: Any, folder: Path, works: dict[str, dict[str, Any]], stopped: asyncio.Event | None
) -> dict[str, Any]:
    """Run an end's agent with an orchestrator of its own until all is committed; a server's until `stopped` too."""
    orchestrator = Orchestrator()
    await orchestrator.start()
    node = folder / role
    node.mkdir()
    (node / "policy.yml").write_text(POLICY)
    settings = AgentSettings(
        url=f"http://127.0.0.1:{orchestrator.port}",
        name=role,
        role=role,
        policy=str(node / "policy.yml"),
        control=f"{SERVER}:{CONTROL}" if role == "server" else None,
    )
    runner = BubblewrapRunner(node / "runs", hidden=[node], readable=list(python_folders()))
    report = NodeReport(agent_version="1", platform="x", role=role, policy=policy())
    over = asyncio.Event()
    orchestrator.want(wanted(role, works, round(time.time() * 1e3)))
    agent = Agent(node, settings, {"bubblewrap": runner}, report)
    task = asyncio.create_task(agent.run(over))
    names = [name for name in works if role == "client" or BUILTINS[name].server is not None]
    try:
        await orchestrator.until(lambda: orchestrator.heartbeats and agent.executor.wanted is not None)
        print("ready", flush=True)
        if stopped is not None:  # the page stays until the client is done
            await stopped.wait()
        await orchestrator.until(
            lambda: all(f"{derived_id(each)}-{role}" in orchestrator.commits for each in names),
            RESULTS_S if stopped is None else SERVER_RESULTS_S,
        )
    except TimeoutError:  # said as "nothing was committed"
        pass
    finally:
        over.set()
        await asyncio.wait_for(task, 20)
        await orchestrator.stop()
    return {name: keep(orchestrator, role, name, folder) for name in names}


def keep(orchestrator: Orchestrator, role: str, name: str, folder: Path) -> list[str]:
    """Write what an end committed; return its state, the reason and the folder."""
    run = derived_id(name)
    commit = orchestrator.commits.get(f"{run}-{role}")
    if commit is None:
        return ["none", "nothing was committed", ""]
    target = folder / "results" / name / role
    for file in commit.files:
        path = target / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orchestrator.files.get(f"/agent/v1/runs/{run}/{role}/files/{file.path}", b""))
    return [commit.state, commit.reason, str(target)]


def serve_page(folder: Path) -> None:
    """Serve a page with 200 kB of pictures, all of which are one file."""
    folder.mkdir()
    (folder / "picture.svg").write_text(f"<svg xmlns='http://www.w3.org/2000/svg'><desc>{'x' * 20_000}</desc></svg>")
    pictures = "".join(f"<img src='picture.svg?{number}'>" for number in range(10))
    (folder / "index.html").write_text(f"<title>Page</title><h1>Page</h1>{pictures}")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer((SERVER, PAGE_PORT), functools.partial(Handler, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()


async def both(far: int, folder: Path, works: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Run the server in the other namespace and the client in this one; return what both committed."""
    command = [sys.executable, __file__, "server", str(folder), json.dumps(works), str(far)]
    server = await asyncio.create_subprocess_exec(
        *command, pass_fds=[far], stdout=asyncio.subprocess.PIPE, limit=1 << 20
    )
    assert server.stdout is not None
    try:
        await asyncio.wait_for(server.stdout.readline(), 60)
        client = await serve("client", folder, works, None)
        server.terminate()
        line = await server.stdout.readline()
    finally:
        if server.returncode is None:
            server.terminate()
        await server.wait()
    ends = {"client": client, "server": json.loads(line)}
    return {name: {end: of[name] for end, of in ends.items() if name in of} for name in works}


async def server_until_signal(folder: Path, works: dict[str, dict[str, Any]]) -> None:
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    serve_page(folder / "page")
    print(json.dumps(await serve("server", folder, works, stopped)), flush=True)


if __name__ == "__main__":
    run_folder, run_works = Path(sys.argv[2]), json.loads(sys.argv[3])
    if sys.argv[1] == "server":
        linux.setns(int(sys.argv[4]), linux.CLONE_NEWNET)
        linux.die_with_parent(0)
        asyncio.run(server_until_signal(run_folder, run_works))
    else:
        print(json.dumps(asyncio.run(both(connected_network(), run_folder, run_works))))

"""The server node: ``python -m bentpipe.validation.testbed_latency.server FOLDER RUNNER NETWORK``, until SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from bentpipe.testbed.namespaces import linux
from bentpipe.validation.testbed_latency.nodes import make_agent, make_work


async def serve(folder: Path, runner: str) -> None:
    """Run the agent."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    agent = make_agent(folder, runner, make_work("with a server"), "server")
    task = asyncio.create_task(agent.run(stopped))
    await asyncio.sleep(1.0)
    print("ready", flush=True)
    await task


def main() -> None:
    """Enter the namespace, and serve."""
    linux.setns(int(sys.argv[3]), linux.CLONE_NEWNET)
    linux.die_with_parent(0)
    asyncio.run(serve(Path(sys.argv[1]), sys.argv[2]))


if __name__ == "__main__":
    main()

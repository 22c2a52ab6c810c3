"""``python -m bentpipe.testbed.laptop.home FOLDER NAME TOKEN``: a home behind an emulated path.

In the path's near namespace: a simulated terminal at the address that real ones have, with the rates of the path's
interface; a node's agent; a household.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.laptop.household import live
from bentpipe.testbed.laptop.plan import AGENTS_PORT, DISH, HOMES, PATH_INTERFACE, PATH_SERVER
from bentpipe.testbed.laptop.until_signal import run_until_signal

if TYPE_CHECKING:
    from bentpipe.testbed.laptop.plan import Home

POLICY = """\
schema: bentpipe.policy/1
runners: [bubblewrap, process]
bytes: [2GB/day]
scavenger: {quiet: 6s}
"""
"""Policy of a home; quiet is short here, so that a newcomer sees a run come again."""


def set_up_addresses() -> None:
    """Give the terminal its address."""
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        ip.addr("add", index=1, address=DISH, prefixlen=32)


def terminal_command(home: Home, folder: Path) -> list[str]:
    """Return the command of the simulated terminal."""
    command = [sys.executable, "-P", "-m", "bentpipe", "dish", "simulate", "--address", DISH]
    command += ["--profile", str(folder / f"{home.name}.parquet"), "--interface", PATH_INTERFACE]
    return [*command, "--firmware", "2024", "--location"]


def join_command(home: Home, folder: Path, token: str) -> list[str]:
    """Return the command that joins the testbed."""
    policy = folder / "nodes" / f"{home.name}.policy.yml"
    policy.parent.mkdir(parents=True, exist_ok=True)
    policy.write_text(POLICY)
    command = [sys.executable, "-P", "-m", "bentpipe", "node", "join", f"https://{PATH_SERVER}:{AGENTS_PORT}", token]
    command += ["--name", home.name, "--dish", f"{DISH}:9200", "--policy", str(policy), "--ping", PATH_SERVER]
    # The far end of the path has an address of carriers' private networks.
    return [*command, "--reach", f"{PATH_SERVER}/32", "--only", "--folder", str(folder / "nodes" / home.name)]


def keep_place(home: Home, state: Path) -> None:
    """Keep the home's place in the agent's settings; the agent blurs it, as its policy says."""
    from bentpipe.scenarios.sites import load_sites
    from bentpipe.testbed.agent.settings import AgentSettings
    from bentpipe.testbed.schemas.node import Place

    site = load_sites()[home.site]
    place = Place(latitude_deg=site.lat_deg, longitude_deg=site.lon_deg)
    AgentSettings.read(state).replace(place=place).write(state)


async def serve_home(home: Home, folder: Path, token: str) -> None:
    """Serve until cancelled."""
    from bentpipe.testbed.laptop.internet import keep_running

    await asyncio.to_thread(set_up_addresses)
    logs, state = folder / "logs", folder / "nodes" / home.name
    async with asyncio.TaskGroup() as group:
        group.create_task(keep_running(terminal_command(home, folder), logs / f"{home.name}-dish.log"))
        while not (state / "node.crt").exists():
            with (logs / f"{home.name}-node.log").open("ab") as file:
                await asyncio.to_thread(
                    subprocess.run, join_command(home, folder, token), check=False, stdout=file, stderr=file
                )
            await asyncio.sleep(0.5)
        await asyncio.to_thread(keep_place, home, state)
        agent = [sys.executable, "-P", "-m", "bentpipe", "node", "run", "--folder", str(state)]
        group.create_task(keep_running(agent, logs / f"{home.name}-node.log"))
        group.create_task(live(folder, home.name))


def main() -> int:
    """Serve until SIGTERM."""
    folder, name, token = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    home = next(each for each in HOMES if each.name == name)
    run_until_signal(serve_home(home, folder, token))
    return 0


if __name__ == "__main__":
    sys.exit(main())

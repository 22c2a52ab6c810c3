"""``python -m bentpipe.testbed.laptop.internet FOLDER``: the network between the homes, the server node, the paths.

It runs in a network namespace of its own. ``FOLDER/laptop.json`` says which tokens and Profiles to use.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.laptop.forwarding import forwarder
from bentpipe.testbed.laptop.handover import take_network
from bentpipe.testbed.laptop.household import serve_household
from bentpipe.testbed.laptop.plan import (
    AGENTS_PORT,
    CONTROL_PORT,
    HOMES,
    HOUSEHOLD_PORT,
    INTERNET,
    PATH_SERVER,
    PROGRAMS,
    Home,
)
from bentpipe.testbed.laptop.until_signal import run_until_signal
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.network import in_network

if TYPE_CHECKING:
    from collections.abc import Sequence


def set_up_addresses() -> None:
    """Give this namespace its addresses."""
    from pyroute2 import IPRoute

    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    with IPRoute() as ip:
        ip.link("set", index=1, state="up")
        ip.addr("add", index=1, address=INTERNET, prefixlen=32)


def join(home: Home, network: int) -> None:
    """Join the far end of a home's path to this namespace by a veth pair."""
    from pyroute2 import IPRoute

    name = f"home{home.number}"
    with IPRoute() as ip:
        ip.link("add", ifname=name, kind="veth", peer={"ifname": "up0", "net_ns_fd": network})
        (index,) = ip.link_lookup(ifname=name)
        ip.addr("add", index=index, address=home.gateway, prefixlen=30)
        ip.link("set", index=index, state="up")

    def configure() -> None:
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname="up0")
            ip.addr("add", index=index, address=home.uplink, prefixlen=30)
            ip.link("set", index=index, state="up")
            ip.route("add", dst=f"{INTERNET}/32", gateway=home.gateway)

    in_network(network, configure)
    if home.number == 0:
        with IPRoute() as ip:  # the way out of the server's runs: to homes, which answer at their links
            ip.route("add", dst="default", gateway=home.uplink)


async def serve_joins(path: Path) -> None:
    """Join every home that gives its namespace, for ever."""
    homes = {home.name: home for home in HOMES}

    def one(connection: socket.socket) -> None:
        with connection:
            connection.setblocking(True)
            name, network = take_network(connection)
            try:
                join(homes[name], network)
                connection.send(b"ok")
            except Exception as error:  # noqa: BLE001 - told to the one who asked
                connection.send(f"{type(error).__name__}: {error}".encode()[:900])
            finally:
                os.close(network)

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        listener.listen(8)
        listener.setblocking(False)
        while True:  # not in a thread: the end of the program would wait for the thread
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            await asyncio.to_thread(one, connection)


def path_command(home: Home, folder: Path, token: str) -> list[str]:
    """Return the command of a home's path, with the home behind it."""
    python = [sys.executable, "-P", "-m"]
    far = shlex.join([*python, "bentpipe.testbed.laptop.uplink", str(folder / "joins.sock"), home.name])
    near = [*python, "bentpipe.testbed.laptop.home", str(folder), home.name, token]
    profile = str(folder / f"{home.name}.parquet")
    return [*python, "bentpipe", "run", profile, "--no-internet", "--server", far, "--", *near]


def server_commands(folder: Path, token: str) -> tuple[list[str], list[str]]:
    """Return the commands that join and run the server node."""
    python = [sys.executable, "-P", "-m", "bentpipe", "node"]
    state = ["--folder", str(folder / "nodes" / "server")]
    enter = [*python, "join", f"https://{INTERNET}:{AGENTS_PORT}", token, "--name", "server", "--role", "server"]
    enter += ["--control", f"{PATH_SERVER}:{CONTROL_PORT}", "--only", *state]
    # It has several addresses: sessions answer from the one that the paths lead to.
    enter += ["--listen", INTERNET, "--ports", f"{PROGRAMS[0]}-{PROGRAMS[1]}"]
    for home in HOMES:
        enter += ["--reach", f"{home.uplink}/32"]
    return enter, [*python, "run", *state]


async def keep_running(command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> None:
    """Run a program until cancelled; one that ends is started anew after a second."""
    while True:
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=file, stderr=file, env=environment
            )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(20):
                        await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        await asyncio.sleep(1)


async def serve_internet(folder: Path) -> None:
    """Serve until cancelled."""
    settings = json.loads((folder / "laptop.json").read_text())
    logs = folder / "logs"
    await asyncio.to_thread(set_up_addresses)
    to_orchestrator = forwarder(lambda: asyncio.open_unix_connection(str(folder / "agents.sock")))
    way = await asyncio.start_server(to_orchestrator, INTERNET, AGENTS_PORT)
    sender = await asyncio.start_server(serve_household, INTERNET, HOUSEHOLD_PORT)
    async with way, sender, asyncio.TaskGroup() as group:
        group.create_task(serve_joins(folder / "joins.sock"))
        for home in HOMES:
            command = path_command(home, folder, settings["tokens"][home.name])
            group.create_task(keep_running(command, logs / f"{home.name}.log"))
        enter, run = server_commands(folder, settings["tokens"]["server"])
        with (logs / "server.log").open("ab") as file:
            process = await asyncio.create_subprocess_exec(*enter, stdout=file, stderr=file)
        await process.wait()
        group.create_task(keep_running(run, logs / "server.log"))


def main() -> int:
    """Enter a network namespace of its own, and serve until SIGTERM."""
    folder = Path(sys.argv[1])
    linux.die_with_parent(os.getppid())
    linux.unshare(linux.CLONE_NEWNET)
    run_until_signal(serve_internet(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""A small world for tests of runners, in namespaces: this machine with a LAN, a dish and a public host behind it.

``testbed_scenarios.py`` runs in it as the root of a network namespace, or of a user namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.namespaces.network import in_network, new_network
from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
from bentpipe.testbed.runners.process import ProcessRunner
from bentpipe.testbed.runners.request import Limits, RunRequest, Uplink

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from bentpipe.testbed.runners.run import SandboxedRun

LABEL = os.environ.setdefault("BENTPIPE_TEST_LABEL", f"node-{secrets.token_hex(8)}")
"""Of this process and its children alone: control groups are the machine's, and tests sweep beside each other."""

PUBLIC, ROUTER, DISH, MACHINE = "203.0.113.10", "192.168.1.1", "192.168.100.1", "192.168.1.2"
HOME_MACHINE, NEIGHBOUR = "198.51.100.2", "198.51.100.9"
"""A household with public addresses on a second interface: this machine's, and a device's."""
OTHER_ROUTER, REFUSED = "192.0.2.1", "203.0.113.77"
"""A next hop that is in no connected network, and a host that a policy refuses."""
RUNNERS = {"process": ProcessRunner, "bubblewrap": BubblewrapRunner}


class World:
    """This machine, and a far namespace with the addresses of everything else."""

    def __init__(self, runner: str, *, use_cgroups: bool) -> None:
        self.far = new_network()
        self._connect()
        self.folder = Path(tempfile.mkdtemp())
        self.folder.chmod(0o755)
        self.use_cgroups = use_cgroups
        self.runner = RUNNERS[runner](self.folder / "state", use_cgroups=use_cgroups)

    def _connect(self) -> None:
        from pyroute2 import IPRoute

        with IPRoute() as ip:
            ip.link("set", index=1, state="up")
            ip.link("add", ifname="up0", kind="veth", peer={"ifname": "far0", "net_ns_fd": self.far})
            (index,) = ip.link_lookup(ifname="up0")
            ip.addr("add", index=index, address=MACHINE, prefixlen=24)
            ip.link("set", index=index, state="up")
            ip.link("add", ifname="home0", kind="veth", peer={"ifname": "far1", "net_ns_fd": self.far})
            (index,) = ip.link_lookup(ifname="home0")
            ip.addr("add", index=index, address=HOME_MACHINE, prefixlen=24)
            ip.link("set", index=index, state="up")
        in_network(self.far, self._connect_far)
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname="home0")
            ip.route("add", dst="default", gateway=ROUTER)
            ip.route("add", dst="203.0.113.128/25", gateway=OTHER_ROUTER, oif=index, flags=["onlink"])

    def _connect_far(self) -> None:
        from pyroute2 import IPRoute

        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname="far0")
            ip.link("set", index=1, state="up")
            for address, length in ((ROUTER, 24), (DISH, 32), (PUBLIC, 32), (REFUSED, 32), (OTHER_ROUTER, 32)):
                ip.addr("add", index=index, address=address, prefixlen=length)
            ip.link("set", index=index, state="up")
            (index,) = ip.link_lookup(ifname="far1")
            ip.addr("add", index=index, address=NEIGHBOUR, prefixlen=24)
            ip.link("set", index=index, state="up")

    def far_socket(self, kind: socket.SocketKind, address: str = PUBLIC, port: int = 0) -> socket.socket:
        """A socket of the far namespace."""

        def make() -> socket.socket:
            made = socket.socket(socket.AF_INET, kind)
            made.bind((address, port))
            return made

        return in_network(self.far, make)

    def request(self, name: str, script: str | list[str], **options) -> RunRequest:
        command = ("sh", "-c", script) if isinstance(script, str) else tuple(script)
        limits = Limits(**{"duration_s": 20.0, "memory_bytes": 64 << 20, "pids": 64, **options.pop("limits", {})})
        options.setdefault("network", Uplink())
        return RunRequest(
            run_id=name,
            label=options.pop("label", LABEL),
            command=command,
            output=self.folder / f"{name}.out",
            limits=limits,
            **options,
        )

    @contextlib.asynccontextmanager
    async def prepared(self, name: str, script: str | list[str], **options) -> AsyncIterator[SandboxedRun]:
        run = await self.runner.prepare(self.request(name, script, **options))
        try:
            yield run
        finally:
            await run.remove()

    async def report(self, name: str, script: str | list[str], **options):
        """Run to the end; return the report and what the program printed."""
        async with self.prepared(name, script, **options) as run:
            inode = os.fstat(run.network).st_ino
            await run.start()
            report = await run.wait()
            assert processes_in(inode) == []
            return report, self.text(name), self.text(name, "stderr.txt")

    def text(self, name: str, file: str = "stdout.txt") -> str:
        return (self.folder / f"{name}.out" / file).read_text()


def processes_in(inode: int) -> list[int]:
    """PIDs of all processes in a network namespace."""
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "ns/net").stat().st_ino == inode:
                    pids.append(int(entry.name))
    return pids


async def until(condition, seconds: float = 5.0) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        await asyncio.sleep(0.005)

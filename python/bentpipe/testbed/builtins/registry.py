"""The built-in experiments by name: their client's function, and their server's command and ports."""

from __future__ import annotations

import importlib
import shutil
import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.chromium import NAMES as BROWSERS
from bentpipe.testbed.builtins import call, http3, iperf3, irtt, probing, video, web

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import DishArguments


@dataclass(frozen=True)
class Builtin:
    """A built-in experiment.

    Attributes:
        client: Runs it.
        server: Command of the server with these ports; None: no server.
        ports: Names of the server's ports.
        programs: Programs that it needs; of names with ``|`` between them, one.
        protocols: Protocols of its ports.
        packages: Python packages that it needs beside those of bentpipe.
        modules: What it imports beside, before the gate.
        start: Starts what takes time, before the gate.
        server_has_gate: Whether the server is a program that waits at a gate (`bentpipe.testbed.builtins.gate`).
        memory_bytes: Most memory of its programs [bytes].
        pids: Most processes and threads.
        scratch_bytes: Size of its /tmp [bytes].
    """

    client: Callable[[Any, Context], None]
    server: Callable[[Any, dict[str, int]], list[str]] | None = None
    ports: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("tcp", "udp")
    packages: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    start: Callable[[Context], None] = lambda _: None
    server_has_gate: bool = False
    memory_bytes: int = 512 << 20
    pids: int = 256
    scratch_bytes: int = 64 << 20

    def load(self, context: Context) -> None:
        """Import and start what the client uses, so that no time passes between the gate and the first packet."""
        self.start(context)
        for name in self.modules:
            importlib.import_module(name)

    @property
    def missing(self) -> tuple[str, ...]:
        """Programs and Python packages that this machine lacks."""
        programs = [name for name in self.programs if not any(shutil.which(each) for each in name.split("|"))]
        return (*programs, *(name for name in self.packages if find_spec(name) is None))

    @property
    def is_here(self) -> bool:
        """Whether this machine has all that it needs."""
        return not self.missing


def _dish(arguments: DishArguments, _: Context) -> None:
    time.sleep(arguments.seconds)  # the agent makes the Run of the terminal's telemetry


PROBING = ("bentpipe.measurements.probing.session", "bentpipe.measurements.runs.store", "numpy", "polars")
QUIC = ("aioquic.asyncio.client", "aioquic.h3.connection", "ssl")
PLAYER = ("bentpipe.apps.video.description", "bentpipe.execution.video_choices", "bentpipe.experiments.videos")

BUILTINS = {
    "ping": Builtin(probing.ping, modules=PROBING, start=probing.start_prober),
    "tcp-ping": Builtin(probing.tcp_ping, modules=PROBING, start=probing.start_prober),
    "traceroute": Builtin(probing.traceroute, modules=PROBING, start=probing.start_prober),
    "iperf3": Builtin(iperf3.client, iperf3.server, iperf3.PORTS, ("iperf3",)),
    "irtt": Builtin(irtt.client, irtt.server, irtt.PORTS, ("irtt",), ("udp",)),
    "http3": Builtin(http3.client, http3.server, http3.PORTS, (), ("udp",), ("aioquic",), QUIC, server_has_gate=True),
    "web": Builtin(
        web.client,
        programs=("|".join(BROWSERS),),
        packages=("playwright",),
        modules=("playwright.sync_api",),
        memory_bytes=2 << 30,
        pids=1024,
        scratch_bytes=512 << 20,
    ),
    "video": Builtin(video.client, video.server, video.PORTS, (), ("tcp",), (), PLAYER, server_has_gate=True),
    "call": Builtin(call.client, irtt.server, irtt.PORTS, ("irtt",), ("udp",)),
    "dish": Builtin(_dish),
}
"""Built-in experiments."""

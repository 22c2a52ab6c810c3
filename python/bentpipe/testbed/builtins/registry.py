"""The built-in experiments by name: their client's function, and their server's command and ports."""

from __future__ import annotations

import importlib
import shutil
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.builtins import iperf3, irtt, probing

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import DishArguments


@dataclass(frozen=True)
class Builtin:
    """A built-in experiment.

    Attributes:
        client: Runs it.
        modules: What it imports beside, before the gate.
        server: Command of the server with these ports; None: no server.
        ports: Names of the server's ports.
        programs: Programs that it needs.
        protocols: Protocols of its ports.
    """

    client: Callable[[Any, Context], None]
    server: Callable[[Any, dict[str, int]], list[str]] | None = None
    ports: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("tcp", "udp")
    modules: tuple[str, ...] = ()

    def load(self) -> None:
        """Import what the client uses, so that no time passes between the gate and the first packet."""
        for name in self.modules:
            importlib.import_module(name)

    @property
    def is_here(self) -> bool:
        """Whether this machine has its programs."""
        return all(shutil.which(name) is not None for name in self.programs)


def _dish(arguments: DishArguments, _: Context) -> None:
    time.sleep(arguments.seconds)  # the agent stores the terminal's telemetry beside each run


PROBING = ("bentpipe.measurements.probing.session", "bentpipe.measurements.runs.store", "numpy", "polars")

BUILTINS = {
    "ping": Builtin(probing.ping, modules=PROBING),
    "tcp-ping": Builtin(probing.tcp_ping, modules=PROBING),
    "traceroute": Builtin(probing.traceroute, modules=PROBING),
    "iperf3": Builtin(iperf3.client, iperf3.server, iperf3.PORTS, ("iperf3",)),
    "irtt": Builtin(irtt.client, irtt.server, irtt.PORTS, ("irtt",), ("udp",)),
    "dish": Builtin(_dish),
}
"""Built-in experiments."""

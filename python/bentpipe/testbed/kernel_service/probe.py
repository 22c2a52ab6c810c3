"""What this kernel can do, by doing it in a namespace that nothing else uses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bentpipe.errors import BentpipeError
from bentpipe.testbed.kernel_service import actions
from bentpipe.testbed.kernel_service.vocabulary import OFFLOADS, QDISCS, SYSCTL_TRIPLES, SYSCTLS
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.network import in_new_thread

if TYPE_CHECKING:
    from collections.abc import Mapping

_KNOWN: Final = (
    "bbr", "bbr2", "bbr3", "bic", "brutal", "cdg", "cubic", "dctcp", "highspeed", "htcp", "hybla", "illinois", "lp",
    "nv", "reno", "scalable", "vegas", "veno", "westwood", "yeah",
)  # fmt: skip
"""Controllers that a kernel may load when they are named."""

_EXAMPLES: Final[Mapping[str, dict[str, int]]] = {
    "tbf": {"rate_bps": 1_000_000, "burst_bytes": 16_000, "latency_ms": 50},
    "htb": {"rate_bps": 1_000_000},
    "netem": {"delay_ms": 1},
    "pfifo": {"limit": 100},
    "bfifo": {"limit_bytes": 100_000},
}


def capabilities() -> dict[str, Any]:
    """Return the controllers, disciplines, settings and offloads of this kernel; each was tried.

    Raises:
        OSError: This process may not make a network namespace.
    """

    def probe() -> dict[str, Any]:
        linux.unshare(linux.CLONE_NEWNET)
        _add_interface()
        listed = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text(encoding="ascii").split()
        settings = (*SYSCTLS, *SYSCTL_TRIPLES)
        return {
            "controllers": [name for name in sorted({*_KNOWN, *listed}) if _can_set_controller(name)],
            "qdiscs": [kind for kind in QDISCS if _can_set_qdisc(kind)],
            "sysctls": [key for key in settings if actions.read_sysctl(key) is not None],
            "offloads": [name for name in OFFLOADS if name in actions.offloads()],
        }

    return in_new_thread(probe)


def _add_interface() -> None:
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        ip.link("add", ifname="probe0", kind="veth", peer={"ifname": "probe1"})
        (index,) = ip.link_lookup(ifname="probe0")
        ip.link("set", index=index, state="up")


def _can_set_controller(name: str) -> bool:
    try:
        actions.set_sysctl(actions.CONTROLLER, name)
    except BentpipeError:
        return False
    return True


def _can_set_qdisc(kind: str) -> bool:
    try:
        actions.set_qdisc(kind, _EXAMPLES.get(kind, {}))
    except BentpipeError:
        return False
    return True

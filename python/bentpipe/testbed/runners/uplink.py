"""The network of a run over this machine's uplink: a veth pair, routes that refuse, address translation."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.namespaces.network import in_network
from bentpipe.testbed.runners import firewall
from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.neighbours import connected_networks
from bentpipe.testbed.runners.reach import allow_ping, prohibit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from pyroute2 import IPRoute

    from bentpipe.testbed.runners.request import RunRequest

POOL = ipaddress.IPv4Network("198.18.0.0/15")
"""Addresses of the pairs: the range for benchmarks (RFC 2544), which no home network uses. Four for each run."""

INSIDE = "eth0"
"""Name of the interface inside a run."""

CAP_HANDLE = 0xB900
"""Handle of the queue that caps a rate: ``b900:``."""

_FORWARDING = "forwarding.json"
_forwarding_lock = threading.Lock()


@dataclass(frozen=True)
class Pair:
    """The two ends of a run's veth pair."""

    name: str
    machine_address: str
    run_address: str


def connect(request: RunRequest, name: str, network: int, folder: Path) -> Pair:
    """Connect a run's network namespace to this one, with everything that it may not reach refused.

    Args:
        request: The request, with an uplink.
        name: The run's name.
        network: Descriptor of the run's namespace.
        folder: Folder of the agent, for what must be restored later.

    Raises:
        RunnerError: The kernel refused a step.
    """
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    assert request.network.kind == "uplink"
    try:
        with IPRoute() as ip:
            refused = (*request.refused, *connected_networks(ip))  # before the run's own pair is one of them
            pair = _make_pair(ip, name, network)
            uplinks = _uplinks(ip, request.allowed)
        in_network(network, lambda: _configure(pair, request, refused))
        _forward(name, uplinks, folder)
        rules = firewall.run_rules(
            name, pair.run_address, uplinks, request.network, request.allowed, refused, request.limits.up_bps
        )
        firewall.apply(rules)
    except (NetlinkError, OSError) as error:
        raise RunnerError(f"network of the run: {error}") from error
    return pair


def _make_pair(ip: IPRoute, name: str, network: int) -> Pair:
    taken = {ipaddress.IPv4Address(each.get_attr("IFA_ADDRESS")) for each in ip.get_addr(family=2)}
    slot = int(name[-8:], 16) % (POOL.num_addresses // 4)
    while POOL[4 * slot + 1] in taken:
        slot = (slot + 1) % (POOL.num_addresses // 4)
    pair = Pair(name, str(POOL[4 * slot + 1]), str(POOL[4 * slot + 2]))
    ip.link("add", ifname=name, kind="veth", peer={"ifname": INSIDE, "net_ns_fd": network})
    (index,) = ip.link_lookup(ifname=name)
    ip.addr("add", index=index, address=pair.machine_address, prefixlen=30)
    ip.link("set", index=index, state="up")
    return pair


def _configure(pair: Pair, request: RunRequest, refused: Iterable[str]) -> None:
    from pyroute2 import IPRoute

    _set("net.ipv6.conf.all.disable_ipv6", "1")
    allow_ping()
    _set("net.ipv4.ip_unprivileged_port_start", "0")
    with IPRoute() as ip:
        (index,) = ip.link_lookup(ifname=INSIDE)
        ip.link("set", index=1, state="up")
        ip.addr("add", index=index, address=pair.run_address, prefixlen=30)
        ip.link("set", index=index, state="up")
        prohibit(ip, request.allowed, refused, gateway=pair.machine_address, interface=index)
        ip.route("add", dst="default", gateway=pair.machine_address)


def cap_rates(name: str, request: RunRequest) -> None:
    """Cap the rate towards the run with a token bucket; the other direction has a rule of the firewall.

    Raises:
        RunnerError: The kernel refused.
    """
    rate = request.limits.down_bps
    if rate is None:
        return
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as ip:
            (index,) = ip.link_lookup(ifname=name)
            burst = max(15_000, rate // 8 // 50)
            ip.tc("add", "tbf", index, CAP_HANDLE << 16, rate=rate // 8, latency="50ms", burst=burst)
    except (NetlinkError, OSError, ValueError) as error:
        raise RunnerError(f"cap of the rate: {error}") from error


def _uplinks(ip: IPRoute, allowed: Iterable[str]) -> list[str]:
    """Return the interfaces with a default route, and those that lead to granted networks."""
    indexes = {route.get_attr("RTA_OIF") for route in ip.get_default_routes(family=2)}
    for text in allowed:
        network = ipaddress.ip_network(text)
        with contextlib.suppress(Exception):  # no route to it: it is not reachable from this machine either
            answer: Any = next(iter(ip.route("get", dst=str(network[min(1, network.num_addresses - 1)]))))
            indexes.add(answer.get_attr("RTA_OIF"))
    names = {link.get_attr("IFLA_IFNAME") for link in ip.get_links() if link["index"] in indexes}
    return sorted(name for name in names if name != "lo")


def _forward(name: str, uplinks: Iterable[str], folder: Path) -> None:
    """Switch on forwarding for the run's interface and the uplinks only, and note those where it was off."""
    with _forwarding_lock:
        _open_uplinks(name, uplinks, folder)


def _open_uplinks(name: str, uplinks: Iterable[str], folder: Path) -> None:
    _set(f"net.ipv4.conf.{name}.forwarding", "1")
    closed = [each for each in uplinks if _get(f"net.ipv4.conf.{each}.forwarding") == "0"]
    if not closed:
        return
    file = folder / _FORWARDING
    before: dict[str, Any] = {"interfaces": [], "table": guard_table(name)}
    if file.exists():
        before = json.loads(file.read_text())
    closed = sorted({*closed, *before["interfaces"]})
    file.write_text(json.dumps({"interfaces": closed, "table": before["table"]}))
    firewall.remove_table(before["table"])
    firewall.apply(firewall.guard_rules(before["table"], closed))  # first: a router for nobody
    for each in closed:
        _set(f"net.ipv4.conf.{each}.forwarding", "1")


def guard_table(name: str) -> str:
    """Return the name of the agent's own table, from its tag or the name of one of its runs."""
    return name[:7] + "guard"


def disconnect(name: str) -> None:
    """Remove a run's interface and rules; without effect if they are gone. Raises `RunnerError`."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        with IPRoute() as ip:
            for index in ip.link_lookup(ifname=name):
                with contextlib.suppress(NetlinkError):  # it went with the run's namespace meanwhile
                    ip.link("del", index=index)
    except (NetlinkError, OSError) as error:
        raise RunnerError(f"network of the run: {error}") from error
    firewall.remove_table(name)


def restore_forwarding(folder: Path) -> None:
    """Switch forwarding off where `connect` had switched it on, unless runs are left in the folder.

    Raises:
        RunnerError: The kernel refused.
    """
    with _forwarding_lock:
        file = folder / _FORWARDING
        if not file.exists() or any(each.name.startswith("bp") for each in folder.iterdir()):
            return
        noted = json.loads(file.read_text())
        for each in noted["interfaces"]:
            with contextlib.suppress(OSError):  # an interface that is gone
                _set(f"net.ipv4.conf.{each}.forwarding", "0")
        firewall.remove_table(noted["table"])
        file.unlink(missing_ok=True)


def sweep_links(tag: str, keep: Collection[str]) -> list[str]:
    """Remove interfaces and tables whose names start with `tag`, except those in `keep`; return their names.

    Raises:
        RunnerError: The kernel refused.
    """
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        names = {link.get_attr("IFLA_IFNAME") for link in ip.get_links()}
    names = {name for name in {*names, *firewall.tables(tag)} if name.startswith(tag)}
    names -= {*keep, guard_table(tag)}
    for name in sorted(names):
        disconnect(name)
    return sorted(names)


def _sysctl(key: str) -> Path:
    """Return the file of a setting; an interface's name may contain dots."""
    if key.startswith("net.ipv4.conf."):
        return Path(
            "/proc/sys/net/ipv4/conf", key.removeprefix("net.ipv4.conf.").removesuffix(".forwarding"), "forwarding"
        )
    return Path("/proc/sys", key.replace(".", "/"))


def _set(key: str, value: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # IPv6 is not compiled in
        _sysctl(key).write_text(value)


def _get(key: str) -> str:
    return _sysctl(key).read_text().strip()

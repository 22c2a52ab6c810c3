"""What the verbs do, inside a network namespace: each function is called in a thread that has entered it."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bentpipe.errors import BentpipeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyroute2 import IPRoute

CONTROLLER: Final = "net.ipv4.tcp_congestion_control"

_SIOCETHTOOL: Final = 0x8946
_ETHTOOL: Final = {  # (get, set), linux/ethtool.h
    "rx": (0x14, 0x15),
    "tx": (0x16, 0x17),
    "sg": (0x18, 0x19),
    "tso": (0x1E, 0x1F),
    "gso": (0x23, 0x24),
    "gro": (0x2B, 0x2C),
}

_LACKING: Final = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS, errno.EAFNOSUPPORT)
HTB_CLASS: Final = 0x10001


class UnsupportedError(BentpipeError):
    """The kernel does not have it: fatal only if the request does not call it optional."""

    code = "unsupported"


class RefusedError(BentpipeError):
    """The kernel has it and refused."""

    code = "refused"


def sysctl(key: str) -> Path:
    """Return the file of a setting of this thread's network namespace."""
    return Path("/proc/sys", key.replace(".", "/"))


def read_sysctl(key: str) -> str | None:
    """Return the value; None: the kernel has no such setting."""
    try:
        return " ".join(sysctl(key).read_text(encoding="ascii").split())
    except OSError:
        return None


def set_sysctl(key: str, text: str) -> None:
    """Set a setting. Raises `UnsupportedError` and `RefusedError`."""
    try:
        sysctl(key).write_text(text, encoding="ascii")
    except OSError as error:
        if key == CONTROLLER and error.errno == errno.EPERM:
            raise UnsupportedError(
                f"{text}: not allowed in namespaces; expected a controller of this machine's "
                "net.ipv4.tcp_allowed_congestion_control; try to add it there"
            ) from error
        kind = UnsupportedError if error.errno in _LACKING else RefusedError
        raise kind(f"{key}: {text}: {error.strerror}") from error


def interface(ip: IPRoute) -> tuple[int, str]:
    """Return index and name of the run's interface: the first that is up and not loopback. Raises `RefusedError`."""
    links = [link for link in ip.get_links() if link["flags"] & 1 and not link["flags"] & 8]
    if not links:
        raise RefusedError("the run has no interface that is up")
    return int(links[0]["index"]), str(links[0].get_attr("IFLA_IFNAME"))


def set_qdisc(kind: str, options: Mapping[str, int]) -> None:
    """Replace the root queueing discipline of the run's interface. Raises `UnsupportedError` and `RefusedError`."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.rtnl.tcmsg import plugins, sched_pfifo

    plugins.setdefault("bfifo", sched_pfifo)  # the same option, counted in bytes
    with IPRoute() as ip:
        index, _ = interface(ip)
        try:
            with contextlib.suppress(NetlinkError):  # there was none but the kernel's own
                ip.tc("del", index=index, parent=0xFFFFFFFF)
            if kind == "htb":
                ip.tc("add", "htb", index, 0x10000, default=0x1)
                rate = options["rate_bps"] // 8
                ip.tc("add-class", "htb", index, HTB_CLASS, parent=0x10000, rate=rate, ceil=rate)
            else:
                ip.tc("add", kind, index, 0x10000, **_parameters(kind, options))
        except NetlinkError as error:
            failure = UnsupportedError if error.code in _LACKING else RefusedError
            raise failure(f"qdisc {kind}: {error.args[1] if len(error.args) > 1 else error}") from error
        except (OSError, ValueError, KeyError, TypeError, AssertionError, struct.error) as error:
            raise RefusedError(f"qdisc {kind}: {error}") from error


def _parameters(kind: str, options: Mapping[str, int]) -> dict[str, Any]:
    """Return the parameters as pyroute2 names and counts them: bytes a second, microseconds, times with their unit."""
    if kind == "tbf":
        latency = f"{options['latency_ms']}ms"
        return {"rate": options["rate_bps"] // 8, "burst": options["burst_bytes"], "latency": latency}
    prefix = {"codel": "cdl_", "fq_codel": "fqc_"}.get(kind, "")
    translated: dict[str, Any] = {}
    for name, value in options.items():
        plain, _, unit = name.rpartition("_") if "_" in name else (name, "", "")
        if kind == "cake":
            translated |= {"bandwidth": value} if name == "rate_bps" else {"rtt": value * 1000}
        elif kind == "netem" and unit == "ms":
            translated[plain] = value * 1000
        else:
            translated[prefix + plain] = f"{value}ms" if unit == "ms" else value
    return translated


def delete_qdisc() -> None:
    """Give the run's interface the kernel's own discipline again."""
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    with IPRoute() as ip, contextlib.suppress(NetlinkError, RefusedError):  # it is gone, or its interface
        ip.tc("del", index=interface(ip)[0], parent=0xFFFFFFFF)


def offloads() -> dict[str, bool]:
    """Return the offloads of the run's interface; those that it does not know are left out."""
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        _, name = interface(ip)
    values = {}
    for key, (get, _) in _ETHTOOL.items():
        with contextlib.suppress(OSError):
            values[key] = bool(_ethtool(name, get, 0))
    return values


def set_offload(key: str, value: bool) -> None:
    """Switch an offload of the run's interface. Raises `UnsupportedError` and `RefusedError`."""
    from pyroute2 import IPRoute

    with IPRoute() as ip:
        _, name = interface(ip)
    try:
        _ethtool(name, _ETHTOOL[key][1], int(value))
        now = bool(_ethtool(name, _ETHTOOL[key][0], 0))
    except OSError as error:
        kind = UnsupportedError if error.errno in _LACKING else RefusedError
        raise kind(f"offload {key}: {error.strerror}") from error
    if now != value:
        raise UnsupportedError(f"offload {key}: the interface keeps it {'on' if now else 'off'}")


def _ethtool(name: str, command: int, value: int) -> int:
    buffer = array.array("I", [command, value])
    address, _ = buffer.buffer_info()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, struct.pack("16sP16x", name.encode(), address))
    return buffer[1]


def counters() -> dict[str, Any]:
    """Return the counters of the namespace: protocols, the interface, its queueing discipline."""
    from pyroute2 import IPRoute

    protocols: dict[str, dict[str, int]] = {}
    for name in ("snmp", "netstat"):
        lines = Path("/proc/thread-self/net", name).read_text(encoding="ascii").splitlines()
        for keys, values in zip(lines[::2], lines[1::2], strict=False):
            protocol, *names = keys.split()
            protocols[protocol.rstrip(":")] = dict(zip(names, map(int, values.split()[1:]), strict=False))
    with IPRoute() as ip:
        index, name = interface(ip)
        link = next(iter(ip.get_links(index)))
        stats = link.get_attr("IFLA_STATS64") or {}
        queues = [
            {"kind": queue.get_attr("TCA_KIND"), **_queue_stats(queue)}
            for queue in ip.get_qdiscs()
            if queue["index"] == index
        ]
    kept = ("rx_bytes", "rx_packets", "rx_dropped", "tx_bytes", "tx_packets", "tx_dropped")
    return {
        "protocols": protocols,
        "interface": {"name": name, **{key: stats[key] for key in kept if key in stats}},
        "queues": queues,
    }


def _queue_stats(queue: Any) -> dict[str, int]:  # noqa: ANN401
    stats = queue.get_attr("TCA_STATS")
    return {} if stats is None else {key: stats[key] for key in ("bytes", "packets", "drop", "overlimits", "backlog")}

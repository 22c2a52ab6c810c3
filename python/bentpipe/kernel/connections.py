"""Connections of loaded controllers, as their programs describe them (`struct bp_ends` and `bp_seen` in bpf/kernel)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from bentpipe.kernel import libbpf, owned

if TYPE_CHECKING:
    from collections.abc import Mapping

_SEEN = struct.Struct("<13Q")
_ENDS = struct.Struct("<IIHH16s16s")
KIND = (libbpf.LRU_HASH, _ENDS.size, _SEEN.size)
"""Kind of the maps that have the connections: their ends, and what each did last."""


@dataclass(frozen=True)
class SocketState:
    """What a socket of a loaded controller did last.

    Attributes:
        controller: Its controller.
        network: Inode number of its network namespace, as of ``/proc/PID/ns/net``.
        local: Address and port of this end.
        remote: Of the other.
        silent_s: Time since the last ACK, or up to 0.1 s longer: ACKs are shown ten times a second.
        cwnd_bytes: Congestion window.
        pacing_bps: Pacing rate.
        rtt_smoothed_ms: Smoothed RTT.
        rtt_min_ms: Smallest RTT of the last minutes.
        delivered_bytes: Delivered so far.
        lost_bytes: Lost so far.
        phase: The controller's phase.
        losses: Reductions after losses.
        marks: After ECN marks, or a full queue of this host.
        timeouts: Retransmission time-outs.
        probes: Losses that a tail loss probe repaired.
        undone: Reductions that were undone, as nothing had been lost.
    """

    controller: str
    network: int
    local: str
    remote: str
    silent_s: float
    cwnd_bytes: int
    pacing_bps: int
    rtt_smoothed_ms: float
    rtt_min_ms: float
    delivered_bytes: int
    lost_bytes: int
    phase: str
    losses: int
    marks: int
    timeouts: int
    probes: int
    undone: int

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return dict(vars(self))


_WINDOW = ("congestion_avoidance", "slow_start")
_BBR = ("startup", "drain", "probe_bw_down", "probe_bw_cruise", "probe_bw_refill", "probe_bw_up", "probe_rtt")
PHASES: Mapping[str, tuple[str, ...]] = {
    "bbr2": _BBR,
    "bbr3": _BBR,
    "bbr3-leo": (*_BBR, "slot", "resume"),
    "leocc": ("startup", "drain", "probe_bw", "probe_rtt"),
}
"""Names of the phases, by their numbers; the others have those of a window."""


def count(registration: libbpf.MapInfo) -> int:
    """Return how many connections a controller has that have sent data. Raises `KernelRefusedError`."""
    number = 0
    for info in owned.maps_of(registration, "bps_", KIND):
        with libbpf.open_map(info.id) as file:
            number += sum(1 for _ in libbpf.keys(file, info.key_bytes))
    return number


def socket_state(controller: str, key: bytes, value: bytes, now_ns: int) -> SocketState:
    """Return what a key and a value of a map of connections say at `now_ns`, on the monotonic clock."""
    network, family, local_port, remote_port, local, remote = _ENDS.unpack(key)
    size = 4 if family == 2 else 16
    at_ns, cwnd, rate, srtt, min_rtt, delivered, lost, phase, *events = _SEEN.unpack(value)
    phases = PHASES.get(controller, _WINDOW)
    return SocketState(
        controller=controller,
        network=network,
        local=_shown(local[:size], local_port),
        remote=_shown(remote[:size], remote_port),
        silent_s=max(now_ns - at_ns, 0) / 1e9,
        cwnd_bytes=cwnd,
        pacing_bps=rate,
        rtt_smoothed_ms=srtt / 1e6,
        rtt_min_ms=min_rtt / 1e6,
        delivered_bytes=delivered,
        lost_bytes=lost,
        phase=phases[phase] if phase < len(phases) else str(phase),
        **dict(zip(("losses", "marks", "timeouts", "probes", "undone"), events, strict=True)),
    )


def _shown(address: bytes, port: int) -> str:
    where = ip_address(address)
    mapped = getattr(where, "ipv4_mapped", None)
    where = mapped or where
    return f"[{where}]:{port}" if where.version == 6 else f"{where}:{port}"

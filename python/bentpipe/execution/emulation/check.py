"""Checks of this machine's kernel for emulation, by a trial."""

from __future__ import annotations

import platform
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.lateness import BOUND_MS, ENOUGH
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.send_memory import wmem_segment_bytes
from bentpipe.execution.emulation.spec import EmulationError, Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe._native import Profile

#: 1000 small UDP packets, one a millisecond, to a closed port: enough for a 99th percentile. The relay counts those
#: that the kernel sent.
_TRIAL = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begin = time.monotonic()
for i in range(1000):
    time.sleep(max(0.0, begin + i / 1000 - time.monotonic()))
    try:
        s.sendto(b"bentpipe", ("server", 9))
    except OSError:
        pass
"""

#: Controllers that a kernel should have: a race's default schemes.
_EXPECTED = ("reno", "cubic", "bbr")

#: Receive buffer below which it limits long fat paths [bytes] (Linux 6.18's default `tcp_rmem[2]`).
_RMEM_MAX = 33_554_432

SIMULATED_SEGMENT_BYTES = 4352
"""Memory per segment of a simulated host (`wmem_segment_bytes` in docs/reference/experiment.md)."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: What was checked.
        ok: Whether it passed.
        found: The result.
        means: The consequence for a user.
    """

    name: str
    ok: bool
    found: str
    means: str

    def to_dict(self) -> dict[str, Any]:
        """Return the check as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class KernelReport:
    """All checks; `usable`: whether an emulation works here."""

    checks: list[Check]
    usable: bool


def check_kernel(trial: Profile) -> KernelReport:
    """Run an emulation over `trial`, a short constant path, and check the kernel's settings."""
    checks = [
        Check(
            "kernel",
            platform.system() == "Linux",
            f"{platform.system()} {platform.release()}",
            "an emulation needs Linux",
        )
    ]
    begin = time.monotonic()
    emulated: EmulationResult | None = None
    try:
        emulated = _try(trial)
    except (UserError, EmulationError) as error:
        checks.append(Check("emulation", False, str(error), "`run`, `shell` and `race --on-kernel` do not work here"))
    if emulated is not None:
        checks += _of_trial(emulated, time.monotonic() - begin)
    checks += [
        _device(emulated.started if emulated else None),
        _controllers(),
        _buffer("tcp_rmem", _RMEM_MAX, "a flow over a long fat path is limited by the receiver's buffer"),
        _buffer("tcp_wmem", 4_194_304, "a flow over a long fat path is limited by the sender's buffer"),
        _segment(),
        _echo(),
    ]
    return KernelReport(checks, usable=emulated is not None and emulated.done is not None)


@dataclass(frozen=True)
class Lateness:
    """Lateness of a trial's packets: their 99th percentile, or the median of fewer than `ENOUGH` packets.

    The 99th percentile of so few would be nearly the maximum.

    Attributes:
        ms: The percentile [ms]; None: no packets.
        packets: Number of packets delivered.
        part: Share of packets that are at most `ms` late, as text: "99 %" or "half".
        rest: The share of the others, as text: "1 %" or "half".
    """

    ms: float | None
    packets: int
    part: str
    rest: str

    @classmethod
    def of(cls, relay: Mapping[str, Any]) -> Lateness:
        """Return the lateness from the relay's report."""
        packets = int(relay.get("delivered") or 0)
        few = packets < ENOUGH
        late_ms = relay.get("lateness_p50_ms" if few else "lateness_p99_ms")
        part, rest = ("half", "half") if few else ("99 %", "1 %")
        return cls(None if late_ms is None else float(late_ms), packets, part, rest)

    def __str__(self) -> str:
        """Describe it."""
        if self.ms is None:
            return "no packet passed"
        return f"{self.part} of {self.packets} packets at most {self.ms:.3g} ms late"


def try_lateness(trial: Profile) -> Lateness:
    """Measure the lateness of a second's small packets over `trial`.

    Raises:
        UserError: no emulation works here.
        EmulationError: it failed after it had started.
    """
    return Lateness.of((_try(trial).done or {}).get("relay", {}))


def _try(trial: Profile) -> EmulationResult:
    # Ignore Ctrl-C, which is for the calling command: an interpreter that is starting would print a traceback.
    ignoring_sigint = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", _TRIAL]
    workload = {"program": {"command": ignoring_sigint, "server": None, "server_log": None}}
    return emulate(trial, Spec(workload=workload, offset_s=0.0))


def _of_trial(emulated: EmulationResult, took_s: float) -> list[Check]:
    started, done = emulated.started or {}, emulated.done or {}
    relay = done.get("relay", {})
    how = "in a user namespace, without root" if started.get("user_namespace") else "with the rights of the process"
    late = Lateness.of(relay)
    return [
        Check(
            "emulation",
            True,
            f"namespaces {how}; up and down again in {took_s - 1.0:.2g} s",
            "programs run behind a Profile",
        ),
        Check(
            "lateness",
            late.ms is not None and late.ms <= BOUND_MS,
            str(late),
            f"a Run with more than 1 % of its packets over {BOUND_MS:g} ms late is not valid",
        ),
        Check(
            "realtime",
            bool(relay.get("realtime")),
            "SCHED_FIFO" if relay.get("realtime") else "not allowed",
            "the emulator runs before other work"
            if relay.get("realtime")
            else "other work makes the emulator late, unless it may run before everything else (root, or CAP_SYS_NICE)",
        ),
    ]


def _device(started: Mapping[str, Any] | None) -> Check:
    """Check for a TUN device; a veth pair in its place is no failure."""
    file = Path("/dev/net/tun")
    tun = f"{file} mode {file.stat().st_mode & 0o777:04o}" if file.exists() else f"no {file}"
    kind = (started or {}).get("device")
    if kind == "veth":
        return Check(
            "device",
            True,
            f"veth pair, since a TUN device cannot be opened ({tun})",
            "the same packets and results; up to a third less throughput, 64 MB of kernel memory per emulation. For "
            "TUN: modprobe tun, and the file readable and writable for you",
        )
    return Check("device", kind is not None, f"TUN device, {tun}" if kind else tun, "the path's two ends: TUN, or veth")


def _controllers() -> Check:
    available = _sysctl("tcp_available_congestion_control").split()
    missing = [name for name in _EXPECTED if name not in available]
    listed = ", ".join(available) + (f"; no {', '.join(missing)}" if missing else "")
    more = "" if {"bbr", "hybla"} <= set(available) else "; as root `modprobe -a tcp_bbr tcp_hybla` may give more"
    return Check(
        "controllers",
        not missing,
        listed,
        f"`race --on-kernel --cc` takes those of them that `bentpipe cc` lists{more}",
    )


def _buffer(name: str, expected: int, means: str) -> Check:
    largest = _sysctl(name).split()[-1:]
    return Check(
        name,
        bool(largest) and int(largest[0]) >= expected,
        f"largest {largest[0] if largest else 'unknown'} bytes",
        means
        if not largest or int(largest[0]) < expected
        else "Linux's default or more; it may still limit a flow over a long fat path",
    )


def _segment() -> Check:
    """Compare the send buffer's growth with the simulator's; always passes."""
    per_segment = wmem_segment_bytes()
    if per_segment is None:
        return Check("send buffer", True, "unknown", "a kernel's build decides how it grows with the window")
    means = "as the simulator's"
    if per_segment != SIMULATED_SEGMENT_BYTES:
        means = (
            f"the simulator's hosts have {SIMULATED_SEGMENT_BYTES}; to compare with this kernel, `wmem_segment_bytes = "
            f"{per_segment}` in an Experiment's [hosts]"
        )
    return Check("send buffer", True, f"{per_segment} bytes for each segment of the window", means)


def _echo() -> Check:
    """Check for ping sockets, which echo requests to the Internet need; those to `server` do not."""
    try:
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP).close()
    except OSError:
        groups = " ".join(_sysctl("ping_group_range").split())
        return Check(
            "ping",
            False,
            f"not allowed (ping_group_range {groups or 'unknown'})",
            "a ping of the Internet from behind a path gets no answer; as root `sysctl -w "
            "net.ipv4.ping_group_range='0 2147483647'` allows it",
        )
    return Check("ping", True, "allowed", "programs behind a path can ping the Internet")


def _sysctl(name: str) -> str:
    try:
        return Path(f"/proc/sys/net/ipv4/{name}").read_text(encoding="ascii").strip()
    except OSError:
        return ""

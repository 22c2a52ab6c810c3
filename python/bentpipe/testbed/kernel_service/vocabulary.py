"""Verbs, keys and values that the kernel service accepts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import Field

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.records import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

VERBS: Final = ("capabilities", "cc.set", "sysctl.set", "qdisc.set", "offload.set", "counters", "reset")
"""What a run may ask. ``register`` and ``forget`` belong to the connection, not to a run's vocabulary."""

MAX_LINE_BYTES: Final = 65_536
"""Longest request."""

_FLAG: Final = (0, 1)
_MEMORY: Final = (4096, 1 << 28)

SYSCTLS: Final[dict[str, tuple[int, int]]] = {
    "net.ipv4.ip_default_ttl": (1, 255),
    "net.ipv4.tcp_adv_win_scale": (-31, 31),
    "net.ipv4.tcp_autocorking": _FLAG,
    "net.ipv4.tcp_comp_sack_delay_ns": (0, 100_000_000),
    "net.ipv4.tcp_comp_sack_nr": (0, 255),
    "net.ipv4.tcp_dsack": _FLAG,
    "net.ipv4.tcp_early_retrans": (0, 4),
    "net.ipv4.tcp_ecn": (0, 5),
    "net.ipv4.tcp_fastopen": (0, 3),
    "net.ipv4.tcp_frto": (0, 2),
    "net.ipv4.tcp_limit_output_bytes": (4096, 1 << 30),
    "net.ipv4.tcp_max_reordering": (3, 10_000),
    "net.ipv4.tcp_min_rtt_wlen": (0, 86_400),
    "net.ipv4.tcp_moderate_rcvbuf": _FLAG,
    "net.ipv4.tcp_mtu_probing": (0, 2),
    "net.ipv4.tcp_no_metrics_save": _FLAG,
    "net.ipv4.tcp_notsent_lowat": (1, (1 << 32) - 1),
    "net.ipv4.tcp_pacing_ca_ratio": (1, 1000),
    "net.ipv4.tcp_pacing_ss_ratio": (1, 1000),
    "net.ipv4.tcp_recovery": (0, 7),
    "net.ipv4.tcp_reordering": (1, 300),
    "net.ipv4.tcp_retries2": (0, 255),
    "net.ipv4.tcp_rto_min_us": (1000, 1_000_000),
    "net.ipv4.tcp_sack": _FLAG,
    "net.ipv4.tcp_slow_start_after_idle": _FLAG,
    "net.ipv4.tcp_syn_retries": (1, 127),
    "net.ipv4.tcp_thin_linear_timeouts": _FLAG,
    "net.ipv4.tcp_timestamps": (0, 2),
    "net.ipv4.tcp_window_scaling": _FLAG,
}
"""Settings of a namespace with one number, and the accepted range. Others of the kernel hold for the whole machine."""

SYSCTL_TRIPLES: Final[dict[str, tuple[int, int]]] = {"net.ipv4.tcp_rmem": _MEMORY, "net.ipv4.tcp_wmem": _MEMORY}
"""Settings with three growing numbers."""

OFFLOADS: Final = ("gro", "gso", "rx", "sg", "tso", "tx")

_PACKETS: Final = (1, 1_000_000)
_BYTES: Final = (256, 1 << 30)
_RATE: Final = (8000, 34_000_000_000)
_MS: Final = (1, 60_000)

QDISCS: Final[dict[str, dict[str, tuple[int, int]]]] = {
    "pfifo": {"limit": _PACKETS},
    "bfifo": {"limit_bytes": _BYTES},
    "tbf": {"rate_bps": _RATE, "burst_bytes": (1600, 1 << 30), "latency_ms": _MS},
    "htb": {"rate_bps": _RATE},
    "fq": {},
    "fq_codel": {"limit": _PACKETS, "flows": (1, 65_536), "target_ms": _MS, "interval_ms": _MS, "ecn": _FLAG},
    "codel": {"limit": _PACKETS, "target_ms": _MS, "interval_ms": _MS, "ecn": _FLAG},
    "sfq": {"limit": (1, 127), "perturb_s": (0, 3600)},
    "cake": {"rate_bps": _RATE, "rtt_ms": _MS},
    "netem": {"delay_ms": (0, 60_000), "limit": _PACKETS},
}
"""Queueing disciplines, their parameters and accepted ranges."""

REQUIRED: Final = {"tbf": ("rate_bps", "burst_bytes", "latency_ms"), "htb": ("rate_bps",), "netem": ("delay_ms",)}

Controller = Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,15}$")]
RunName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Call(Record):
    """One line of a client."""

    verb: Literal[
        "capabilities", "cc.set", "sysctl.set", "qdisc.set", "offload.set", "counters", "reset", "register", "forget"
    ]
    run: RunName | None = None
    values: Annotated[dict[str, Any], Field(max_length=64)] = Field(default={})


class _Controller(Record):
    controller: Controller


class _Queue(Record):
    kind: str
    options: dict[str, int] = Field(default={})


class _Offloads(Record):
    offload: Annotated[dict[str, bool], Field(min_length=1)]


def parse_call(line: bytes) -> Call:
    """Return the checked request of a line.

    Raises:
        UserError: It is none: not JSON, an unknown verb, key or value.
    """
    try:
        data = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError("not a line of JSON", where="kernel service") from None
    if (
        isinstance(data, dict)
        and isinstance(verb := data.get("verb"), str)
        and verb not in (*VERBS, "register", "forget")
    ):
        raise UserError(f"unknown verb {shown(verb)}{did_you_mean(verb, VERBS)}", expected=" or ".join(VERBS))
    call = Call.check(data, "kernel service")
    if call.verb != "capabilities" and call.run is None:
        raise UserError("no run", where=call.verb, expected="the name of a registered run")
    check_values(call.verb, call.values)
    return call


def check_values(verb: str, values: Mapping[str, Any]) -> None:
    """Check the values of a verb. Raises `UserError`."""
    if verb == "cc.set":
        _Controller.check(dict(values), verb)
    elif verb == "sysctl.set":
        if not values:
            raise UserError("no settings", where=verb, expected="names and numbers")
        for key, value in values.items():
            sysctl_text(key, value)
    elif verb == "qdisc.set":
        queue = _Queue.check(dict(values), verb)
        _check_queue(queue.kind, queue.options)
    elif verb == "offload.set":
        for name in _Offloads.check(dict(values), verb).offload:
            if name not in OFFLOADS:
                raise UserError(shown(name), where=verb, expected=" or ".join(OFFLOADS))
    elif values:
        raise UserError(f"values {shown(dict(values))}", where=verb, expected="none")


def sysctl_text(key: str, value: object) -> str:
    """Return the text that sets a listed setting. Raises `UserError` for others, and for values out of range."""
    where = f"sysctl.set: {key if key.isprintable() else '?'}"[:80]
    if key in SYSCTLS:
        low, high = SYSCTLS[key]
        number = _whole(value)
        if number is None or not low <= number <= high:
            raise UserError(shown(value), where=where, expected=f"a whole number from {low} to {high}")
        return str(number)
    if key in SYSCTL_TRIPLES:
        low, high = SYSCTL_TRIPLES[key]
        parts = value.split() if isinstance(value, str) else value
        numbers = [_whole(part) for part in parts] if isinstance(parts, list | tuple) else []
        good = [number for number in numbers if number is not None and low <= number <= high]
        if len(good) != 3 or len(numbers) != 3 or good != sorted(good):
            raise UserError(shown(value), where=where, expected=f"three growing whole numbers from {low} to {high}")
        return " ".join(map(str, good))
    raise UserError(
        f"unknown setting {shown(key)}{did_you_mean(key, (*SYSCTLS, *SYSCTL_TRIPLES))}",
        where="sysctl.set",
        expected="one that docs/reference/testbed-runners.md lists",
    )


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and len(value) < 20 and value.lstrip("-").isascii() and value.lstrip("-").isdecimal():
        try:
            return int(value)
        except ValueError:
            return None
    return None


def _check_queue(kind: str, options: Mapping[str, int]) -> None:
    where = f"qdisc.set: {kind if kind.isprintable() else '?'}"[:80]
    if kind not in QDISCS:
        unknown = f"unknown kind {shown(kind)}{did_you_mean(kind, QDISCS)}"
        raise UserError(unknown, where="qdisc.set", expected=" or ".join(QDISCS))
    for name, value in options.items():
        if name not in QDISCS[kind]:
            known = ", ".join(QDISCS[kind]) or "no options"
            raise UserError(f"unknown option {shown(name)}", where=where, expected=known)
        low, high = QDISCS[kind][name]
        if not low <= value <= high:
            raise UserError(f"{name} is {value}", where=where, expected=f"a whole number from {low} to {high}")
    missing = [name for name in REQUIRED.get(kind, ()) if name not in options]
    if missing:
        raise UserError(f"no {missing[0]}", where=where, expected=", ".join(REQUIRED[kind]))

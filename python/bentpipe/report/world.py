"""What the report says of the world in which its Runs happened: whose TCP it was, and how well time was kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.execution.emulation.engine import LOOPED
from bentpipe.execution.emulation.lateness import BOUND_MS
from bentpipe.runs.text import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.runs.store import Run

KINDS = {
    "simulated": "simulated: packet by packet on a virtual clock",
    "emulated": "emulated: the path in real time, a real kernel at both ends",
}


RTTS = {
    "simulated": "each ACK's RTT",
    "emulated": "the kernel's smoothed RTT, as it is looked at; not to be held against a simulated race's, "
    "which are of each ACK (`bentpipe compare` has delays of one kind)",
}
"""What a flow's median and p95 are of: a kernel does not tell single RTTs."""

HELD_BACK = ("Congestion control", "window or pacing, % of the time")
"""Head of the first column of what held flows back: the others are the receive window and the sender."""

HELD_BACK_BY_KERNEL = (
    "Neither of the others",
    "congestion control (window or pacing), or a send buffer being refilled, % of the time",
)
"""The same of a kernel, which keeps no count of its own for it: the time it was busy, less the other two."""

ABOUT_KERNEL = (
    "A kernel counts the send buffer only while all that is in it has been sent and the program waits for room "
    "(tcpi_sndbuf_limited); the time in which it is filled again is in the first column, though the buffer may be the "
    "limit all along: then inflight_bytes in samples stays below cwnd_bytes. "
)


def held_back(runs: Sequence[Run]) -> tuple[tuple[str, str], str]:
    """What the first column of the table of what held flows back holds: its head and unit, and a note on it."""
    if any(run.world == "emulated" for run in runs):
        return HELD_BACK_BY_KERNEL, ABOUT_KERNEL
    return HELD_BACK, ""


def facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Names and values, for Runs of one Experiment."""
    worlds = list(dict.fromkeys(run.world for run in runs))
    found = [("World", "; ".join(KINDS.get(world, world) for world in worlds)), ("TCP", "; ".join(map(_tcp, worlds)))]
    found.append(("RTT figures are of", "; ".join(RTTS[world] for world in worlds if world in RTTS)))
    if "emulated" not in worlds:
        return found
    found[1] = ("TCP", f"the kernel's own: {', '.join(kernels(runs)) or 'which kernel is not recorded'}")
    relays = [_emulator(run).get("relay") or {} for run in runs]
    if late_ms := _known(relay.get("lateness_p99_ms") for relay in relays):
        found.append(("1 % of packets late by more than", f"{_span(late_ms)} ms (bound {BOUND_MS:g} ms)"))
    if stolen := _known(_emulator(run).get("stolen_share") for run in runs):
        found.append(("Processor time the host took", f"{_span([100 * share for share in stolen])} %"))
    if loops := [loops for relay in relays if (loops := relay.get("loops"))]:
        often = f"played up to {max(loops) + 1} times"
        found.append(("Longer than the Profile", f"{len(loops)} of {len(runs)}, {often}: {LOOPED}"))
    return found


def kernels(runs: Iterable[Run]) -> list[str]:
    """The kernels whose TCP it was, each once."""
    named = (run.record["versions"] for run in runs if run.world == "emulated")
    return list(
        dict.fromkeys(
            f"{versions['kernel']} ({versions.get('machine', 'machine not recorded')})"
            for versions in named
            if "kernel" in versions
        )
    )


def _tcp(world: str) -> str:
    return "bentpipe's own, after Linux's" if world == "simulated" else world


def _emulator(run: Run) -> dict[str, Any]:
    """What the emulator measured of itself; nothing of a Run that ended before its end."""
    found = run.record["summary"].get("emulator")
    return found if isinstance(found, dict) else {}


def _known(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values if isinstance(value, int | float)]


def _span(found: Sequence[float]) -> str:
    low, high = number(min(found)), number(max(found))
    return low if low == high else f"{low} to {high}"

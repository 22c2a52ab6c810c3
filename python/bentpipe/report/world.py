"""The report's facts about the world of its Runs: the TCP implementation and the emulator's lateness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.execution.emulation.lateness import BOUND_MS
from bentpipe.execution.emulation.result import LOOP_NOTE
from bentpipe.report.rows import Column
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
    "emulated": "the kernel's smoothed RTT at each sample; not comparable with a simulated race's, "
    "which are of each ACK (`bentpipe compare` has comparable delays)",
}
"""RTT samples behind a flow's median and p95: a kernel does not report single RTTs."""

CWND_COLUMN = Column("cwnd", "congestion window or pacing, % of the time")
"""The first column of the limiting factors; the others are rwnd and sndbuf."""

CWND_COLUMN_KERNEL = Column("cwnd, or sndbuf refill", "neither of the others, % of the time")
"""The same for a kernel, which has no counter of its own for cwnd: its busy time less the other two."""

ABOUT_KERNEL = (
    "A kernel counts sndbuf only while the whole send buffer has been sent and the program waits for room "
    "(tcpi_sndbuf_limited). The time in which the buffer is refilled is in the first column, even if the buffer is the "
    "limit all along: inflight_bytes in samples then stays below cwnd_bytes. "
)


def cwnd_column(runs: Sequence[Run]) -> tuple[Column, str]:
    """Return the first column of the limiting factors, and a note on it."""
    if any(run.world == "emulated" for run in runs):
        return CWND_COLUMN_KERNEL, ABOUT_KERNEL
    return CWND_COLUMN, ""


def facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Return names and values of facts about Runs of one Experiment."""
    worlds = list(dict.fromkeys(run.world for run in runs))
    rows = [("World", "; ".join(KINDS.get(world, world) for world in worlds)), ("TCP", "; ".join(map(_tcp, worlds)))]
    rows.append(("RTT figures are of", "; ".join(RTTS[world] for world in worlds if world in RTTS)))
    if "emulated" not in worlds:
        return rows
    rows[1] = ("TCP", f"the kernel's own: {', '.join(kernels(runs)) or 'which kernel is not recorded'}")
    relays = [_emulator(run).get("relay") or {} for run in runs]
    if late_ms := _known(relay.get("lateness_p99_ms") for relay in relays):
        rows.append(("1 % of packets late by more than", f"{_span(late_ms)} ms (bound {BOUND_MS:g} ms)"))
    if stolen := _known(_emulator(run).get("stolen_share") for run in runs):
        rows.append(("Processor time stolen by the host", f"{_span([100 * share for share in stolen])} %"))
    if loops := [loops for relay in relays if (loops := relay.get("loops"))]:
        often = f"played up to {max(loops) + 1} times"
        rows.append(("Longer than the Profile", f"{len(loops)} of {len(runs)}, {often}: {LOOP_NOTE}"))
    return rows


def kernels(runs: Iterable[Run]) -> list[str]:
    """Return the kernels of emulated Runs, each once."""
    named = (run.record.versions for run in runs if run.world == "emulated")
    return list(
        dict.fromkeys(
            f"{versions['kernel']} ({versions.get('machine', 'machine not recorded')})"
            for versions in named
            if "kernel" in versions
        )
    )


def _tcp(world: str) -> str:
    return "bentpipe's own, modelled on Linux" if world == "simulated" else world


def _emulator(run: Run) -> dict[str, Any]:
    """Return the emulator's own measurements; empty for a Run that stopped early."""
    measured = run.record.summary.get("emulator")
    return measured if isinstance(measured, dict) else {}


def _known(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values if isinstance(value, int | float)]


def _span(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} to {high}"

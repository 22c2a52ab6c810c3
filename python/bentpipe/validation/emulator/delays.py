"""Delay: alone, beside UDP, beside TCP, and on a computed path around a reconfiguration."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation import Row
from bentpipe.validation.emulator import traffic
from bentpipe.validation.emulator.calm import P50_US, P99_US, Control, Measured, Ticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from bentpipe._native import Profile

CONTROL_S = 3
LOADED_S = 10
LOAD_BPS = 200e6
LOAD_ERROR = 0.02
"""Largest relative error of the arrived load for the delay beside it to count."""

HANDOVER_MS = 1.0
"""Largest error of the time at which a change of the Profile takes effect [ms]."""


def constant_path() -> Profile:
    """Return a path of 20 ms one way; its rate of 100 Gbit/s is hundreds of times any load here."""
    return preset_profile("dumbbell:rate=100gbit,rtt=40ms,queue=1bdp", 60.0, start_unix_ns=0, name="delay")


def unlimited_path(rtt_s: float, loss: Points | None = None) -> Profile:
    """Return a path with constant delay and no rate element, so that only the machine limits its traffic.

    `loss` is the loss probability in both directions.
    """
    side = Side(delay_s=Points.constant(rtt_s / 2), loss_probability=loss)
    return single_hop_profile(
        name="unlimited",
        hop="delay",
        start_unix_ns=0,
        duration_s=60.0,
        basis="one_way",
        provenance=Provenance("preset", "a constant delay without a rate"),
        up=side,
        down=side,
    )


def idle_control() -> Control:
    """Measure the delay of small packets at 1 kHz without other traffic."""
    ticks = Ticks()
    probe = traffic.probe(constant_path(), CONTROL_S * 1000, 1e-3)
    if probe.why_thin:  # unknown delays count as late
        return Control(np.inf, np.inf, np.inf, ticks.stolen())
    errors_us = np.abs(probe.delay_us - 20_000.0)
    p50, p99, p999 = (float(value) for value in np.quantile(errors_us, [0.5, 0.99, 0.999]))
    return Control(p50, p99, p999, ticks.stolen())


def under_udp() -> Measured:
    """Measure the delay beside UDP in small bursts; it counts if the load arrives in full."""
    load = traffic.prober("flood", LOADED_S + 1, LOAD_BPS, traffic.LOAD_PORT)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "load")
        sink = traffic.prober("count", file, traffic.LOAD_PORT)
        probe = traffic.probe(constant_path(), LOADED_S * 1000, 1e-3, load=load, load_sink=sink)
        brought_bps = traffic.counted_bps(file)
    quantity = f"one-way delay error beside {brought_bps / 1e6:.0f} Mbit/s of paced UDP"
    measured = _measured(probe, lambda: error_rows(quantity, probe.delay_us - 20_000.0))
    if abs(brought_bps / LOAD_BPS - 1) <= LOAD_ERROR:
        return measured
    missed = f"of a load of {LOAD_BPS / 1e6:.0f} Mbit/s {brought_bps / 1e6:.1f} arrived (± {100 * LOAD_ERROR:g} %)"
    return replace(measured, why_not="; ".join(filter(None, [missed, measured.why_not])))


def under_tcp() -> Measured:
    """Measure the delay beside one TCP connection without a rate; no limit, since the machine limits it."""
    load = traffic.streamer(LOADED_S + 1, "cubic")
    with_sink = traffic.prober("drain", "/dev/null", traffic.LOAD_PORT)
    probe = traffic.probe(constant_path(), LOADED_S * 1000, 1e-3, load=load, load_sink=with_sink)
    relay = (probe.emulated.done or {})["relay"]
    quantity = (
        f"the same beside a CUBIC connection without a limit ({relay['delivered']} packets handed on), p50 / p99 of "
        f"{probe.known.sum()} probes"
    )
    if not probe.known.any():
        return Measured([Row(f"{quantity} [µs]", "", "0", "reported, no limit", within=None)], probe.why_thin)
    p50, p99, p999 = np.quantile(probe.delay_us - 20_000.0, [0.5, 0.99, 0.999])
    row = Row(f"{quantity} (99.9th: {p999:.0f}) [µs]", f"{p50:.0f} / {p99:.0f}", "0", "reported, no limit", within=None)
    # The emulator's validity is not used: without a rate it may report that the machine is too busy.
    return Measured([row], probe.why_thin)


def reconfiguration(path: Profile) -> Measured:
    """Compare each packet's delay on a computed path with the Profile's, and the time of a reconfiguration."""
    event = next(e for e in PathView(path).handovers() if e["at_ns"] > 5e9 and e["interruption_ns"] > 5e6)
    offset_s = event["at_ns"] / 1e9 - 4.0
    probe = traffic.probe(path, 6000, 1e-3, offset_s=offset_s)
    return _measured(probe, lambda: _around(path, event, probe))


def _measured(probe: traffic.Probe, rows: Callable[[], list[Row]]) -> Measured:
    """Return a probe's rows and the reason if they do not count; a placeholder with too few packets."""
    if probe.why_thin:
        return Measured([Row("one-way delays", "", "", "", within=False)], probe.why_thin)
    return Measured(rows(), probe.emulated.why_invalid)


def _around(path: Profile, event: Mapping[str, Any], probe: traffic.Probe) -> list[Row]:
    """Return the rows of a probe during the reconfiguration `event`."""
    times_s = probe.at_s[probe.known]
    expected_ms = path.delay_ms("up", times_s)
    measured_ms = probe.delay_us / 1e3
    # Packets in the interruption wait for its end, so the longest wait marks its start, in both worlds.
    after_s = times_s - event["at_ns"] / 1e9
    near = np.abs(after_s) < 0.2
    struck_s, should_s = times_s[near][np.argmax(measured_ms[near])], times_s[near][np.argmax(expected_ms[near])]
    begun_ms = (struck_s - should_s) * 1e3
    # In the interruption, and while its queue drains, packets wait for each other, unlike a lone packet.
    alone = (after_s < -0.1) | (after_s > event["interruption_ns"] / 1e9 + 0.1)
    rows = error_rows(
        "computed path: delay against the Profile's",
        _shift_us(path, times_s[alone], measured_ms[alone]),
    )
    rows.append(
        Row(
            "reconfiguration strikes at its time, error [ms]",
            f"{begun_ms:.2f}",
            "0, in steps of the prober's 1 ms",
            f"± {HANDOVER_MS:g}",
            bool(abs(begun_ms) <= HANDOVER_MS),
        )
    )
    return rows


def _shift_us(path: Profile, times_s: NDArray[np.float64], measured_ms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each packet's distance from the Profile's delay, in time and delay together [µs].

    Grants make the delay a sawtooth: a packet that enters the path 20 µs late may miss a grant and wait for the next.
    Its error is then 20 µs, not a grant's period. So this is the smallest sum, over moments up to `P99_US` after the
    send time, of that lateness and the remaining error of the delay.
    """
    shifts_us = np.arange(0.0, P99_US + 1.0, 10.0)
    remain_us = [
        shift_us + np.abs(measured_ms * 1e3 - shift_us - 1e3 * path.delay_ms("up", times_s + shift_us / 1e6))
        for shift_us in shifts_us
    ]
    least: NDArray[np.float64] = np.min(remain_us, axis=0)
    return least


def error_rows(quantity: str, errors_us: NDArray[np.float64]) -> list[Row]:
    """Return rows for median and 99th percentile of |error|; the 99.9th is only reported."""
    p50, p99, p999 = np.quantile(np.abs(errors_us), [0.5, 0.99, 0.999])
    quantity = f"{quantity}, {len(errors_us)} packets"
    return [
        Row(f"{quantity}, median [µs]", f"{p50:.0f}", "0", f"{P50_US:.0f}", bool(p50 <= P50_US)),
        Row(
            f"the same, 99th percentile (99.9th: {p999:.0f}) [µs]",
            f"{p99:.0f}",
            "0",
            f"{P99_US:.0f}",
            bool(p99 <= P99_US),
        ),
    ]

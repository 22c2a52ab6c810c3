"""Accuracy of the emulator: delay, capacity, loss, speed and handover times, as measured by a program inside.

A prober uses the kernel's timestamps at both ends. Measurements that need a calm machine count only between two idle
controls that pass (README.md beside this file).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.profiles.make import make_profile
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.emulator import delays, volumes
from bentpipe.validation.emulator.calm import Calm, Measured

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


START_UNIX_NS = 1_778_403_600_000_000_000
"""2026-05-10T09:00:00Z."""


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Run all measurements in real time, without data: four minutes on a calm machine, at most about forty."""
    del data
    rows: list[Row] = []
    calm = Calm(delays.idle_control)
    computed = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=60.0)
    guarded: list[tuple[str, Callable[[], Measured]]] = [
        ("idle", lambda: Measured([volumes.idle_share(computed)])),
        ("beside UDP", delays.under_udp),
        ("computed path", lambda: delays.reconfiguration(computed)),
        *((f"capacity {mbps} Mbit/s", lambda mbps=mbps: volumes.capacity(mbps)) for mbps in (10, 100, 500)),
        ("losses", volumes.losses),
        ("episodes of loss", volumes.episodes),
        ("BBR's drops", volumes.drops),
        ("beside TCP", delays.under_tcp),
        ("speed", volumes.speed),
        ("flat out", volumes.flat_out),
    ]
    try:
        for i, (quantity, measure) in enumerate(guarded):
            rows += calm.guarded(quantity, measure)
            on_progress((i + 1) / len(guarded))
    except UserError as error:
        return Outcome("emulator", skipped=str(error))
    return Outcome("emulator", rows, [calm.summary(), *calm.notes])

"""The emulator against its promises: delay, capacity, loss and the time of a handover, as a program inside meets them.

A prober of its own with the kernel's timestamps at both ends; valid only if the idle control passes (README.md beside
this file).
"""

from __future__ import annotations

import itertools
import json
import math
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.profiles import make_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.program import run_program
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.emulator.prober import PORT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe import Profile
    from bentpipe.emulation import Emulated

P50_US, P99_US = 50.0, 300.0
CAPACITY_ERROR = 0.005
HANDOVER_MS = 1.0
LOAD_BPS = 200e6
SECONDS = 10
START_UNIX_NS = 1_778_403_600_000_000_000
"""2026-05-10T09:00:00Z."""


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """All of it, about a minute and a half in real time; needs no data."""
    del data
    rows: list[Row] = []
    try:
        idle = _delay_errors_us(load=False)
        on_progress(0.15)
        rows += _delay_rows("idle control", idle)
        rows += _delay_rows(f"under {LOAD_BPS / 1e6:.0f} Mbit/s of paced UDP", _delay_errors_us(load=True))
        on_progress(0.35)
        for i, mbps in enumerate((10, 100, 500)):
            rows.append(_capacity_row(mbps))
            on_progress(0.35 + 0.15 * (i + 1))
        rows += _loss_rows(0.02)
        on_progress(0.9)
        rows += _handover_rows()
    except UserError as error:
        return Outcome("emulator", skipped=str(error))
    valid = rows[0].within and rows[1].within
    notes = (
        []
        if valid
        else ["the idle control fails: this machine is too busy or too slow for the figures below it to count"]
    )
    return Outcome("emulator", rows, notes)


def _prober(*arguments: object) -> list[str]:
    return [sys.executable, str(Path(__file__).with_name("prober.py")), *map(str, arguments)]


def _measure(
    profile: Profile,
    count: int,
    every_s: float,
    *,
    size: int = 100,
    load: list[str] | None = None,
    offset_s: float = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.int64], Emulated]:
    """Times of sending and of arrival [ns of UTC] of each packet; arrival 0: lost."""
    with tempfile.TemporaryDirectory() as folder:
        sent_file, got_file = Path(folder, "sent"), Path(folder, "got")
        client = shlex.join(_prober("send", sent_file, count, every_s, size))
        program = ["sh", "-c", f"{shlex.join(load)} & {client}; wait"] if load else ["sh", "-c", client]
        server = "exec " + shlex.join(_prober("receive", got_file))
        result = run_program(profile, program, server=server, offset_s=offset_s)
        sent = np.array(json.loads(sent_file.read_text()), dtype=float)
        got = np.array(json.loads(got_file.read_text()), dtype=np.int64).reshape(-1, 3)
    arrived = np.zeros(count, np.int64)
    arrived[got[:, 0]] = got[:, 1]
    return sent, arrived, result.emulated


def _delay_errors_us(*, load: bool) -> NDArray[np.float64]:
    """One-way delay of a 1 kHz prober less the path's 20 ms [µs]."""
    path = preset_profile("dumbbell:rate=100gbit,rtt=40ms,queue=1bdp", 60.0, start_unix_ns=0, name="delay")
    flood = _prober("flood", SECONDS + 1, LOAD_BPS, PORT + 1) if load else None
    sent, arrived, _ = _measure(path, SECONDS * 1000, 1e-3, load=flood)
    known = (arrived > 0) & np.isfinite(sent)
    return (arrived[known] - sent[known]) / 1e3 - 20_000.0


def _delay_rows(when: str, errors_us: NDArray[np.float64]) -> list[Row]:
    p50, p99, p999 = np.quantile(errors_us, [0.5, 0.99, 0.999])
    return [
        Row(f"{when}: one-way delay error, median [µs]", f"{p50:.0f}", "0", f"{P50_US:.0f}", bool(abs(p50) <= P50_US)),
        Row(
            f"{when}: 99th percentile (99.9th: {p999:.0f}) [µs]",
            f"{p99:.0f}",
            "0",
            f"{P99_US:.0f}",
            bool(p99 <= P99_US),
        ),
    ]


def _capacity_row(mbps: int) -> Row:
    """Bytes that arrive in each second of a flood above the capacity, with a queue that outlasts its pauses."""
    path = preset_profile(f"dumbbell:rate={mbps}mbit,rtt=20ms,queue=20bdp", 60.0, start_unix_ns=0, name="capacity")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "got")
        server = "exec " + shlex.join(_prober("receive", file))
        run_program(path, _prober("flood", 5.0, 1.3e6 * mbps, PORT), server=server, offset_s=0.0)
        got = np.array(json.loads(file.read_text()), dtype=np.int64).reshape(-1, 3)
    second = ((got[:, 1] - got[0, 1]) // 10**9).astype(int)
    whole = np.bincount(second, weights=got[:, 2] * 8.0)[1:4]
    worst = float(np.max(np.abs(whole / (mbps * 1e6) - 1)))
    what = f"capacity over 1 s at {mbps} Mbit/s, largest error [%]"
    return Row(what, f"{100 * worst:.2f}", "0", f"{100 * CAPACITY_ERROR:g}", worst <= CAPACITY_ERROR)


def _loss_rows(probability: float) -> list[Row]:
    """Independent losses: how many, and how many runs of them."""
    path = preset_profile(f"dumbbell:rate=1gbit,rtt=20ms,loss={probability}", 60.0, start_unix_ns=0, name="loss")
    n = 20_000
    _, arrived, _ = _measure(path, n, 2e-4)
    lost = arrived == 0
    runs = sum(1 for value, _ in itertools.groupby(lost) if value)
    rows = []
    for what, found, p in (
        ("losses", int(lost.sum()), probability),
        ("runs of losses", runs, probability * (1 - probability)),
    ):
        half = 2.576 * math.sqrt(n * p * (1 - p))
        rows.append(
            Row(
                f"{what} of {n} packets", str(found), f"{n * p:.0f}", f"± {half:.0f} (99 %)", abs(found - n * p) <= half
            )
        )
    return rows


def _handover_rows() -> list[Row]:
    """A computed path: the delay of every packet against the Profile's, and when the reconfiguration strikes."""
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=60.0)
    event = next(e for e in PathView(path).handovers() if e["at_ns"] > 5e9 and e["interruption_ns"] > 5e6)
    offset_s = event["at_ns"] / 1e9 - 4.0
    sent, arrived, emulated = _measure(path, 6000, 1e-3, offset_s=offset_s)
    started = emulated.started or {}
    at_s = (sent - started["clock_unix_ns"]) / 1e9 + started["offset_ns"] / 1e9
    known = (arrived > 0) & np.isfinite(sent)
    expected_ms = path.delay_ms("up", at_s[known])
    measured_ms = (arrived[known] - sent[known]) / 1e6
    error_us = (measured_ms - expected_ms) * 1e3
    p50, p99 = np.quantile(np.abs(error_us), [0.5, 0.99])
    # What meets the interruption waits for its end: the packet that waits longest shows when it began, in both.
    near = np.abs(at_s[known] - event["at_ns"] / 1e9) < 0.2
    times_s = at_s[known][near]
    struck_s, should_s = times_s[np.argmax(measured_ms[near])], times_s[np.argmax(expected_ms[near])]
    begun_ms = (struck_s - should_s) * 1e3
    return [
        Row(
            "computed path: delay against the Profile's, median [µs]",
            f"{p50:.0f}",
            "0",
            f"{P50_US:.0f}",
            bool(p50 <= P50_US),
        ),
        Row("the same, 99th percentile [µs]", f"{p99:.0f}", "0", f"{P99_US:.0f}", bool(p99 <= P99_US)),
        Row(
            "reconfiguration strikes at its time, error [ms]",
            f"{begun_ms:.2f}",
            "0, in steps of the prober's 1 ms",
            f"± {HANDOVER_MS:g}",
            bool(abs(begun_ms) <= HANDOVER_MS + 0.5),
        ),
    ]

"""Claim: on this machine's kernel, too, a wrong clock, one that jumps and a killed program cost no more than 3 %.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.program import run_program
from bentpipe.kernel.controllers import kernel_name
from bentpipe.runs.estimates import paired_ratio
from bentpipe.runs.made_on import made_on
from bentpipe.runs.text import interval
from bentpipe.validation import Outcome, Row
from bentpipe.validation.kernel_life.lives import may_load
from bentpipe.validation.kernel_safety import LEAST, clocks, simulated
from bentpipe.validation.kernel_safety.writers import Killed, Writer, stored
from bentpipe.validation.kernel_twins import loaded
from bentpipe.validation.measured import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.validation import OnProgress
    from bentpipe.validation.kernel_safety.clocks import Clock

CLAIM = "kernel-safety-emulated"
OUT = Path("out") / CLAIM
SCHEME, PARENT = "bbr3-leo", "bbr3"
CASES = ((PARENT, clocks.NONE), *((SCHEME, clock) for clock in clocks.QUICK))
DURATION_S, QUICK_DURATION_S = 45.0, 15.0
"""Duration of a Run [s]: three slots."""
WARMUP_S = 5.0
"""Not counted [s]."""
SETUP_S = 6.0
"""About how long an emulation takes beside its flow [s]."""
PATHS, QUICK_PATHS = 3, 1
LATEST_S = 0.5
"""Longest time beyond its validity that the record of a killed program may be valid. Chosen here."""


def real_time_s(*, quick: bool) -> float:
    """Return about how long the measurement takes [s]."""
    paths, duration_s = (QUICK_PATHS, QUICK_DURATION_S) if quick else (PATHS, DURATION_S)
    return paths * len(CASES) * (duration_s + SETUP_S)


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Emulate downloads with the kernel's controllers beside right and wrong clocks; needs no data."""
    del data
    if why := may_load():
        return Outcome(CLAIM, skipped=why)
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    duration_s = QUICK_DURATION_S if quick else DURATION_S
    texts = simulated.PATHS[: QUICK_PATHS if quick else PATHS]
    commit, runs = made_on()["commit"], []
    try:
        with loaded([SCHEME, PARENT]):
            for text in texts:
                path = simulated.path_of(text, duration_s).profile
                for scheme, clock in CASES:
                    settings = {
                        "path": path.name,
                        "case": [scheme, clock.name],
                        "duration_s": duration_s,
                        "commit": commit,
                    }
                    file = folder / f"{path.name}-{scheme}-{clocks.EVERY.index(clock)}.json"
                    runs += measured(file, settings, partial(emulated, path, scheme, clock, duration_s))
                    on_progress(len(runs) / (len(texts) * len(CASES)))
    except UserError as error:
        return Outcome(CLAIM, skipped=str(error))
    loads = [load for each in runs for load in each["load"]]
    notes = [
        f"{len(texts)} paths, {duration_s:g} s each without the first {WARMUP_S:g} s, one Run of each case on each; "
        "intervals of 95 % over paths",
        f"load average of a minute at start and end of each Run: {min(loads):.1f} to {max(loads):.1f}",
    ]
    notes += [
        f"{each['path']}, {each['scheme']}, {each['clock']}: not valid, and not counted: {each['invalid']}"
        for each in runs
        if each["invalid"]
    ]
    return Outcome(CLAIM, rows_of(runs), notes, cells=runs)


def emulated(path: Profile, scheme: str, clock: Clock, duration_s: float) -> list[dict[str, Any]]:
    """Emulate a download in real time from the path's start, beside a clock; return its goodput."""
    writers: list[Writer | Killed] = []
    load, module = os.getloadavg()[0], [sys.executable, "-P", "-m", "bentpipe.validation.kernel_safety.flow"]
    with tempfile.TemporaryDirectory() as folder, stored(path, Path(folder)) as file:
        out = Path(folder, "out.json")

        def begin(begin_unix_ns: int) -> None:
            if clock.is_killed:
                writers.append(Killed(file, begin_unix_ns, duration_s / 2))
            else:
                writes = clock.writes(simulated.edge_s(path), duration_s, path.seed or 0)
                writers.append(Writer(writes, begin_unix_ns))
            writers[-1].start()

        try:
            done = run_program(
                path,
                [*module, "receive", str(duration_s), str(WARMUP_S), str(out)],
                server="exec " + shlex.join([*module, "send", kernel_name(scheme), str(duration_s + SETUP_S)]),
                offset_s=0.0,
                on_start=begin,
            )
        finally:
            for writer in writers:
                writer.stop()
        result = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {"bytes": 0, "seconds": 1.0}
    invalid = done.emulated.why_invalid
    valid_s = next((each.valid_s for each in writers if isinstance(each, Killed)), None)
    if clock.is_killed and valid_s is None:
        invalid = invalid or "the killed program had written no clock"
    return [
        {
            "path": path.name,
            "scheme": scheme,
            "clock": clock.name,
            "goodput_bps": result["bytes"] * 8 / result["seconds"],
            "valid_after_kill_s": valid_s,
            "invalid": invalid,
            "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        }
    ]


def rows_of(runs: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows: goodput over that of the kernel's bbr3, and how long the clock of a killed program is valid."""
    goodput = {(each["path"], each["scheme"], each["clock"]): each["goodput_bps"] for each in _valid(runs)}
    paths = dict.fromkeys(each["path"] for each in runs)
    rows = []
    for scheme, clock in CASES[1:]:
        both = [
            (ours, theirs)
            for path in paths
            if (ours := goodput.get((path, scheme, clock.name))) is not None
            and (theirs := goodput.get((path, PARENT, clocks.NONE.name))) is not None
        ]
        ratio = paired_ratio([ours for ours, _ in both], [theirs for _, theirs in both])
        ours = f"{ratio.mean:.3f} ({interval(ratio)}), n = {ratio.n}" if ratio else "not known"
        rows.append(
            Row(
                f"{scheme}, {clock.name}: goodput ÷ {PARENT}",
                ours,
                f"worst: {ratio.smallest:.3f}" if ratio else "",
                f"≥ {LEAST:g} in the mean" if clock.is_judged else "reported, no limit",
                (ratio is not None and ratio.mean >= LEAST) if clock.is_judged else None,
            )
        )
    valid_s = [each["valid_after_kill_s"] for each in runs if each["valid_after_kill_s"] is not None]
    if valid_s:
        most_s = clocks.VALID_S + LATEST_S
        rows.append(
            Row(
                "clock of a killed program: valid for",
                f"{min(valid_s):.1f} to {max(valid_s):.1f} s, n = {len(valid_s)}",
                f"{clocks.VALID_S:g} s",
                f"{most_s:g} s",
                max(valid_s) <= most_s,
            )
        )
    return rows


def _valid(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in runs if not each["invalid"]]

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
from bentpipe.kernel.libbpf import KernelRefusedError
from bentpipe.runs.estimates import paired_ratio
from bentpipe.runs.made_on import made_on
from bentpipe.runs.text import interval
from bentpipe.validation import Outcome, Row
from bentpipe.validation.kernel_life.lives import may_load
from bentpipe.validation.kernel_safety import clocks, simulated
from bentpipe.validation.kernel_safety.rows import LEAST
from bentpipe.validation.kernel_safety.writers import Killed, Writer, stored
from bentpipe.validation.kernel_twins import loaded
from bentpipe.validation.measured import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.runs.estimates import Estimate
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
    commit, runs = made_on()["commit"], list[dict[str, Any]]()
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
                    rows = measured(file, settings, partial(attempt, path, scheme, clock, duration_s))
                    if any(each["invalid"] for each in rows):
                        file.unlink()  # the same command tries it again
                    runs += rows
                    on_progress(len(runs) / (len(texts) * len(CASES)))
    except UserError as error:
        return Outcome(CLAIM, skipped=str(error))
    if not _valid(runs):
        return Outcome(CLAIM, skipped=f"no Run is valid; the first: {runs[0]['invalid']}", cells=runs)
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


def attempt(path: Profile, scheme: str, clock: Clock, duration_s: float) -> list[dict[str, Any]]:
    """Emulate a download as `emulated`; an error makes this Run invalid, and no other."""
    try:
        return emulated(path, scheme, clock, duration_s)
    except (UserError, KernelRefusedError) as error:
        load = round(os.getloadavg()[0], 2)
        return [_row(path, scheme, clock, 0.0, None, str(error), [load, load])]


def emulated(path: Profile, scheme: str, clock: Clock, duration_s: float) -> list[dict[str, Any]]:
    """Emulate a download in real time from the path's start, beside a clock; return its goodput."""
    writers: list[Writer | Killed] = []
    load, module = os.getloadavg()[0], [sys.executable, "-P", "-m", "bentpipe.validation.kernel_safety.flow"]
    name = kernel_name(scheme)
    with tempfile.TemporaryDirectory() as folder, stored(path, Path(folder)) as file:
        out = Path(folder, "out.json")

        def begin(begin_unix_ns: int) -> None:
            if clock.is_killed:
                writers.append(Killed(file, name, begin_unix_ns, duration_s / 2))
            else:
                writes = clock.writes(simulated.edge_s(path), duration_s, path.seed or 0)
                writers.append(Writer(writes, name, begin_unix_ns))
            writers[-1].start()

        try:
            done = run_program(
                path,
                [*module, "receive", str(duration_s), str(WARMUP_S), str(out)],
                server="exec " + shlex.join([*module, "send", name, str(duration_s + SETUP_S)]),
                offset_s=0.0,
                on_start=begin,
            )
        finally:
            for writer in writers:
                writer.stop()
        result = json.loads(out.read_text(encoding="utf-8")) if out.exists() else None
    whys = [done.emulated.why_invalid, *(writer.why_invalid() for writer in writers)]
    whys += [None if writers else "the path did not begin", None if result else "the client stored no result"]
    goodput_bps = result["bytes"] * 8 / result["seconds"] if result else 0.0
    valid_s = next((each.valid_s for each in writers if isinstance(each, Killed)), None)
    loads = [round(load, 2), round(os.getloadavg()[0], 2)]
    return [_row(path, scheme, clock, goodput_bps, valid_s, next(filter(None, whys), None), loads)]


def _row(
    path: Profile,
    scheme: str,
    clock: Clock,
    goodput_bps: float,
    valid_s: float | None,
    invalid: str | None,
    load: list[float],
) -> dict[str, Any]:
    return {
        "path": path.name,
        "scheme": scheme,
        "clock": clock.name,
        "goodput_bps": goodput_bps,
        "valid_after_kill_s": valid_s,
        "invalid": invalid,
        "load": load,
    }


def rows_of(runs: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows: goodput over that of the kernel's bbr3 and over its own, and the clock of a killed program.

    A row is undecided if its interval has the limit within, or with fewer than `PATHS` valid pairs of Runs.
    """
    rows, limit = [], f"interval above {LEAST:g} (below: fails), n = {PATHS}"
    for scheme, clock in CASES[1:]:
        title = f"{scheme}, {clock.name}: goodput ÷"
        for name, reference in ((PARENT, PARENT), (scheme, "its own without a clock")):
            if (name, clock) != (scheme, clocks.NONE):
                ratio = _ratio(runs, (scheme, clock.name), (name, clocks.NONE.name))
                text, within = (limit, _verdict(ratio)) if clock.is_judged else ("reported", None)
                rows.append(_ratio_row(f"{title} {reference}", ratio, text, within))
    valid_s = [each["valid_after_kill_s"] for each in _valid(runs) if each["valid_after_kill_s"] is not None]
    if valid_s:
        most_s = clocks.VALID_S + LATEST_S
        rows.append(
            Row(
                "clock of a killed program: valid for",
                f"{min(valid_s):.1f} to {max(valid_s):.1f} s, n = {len(valid_s)}",
                f"{clocks.VALID_S:g} s",
                f"{most_s:g} s, n = {PATHS}",
                None if len(valid_s) < PATHS and max(valid_s) <= most_s else max(valid_s) <= most_s,
            )
        )
    count = len(_valid(runs))
    rows.append(Row("valid Runs", f"{count}", f"{len(runs)}", "all: else rows are undecided", count == len(runs)))
    return rows


def _ratio(runs: Sequence[dict[str, Any]], ours: tuple[str, str], theirs: tuple[str, str]) -> Estimate | None:
    """Return the ratio of two cases' goodputs over the paths on which both Runs are valid."""
    goodput = {(each["path"], each["scheme"], each["clock"]): each["goodput_bps"] for each in _valid(runs)}
    paths = [
        path for path in dict.fromkeys(each["path"] for each in runs) if {(path, *ours), (path, *theirs)} <= {*goodput}
    ]
    return paired_ratio([goodput[path, *ours] for path in paths], [goodput[path, *theirs] for path in paths])


def _verdict(ratio: Estimate | None) -> bool | None:
    """Whether a ratio is above the limit with its interval, or below it; None: neither, or too few Runs."""
    if ratio is None or ratio.n < PATHS or ratio.low is None or ratio.high is None:
        return None
    return True if ratio.low >= LEAST else False if ratio.high < LEAST else None


def _ratio_row(quantity: str, ratio: Estimate | None, limit: str, within: bool | None) -> Row:
    ours = f"{ratio.mean:.3f} ({interval(ratio)}), n = {ratio.n}" if ratio else "not known"
    worst = f"worst: {ratio.smallest:.3f}" if ratio else ""
    return Row(quantity, ours, worst, limit, within)


def _valid(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in runs if not each["invalid"]]

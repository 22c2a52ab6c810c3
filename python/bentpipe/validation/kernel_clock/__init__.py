"""Claim: the clock learned from a host's sockets is right within 0.3 s; where nothing is regular there is none."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.execution.program import run_program
from bentpipe.runs.made_on import made_on
from bentpipe.validation import Outcome, Row
from bentpipe.validation.kernel_clock import paths, simulated
from bentpipe.validation.measured import measured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.validation import OnProgress

LIMIT_S = 0.3
"""Largest error of the phase (issue 21) [s]."""
AFTER_S = 60.0
"""Traffic after which the clock is to be known (issue 21) [s]."""
SPAN_S = {"bulk": 75.0, "light": 150.0}
"""Duration of a flow [s]; a light one shows fewer of the reconfigurations."""
PROFILE_S = 240.0
"""Duration of a Profile [s]: a flow begins within its first minute."""
SETUP_S = 6.0
"""About how long an emulation takes beside its flow [s]."""
OUT = Path("out") / "kernel-clock"
"""Default folder for what was measured; ``--quick`` has its own beside it."""


@dataclass(frozen=True)
class Case:
    """A flow over a path: kind of path, its number, and ``bulk`` or ``light``."""

    kind: str
    number: int
    flow: str = "bulk"

    @property
    def name(self) -> str:
        """Return its name, as of its file."""
        return f"{self.kind}-{self.number}-{self.flow}"

    def path(self) -> Profile:
        """Return its path."""
        makers = {"leo": paths.leo_path, "irregular": paths.irregular_path}
        return makers.get(self.kind, lambda _, span_s: paths.other_path(self.kind, span_s))(self.number, PROFILE_S)


CASES = (
    *(Case("leo", number) for number in range(10)),
    *(Case("irregular", number) for number in range(4)),
    *(Case("leo", number, "light") for number in range(4)),
    *(Case(kind, number) for kind in ("fibre", "geo") for number in range(2)),
)
QUICK = (Case("leo", 1), Case("irregular", 0), Case("fibre", 0))


def cases(*, quick: bool) -> Sequence[Case]:
    """Return the flows of the check."""
    return QUICK if quick else CASES


def real_time_s(*, quick: bool) -> float:
    """Return about how long the measurement takes [s]."""
    return sum(SPAN_S[case.flow] + SETUP_S for case in cases(quick=quick))


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Simulate the downloads, then emulate the flows one after the other; needs no data."""
    del data
    if not sys.platform.startswith("linux"):
        return Outcome("kernel-clock", skipped="needs Linux")
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    chosen, commit, flows = cases(quick=quick), made_on()["commit"], []
    counts = simulated.COUNTS_QUICK if quick else simulated.COUNTS
    downloads = [
        each
        for kind, count in counts.items()
        for number in range(count)
        for each in measured(
            folder / f"simulated-{kind}-{number}.json",
            {"span_s": simulated.SPAN_S, "commit": commit},
            partial(simulated.downloads, kind, number),
        )
    ]
    for number, case in enumerate(chosen):
        settings = {"case": case.name, "span_s": SPAN_S[case.flow], "commit": commit}
        (row,) = measured(folder / f"{case.name}.json", settings, partial(emulated, case))
        flows.append((case, row))
        on_progress((number + 1) / len(chosen))
    loads = [load for _, row in flows for load in row["load"]]
    notes = [f"load average of a minute at start and end of each flow: {min(loads):.1f} to {max(loads):.1f}"]
    notes += [f"{case.name}: not valid, and not counted: {row['invalid']}" for case, row in flows if row["invalid"]]
    valid = [(case, row) for case, row in flows if not row["invalid"]]
    cells = [{"case": case.name, **{k: v for k, v in row.items() if k != "polls"}} for case, row in flows]
    return Outcome("kernel-clock", [*simulated_rows(downloads), *rows_of(valid)], notes, cells=[*downloads, *cells])


def emulated(case: Case) -> list[dict[str, Any]]:
    """Emulate a flow in real time; return its readings and polls, and why it is not valid, if so."""
    span_s, before = SPAN_S[case.flow], os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "out.json")
        module = [sys.executable, "-P", "-m"]
        server = [*module, f"{__name__}.sender", case.flow, str(span_s), str(file)]
        done = run_program(
            case.path(),
            [*module, f"{__name__}.receiver", str(span_s)],
            server="exec " + shlex.join(server),
        )
        row = json.loads(file.read_text(encoding="utf-8"))
    row["invalid"] = done.emulated.why_invalid
    row["load"] = [round(before, 2), round(os.getloadavg()[0], 2)]
    return [row]


def error_s(row: dict[str, Any], reading: dict[str, Any]) -> float | None:
    """Return the error of a reading's phase [s]; None: no clock."""
    if reading["at_ns"] is None:
        return None
    return paths.phase_error_s((reading["at_ns"] + row["wall_ns"]) / 1e9)


def simulated_rows(downloads: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the rows of the simulated downloads."""
    rows = []
    for controller in simulated.CONTROLLERS:
        mine = [each["readings"] for each in downloads if (each["kind"], each["controller"]) == ("leo", controller)]
        at = [next(error for t_s, error in readings if t_s >= AFTER_S) for readings in mine]
        known = [abs(error) for error in at if error is not None]
        every = [abs(error) for readings in mine for _, error in readings if error is not None]
        first_s = [next((t_s for t_s, error in readings if error is not None), None) for readings in mine]
        times = [each for each in first_s if each is not None]
        name = f"simulated LEO, {controller}"
        right = f"{len(known)} of {len(mine)} ({share_text(len(known), len(mine))})"
        rows.append(Row(f"{name}: clock after 60 s", right, "", "reported, no limit", None))
        worst = f"{max(every, default=0.0):.3f} s, at 60 s {_spread(known, 's')}"
        rows.append(
            Row(f"{name}: worst error of the phase", worst, "", f"< {LIMIT_S:g} s", max(every, default=0.0) < LIMIT_S)
        )
        missing = f", never in {len(mine) - len(times)}" if len(times) < len(mine) else ""
        rows.append(Row(f"{name}: found after", _spread(times, "s") + missing, "", "reported, no limit", None))
    for kind in ("irregular", "fibre", "geo"):
        mine = [each["readings"] for each in downloads if each["kind"] == kind]
        if mine:
            claims = sum(any(error is not None for _, error in readings) for readings in mine)
            rows.append(
                Row(f"simulated {kind}: flows with a clock", f"{claims} of {len(mine)}", "", "none", claims == 0)
            )
    return rows


def rows_of(flows: Sequence[tuple[Case, dict[str, Any]]]) -> list[Row]:
    """Return the rows of the valid flows."""
    rows = []
    for flow, text in (("bulk", "bulk download"), ("light", "light flow")):
        mine = [row for case, row in flows if (case.kind, case.flow) == ("leo", flow)]
        if not mine:
            continue
        last = [next((r for r in row["readings"] if r["t_s"] >= AFTER_S), row["readings"][-1]) for row in mine]
        errors = [error_s(row, reading) for row, reading in zip(mine, last, strict=True)]
        known = [abs(each) for each in errors if each is not None]
        first_s = [next((r["t_s"] for r in row["readings"] if r["at_ns"] is not None), None) for row in mine]
        judged = flow == "bulk"
        right = f"{len(known)} of {len(mine)} ({share_text(len(known), len(mine))})"
        rows.append(Row(f"LEO, {text}: clock after 60 s", right, "", "reported, no limit", None))
        rows.append(
            Row(
                f"LEO, {text}: error of its phase",
                _spread(known, "s"),
                "",
                f"each < {LIMIT_S:g} s" if judged else "reported, no limit",
                bool(known) and max(known) < LIMIT_S if judged else None,
            )
        )
        every = [each for row in mine for r in row["readings"] if (each := error_s(row, r)) is not None]
        worst = max(map(abs, every), default=0.0)
        rows.append(
            Row(f"LEO, {text}: worst error at any second", f"{worst:.3f} s", "", f"< {LIMIT_S:g} s", worst < LIMIT_S)
        )
        times = [each for each in first_s if each is not None]
        missing = f", never in {len(first_s) - len(times)}" if len(times) < len(first_s) else ""
        rows.append(Row(f"LEO, {text}: found after", _spread(times, "s") + missing, "", "reported, no limit", None))
    for kind in ("irregular", "fibre", "geo"):
        mine = [row for case, row in flows if case.kind == kind]
        if mine:
            claims = sum(any(r["at_ns"] is not None for r in row["readings"]) for row in mine)
            rows.append(Row(f"{kind}: flows with a clock", f"{claims} of {len(mine)}", "", "none", claims == 0))
    cost = [row["polling_s"] / row["readings"][-1]["t_s"] for _, row in flows]
    rows.append(Row("processor time of the polls", _spread([each * 100 for each in cost], "%"), "", "reported", None))
    return rows


def _spread(values: Sequence[float], unit: str) -> str:
    if not values:
        return "–"
    return f"median {np.median(values):.3g} {unit}, {min(values):.3g} to {max(values):.3g} {unit}, n = {len(values)}"


def share_text(count: int, total: int) -> str:
    """Return the 95 % interval of a share, by Wilson.

    Example:
        >>> from bentpipe.validation.kernel_clock import share_text
        >>> share_text(8, 10)
        '49 to 94 %'
    """
    z = 1.96
    middle = (count + z * z / 2) / (total + z * z)
    half = z * np.sqrt(count * (total - count) / total + z * z / 4) / (total + z * z)
    return f"{100 * max(middle - half, 0):.0f} to {100 * min(middle + half, 1):.0f} %"


__all__ = ["check", "real_time_s"]

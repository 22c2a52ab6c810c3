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

    from bentpipe.validation import OnProgress

Readings = list[tuple[float, float | None]]
"""Times of the readings of a flow [s], and the error of the phase then [s]; None: no clock."""

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
NO_CLOCK = ("irregular", "fibre", "geo")
"""Kinds of paths without one."""
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
            paths.path_of(case.kind, case.number, PROFILE_S),
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
    """Return the rows of the simulated downloads; those with BBR are judged."""
    rows = []
    for controller in simulated.CONTROLLERS:
        mine = [each["readings"] for each in downloads if (each["kind"], each["controller"]) == ("leo", controller)]
        if mine:
            rows += _clocks(f"simulated LEO, {controller}", mine, is_judged=controller == "bbr")
    for kind in NO_CLOCK:
        rows += _none(f"simulated {kind}", [each["readings"] for each in downloads if each["kind"] == kind])
    return rows


def rows_of(flows: Sequence[tuple[Case, dict[str, Any]]]) -> list[Row]:
    """Return the rows of the valid flows; downloads are judged."""

    def readings(kind: str, flow: str | None = None) -> list[Readings]:
        chosen = [row for case, row in flows if case.kind == kind and flow in (None, case.flow)]
        return [[(each["t_s"], error_s(row, each)) for each in row["readings"]] for row in chosen]

    rows = []
    for flow, text in (("bulk", "bulk download"), ("light", "light flow")):
        if mine := readings("leo", flow):
            rows += _clocks(f"LEO, {text}", mine, is_judged=flow == "bulk")
    for kind in NO_CLOCK:
        rows += _none(kind, readings(kind))
    cost = [row["polling_s"] / row["readings"][-1]["t_s"] for _, row in flows]
    rows.append(Row("processor time of the polls", _spread([each * 100 for each in cost], "%"), "", "reported", None))
    return rows


def _clocks(name: str, flows: Sequence[Readings], *, is_judged: bool) -> list[Row]:
    """Return the rows of flows over LEO paths."""
    after = [next((error for t_s, error in readings if t_s >= AFTER_S), readings[-1][1]) for readings in flows]
    known = [abs(error) for error in after if error is not None]
    every = [abs(error) for readings in flows for _, error in readings if error is not None]
    first_s = [next((t_s for t_s, error in readings if error is not None), None) for readings in flows]
    times = [each for each in first_s if each is not None]
    missing = f", never in {len(flows) - len(times)}" if len(times) < len(flows) else ""
    right = f"{len(known)} of {len(flows)} ({share_text(len(known), len(flows))}); error {_spread(known, 's')}"
    worst = f"{max(every):.3f} s" if every else "no clock"
    is_right = bool(every) and max(every) < LIMIT_S
    return [
        Row(
            f"{name}: clock after {AFTER_S:g} s",
            right,
            "",
            "in each" if is_judged else "reported, no limit",
            len(known) == len(flows) if is_judged else None,
        ),
        Row(f"{name}: worst error of the phase at any second", worst, "", f"< {LIMIT_S:g} s", is_right),
        Row(f"{name}: found after", _spread(times, "s") + missing, "", "reported, no limit", None),
    ]


def _none(name: str, flows: Sequence[Readings]) -> list[Row]:
    """Return the row of flows over paths without a clock."""
    claims = sum(any(error is not None for _, error in readings) for readings in flows)
    return [Row(f"{name}: flows with a clock", f"{claims} of {len(flows)}", "", "none", claims == 0)] if flows else []


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

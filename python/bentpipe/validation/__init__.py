"""Claims and their checks: one folder per claim with its README, its script and its last result.

``bentpipe validate NAME`` runs one. A claim is a module with ``check(data, on_progress) -> Outcome``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bentpipe.errors import UserError

OnProgress = Callable[[float], None]

#: Name on the command line → module, and one line.
CLAIMS: Mapping[str, tuple[str, str]] = {
    "look-angles": ("look_angles", "azimuth, elevation and range against Skyfield"),
    "routes": ("routes", "shortest paths over +Grid links against an independent recomputation"),
    "inter-satellite": (
        "inter_satellite",
        "paths over lasers against an independent recomputation, beside geometric bounds and published RTTs",
    ),
    "access-model": ("access_model", "the access model against measurements: ranks, a classifier, transport, controls"),
    "slots": ("slots", "slots are detected in series with a scheduler, and not in series without a clock"),
    "measured-profile": (
        "measured_profile",
        "a ping over a measured Profile has the statistics of the ping it is made from",
    ),
    "serving": ("serving", "the serving satellite from maps and pings: against known and published ones, calibration"),
    "kernel-figures": ("kernel_figures", "CUBIC and BBR against figures measured on Linux 6.18"),
    "kernel-clock": (
        "kernel_clock",
        "the clock learned from a host's sockets is right over slots of 15 s, and none elsewhere: half an hour",
    ),
    "emulator": ("emulator", "delay, capacity, loss and handovers as measured by a program inside"),
    "emulator-faults": ("emulator.faults", "killing the emulator, its program or its parent leaves nothing behind"),
    "nodes": (
        "nodes",
        "datagrams through nodes that exchange real packets against the simulator: recovered losses and delays",
    ),
    "calls": (
        "calls",
        "a simulated call against calls between two real browsers, over ten paths: twenty minutes",
    ),
    "applications": (
        "applications",
        "pages and calls with and without recovery, in Chromium and in the simulator: the same order; fifteen minutes",
    ),
    "scavenger": (
        "scavenger",
        "the household's traffic is detected within 3 s in recorded telemetry, and idle telemetry is not taken for it",
    ),
    "testbed-latency": (
        "testbed_latency",
        "a node of the testbed starts a triggered run and silences a preempted one within 1 s, the orchestrator down: "
        "an hour",
    ),
    "testbed-faults": (
        "testbed_faults",
        "a testbed's programs are killed at named points, in a partition, out of time or disk: nothing lost",
    ),
    "testbed-calendar": (
        "testbed_calendar",
        "ten thousand random steps on SQLite and on PostgreSQL leave a testbed's calendar sound; an hour",
    ),
    "dish-recorder": ("dish_recorder", "a recorder killed a hundred times, and a day replayed: nothing damaged"),
    "kernel-life": (
        "kernel_life",
        "controllers loaded into this kernel transfer, and leave nothing when they are unloaded, also by the thousand",
    ),
    "kernel-safety": (
        "kernel_safety",
        "wrong, jumping and withdrawn handover clocks of a host cost a kernel's controllers no more than 3 %; minutes",
    ),
    "kernel-safety-emulated": (
        "kernel_safety.emulated",
        "the same on this machine's kernel, with the real map and a killed `bentpipe clock`: a quarter of an hour",
    ),
    "kernel-twins": (
        "kernel_twins",
        "controllers loaded into this kernel against their twins in the simulator, on ten paths: 45 minutes",
    ),
    "kernel-reference": (
        "sim_vs_kernel.reference",
        "the simulator against stored reference results of sim-vs-kernel: minutes",
    ),
    "sim-vs-kernel": ("sim_vs_kernel", "24 cells against this machine's own kernel, in real time: hours"),
}

#: Claims that ``all`` leaves out: they take long and need an idle machine.
BY_NAME_ONLY = frozenset(
    {
        "applications",
        "calls",
        "kernel-clock",
        "kernel-life",
        "kernel-safety-emulated",
        "kernel-twins",
        "nodes",
        "sim-vs-kernel",
        "testbed-calendar",
        "testbed-faults",
        "testbed-latency",
    }
)

#: Claims with a quick version and a folder for what they measure in real time.
MEASURED_HERE = frozenset(
    {
        "applications",
        "calls",
        "kernel-clock",
        "kernel-safety-emulated",
        "kernel-twins",
        "sim-vs-kernel",
        "testbed-faults",
        "testbed-latency",
    }
)

#: Claims with a quick version and without a folder.
SHORTENED = frozenset({"access-model", "kernel-life", "kernel-safety"})

#: Claims that are skipped where this is missing, by its word in `BENTPIPE_REQUIRE`.
NEEDS: Mapping[str, str] = {
    "access-model": "data",
    "slots": "data",
    "scavenger": "data",
    "serving": "data",
    "emulator": "emu",
    "emulator-faults": "emu",
    "applications": "emu",
    "kernel-clock": "emu",
    "nodes": "emu",
    "testbed-latency": "emu",
    "calls": "emu",
    "testbed-faults": "emu",
    "testbed-calendar": "emu",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison: the quantity, our value, the reference, the tolerance, and whether they agree within it.

    `within` is None for a value that is reported without a limit; such a row is not judged.
    """

    quantity: str
    ours: str
    reference: str
    tolerance: str
    within: bool | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a check; `skipped` is the reason if it could not be made.

    `cells` are detailed records beside the rows; None: there are none.
    """

    claim: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    skipped: str | None = None
    cells: list[dict[str, Any]] | None = None

    @property
    def holds(self) -> bool | None:
        """Whether every judged row is within its tolerance, and at least one is judged; None: skipped."""
        if self.skipped:
            return None
        judged = [row.within for row in self.rows if row.within is not None]
        return bool(judged) and all(judged)

    def to_dict(self) -> dict[str, Any]:
        """Return the record that ``validate --json`` prints; `cells` are separate."""
        plain = {key: value for key, value in asdict(self).items() if key != "cells"}
        plain["rows"] = [
            {"what" if key == "quantity" else key: value for key, value in row.items()} for row in plain["rows"]
        ]
        return {**plain, "holds": self.holds}

    @property
    def fails(self) -> bool:
        """Whether it does not hold, or is skipped for a lack that ``BENTPIPE_REQUIRE`` does not accept."""
        if self.holds is not None:
            return not self.holds
        return NEEDS.get(self.claim) in os.environ.get("BENTPIPE_REQUIRE", "").split(",")


def check(
    name: str,
    data: Path | None = None,
    on_progress: OnProgress | None = None,
    *,
    quick: bool = False,
    out: Path | None = None,
) -> Outcome:
    """Check a claim against its reference.

    Args:
        name: One of `CLAIMS`.
        data: Folder with the measurements that some claims need (docs/guides/validation.md); None: those are skipped.
        on_progress: Called with the part done, 0 to 1.
        quick: Fewer and shorter Runs, for claims that support it (`MEASURED_HERE`, `SHORTENED`).
        out: Folder for the Runs of claims in `MEASURED_HERE`; None: the claim's own below ``out/``.

    Raises:
        UserError: The claim is unknown, does not have the option, or needs an extra
            (`pip install bentpipe[validation]`).
    """
    if name not in CLAIMS:
        raise UserError(f"unknown claim {name!r}; known: {', '.join(CLAIMS)}, all")
    try:
        module = importlib.import_module(f"bentpipe.validation.{CLAIMS[name][0]}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("bentpipe"):
            raise
        raise UserError(f"{name} needs {error.name}: pip install 'bentpipe[validation]'") from error
    how = {"quick": quick, "out": out} if name in MEASURED_HERE else {}
    if name in SHORTENED:
        how = {"quick": quick}
    if (quick and not how) or (out is not None and "out" not in how):
        shortened = ", ".join(sorted(MEASURED_HERE | SHORTENED))
        raise UserError(f"{name}: `quick` is for {shortened}, `out` for {', '.join(sorted(MEASURED_HERE))}")
    outcome: Outcome = module.check(data, on_progress or (lambda _: None), **how)
    return outcome


def real_time(name: str, *, quick: bool) -> str:
    """Describe in one line how long a claim of `MEASURED_HERE` takes in real time."""
    module = importlib.import_module(f"bentpipe.validation.{CLAIMS[name][0]}")
    minutes = module.real_time_s(quick=quick) / 60
    span = f"{minutes:.0f} minutes" if minutes < 90 else f"{minutes / 60:.1f} hours"
    return (
        f"{name}: about {span} on this machine's kernel, in real time and best without other load; "
        "what is measured is stored, and the same command continues"
    )

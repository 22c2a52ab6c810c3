"""The kernel's MPTCP over LEO and fibre, both emulated, beside the simulator on the same paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.execution.multipath import MultipathRun, simulate_multipath
from bentpipe.execution.multipath_kernel import KernelRun, emulate_multipath, why_no_mptcp
from bentpipe.studies.agreement import Claim, all_hold
from bentpipe.studies.field import bootstrap
from bentpipe.studies.multi_access_file import MultiAccess, MultiAccessKernel
from bentpipe.studies.multi_access_runs import Plan, messages_of, stream_of
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.execution.multipath import SchedulerName

KERNEL = "kernel"
#: Scheme → what runs it.
SIMULATED: dict[str, SchedulerName] = {"simulated linger": "linger", "simulated min-rtt": "min-rtt"}
SCHEMES = (KERNEL, *SIMULATED)
#: Quantity → its unit.
QUANTITIES = {
    "bulk goodput": "Mbit/s",
    "message, median": "ms",
    "message, 95th percentile": "ms",
    "stream, median delay": "ms",
    "stream, 99th percentile": "ms",
    "share of the stream over LEO": "",
}

Values = dict[str, list[float]]


@dataclass
class Tests:
    """Values of each scheme by quantity, one for each test, and the kernel's runs that were disturbed."""

    values: dict[str, Values] = field(default_factory=lambda: {scheme: {} for scheme in SCHEMES})
    disturbed: list[str] = field(default_factory=list)

    def add(self, scheme: str, quantity: str, value: float) -> None:
        """Add the value of a test."""
        self.values[scheme].setdefault(quantity, []).append(value)


def _run(request: Request) -> Result:
    if why := why_no_mptcp():
        raise UserError(why, where="multi-access-kernel", expected="Linux 5.6 or later with CONFIG_MPTCP")
    file, whole = MultiAccessKernel.load(), MultiAccess.load()
    tests = file.tests_quick if request.quick else file.tests
    plan = Plan(
        whole.replace(tests=tests, learn_s=0.0, bulk_s=file.bulk_s, app_s=file.app_s, warmup_s=file.warmup_s),
        quick=False,
    )
    cases = {name: Tests() for name in file.cases}
    for number, (name, case) in enumerate((name, test) for name in file.cases for test in range(tests)):
        full, light = plan.both(whole.case[name], case)
        _test(plan, full, light, case, cases[name])
        request.on_progress((number + 1) / (tests * len(cases)))
    basis = f"emulated and simulated: {tests} tests of {file.bulk_s:g} s (bulk) and {file.app_s:g} s"
    rows = [
        Row(f"{name}: {quantity}, {scheme}", unit, None, mean, f"95 %: {low:.4g} to {high:.4g}", basis)
        for name, tested in cases.items()
        for quantity, unit in QUANTITIES.items()
        for scheme in SCHEMES
        for mean, low, high in [bootstrap(tested.values[scheme][quantity])]
    ]
    lines = [basis, *(f"{name}: {whole.case[name].description}" for name in file.cases)]
    return Result(rows, _verdicts(cases, file, basis), lines, notes=_notes(cases))


def _test(plan: Plan, full: tuple[Profile, Profile], light: tuple[Profile, Profile], test: int, into: Tests) -> None:
    file = plan.file
    workloads: Sequence[tuple[str, tuple[Profile, Profile], float, list[tuple[float, int]]]] = (
        ("bulk", full, plan.bulk_s, []),
        ("message", light, plan.app_s, messages_of(plan, test)),
        ("stream", light, plan.app_s, stream_of(plan)),
    )
    for kind, profiles, duration_s, writes in workloads:
        kernel = emulate_multipath(profiles, duration_s=duration_s, writes=writes, warmup_s=file.warmup_s, seed=test)
        if kernel.why_invalid is not None:
            into.disturbed.append(kernel.why_invalid)
        _add_kernel(into, kind, kernel)
        for scheme, scheduler in SIMULATED.items():
            # The path that opens the connection is the first of the kernel's list, which decides ties.
            run = simulate_multipath(
                profiles[::-1], scheduler, duration_s=duration_s, writes=writes, controller=file.controller, seed=test
            )
            _add_simulated(into, scheme, kind, run, file.warmup_s)


def _add_kernel(into: Tests, kind: str, run: KernelRun) -> None:
    if run.goodput_bps is not None:
        into.add(KERNEL, "bulk goodput", run.goodput_bps / 1e6)
        return
    _add_delays(into, KERNEL, kind, run.completion_ms)
    if kind == "stream":
        into.add(KERNEL, "share of the stream over LEO", run.path_bytes[0] / max(1, sum(run.path_bytes)))


def _add_simulated(into: Tests, scheme: str, kind: str, run: MultipathRun, warmup_s: float) -> None:
    if kind == "bulk":
        into.add(scheme, "bulk goodput", run.goodput_bps(warmup_s) / 1e6)
        return
    _add_delays(into, scheme, kind, run.completion_ms[np.isfinite(run.completion_ms)])
    if kind == "stream":
        fibre, leo = run.acked_bytes[:, -1].astype(np.float64)
        into.add(scheme, "share of the stream over LEO", float(leo / (fibre + leo)))


def _add_delays(into: Tests, scheme: str, kind: str, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    median, high = ("message, median", "message, 95th percentile")
    level = 0.95
    if kind == "stream":
        median, high, level = "stream, median delay", "stream, 99th percentile", 0.99
    into.add(scheme, median, float(np.median(values)))
    into.add(scheme, high, float(np.quantile(values, level)))


def _verdicts(cases: Mapping[str, Tests], file: MultiAccessKernel, basis: str) -> list[Verdict]:
    within = file.within
    return [
        all_hold(
            f"{name}: the simulator's linger has the kernel's {quantity} within a factor of {within:g}",
            [
                Claim(
                    "simulated over kernel",
                    tested.values["simulated linger"][quantity],
                    tested.values[KERNEL][quantity],
                    1 / within,
                    within,
                )
            ],
            "wanted: docs/guides/multi-access.md",
            basis,
        )
        for name, tested in cases.items()
        for quantity in ("bulk goodput", "message, median", "stream, median delay")
    ]


def _notes(cases: Mapping[str, Tests]) -> list[str]:
    disturbed: Sequence[str] = [f"{name}: {why}" for name, tested in cases.items() for why in tested.disturbed]
    return [
        "the kernel's MPTCP with its default scheduler and path manager; fibre opens the connection, and the server "
        "announces its address on LEO",
        "the client is a Python program: it counts bytes as it reads them, and delays from when a write was due",
        f"{len(disturbed)} of the kernel's runs were disturbed by the machine, and count",
        *disturbed[:5],
    ]


STUDY = Study(
    name="multi-access-kernel",
    title="The kernel's MPTCP over LEO and fibre, beside the simulator on the same paths",
    source="bentpipe's own question; T3P (arXiv:2310.11835), section 7.1",
    takes="ten minutes in real time; --quick: two",
    run=_run,
)

"""Eight CUBIC against eight BBRv2 flows, by setting (T3P, figure 5d)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from bentpipe.errors import UserError
from bentpipe.execution.job import race_jobs
from bentpipe.execution.sinks.table import SweptRun
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.fairness import Group, fairness_of, goodput_by_second, scheme_of_groups
from bentpipe.plots.fairness import plot_fairness
from bentpipe.runs.estimates import Estimate, paired_ratio
from bentpipe.studies.agreement import Claim, above_zero, all_hold, all_of, assess, values_text
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p_files import T3pFairness
from bentpipe.studies.t3p_uplink import load_uplink

NOMINAL = 0.8
"""The best choice "follows the default closely with only a nominal reduction" where its median ratio is at least this
part of the default's. Chosen here: the paper's figure has no numbers in the text."""
ENDLESS = 1e6
"""Value of the ratio where BBRv2 had no goodput in most seconds."""


def _run(request: Request) -> Result:
    file, uplink = T3pFairness.load(), load_uplink()
    each = file.flows_each
    settings = {setting.label: setting.scheme for setting in file.settings}
    count, duration_s = (
        (file.tests_quick, file.duration_quick_s) if request.quick else (uplink.tests, uplink.duration_s)
    )
    paths = uplink.paths(count, duration_s, on_progress=lambda done: request.on_progress(0.1 * done))
    groups = {label: (Group(each, "cubic"), Group(each, scheme)) for label, scheme in settings.items()}
    raced = {label: scheme_of_groups(pair) for label, pair in groups.items()}
    jobs = race_jobs(
        paths, list(raced.values()), direction="up", duration_s=duration_s, phase_s=0.0, measure=goodput_by_second
    )
    runs = run_sweep(
        jobs, out=request.out, on=request.on, on_progress=lambda at: request.on_progress(0.1 + 0.9 * at.share)
    ).whole()
    fairness = {
        label: fairness_of([run for run in runs if run.scheme == raced[label]], groups[label]) for label in settings
    }
    by_test = {label: _by_test([run for run in runs if run.scheme == raced[label]], each) for label in settings}
    basis = f"simulated: {count} tests of {duration_s:g} s"
    default = next(iter(settings))
    rows = []
    for label, one in fairness.items():
        pooled = float(np.clip(np.median(one.ratios[0]), 0.0, ENDLESS))
        against = paired_ratio(by_test[label], by_test[default])
        for quantity, value, interval_note in (
            ("CUBIC's goodput over BBRv2's, median of 1 s samples", pooled, ""),
            (
                "the same, over the default's on the same test",
                None if against is None else against.mean,
                _interval_note(against),
            ),
            ("CUBIC's share", one.shares[0].mean, _interval_note(one.shares[0])),
            ("Jain's index over 10 s", next((at.jain.mean for at in one.scales if at.scale_s == 10), None), ""),
        ):
            rows.append(Row(f"{quantity}: {label}", "", None, value, "figure 5d", f"{basis}{interval_note}"))
    return Result(
        rows,
        _verdicts(by_test, basis),
        [f"{uplink.text}: {count} tests of {duration_s:g} s, the same for every setting, {each_text(each)}"],
        {"figure-5d": plot_fairness(fairness, title=f"{each_text(each)}, uploads from BCN-1")},
        ["figure 5d has no numbers in the text, so only the ordering can be compared"],
    )


def each_text(count: int) -> str:
    """Describe the flows that share the path."""
    return f"{count} CUBIC and {count} BBRv2 flows"


def _by_test(runs: Sequence[SweptRun], each: int) -> list[float]:
    """Return each test's median over seconds of CUBIC's goodput (the first `each` flows) over BBRv2's."""
    ratios = []
    for run in runs:
        flows = np.array(run.measures["goodput_bps"], np.float64)
        cubic, other = flows[:each].sum(axis=0), flows[each:].sum(axis=0)
        known = (cubic > 0) | (other > 0)
        if not known.any():
            raise UserError(
                f"{run.label}: no flow had goodput in a test of {len(cubic)} s; expected a path that carries traffic"
            )
        with np.errstate(divide="ignore"):
            ratios.append(float(np.clip(np.median(cubic[known] / other[known]), 0.0, ENDLESS)))
    return ratios


def _interval_note(fairness: Estimate | None) -> str:
    return f"; {_interval_text(fairness)}" if fairness else ""


def _interval_text(fairness: Estimate) -> str:
    if fairness.low is None or fairness.high is None:
        return f"{fairness.mean:.3g}, n = {fairness.n}, no interval"
    return f"mean and 95 % interval {fairness.mean:.3g} ({fairness.low:.3g} to {fairness.high:.3g}), n = {fairness.n}"


def _verdicts(by_test: Mapping[str, Sequence[float]], basis: str) -> list[Verdict]:
    labels = list(by_test)
    default, last = labels[0], labels[-1]
    best = next(label for label in labels if "paper's best" in label)
    logs = np.log(np.clip(np.array([by_test[label] for label in labels]), 1 / ENDLESS, ENDLESS))
    falls = [-float(slope) for slope in np.polyfit(np.arange(len(labels)), logs, 1)[0]]
    interval_note = "; ".join(f"{label}: {values_text(values, '')}" for label, values in by_test.items())
    trend = above_zero("", falls, "", "", "fall of the ratio's logarithm for each step along the diagonal")
    ends = assess(Claim(f"{last} over {default}", by_test[last], by_test[default], 0.0, 1.0))
    return [
        Verdict(
            "towards the bottom right BBRv2 becomes more aggressive: the ratios are lower",
            all_of([trend.holds, ends.holds]),
            "figure 5d",
            basis,
            f"{trend.why}; {ends.why}; medians by test: {interval_note}",
        ),
        all_hold(
            "the best choice follows the default closely with only a nominal reduction",
            [Claim(f"{best} over {default}", by_test[best], by_test[default], NOMINAL)],
            "figure 5d",
            basis,
            f"limit: at least {NOMINAL:g}",
        ),
    ]


STUDY = Study(
    name="t3p-fairness",
    title="Eight CUBIC flows against eight of BBRv2, with its defaults and tuned",
    source="T3P (arXiv:2310.11835), figure 5d",
    takes="a minute on two cores; --quick: a quarter of one",
    run=_run,
    sweeps=True,
)

"""Pairwise comparison of two races over the same paths: simulator and kernel, or two builds."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.runs.apart import distinguish, queue_rules
from bentpipe.runs.commands import by_command
from bentpipe.runs.estimates import Estimate, paired_ratio
from bentpipe.runs.figures import Figures, NoFiguresError, figures_of, seconds_without_delay
from bentpipe.runs.items import items_by_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.records import Record
    from bentpipe.runs.items import Items
    from bentpipe.runs.store import Run


@dataclass(frozen=True)
class Pair:
    """Two Runs over one path: the same realised Profiles, scheme, phase, duration, queue rules and cross traffic."""

    runs: tuple[Run, Run]
    figures: tuple[Figures, Figures]
    items: tuple[dict[str, Items], dict[str, Items]]
    """Items of all flows, by kind."""


@dataclass(frozen=True)
class ItemComparison:
    """The items of one kind in both races: means over the pairs in which both completed some.

    Attributes:
        kind: Their kind, such as ``request``.
        n: Number of these pairs.
        completed: Number of complete items per Run.
        median_s: Median duration [s].
        p95_s: 95th percentile of the duration [s].
        ratio: First race's median duration ÷ the second's.
    """

    kind: str
    n: int
    completed: tuple[float, float]
    median_s: tuple[float, float]
    p95_s: tuple[float, float]
    ratio: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``compare --json`` has it: lists of first and second."""
        ratio = self.ratio
        return {
            "kind": self.kind,
            "n": self.n,
            "completed": list(self.completed),
            "median_s": list(self.median_s),
            "p95_s": list(self.p95_s),
            "median_ratio": None if ratio is None else ratio.mean,
            "median_ratio_low": None if ratio is None else ratio.low,
            "median_ratio_high": None if ratio is None else ratio.high,
        }


@dataclass(frozen=True)
class Scheme:
    """A scheme on a Profile in both races, seed by seed; `experiment` is the name of the first race's."""

    experiment: str
    label: str
    name: str
    pairs: tuple[Pair, ...]

    def means(self, quantity: str) -> tuple[float, float]:
        """Return the mean over the pairs of a field of `Figures`, or ``first_share``: first race, second race."""
        first, second = (fmean(float(getattr(pair.figures[i], quantity)) for pair in self.pairs) for i in (0, 1))
        return first, second

    def goodput_ratio(self) -> Estimate | None:
        """Return the ratio of the first race's goodput to the second's; None: one has none."""
        goodput = [[pair.figures[i].goodput_bps for pair in self.pairs] for i in (0, 1)]
        return paired_ratio(goodput[0], goodput[1])

    def items(self) -> list[ItemComparison]:
        """Compare the items of the flows' applications, by kind; kinds of one race alone are left out."""
        compared = []
        for kind in dict.fromkeys(kind for pair in self.pairs for kind in pair.items[0]):
            both = [(a[kind], b[kind]) for a, b in (pair.items for pair in self.pairs) if kind in a and kind in b]
            both = [(a, b) for a, b in both if a.durations_s and b.durations_s]
            if not both:
                continue
            sides = list(zip(*both, strict=True))
            medians, tails = ([[_known(each.quantile_s(p)) for each in side] for side in sides] for p in (50, 95))
            completed = [fmean(each.completed for each in side) for side in sides]
            compared.append(
                ItemComparison(
                    kind,
                    len(both),
                    (completed[0], completed[1]),
                    (fmean(medians[0]), fmean(medians[1])),
                    (fmean(tails[0]), fmean(tails[1])),
                    paired_ratio(medians[0], medians[1]),
                )
            )
        return compared

    def to_dict(self) -> dict[str, Any]:
        """Return the row of ``compare --json``: lists of first and second; NaN (no packet delivered) is None."""
        ratio = self.goodput_ratio()
        delays = self.means("delay_ms")
        return {
            "experiment": self.experiment,
            "profile": self.label,
            "scheme": self.name,
            "seeds": [pair.runs[0].seed for pair in self.pairs],
            "goodput_bps": list(self.means("goodput_bps")),
            "goodput_ratio": None if ratio is None else ratio.mean,
            "goodput_ratio_low": None if ratio is None else ratio.low,
            "goodput_ratio_high": None if ratio is None else ratio.high,
            "delay_ms": [None if math.isnan(delay) else delay for delay in delays],
            "retransmit_rate": list(self.means("retransmit_rate")),
            "first_share": list(self.means("first_share")),
            "items": [each.to_dict() for each in self.items()],
        }


@dataclass(frozen=True)
class Pairing:
    """The common Runs of two races, and the number of excluded Runs of each.

    Attributes:
        schemes: Schemes with their paired Runs.
        alone: Runs of either race without a partner.
        invalid: Runs of either race that are not valid.
        without: For each pair without figures the reason (a Run without flows, a flow that ended in the warm-up).
        other_hosts: Pairs whose hosts have different settings (`hosts`, `host_timing` of their Experiments).
    """

    schemes: tuple[Scheme, ...]
    alone: tuple[int, int]
    invalid: tuple[int, int]
    without: tuple[str, ...] = ()
    other_hosts: int = 0

    def seconds_without_delay(self) -> tuple[int, int]:
        """Count the seconds after the warm-up that have no delay, over all Runs of the first race, of the second."""
        pairs = [pair for scheme in self.schemes for pair in scheme.pairs]
        first, second = (
            sum(
                seconds_without_delay(pair.figures[i].seconds, pair.runs[i].duration_s, pair.runs[i].warmup_s)
                for pair in pairs
            )
            for i in (0, 1)
        )
        return first, second


def pair_up(first: Sequence[Run], second: Sequence[Run]) -> Pairing:
    """Pair the Runs of two races, by Experiment, Profile and scheme; programs by their command.

    Raises:
        UserError: No Run has a partner (the paths differ), no pair has figures, or two Runs of one race have the same
            partner.
    """
    first, second = (distinguish(by_command(runs)) for runs in (first, second))
    valid = [[run for run in runs if run.record.valid] for runs in (first, second)]
    mine, theirs = (_by_path(runs) for runs in valid)
    both = [key for key in mine if key in theirs]
    if not both:
        raise UserError(_why_none(first, second))
    grouped: dict[tuple[str, str, str], list[Pair]] = {}
    without = []
    for key in both:
        runs = mine[key], theirs[key]
        try:
            figures = _figures(runs[0]), _figures(runs[1])
        except NoFiguresError as error:
            without.append(f"{runs[0].label}, {runs[0].scheme}, seed {runs[0].seed}: {error.reason}")
            continue
        kind = runs[0].experiment, runs[0].label, runs[0].scheme
        items = items_by_kind(runs[0]), items_by_kind(runs[1])
        grouped.setdefault(kind, []).append(Pair(runs, figures, items))
    if not grouped:
        raise UserError(f"no pair of Runs has figures to compare ({without[0]})")
    return Pairing(
        schemes=tuple(Scheme(*kind, tuple(pairs)) for kind, pairs in grouped.items()),
        alone=(len(mine) - len(both), len(theirs) - len(both)),
        invalid=(len(first) - len(valid[0]), len(second) - len(valid[1])),
        without=tuple(without),
        other_hosts=sum(_hosts(pair.runs[0]) != _hosts(pair.runs[1]) for pairs in grouped.values() for pair in pairs),
    )


def _known(value: float | None) -> float:
    assert value is not None  # of items that are complete
    return value


def _hosts(run: Run) -> tuple[object, ...]:
    """Return the settings of the Run's hosts, with the timing model if they are simulated."""
    experiment = run.record.experiment
    return experiment.hosts, experiment.host_timing


FREE = ("name", "sample_step_ns", "host_timing", "hosts", "profiles", "test")
"""Fields in which partners' Experiments may differ; Profiles are compared by their realisation."""


def _by_path(runs: Sequence[Run]) -> dict[str, Run]:
    by_path: dict[str, Run] = {}
    for run in runs:
        other = by_path.setdefault(_path(run), run)
        if other is not run:
            raise UserError(
                f"{other.path} and {run.path} have the same path, so the partner is ambiguous",
                expected="a folder with one of them",
            )
    return by_path


def _path(run: Run) -> str:
    experiment = {key: value for key, value in run.record.experiment.to_dict().items() if key not in FREE}
    hashes = [profile.hash for profile in run.record.profiles]
    return json.dumps([hashes, run.scheme, experiment], sort_keys=True)


def _figures(run: Run) -> Figures:
    return figures_of(run, run.samples(), run.links(), run.events(), warmup_s=run.warmup_s)


def _as_text(records: Sequence[Record]) -> str:
    return json.dumps([each.to_dict() for each in records])


def _why_none(first: Sequence[Run], second: Sequence[Run]) -> str:
    """Describe the first property that no two Runs share."""
    if not all(any(run.record.valid for run in runs) for runs in (first, second)):
        return "one of the races has no valid Run, so there is nothing to compare"

    def differing(name: str, value_of: Callable[[Run], object]) -> str | None:
        mine, theirs = ({value_of(run) for run in runs} for runs in (first, second))
        if mine & theirs:
            return None
        shown = [", ".join(sorted(map(str, values))[:3]) for values in (mine, theirs)]
        return f"no Run of one race has a partner in the other: their {name} differ ({shown[0]}; {shown[1]})"

    reasons = (
        differing("Profiles", lambda run: "+".join(profile.hash[:12] for profile in run.record.profiles)),
        differing("schemes", lambda run: run.scheme),
        differing("seeds", lambda run: run.seed),
        differing("lengths [s]", lambda run: run.duration_s),
        differing("start phases [s]", lambda run: run.offset_s),
        differing("queue rules", lambda run: queue_rules(run.record.experiment)[1]),
        differing("cross traffic", lambda run: _as_text(run.record.experiment.cross)),
    )
    return next(filter(None, reasons), "no Run of one race has the Profile and the Experiment of one in the other")

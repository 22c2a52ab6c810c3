"""Verdicts on T3P's statements about BBRv2's grid, from tests over the same paths."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.runs.estimates import Estimate
from bentpipe.studies.agreement import all_of, within_limits
from bentpipe.studies.study import Verdict
from bentpipe.studies.t3p_pooled import Pooled
from bentpipe.tuning.scores import score
from bentpipe.tuning.search import Cell, Tuned

#: Largest ratio of an interval's ends, for goodput and RTT, with which a published value counts as met. A wider
#: interval would contain it because little is known. Chosen here.
WIDEST_GAIN, WIDEST_RTT = 1.25, 1.10


@dataclass(frozen=True)
class PlaceGrid:
    """Results of the grid at one place, with its Runs."""

    tuned: Tuned
    runs: Sequence[Any]

    def beats(self, one: Cell, other: Cell) -> bool | None:
        """Return whether one point has more goodput than another on the same tests; None: undecided."""
        return above_one(score(self.runs, one.scheme, other.scheme).gain)

    def within(self) -> list[Cell]:
        """Return the points that gain goodput within the limit of inflation."""
        limit = self.tuned.most_inflation
        return [cell for cell in self.tuned.cells if cell.score.within(limit) and (mean(cell.score.gain) or 0.0) > 1.0]


@dataclass(frozen=True)
class GridResults:
    """Input of the verdicts.

    Attributes:
        home: The grid at BCN-1.
        others: The grid at other places, by name.
        fresh: The paper's point on fresh paths.
        good: The paper's sets of best values elsewhere: probe_rtt_win_ms, loss_thresh.
        published: The paper's gain and inflation.
        bases: Basis of the grid at BCN-1, of the fresh tests, and of other places.
    """

    home: PlaceGrid
    others: Mapping[str, PlaceGrid]
    fresh: Pooled
    good: Sequence[Sequence[str]]
    published: tuple[float, float]
    bases: tuple[str, str, str]


def verdicts(results: GridResults) -> list[Verdict]:
    """Judge each statement of section 5.2."""
    home = results.home.tuned
    basis, fresh_basis, elsewhere = results.bases
    corner = next(cell for cell in home.cells if cell.point == ("1000", "0.16"))
    loss = [mean(cell.score.gain) for cell in home.cells if cell.point[0] == "5000"]
    places = {"BCN-1": results.home, **results.others}
    where = "; ".join(
        f"{name}: {' ms, '.join(at.tuned.best.point) if at.tuned.best else 'none'}" for name, at in places.items()
    )
    probes, losses = results.good
    return [
        Verdict(
            "lower probe_rtt_win_ms and higher loss_thresh give more throughput than the default",
            above_one(corner.score.gain),
            "figure 5b",
            basis,
            f"at 1000 ms, 16 %: goodput {percent(corner.score.gain)}; over loss_thresh alone, at 5000 ms: "
            + ", ".join("–" if value is None else f"{100 * (value - 1):+.1f}" for value in loss)
            + " %",
        ),
        Verdict(
            "often at the cost of latency",
            above_one(corner.score.rtt_p95),
            "figure 5c",
            basis,
            f"at 1000 ms, 16 %: p95 of the RTT {percent(corner.score.rtt_p95)}",
        ),
        published_gain(results.fresh, results.published, fresh_basis, "on fresh paths, "),
        Verdict(
            "the best combinations vary across locations",
            differ(list(places.values())),
            "section 5.2",
            f"{basis}; elsewhere {elsewhere}",
            where + "; points that paired differences over the same tests do not separate count as one",
        ),
        *(
            Verdict(
                f"{name}: the best point is one of {', '.join(probes)} ms and {', '.join(losses)}",
                among(at, results.good),
                "section 5.2",
                elsewhere,
                f"best: {' ms, '.join(at.tuned.best.point) if at.tuned.best else 'none'}; a point outside counts only "
                "if paired differences separate it from those inside",
            )
            for name, at in results.others.items()
        ),
    ]


def published_gain(pooled_result: Pooled, published: tuple[float, float], basis: str, where: str = "") -> Verdict:
    """Judge whether a point has the published gain and inflation; `where` is a prefix of the explanation."""
    gain, rtt = pooled_result.gain, pooled_result.rtt_p95
    met = (
        gain.meets(published[0], WIDEST_GAIN) if gain else None,
        rtt.meets(published[1], WIDEST_RTT) if rtt else None,
    )
    return Verdict(
        "at 4000 ms and 8 % throughput is 115 % above the default's with 5 % more RTT",
        all_of(met),
        "section 5.2",
        basis,
        f"{where}all seconds together: goodput {gain.text if gain else 'unknown'}, p95 of the RTT "
        f"{rtt.text if rtt else 'unknown'}; met if both intervals contain the published value and are no wider than "
        f"× {WIDEST_GAIN:g} and × {WIDEST_RTT:g}",
    )


def above_one(value: Estimate | None) -> bool | None:
    """Return whether a ratio is above 1; None where its interval contains 1 or is missing."""
    return None if value is None else within_limits(value, 1.0, math.inf)


def differ(places: Sequence[PlaceGrid]) -> bool | None:
    """Return whether best points differ: at two places each own best beats the other's.

    False where one point is best everywhere and beats all others within the limit; None otherwise.
    """
    pooled_result = [(at, at.tuned.best) for at in places]
    best = [(at, cell) for at, cell in pooled_result if cell is not None]
    for i, (at, own) in enumerate(best):
        for there, theirs in best[i + 1 :]:
            if own.point != theirs.point and _better(at, own, theirs) and _better(there, theirs, own):
                return True
    if len(best) < len(places) or len({cell.point for _, cell in best}) > 1:
        return None
    alone = all(at.beats(own, cell) for at, own in best for cell in at.within() if cell.point != own.point)
    return False if alone else None


def _better(at: PlaceGrid, own: Cell, theirs: Cell) -> bool:
    other = next(cell for cell in at.tuned.cells if cell.point == theirs.point)
    return not other.score.within(at.tuned.most_inflation) or at.beats(own, other) is True


def among(at: PlaceGrid, good: Sequence[Sequence[str]]) -> bool | None:
    """Return whether the best point is in a set; None where points on the other side are not worse."""
    best = at.tuned.best
    if best is None:
        return None

    def inside(cell: Cell) -> bool:
        return all(value in values for value, values in zip(cell.point, good, strict=True))

    rivals = [cell for cell in at.within() if inside(cell) != inside(best)]
    return inside(best) if all(at.beats(best, cell) for cell in rivals) else None


def mean(value: Estimate | None) -> float | None:
    """Return the estimate's mean, if it is known."""
    return None if value is None else value.mean


def percent(value: Estimate | None) -> str:
    """Format a ratio as a change with its interval: ``+12.3 (+10.0 … +14.1) %``."""
    if value is None:
        return "unknown"
    ends = (
        ""
        if value.low is None or value.high is None
        else f" ({100 * (value.low - 1):+.1f} … {100 * (value.high - 1):+.1f})"
    )
    return f"{100 * (value.mean - 1):+.1f}{ends} %"

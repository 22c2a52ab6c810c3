"""A stochastic model of handovers (proposed by T3P, section 7.1): how well it predicts, and whether a controller gains.

The first half of a file of pings is learned, the second scored. The clock that pings give is then the hint of a
controller, beside no hint, a clock of its own, and announcements without error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe.analysis.edges import edges_near, silences_s
from bentpipe.analysis.handovers import analyze_handovers
from bentpipe.errors import UserError
from bentpipe.measurements.runs.analysis_input import load_table
from bentpipe.predict.handovers import HIGH, LEAST_EDGES, POINTS, HandoverModel, arrivals_s, handovers_in, sizes
from bentpipe.profiles.path import PathView
from bentpipe.profiles.pings import ping_table
from bentpipe.studies import field
from bentpipe.studies.agreement import Claim, all_hold, ratio_of, ratio_text
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import SOURCE
from bentpipe.studies.t3p_files import HintSources, T3pHandovers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SECTION = "section 7.1"
_OURS = "not in the paper"
#: Share that an interval between the 5 % and 95 % quantiles should have.
INSIDE = 0.9
#: Coverage that is accepted of some dozens of slots: two standard errors of a share of 0.9 in 50.
ACCEPTED = (0.8, 1.0)


@dataclass(frozen=True)
class _Halves:
    """A file of pings: the model of its first half, and what came in the second."""

    name: str
    model: HandoverModel
    before_ms: Floats
    after_ms: Floats
    gaps_ms: Floats
    edge_error_s: float | None  # None: half a file is too short to find a clock

    @property
    def steps_ms(self) -> Floats:
        return np.abs(self.after_ms - self.before_ms)


def _run(request: Request) -> Result:
    file = T3pHandovers.load()
    world = "simulated" if request.data is None else "measured"
    halves, notes = [], []
    for name, table in _pings(file, request):
        try:
            halves.append(_learn(name, table))
        except UserError as error:
            notes.append(f"left out: {name}: {error}")
        request.on_progress(0.1 * len(halves))
    rows = [row for each in halves for row in _rows(each, file.scored.over_ms, f"{world}: {each.name}")]
    verdicts = _verdicts(halves, file.scored.over_ms, world)
    hint_rows, hint_verdicts, basis = _hints(file.hints, request)
    notes += [
        "sizes are learned from the first half of each file and scored on the second; the clock is the first half's, "
        "or the whole file's where half of it is too short to find one",
        "a gap is the longest time without an arriving reply around an edge; the spacing of pings is in it",
        "the model's clock as a hint: announcements of the path's handovers, all late or early by the clock's error",
    ]
    return Result(rows + hint_rows, verdicts + hint_verdicts, [*(each.name for each in halves), basis], notes=notes)


def _pings(file: T3pHandovers, request: Request) -> Iterator[tuple[str, pl.LazyFrame]]:
    if request.data is not None:
        known = [request.data / name for name in file.files.pings]
        for log in [each for each in known if each.is_file()] or [request.data]:
            yield log.name, load_table(log, "probes").table
        return
    for path in field.make_paths(file.pings[: file.pings_quick if request.quick else None], file.pings_s):
        sent_s = np.arange(0.0, PathView(path.profile).duration_s - 1.0, file.ping_interval_s)
        yield path.name, ping_table(path.profile, sent_s).lazy()


def _learn(name: str, table: pl.LazyFrame) -> _Halves:
    """Learn sizes from the first half, and collect what came in the second. Raises `UserError`: too few slots.

    The clock is that of the first half, or of the whole file where half of it is too short to find one.
    """
    span = table.select(pl.col("unix_ns").min().alias("first"), pl.col("unix_ns").max().alias("last")).collect()
    middle_ns = (int(span["first"][0]) + int(span["last"][0])) // 2
    seen = analyze_handovers(table, clock_known=True)
    if not seen.found or seen.phase_s is None or seen.period_s is None or seen.edge_unix_ns is None:
        raise UserError(seen.reason, where=name, expected="pings with slots, and the time of the day")
    early = analyze_handovers(table.filter(pl.col("unix_ns") < middle_ns), clock_known=True)
    phase_s, edge_error_s = seen.phase_s, None
    if early.found and early.phase_s is not None and early.period_s == seen.period_s:
        phase_s, edge_error_s = early.phase_s, _apart(early.phase_s, seen.phase_s, seen.period_s)
    slots = seen.slots.filter(pl.col("median_ms").is_not_null() & pl.col("median_ms").is_finite())
    starts_s, levels_ms = slots["start_s"].to_numpy(), slots["median_ms"].to_numpy()
    follows = np.abs(np.diff(starts_s) - seen.period_s) < seen.period_s / 2
    before_ms, after_ms = levels_ms[:-1][follows], levels_ms[1:][follows]
    # Starts of slots count from the first ping.
    is_late = starts_s[1:][follows] >= (middle_ns - int(span["first"][0])) / 1e9
    replies_s = arrivals_s(table)
    edges_s = edges_near(
        replies_s, seen.edge_unix_ns / 1e9 + _apart(phase_s, seen.phase_s, seen.period_s), seen.period_s
    )
    inner = edges_s[(edges_s > replies_s[0] + 1) & (edges_s < replies_s[-1] - 1)]
    gaps_ms, gap_is_late = silences_s(replies_s, inner) * 1e3, inner >= middle_ns / 1e9
    counts = int((~is_late).sum()), int(is_late.sum())
    if min(counts) < LEAST_EDGES:
        raise UserError(
            f"{counts[0]} and {counts[1]} edges in its halves", where=name, expected=f"{LEAST_EDGES} in each"
        )
    model = HandoverModel(
        source=name,
        period_s=seen.period_s,
        phase_s=phase_s,
        phase_error_s=seen.phase_error_s or 0.0,
        edges=counts[0],
        **sizes(before_ms[~is_late], after_ms[~is_late], gaps_ms[~gap_is_late]),
    )
    return _Halves(name, model, before_ms[is_late], after_ms[is_late], gaps_ms[gap_is_late], edge_error_s)


def _apart(one_s: float, other_s: float, period_s: float) -> float:
    """Return by how much the first phase is later than the second [s], at most half a period."""
    return (one_s - other_s + period_s / 2) % period_s - period_s / 2


def _rows(halves: _Halves, over_ms: Sequence[float], basis: str) -> list[Row]:
    model = halves.model
    error_s = None if halves.edge_error_s is None else abs(halves.edge_error_s)
    rows = [
        Row("error of the first half's clock", "s", None, error_s, _OURS, f"{basis}; against the whole file's"),
        Row("gap at an edge: median", "ms", None, float(np.interp(0.5, POINTS, model.gap_ms)), _OURS, basis),
        Row("gap at an edge: 95th percentile", "ms", None, float(np.interp(0.95, POINTS, model.gap_ms)), _OURS, basis),
        *(
            Row(f"step at an edge: {name}", "ms", None, float(np.interp(level, POINTS, model.step_ms)), _OURS, basis)
            for name, level in (("first quartile", 0.25), ("median", 0.5), ("third quartile", 0.75), ("95 %", 0.95))
        ),
        Row("high slots after usual ones", "", None, model.high_after_usual, _OURS, basis),
        Row("high slots after high ones", "", None, model.high_after_high, _OURS, basis),
        Row("next level within the model's 90 % interval", "", None, _inside(halves), _OURS, basis),
        Row("gaps below the model's 95th percentile", "", None, _below(halves), _OURS, basis),
    ]
    for size_ms in over_ms:
        skill = _skill(halves, size_ms)
        quantity = f"Brier skill of steps over {size_ms:g} ms, over their share"
        rows.append(Row(quantity, "", None, skill, _OURS, f"{basis}; {len(halves.steps_ms)} edges"))
    return rows


def _inside(halves: _Halves) -> float:
    """Return the share of slots whose level is within the 90 % interval for their predecessor's class."""
    model = halves.model
    low_high = [
        np.interp([0.05, 0.95], POINTS, model.after_high_ms if was > HIGH * model.median_ms else model.after_usual_ms)
        for was in halves.before_ms
    ]
    inside = [low <= level <= high for level, (low, high) in zip(halves.after_ms, low_high, strict=True)]
    return float(np.mean(inside))


def _below(halves: _Halves) -> float:
    return float(np.mean(halves.gaps_ms <= np.interp(0.95, POINTS, halves.model.gap_ms)))


def _skill(halves: _Halves, over_ms: float) -> float | None:
    """Return 1 − Brier score over that of the first half's share of such steps; None: all came or none."""
    came = halves.steps_ms > over_ms
    if came.all() or not came.any():
        return None
    forecast = np.array([halves.model.step_probability(level, over_ms) for level in halves.before_ms])
    share = 1.0 - float(np.interp(over_ms, halves.model.step_ms, POINTS, left=0.0, right=1.0))
    return 1.0 - float(((forecast - came) ** 2).mean() / ((share - came) ** 2).mean())


def _verdicts(every: Sequence[_Halves], over_ms: Sequence[float], world: str) -> list[Verdict]:
    if not every:
        return []
    basis = f"{world}: {', '.join(each.name for each in every)}"
    inside, below = ([share(each) for each in every] for share in (_inside, _below))
    skills = [skill for each in every for size_ms in over_ms if (skill := _skill(each, size_ms)) is not None]
    errors_s = [each.edge_error_s for each in every if each.edge_error_s is not None]
    low, high = ACCEPTED
    return [
        Verdict(
            "the first half of the pings gives the clock to 0.5 s",
            all(abs(error_s) < 0.5 for error_s in errors_s) if errors_s else None,
            _SECTION,
            basis,
            f"{', '.join(f'{error_s:+.2f} s' for error_s in errors_s) or 'none'}; too short in "
            f"{len(every) - len(errors_s)} files",
        ),
        Verdict(
            f"the 90 % interval of the next slot's level holds {low:.0%} of them or more",
            all(low <= share <= high for share in inside),
            _SECTION,
            basis,
            ", ".join(f"{share:.0%} of {len(each.after_ms)}" for share, each in zip(inside, every, strict=True)),
        ),
        Verdict(
            "nine of ten gaps are below the model's 95th percentile",
            all(share >= INSIDE for share in below),
            _SECTION,
            basis,
            ", ".join(f"{share:.0%} of {len(each.gaps_ms)}" for share, each in zip(below, every, strict=True)),
        ),
        Verdict(
            "the level of a slot says how probable a step is: better than the share of such steps, at every size",
            None if not skills else min(skills) > 0,
            _SECTION,
            basis,
            f"Brier skill {min(skills):+.2f} to {max(skills):+.2f}" if skills else "no such steps",
        ),
    ]


def _hints(file: HintSources, request: Request) -> tuple[list[Row], list[Verdict], str]:
    """Race the controller with hints of each source, on the paths of which pings were learned before."""
    texts = file.paths[: file.paths_quick if request.quick else None]
    before = field.make_paths([_earlier(text, file.learned_s) for text in texts], file.learned_s)
    paths = field.make_paths(texts, file.duration_s)
    errors_ms = [_clock_error_ms(path) for path in before]
    scores: dict[tuple[str, str], list[field.Score]] = {}
    for number, (path, error_ms) in enumerate(zip(paths, errors_ms, strict=True)):
        announced = f"{file.announced},hint_offset_ms={error_ms}" if error_ms is not None else file.none
        schemes = list(dict.fromkeys([file.parent, file.none, file.own, file.announced, announced]))
        begins, ends = (0.3 + 0.7 * place / len(paths) for place in (number, number + 1))
        own = field.race_field(request, [path], schemes, (file.duration_s, file.warmup_s), shares=(begins, ends))
        scores |= own
        scores[path.name, "model"] = own[path.name, announced]
    basis = f"simulated: {len(paths)} Profiles × {file.duration_s:g} s, the first {file.warmup_s:g} s left out"
    sources = {"the model's clock": "model", "its own clock": file.own, "announcements": file.announced}

    def claim(scheme: str, other: str, least: float = 1.0) -> Claim:
        mine, theirs = ([scores[path.name, each][0].goodput_bps[0] for path in paths] for each in (scheme, other))
        return Claim("goodput", mine, theirs, least)

    def queue_ms(scheme: str) -> float:
        return float(np.mean([scores[path.name, scheme][0].queue_ms or np.nan for path in paths]))

    rows = [Row("mean queueing delay, no hint", "ms", None, queue_ms(file.none), _OURS, basis)]
    for name, scheme in sources.items():
        ratio = ratio_of(claim(scheme, file.none))
        mean = ratio.mean if ratio else None
        rows.append(
            Row(f"goodput over that without a hint: {name}", "", None, mean, _OURS, _with(basis, ratio_text(ratio)))
        )
        rows.append(Row(f"mean queueing delay, {name}", "ms", None, queue_ms(scheme), _OURS, basis))
    known = [abs(each) for each in errors_ms if each is not None]
    if known:
        rows.append(Row("error of the model's clock: median", "ms", None, float(np.median(known)), _OURS, basis))
    learned = f"{len(known)} of {len(paths)} clocks were learned from {file.learned_s:g} s of pings; no hint elsewhere"
    verdicts = [
        all_hold(
            "a clock learned from pings before gives bbr3-leo more goodput than no hint",
            [claim("model", file.none)],
            _SECTION,
            basis,
            f"queueing delay {queue_ms('model'):.1f} against {queue_ms(file.none):.1f} ms; {learned}",
        ),
        all_hold(
            "it gives bbr3-leo no less goodput than the clock that it learns itself (2 % less counts as equal)",
            [claim("model", file.own, 0.98)],
            _SECTION,
            basis,
            f"queueing delay {queue_ms('model'):.1f} against {queue_ms(file.own):.1f} ms",
        ),
    ]
    return rows, verdicts, basis


def _with(basis: str, more: str) -> str:
    return f"{basis}; {more}"


def _earlier(text: str, by_s: float) -> str:
    """Return a path's text with a start that is `by_s` earlier."""
    from bentpipe.times import format_utc, parse_utc

    site, to, start, seed = text.split()
    return f"{site} {to} {format_utc(parse_utc(start) - round(by_s * 1e9))} {seed}"


def _clock_error_ms(path: field.Path) -> int | None:
    """Return by how much the clock of pings is later than the path's handovers [ms]; None: no clock was found."""
    view = PathView(path.profile)
    sent_s = np.arange(0.0, view.duration_s - 1.0, 0.02)
    try:
        model = handovers_in(ping_table(path.profile, sent_s).lazy(), path.name)
    except UserError:
        return None
    edges_s = [path.profile.start_unix_ns / 1e9 + event["at_ns"] / 1e9 for event in view.handovers()]
    if not edges_s:
        return None
    errors_s = [_apart(model.phase_s, edge_s, model.period_s) for edge_s in edges_s]
    return round(1000 * float(np.median(errors_s)))


STUDY = Study(
    name="t3p-handovers",
    title="A stochastic model of handovers, and whether a controller gains from its clock",
    source=f"{SOURCE}, section 7.1",
    takes="five minutes on two cores; --quick: under one",
    run=_run,
    measured="dense pings with slots",
)

"""The benefit of ECN and marking queues on Starlink, a question that Huston's article leaves open."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.execution.job import Job, race_jobs
from bentpipe.execution.job import Outcome as Finished
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.execution.waits import delays, lone_ms, wait_ms
from bentpipe.experiments.schemes import parse_scheme
from bentpipe.plots.tradeoff import Point, plot_tradeoffs
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.runs.estimates import Estimate, estimate
from bentpipe.studies.agreement import Claim, all_hold
from bentpipe.studies.files import EcnOnStarlink
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from bentpipe._native import Profile
    from bentpipe.execution.sinks.table import SweptRun
    from bentpipe.experiments.experiment import Direction

#: Controllers without and with ECN. BBR's RTT limit of 5 ms for ECN is lifted; otherwise it would ignore all marks.
CONTROLLERS: Mapping[str, tuple[str, str]] = {
    "CUBIC": ("cubic", "cubic:ecn=on"),
    "BBRv2": ("bbr2", "bbr2:ecn=on,ecn_max_rtt_ms=0"),
    "BBRv3": ("bbr3", "bbr3:ecn=on,ecn_max_rtt_ms=0"),
}
OWN = "own queue"
NAMES = {"codel": "CoDel", "fq_codel": "FQ-CoDel", "step": "step 5 ms", "step_deep": "step 20 ms"}
DIRECTIONS: Sequence[Direction] = ("down", "up")
MSS_BYTES = 1448
_MARKS = ("marks_law", "marks_threshold")

#: Part of the old queueing delay at most for a "clear" cut, and part of the goodput at least for "kept". Chosen here,
#: before the first Run.
CLEARLY = 0.5
KEPT = 0.95


@dataclass(frozen=True)
class Outcome:
    """Result of one Run.

    Attributes:
        goodput_bps: Goodput of all flows together after the warm-up.
        queueing_ms: Mean queueing delay of all packets (`waits`) after the warm-up.
        retransmitted: Segments retransmitted per thousand that arrived, after the warm-up.
        shares: Each flow's share of the goodput.
        marks: Packets marked in the direction of the data.
        after_handover: Part of the marks and AQM drops in the second of a reconfiguration or the next one.
        struck: Part of the time in such seconds.
    """

    goodput_bps: float
    queueing_ms: float
    retransmitted: float
    shares: tuple[float, ...]
    marks: int
    after_handover: float | None
    struck: float


#: Direction, queue, scheme → outcomes by path, in order.
OutcomesByKey = Mapping[tuple[str, str, str], Sequence[Outcome]]


def _run(request: Request) -> Result:
    file = EcnOnStarlink.load()
    first = parse_utc(file.first)
    queues = {OWN: ""} | {name: str(getattr(file.queues, key)) for key, name in NAMES.items()}
    duration_s = file.duration_quick_s if request.quick else file.duration_s
    routes = file.paths[: file.paths_quick if request.quick else None]
    paths = []
    for number, route in enumerate(routes):
        site, _, server = (part.strip() for part in route.partition(">"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnpublishedRouteWarning)  # the study's paths end on a great circle
            start_unix_ns = first + round(number * file.every_h * 3600e9)
            path = make_profile(site, server, start_unix_ns=start_unix_ns, duration_s=duration_s, seed=number)
        paths.append(path)
        request.on_progress(0.1 * (number + 1) / len(routes))
    jobs: list[Job] = []
    keys: list[tuple[Direction, str, Profile]] = []
    for direction, (queue, rule) in product(DIRECTIONS, queues.items()):
        schemes = _schemes(queue)
        jobs += race_jobs(
            paths,
            schemes,
            direction=direction,
            duration_s=duration_s,
            phase_s=0.0,
            queues=[f"{direction}={rule}"] if rule else [],
            measure=marked,
        )
        keys += [(direction, queue, path) for path in paths for _ in schemes]
    swept = run_sweep(
        jobs,
        out=request.out / "runs",
        on=request.on,
        on_progress=lambda progress: request.on_progress(0.1 + 0.85 * progress.share),
    )
    lone = {(direction, id(path)): lone_ms(path, direction) for direction, path in product(DIRECTIONS, paths)}
    field: dict[tuple[str, str, str], list[Outcome]] = {}
    for (direction, queue, path), run in zip(keys, swept.whole(), strict=True):
        field.setdefault((direction, queue, run.scheme), []).append(_outcome(run, lone[direction, id(path)]))
    basis = f"simulated: {len(paths)} Profiles of {duration_s:g} s"
    verdicts = _verdicts(field, basis)
    return Result(
        _rows(field, basis),
        verdicts,
        [f"{basis}: {', '.join(routes)}", *(f"{name}: {rule}" for name, rule in queues.items() if rule)],
        {f"tradeoff-{direction}": _figure(field, direction) for direction in DIRECTIONS},
        _notes(field, len(verdicts)),
    )


def _schemes(queue: str) -> tuple[str, ...]:
    """Return the schemes for a queue: each controller alone and against CUBIC; with ECN too if the queue marks."""
    plain = [without for without, _ in CONTROLLERS.values()]
    pairs = [f"{without}+cubic" for without in plain]
    if queue == OWN:
        return tuple(map(parse_scheme, [*plain, *pairs]))
    marked = [answers for _, answers in CONTROLLERS.values()]
    marked_pairs = [f"{answers}+cubic:ecn=on" for answers in marked]
    return tuple(map(parse_scheme, [*plain, *marked, *pairs, *marked_pairs, "cubic:ecn=on+cubic"]))


def marked(run: Finished) -> dict[str, Any]:
    """Measure a Run: delays, retransmissions, marks, and the queue's actions near reconfigurations."""
    direction = run.experiment.flows[0].direction
    links = run.links().filter((pl.col("flow") == -1) & (pl.col("direction") == direction))
    seconds = run.seconds().group_by("flow").agg(pl.col("goodput_bytes", "retransmits").cast(pl.Int64).sort_by("t_s"))
    grown = {
        name: sum(each[-1] - each[0] for each in seconds[name].to_list() if each)
        for name in ("goodput_bytes", "retransmits")
    }
    near, acted, struck = _near_handovers(run, links)
    return delays(run, -1) | grown | {"marks": _grown(links, _MARKS), "near": near, "acted": acted, "struck": struck}


def _outcome(run: SweptRun, lone: NDArray[np.float64]) -> Outcome:
    rates = [float(flow["goodput_bps"] or 0.0) for flow in run.flows]
    whole = max(sum(rates), 1.0)
    result = run.measures
    return Outcome(
        goodput_bps=sum(rates),
        queueing_ms=wait_ms(result, lone, run.warmup_s, run.offset_s) or 0.0,
        retransmitted=1000 * result["retransmits"] / max(1.0, result["goodput_bytes"] / MSS_BYTES),
        shares=tuple(rate / whole for rate in rates),
        marks=result["marks"],
        after_handover=result["near"] / result["acted"] if result["acted"] else None,
        struck=result["struck"],
    )


def _grown(links: pl.DataFrame, columns: Sequence[str]) -> int:
    totals = links.group_by("hop").agg(pl.col(column).max() for column in columns)
    return int(sum(totals[column].sum() for column in columns))


def _near_handovers(run: Finished, links: pl.DataFrame) -> tuple[int, int, float]:
    """Count marks and AQM drops near reconfigurations and in total; also return the share of such windows."""
    kinds = ["handover", "reconfiguration"]
    struck = run.events().filter(pl.col("kind").is_in(kinds))["t_s"].to_numpy()
    by_hop = links.sort("t_s").with_columns(pl.sum_horizontal(*_MARKS, "drops_aqm").cast(pl.Int64).alias("acted"))
    grown = by_hop.with_columns((pl.col("acted") - pl.col("acted").shift(1, fill_value=0).over("hop")).alias("n"))
    ends, acted = grown["t_s"].to_numpy(), grown["n"].to_numpy()
    near = np.zeros(len(ends), dtype=bool)
    for at in struck:
        near |= (ends > at) & (ends - 2.0 <= at)
    return int(acted[near].sum()), int(acted.sum()), float(near.mean()) if len(near) else 0.0


def _key(direction: str, queue: str, scheme: str) -> tuple[str, str, str]:
    return direction, queue, parse_scheme(scheme)


def _of(field: OutcomesByKey, direction: str, queue: str, scheme: str, attribute: str) -> list[float]:
    return [float(getattr(outcome, attribute)) for outcome in field[_key(direction, queue, scheme)]]


def _configurations() -> list[tuple[str, bool, str]]:
    """Return each queue, whether flows use ECN, and the name of the combination."""
    marking = [(queue, ecn, queue + (" + ECN" if ecn else "")) for queue in NAMES.values() for ecn in (False, True)]
    return [(OWN, False, OWN), *marking]


def _text(result: Estimate, scale: float = 1.0) -> str:
    ends = (
        "" if result.low is None or result.high is None else f" ({result.low * scale:.3g} to {result.high * scale:.3g})"
    )
    return f"{result.mean * scale:.3g}{ends}"


def _rows(field: OutcomesByKey, basis: str) -> list[Row]:
    rows = []
    measures = [
        ("goodput_bps", "goodput", "Mbit/s", 1e-6),
        ("queueing_ms", "queueing delay", "ms", 1.0),
        ("retransmitted", "retransmitted", "per thousand", 1.0),
    ]
    for direction, (name, schemes) in product(DIRECTIONS, CONTROLLERS.items()):
        for queue, ecn, called in _configurations():
            for attribute, quantity, unit, scale in measures:
                result = estimate(_of(field, direction, queue, schemes[ecn], attribute))
                text = f"{basis}; mean and 95 % CI {_text(result, scale)}"
                rows.append(
                    Row(f"{direction}, {name}, {called}: {quantity}", unit, None, result.mean * scale, "–", text)
                )
            pair = f"{schemes[ecn]}+cubic" + (":ecn=on" if ecn else "")
            share = estimate([o.shares[0] for o in field[_key(direction, queue, pair)]], ceiling=1.0)
            text = f"{basis}; mean and 95 % CI {_text(share)}"
            rows.append(Row(f"{direction}, {name} against CUBIC, {called}: its share", "", None, share.mean, "–", text))
        for queue in NAMES.values():
            mixed = [o.shares[0] for o in field[_key(direction, queue, "cubic:ecn=on+cubic")]]
            if name == "CUBIC":
                quantity = f"{direction}, CUBIC with ECN against CUBIC without, {queue}: its share"
                rows.append(Row(quantity, "", None, estimate(mixed, ceiling=1.0).mean, "–", basis))
    return rows


def _verdicts(field: OutcomesByKey, basis: str) -> list[Verdict]:
    article = "Huston, A Transport Protocol's View of Starlink, conclusions"
    result = []
    for direction, (name, (plain, answers)) in product(DIRECTIONS, CONTROLLERS.items()):
        for queue in NAMES.values():
            ours, own = (queue, answers), (OWN, plain)
            claims = [
                _claim(field, direction, ours, own, "goodput_bps", "goodput over the own queue's", least=KEPT),
                _claim(field, direction, ours, own, "queueing_ms", "queueing delay over it", least=0.0, most=CLEARLY),
            ]
            statement = f"{direction}, {name}: {queue} with ECN halves the queueing delay at no cost in goodput"
            result.append(all_hold(statement, claims, article, basis))
        for queue in ("CoDel", "FQ-CoDel"):
            ours, drops = (queue, answers), (queue, plain)
            again = _means(field, direction, ours, drops, "retransmitted")
            why = f"retransmitted per thousand {again[0]:.3g}, without {again[1]:.3g}"
            statement = f"{direction}, {name}: over {queue}, marks give more goodput than drops"
            claim = _claim(field, direction, ours, drops, "goodput_bps", "goodput over that without ECN")
            result.append(all_hold(statement, [claim], article, basis, why))
    for direction in DIRECTIONS:
        ours, theirs = ("FQ-CoDel", CONTROLLERS["CUBIC"][1]), (OWN, CONTROLLERS["BBRv3"][0])
        text = "goodput of CUBIC with ECN over FQ-CoDel over BBRv3's over the own queue"
        claim = _claim(field, direction, ours, theirs, "goodput_bps", text, least=KEPT)
        result.append(all_hold(f"{direction}: with ECN loss-based control does as BBR does", [claim], article, basis))
    return result


def _claim(
    field: OutcomesByKey,
    direction: str,
    ours: tuple[str, str],
    theirs: tuple[str, str],
    attribute: str,
    text: str,
    *,
    least: float = 1.0,
    most: float = math.inf,
) -> Claim:
    floor = 1e-3  # a ratio to a delay of a microsecond means nothing
    one, other = ([max(value, floor) for value in _of(field, direction, *each, attribute)] for each in (ours, theirs))
    return Claim(text, one, other, least, most)


def _means(
    field: OutcomesByKey, direction: str, ours: tuple[str, str], theirs: tuple[str, str], attribute: str
) -> tuple[float, float]:
    one, other = (_of(field, direction, *each, attribute) for each in (ours, theirs))
    return float(np.mean(one)), float(np.mean(other))


def _figure(field: OutcomesByKey, direction: str) -> Figure:
    points = [
        Point(
            schemes[0],
            called,
            float(np.mean(_of(field, direction, queue, schemes[ecn], "queueing_ms"))),
            float(np.mean(_of(field, direction, queue, schemes[ecn], "goodput_bps"))) / 1e6,
        )
        for schemes in CONTROLLERS.values()
        for queue, ecn, called in _configurations()
    ]
    way = "Download" if direction == "down" else "Upload"
    return plot_tradeoffs(points, title=f"{way}, one flow: benefit of a marking queue")


def _notes(field: OutcomesByKey, statements: int) -> list[str]:
    notes = [
        f"{statements} statements at 5 % each: about {max(1, round(statements / 20))} of them may be decided by "
        "chance; a result in all rows of a kind weighs more than one row"
    ]
    for queue in NAMES.values():
        outcomes = [outcome for (_, q, _), result in field.items() if q == queue for outcome in result]
        known = [outcome.after_handover for outcome in outcomes if outcome.after_handover is not None]
        if known:
            notes.append(
                f"{queue}: {np.mean(known):.0%} of its marks and drops fell into the second of a "
                f"reconfiguration or the next one, {np.mean([each.struck for each in outcomes]):.0%} of the time"
            )
    alone = [plain for plain, _ in CONTROLLERS.values()]
    own = {d: np.mean([np.mean(_of(field, d, OWN, plain, "queueing_ms")) for plain in alone]) for d in DIRECTIONS}
    notes.append(
        f"the own queues add {own['down']:.3g} ms down and {own['up']:.3g} ms up on the mean of the controllers; "
        "a shallower buffer leaves less to gain"
    )
    notes.append(
        "losses on the radio link stay: a mark can replace a drop in the queue but not a packet lost at a handover, "
        "and a window-based controller reacts to those as before"
    )
    return notes


STUDY = Study(
    name="ecn-on-starlink",
    title="The benefit of ECN on Starlink: CUBIC, BBRv2 and BBRv3 behind CoDel, FQ-CoDel and step marking",
    source="the question of Huston, A Transport Protocol's View of Starlink (APNIC, May 2024); no published answer",
    takes="two minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)

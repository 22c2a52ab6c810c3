"""What marks, and queues that mark, would buy on Starlink: the question that Huston's article leaves open."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from bentpipe import Profile, runs
from bentpipe.plots.tradeoff import Point, plot_tradeoffs
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.runs import Run
from bentpipe.runs.entrants import parse_entrant
from bentpipe.runs.estimates import Estimate, estimate, paired_ratio
from bentpipe.scenarios.tables import Table, packaged_text
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Controllers, each without ECN and as it answers marks: BBR's limit of 5 ms is lifted, or it would hear of none.
CONTROLLERS: Mapping[str, tuple[str, str]] = {
    "CUBIC": ("cubic", "cubic:ecn=on"),
    "BBRv2": ("bbr2", "bbr2:ecn=on,ecn_max_rtt_ms=0"),
    "BBRv3": ("bbr3", "bbr3:ecn=on,ecn_max_rtt_ms=0"),
}
OWN = "own queue"
NAMES = {"codel": "CoDel", "fq_codel": "FQ-CoDel", "step": "step 5 ms", "step_deep": "step 20 ms"}
DIRECTIONS = ("down", "up")
MSS_BYTES = 1448

#: A wait of at most this part of what it was is cut "clearly"; goodput of at least this part is "kept". Chosen here,
#: before the first run.
CLEARLY = 0.5
KEPT = 0.95


@dataclass(frozen=True)
class Outcome:
    """What one Run came to.

    Attributes:
        goodput_bps: Of all flows together, after the warm-up.
        queueing_ms: Mean time a packet spent in the path beyond what a lone packet spends there at those times.
        resent: Segments sent again per thousand that arrived.
        shares: Of the goodput, by flow.
        marks: Packets marked in the direction of the data.
        after_handover: Part of the marks and early drops that fell into the second of a reconfiguration or the next.
    """

    goodput_bps: float
    queueing_ms: float
    resent: float
    shares: tuple[float, ...]
    marks: int
    after_handover: float | None


#: Direction, queue, entrant → outcomes by path, in order.
Field = Mapping[tuple[str, str, str], Sequence[Outcome]]


def parameters() -> Table:
    """The study's file. It has no published figures: nobody has published an answer."""
    where = "studies/ecn-on-starlink.toml"
    return Table.parse(packaged_text(where), where)


def _run(request: Request) -> Result:
    table = parameters()
    first, every_h = parse_utc(table.text("first")), table.number("every_h", 0, 1000)
    full_s, quick_s = (table.number(key, 10, 3600) for key in ("duration_s", "duration_quick_s"))
    routes, few = table.texts("paths"), table.integer("paths_quick", 1, 100)
    written = table.table("queues")
    queues = {OWN: ""} | {name: written.text(key) for key, name in NAMES.items()}
    for part in (written, table):
        part.done()
    duration_s = quick_s if request.quick else full_s
    routes = routes[:few] if request.quick else routes
    paths = []
    for number, route in enumerate(routes):
        site, _, server = (part.strip() for part in route.partition(">"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnpublishedRouteWarning)  # every path here ends on a great circle
            start_unix_ns = first + round(number * every_h * 3600e9)
            path = make_profile(site, server, start_unix_ns=start_unix_ns, duration_s=duration_s, seed=number)
        paths.append(path)
        request.on_progress(0.1 * (number + 1) / len(routes))
    plan = list(product(DIRECTIONS, queues.items()))
    field: dict[tuple[str, str, str], list[Outcome]] = {}
    for number, (direction, (queue, rule)) in enumerate(plan):
        done = runs.race(
            paths,
            _entrants(queue),
            out=request.out / "runs" / f"{direction}-{queue.replace(' ', '-')}",
            direction="down" if direction == "down" else "up",
            duration_s=duration_s,
            phase_s=0.0,
            queues=[f"{direction}={rule}"] if rule else [],
            on_progress=_part(request, 0.1 + 0.85 * number / len(plan), 0.85 / len(plan)),
        )
        for run in done.runs:
            outcome = _outcome(run, paths, direction)
            field.setdefault((direction, queue, run.entrant), []).append(outcome)
    basis = f"simulated: {len(paths)} Profiles of {duration_s:g} s"
    return Result(
        _rows(field, basis),
        _verdicts(field, basis),
        [f"{basis}: {', '.join(routes)}", *(f"{name}: {rule}" for name, rule in queues.items() if rule)],
        {f"tradeoff-{direction}": _figure(field, direction) for direction in DIRECTIONS},
        _notes(field),
    )


def _part(request: Request, begins: float, length: float) -> Callable[[float, int, int], None]:
    """Progress of a race as a part of the study's."""

    def heard(share: float, _there: int, _total: int) -> None:
        request.on_progress(begins + length * share)

    return heard


def _entrants(queue: str) -> tuple[str, ...]:
    """Every controller without ECN, and where the queue marks with it; and against CUBIC, with and without."""
    plain = [without for without, _ in CONTROLLERS.values()]
    pairs = [f"{without}+cubic" for without in plain]
    if queue == OWN:
        return tuple(map(parse_entrant, [*plain, *pairs]))
    marked = [answers for _, answers in CONTROLLERS.values()]
    marked_pairs = [f"{answers}+cubic:ecn=on" for answers in marked]
    return tuple(map(parse_entrant, [*plain, *marked, *pairs, *marked_pairs, "cubic:ecn=on+cubic"]))


def _outcome(run: Run, paths: Sequence[Profile], direction: str) -> Outcome:
    path = next(path for path in paths if path.content_hash() == run.record["profiles"][0]["base_hash"])
    links = run.links().filter((pl.col("flow") == -1) & (pl.col("direction") == direction))
    rates = [flow["goodput_bps"] for flow in run.flows]
    last = run.samples().group_by("flow").agg(pl.col("goodput_bytes").max())
    arrived = max(1.0, float(last["goodput_bytes"].sum()) / MSS_BYTES)
    whole = max(sum(rates), 1.0)
    near, all_of_them = _near_handovers(run, links)
    return Outcome(
        goodput_bps=sum(rates),
        queueing_ms=_queueing_ms(links, path, direction, run.offset_s),
        resent=1000 * sum(flow["retransmits"] for flow in run.flows) / arrived,
        shares=tuple(rate / whole for rate in rates),
        marks=_grown(links, ["marks_law", "marks_threshold"]),
        after_handover=near / all_of_them if all_of_them else None,
    )


def _grown(links: pl.DataFrame, columns: Sequence[str]) -> int:
    totals = links.group_by("hop").agg(pl.col(column).max() for column in columns)
    return int(sum(totals[column].sum() for column in columns))


def _queueing_ms(links: pl.DataFrame, path: Profile, direction: str, offset_s: float) -> float:
    """Mean of what the elements saw, less what a lone packet meets in the same windows."""
    carried = links.filter(pl.col("delay_n") > 0)
    limited = carried.filter(pl.col("capacity_bps").is_not_null()).group_by("t_s").agg(pl.col("delay_n").sum())
    packets = int(limited["delay_n"].sum())
    if packets == 0:
        return 0.0
    inside = float((carried["delay_n"] * carried["delay_mean_ms"]).sum()) / packets
    ends = limited["t_s"].to_numpy()
    times = (ends[:, None] - np.arange(0.01, 1.0, 0.02)[None, :] + offset_s).clip(0.0, path.duration_s)
    lone = path.delay_ms(direction, np.sort(times.ravel()))
    by_window = np.nanmean(lone.reshape(len(ends), -1), axis=1) if len(ends) else np.empty(0)
    order = np.argsort(ends)
    weights = limited["delay_n"].to_numpy().astype(np.float64)[order]
    known = np.isfinite(by_window)
    return max(0.0, inside - float(np.average(by_window[known], weights=weights[known])))


def _near_handovers(run: Run, links: pl.DataFrame) -> tuple[int, int]:
    """Marks and early drops in the windows of reconfigurations and the next ones, and all of them."""
    kinds = ["handover", "reconfiguration"]
    struck = run.events().filter(pl.col("kind").is_in(kinds))["t_s"].to_numpy()
    causes = ["marks_law", "marks_threshold", "drops_aqm"]
    by_hop = links.sort("t_s").with_columns(
        pl.sum_horizontal(causes).alias("acted"),
    )
    grown = by_hop.with_columns(
        (pl.col("acted").cast(pl.Int64) - pl.col("acted").cast(pl.Int64).shift(1, fill_value=0).over("hop")).alias("n")
    )
    ends, acted = grown["t_s"].to_numpy(), grown["n"].to_numpy()
    near = np.zeros(len(ends), dtype=bool)
    for at in struck:
        near |= (ends > at) & (ends - 2.0 <= at)
    return int(acted[near].sum()), int(acted.sum())


def _key(direction: str, queue: str, entrant: str) -> tuple[str, str, str]:
    return direction, queue, parse_entrant(entrant)


def _of(field: Field, direction: str, queue: str, entrant: str, what: str) -> list[float]:
    return [float(getattr(outcome, what)) for outcome in field[_key(direction, queue, entrant)]]


def _configurations() -> list[tuple[str, bool, str]]:
    """Queue, whether flows take part in ECN, and the name of both."""
    marking = [(queue, ecn, queue + (" + ECN" if ecn else "")) for queue in NAMES.values() for ecn in (False, True)]
    return [(OWN, False, OWN), *marking]


def _text(found: Estimate, scale: float = 1.0) -> str:
    ends = "" if found.low is None or found.high is None else f" ({found.low * scale:.3g} to {found.high * scale:.3g})"
    return f"{found.mean * scale:.3g}{ends}"


def _rows(field: Field, basis: str) -> list[Row]:
    rows = []
    measures = [
        ("goodput_bps", "goodput", "Mbit/s", 1e-6),
        ("queueing_ms", "queueing delay", "ms", 1.0),
        ("resent", "sent again", "per thousand", 1.0),
    ]
    for direction, (name, entrants) in product(DIRECTIONS, CONTROLLERS.items()):
        for queue, ecn, called in _configurations():
            for what, quantity, unit, scale in measures:
                found = estimate(_of(field, direction, queue, entrants[ecn], what))
                said = f"{basis}; mean and 95 % CI {_text(found, scale)}"
                rows.append(
                    Row(f"{direction}, {name}, {called}: {quantity}", unit, None, found.mean * scale, "–", said)
                )
            pair = f"{entrants[ecn]}+cubic" + (":ecn=on" if ecn else "")
            share = estimate([o.shares[0] for o in field[_key(direction, queue, pair)]], ceiling=1.0)
            said = f"{basis}; mean and 95 % CI {_text(share)}"
            rows.append(Row(f"{direction}, {name} against CUBIC, {called}: its share", "", None, share.mean, "–", said))
        for queue in NAMES.values():
            mixed = [o.shares[0] for o in field[_key(direction, queue, "cubic:ecn=on+cubic")]]
            if name == "CUBIC":
                quantity = f"{direction}, CUBIC with ECN against CUBIC without, {queue}: its share"
                rows.append(Row(quantity, "", None, estimate(mixed, ceiling=1.0).mean, "–", basis))
    return rows


def _verdicts(field: Field, basis: str) -> list[Verdict]:
    article = "Huston, Transport Protocols and LEO, conclusions"
    found = []
    for direction, (name, (plain, answers)) in product(DIRECTIONS, CONTROLLERS.items()):
        for queue in NAMES.values():
            ratio = _ratio(field, direction, (queue, answers), (OWN, plain), "goodput_bps")
            waits = _ratio(field, direction, (queue, answers), (OWN, plain), "queueing_ms")
            kept = ratio is not None and waits is not None and ratio.mean >= KEPT and waits.mean <= CLEARLY
            why = f"goodput × {_known(ratio)}, queueing delay × {_known(waits)} of the own queue's"
            statement = f"{direction}, {name}: {queue} with ECN halves the queueing delay at no cost in goodput"
            found.append(Verdict(statement, kept, article, basis, why))
        for queue in ("CoDel", "FQ-CoDel"):
            ratio = _ratio(field, direction, (queue, answers), (queue, plain), "goodput_bps")
            again = _means(field, direction, (queue, answers), (queue, plain), "resent")
            better = ratio is not None and ratio.low is not None and ratio.low > 1
            why = f"goodput with ECN × {_known(ratio)}; sent again per thousand {again[0]:.3g}, without {again[1]:.3g}"
            statement = f"{direction}, {name}: over {queue}, marks give more goodput than drops"
            found.append(Verdict(statement, better, article, basis, why))
    for direction in DIRECTIONS:
        ratio = _paired(
            _of(field, direction, "FQ-CoDel", CONTROLLERS["CUBIC"][1], "goodput_bps"),
            _of(field, direction, OWN, CONTROLLERS["BBRv3"][0], "goodput_bps"),
        )
        why = f"CUBIC with ECN over FQ-CoDel: goodput × {_known(ratio)} of BBRv3's over the own queue"
        holds = ratio is not None and ratio.mean >= KEPT
        found.append(Verdict(f"{direction}: with ECN loss-based control does as BBR does", holds, article, basis, why))
    return found


def _ratio(field: Field, direction: str, ours: tuple[str, str], theirs: tuple[str, str], what: str) -> Estimate | None:
    return _paired(_of(field, direction, *ours, what), _of(field, direction, *theirs, what))


def _paired(ours: Sequence[float], theirs: Sequence[float]) -> Estimate | None:
    floor = 1e-3  # a wait of a microsecond is none, and no ratio to it means anything
    return paired_ratio([max(v, floor) for v in ours], [max(v, floor) for v in theirs])


def _means(
    field: Field, direction: str, ours: tuple[str, str], theirs: tuple[str, str], what: str
) -> tuple[float, float]:
    one, other = (_of(field, direction, *each, what) for each in (ours, theirs))
    return float(np.mean(one)), float(np.mean(other))


def _known(found: Estimate | None) -> str:
    return "–" if found is None else _text(found)


def _figure(field: Field, direction: str) -> Figure:
    points = [
        Point(
            entrants[0],
            called,
            float(np.mean(_of(field, direction, queue, entrants[ecn], "queueing_ms"))),
            float(np.mean(_of(field, direction, queue, entrants[ecn], "goodput_bps"))) / 1e6,
        )
        for entrants in CONTROLLERS.values()
        for queue, ecn, called in _configurations()
    ]
    way = "Download" if direction == "down" else "Upload"
    return plot_tradeoffs(points, f"{way}, one flow: what a queue that marks buys")


def _notes(field: Field) -> list[str]:
    notes = []
    for queue in NAMES.values():
        parts = [o.after_handover for (_, q, _), found in field.items() if q == queue for o in found]
        known = [part for part in parts if part is not None]
        if known:
            notes.append(
                f"{queue}: {np.mean(known):.0%} of what it marked or dropped fell into the window of 1 s with a "
                "reconfiguration or the next one, which are 13 % of the time"
            )
    alone = [plain for plain, _ in CONTROLLERS.values()]
    own = {d: np.mean([np.mean(_of(field, d, OWN, plain, "queueing_ms")) for plain in alone]) for d in DIRECTIONS}
    notes.append(
        f"the own queues cost {own['down']:.3g} ms down and {own['up']:.3g} ms up on the mean of the controllers; "
        "with a shallower buffer there is less to win"
    )
    notes.append(
        "losses on the air stay: a mark can stand for a drop in the queue, not for a packet lost at a handover, and a "
        "window-based controller answers those as before"
    )
    return notes


STUDY = Study(
    name="ecn-on-starlink",
    title="What ECN would buy on Starlink: CUBIC, BBRv2 and BBRv3 behind CoDel, FQ-CoDel and step marking",
    source="the question of Huston, Transport Protocols and LEO (APNIC); no published answer",
    takes="ten minutes; --quick: one",
    run=_run,
)

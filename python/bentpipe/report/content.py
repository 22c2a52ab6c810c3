"""What the report says, as plain data for the page: nothing here draws or writes."""

from __future__ import annotations

import shlex
import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import polars as pl

from bentpipe.experiments.flow_names import flow_parts, is_command
from bentpipe.plots import series
from bentpipe.plots.series import DROP_CAUSES, MARK_CAUSES, with_marks
from bentpipe.plots.style import LOOKS, legend_name, look
from bentpipe.report import path, program, prose, provenance, world
from bentpipe.runs import manifest as asking
from bentpipe.runs import text
from bentpipe.runs.commands import idle_connections
from bentpipe.runs.failed import by_scheme, read_failed
from bentpipe.runs.manifest import Manifest, read_manifest
from bentpipe.runs.profiles import profile_file
from bentpipe.runs.store import Run
from bentpipe.runs.summary import counted, group_runs, left_out, summarise, total_goodput_bps
from bentpipe.segments import is_locked
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe.runs.summary import FlowSummary, LeftOut, SchemeSummary


SAFE = "/+~"
"""What a relative address may hold as it is, beside letters, digits and ``_.-`` (RFC 3986, 3.3)."""

RESULT_HEADS = (
    ("Goodput", "Mbit/s"),
    ("Whole run", "Mbit/s"),
    ("Share", "%"),
    ("Median RTT", "ms"),
    ("p95 RTT", "ms"),
    ("Retransmits", "segments a run"),
    ("Took", "s"),
    ("n", "results"),
)
"""Columns of the table of results: name and unit."""

START_UP_HEADS = (
    ("Time to 90 %", "s"),
    ("Overshoot", "× steady in flight"),
    ("Retransmits", "segments a run"),
    ("Got to 90 %", "runs"),
)


RACES = ("race-up", "race-down")
"""Experiments of `bentpipe race` without a file: bulk flows alone."""

LIMITS = ("cwnd_limited_s", "receiver_limited_s", "sender_limited_s")

PHASES = {
    "drawn": "drawn by seed",
    "given": "given",
    "wall_clock": "where the machine's clock was",
    "beginning": "at the beginning",
}
"""What `phase` of a Run says, in words."""


@dataclass(frozen=True)
class Figure:
    """A figure in place: its file relative to the report, its data URI and what it shows."""

    file: str
    uri: str
    caption: str


@dataclass(frozen=True)
class Row:
    """One line of a table of results: one flow of a scheme. `first` is set on a scheme's first flow.

    `counts` is false where no Run of the scheme is valid.
    """

    scheme: str
    flows: int
    first: bool
    flow: str
    colour: str
    cells: tuple[tuple[str, str], ...]
    counts: bool = True


@dataclass(frozen=True)
class Losses:
    """Packets a scheme's runs lost in the directions of their data, mean per run, by cause; and those marked."""

    scheme: str
    queue: str
    air: str
    handover: str
    aqm: str
    no_route: str
    marked: str


@dataclass(frozen=True)
class Limits:
    """What held a flow back, as shares of its time [%], mean over the runs; `window` as `world.held_back` says."""

    scheme: str
    flow: str
    colour: str
    window: str
    receiver: str
    sender: str


@dataclass(frozen=True)
class RunLine:
    """One Run in the list at the end of a section."""

    scheme: str
    seed: int
    begins: str
    valid: bool
    why_invalid: str
    content_hash: str
    folder: str


@dataclass
class Section:
    """All about one Profile in one Experiment.

    `alert` is what a reader must know of Runs that are not valid. `not_valid`: none is valid, and what is shown is of
    such. `thinned` says what of it the page leaves out, since it is of many.
    """

    title: str
    anchor: str
    alert: str
    not_valid: bool
    facts: list[tuple[str, str]]
    recipe: list[provenance.Block]
    sentences: list[str]
    heads: list[tuple[str, str]]
    rows: list[Row]
    start_up: list[Row]
    limits: list[Limits]
    held_back: tuple[str, str]
    losses: list[Losses]
    queues: str
    buffers: str
    seed_heads: list[str]
    seed_rows: list[list[str]]
    runs: list[RunLine]
    profile_file: str
    figures: list[Figure] = field(default_factory=list)
    thinned: str = ""


@dataclass
class Part:
    """One Experiment: what was done, figures over all its Profiles, and a section per Profile."""

    experiment: str
    title: str
    facts: list[tuple[str, str]]
    sections: list[Section]
    unfinished: str = ""
    failed: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    thinned: str = ""


def parts(out: Path, runs: Sequence[Run]) -> list[Part]:
    """The page's content, by Experiment and Profile."""
    runs = in_order(runs)
    there = {(run.experiment, run.world, run.label, run.scheme, run.seed) for run in runs}
    if is_written := is_locked(out):
        warnings.warn(f"{out}: a race writes there now; the report is of the Runs finished so far", UserWarning, 3)
    failed = [run for run in read_failed(out) if run.place not in there]
    asked = set[asking.Place]().union(*(entry.places() for entry in read_manifest(out))) - {run.place for run in failed}
    return [
        Part(
            experiment=name,
            title=_direction(mine[0]),
            facts=_experiment_facts(mine, _missing(mine, asked)),
            unfinished=_unfinished(mine, _missing(mine, asked), is_written=is_written),
            failed=by_scheme(run for run in failed if (run.experiment, run.world) == (name, mine[0].world)),
            sections=[
                _section(
                    out,
                    label,
                    [run for run in mine if run.label == label],
                )
                for label in dict.fromkeys(run.label for run in mine)
            ],
        )
        for name in dict.fromkeys(run.experiment for run in runs)
        if (mine := [run for run in runs if run.experiment == name])
    ]


def to_show(runs: Sequence[Run]) -> list[Run]:
    """The Runs that figures are of: as they are; where none of a Profile's is valid all of them, as if they were."""
    if any(run.record["valid"] for run in runs):
        return list(runs)
    return [replace(run, record={**run.record, "valid": True}) for run in runs]


def in_order(runs: Iterable[Run]) -> list[Run]:
    """By Experiment and Profile; then schemes alone before those that share, in the order of `LOOKS`; then seeds."""
    known = {controller: i for i, controller in enumerate(LOOKS)}

    def key(run: Run) -> tuple[object, ...]:
        controllers = flow_parts(run.scheme)
        ranks = [known.get(controller.partition(":")[0], len(known)) for controller in controllers]
        return run.experiment, run.label, len(controllers), ranks, run.scheme, run.seed

    return sorted(runs, key=key)


def _direction(run: Run) -> str:
    ways = {"down": "Download: server to terminal", "up": "Upload: terminal to server"}
    found = {str(flow["direction"]) for flow in run.flows}
    if not found:
        return "No TCP flow"
    return ways[found.pop()] if len(found) == 1 and found <= ways.keys() else "Both directions"


def _missing(runs: Sequence[Run], asked: set[asking.Place]) -> int:
    """How many Runs of this Experiment were asked for and are not there."""
    there = {(run.experiment, run.world, run.label, run.scheme, run.seed) for run in runs}
    return sum(place[0] == runs[0].experiment for place in asked - there)


def _unfinished(runs: Sequence[Run], missing: int, *, is_written: bool) -> str:
    if is_written:
        of = f" of {len(runs) + missing}" if missing else ""
        return (
            f"A race was writing into this folder when this page was made: it shows the {len(runs)}{of} Runs finished "
            "until then, and Runs that the race has not replaced yet."
        )
    if not missing:
        return ""
    return (
        f"Unfinished: {len(runs)} of {text.plural(len(runs) + missing, 'Run')} are there. What follows is of these "
        "alone; the same race command does the rest."
    )


def _experiment_facts(runs: Sequence[Run], missing: int) -> list[tuple[str, str]]:
    seeds = sorted({run.seed for run in runs})
    invalid = sum(not run.record["valid"] for run in runs)
    phases = {str(run.record.get("phase")) for run in runs}
    begin = " or ".join(PHASES.get(phase, phase) for phase in sorted(phases))
    first = runs[0]
    lengths = {run.duration_s for run in runs}
    length = f"{first.duration_s:g}" if len(lengths) == 1 else path.span(sorted(lengths))
    idle = idle_connections(runs)
    return [
        ("Experiment", first.experiment),
        *world.facts(runs),
        ("Schemes", ", ".join(dict.fromkeys(run.scheme for run in runs))),
        ("Controllers", ", ".join(dict.fromkeys(legend_name(name) for run in runs for name in run.names))),
        ("Length of a run", f"{length} s, of which {first.warmup_s:g} s warm-up"),
        ("Seeds", ", ".join(map(str, seeds))),
        *([("Idle connections left out", f"{idle} (control connections, say)")] if idle else []),
        ("Runs begin", f"{begin}, {path.span([run.offset_s for run in runs])} s into the Profile"),
        (
            "Runs",
            (f"{len(runs)} of {len(runs) + missing}" if missing else str(len(runs)))
            + (
                ", all valid"
                if not invalid
                else ", none valid"
                if invalid == len(runs)
                else f", of which {invalid} not valid"
            ),
        ),
    ]


def _section(out: Path, label: str, every: list[Run]) -> Section:
    outage = path.one_outage(every)
    left = left_out(every)
    runs = to_show(every)
    not_valid = not any(run.record["valid"] for run in every)
    whole = [] if not_valid else [each for each in left if each.whole]
    summaries = summarise(runs)
    held_back, about_it = world.held_back(runs)
    held = _held_back(runs)
    sentences = path.sentences(label, runs)
    if not outage and not not_valid:
        sentences += program.sentences(label, runs)
        if any(run.flows for run in runs) and path.has_capacity(runs):
            sentences += (
                program.carried(label, summaries)
                if is_command(runs[0].scheme)
                else prose.opening(label, summaries, runs)
            )
        # A kernel's count says less (`world.ABOUT_KERNEL`); flows of an Experiment file may have nothing to send.
        if runs[0].world == "simulated" and runs[0].experiment in RACES:
            sentences += prose.buffered({scheme: shares[1:] for (scheme, _, _), shares in held.items()})
    profile = runs[0].record["profiles"][0]
    origin = profile.get("provenance")
    origin = origin if isinstance(origin, dict) else {}
    facts = [
        ("Path", str(origin.get("description", "not said"))),
        ("Kind", str(origin.get("kind", "not said"))),
        ("Starts", format_utc(int(profile["start_unix_ns"]))),
        ("Lasts", f"{float(profile.get('duration_s', 0)):g} s"),
        ("Its delays hold", provenance.includes(origin.get("includes"))),
        ("Drawn by seed", _seeds_fact(runs)),
        *path.facts(runs),
        ("Made by", str(origin.get("made_by", "not said"))),
        ("Content hash", str(profile.get("base_hash", "not said"))),
    ]
    recipe = origin.get("recipe")
    file = profile_file(out, label).relative_to(out).as_posix()
    rows = [
        *(row for summary in summaries for row in _rows(summary, _result_cells)),
        *(row for each in whole for row in _no_rows(each, len(RESULT_HEADS))),
    ]
    heads, rows = _without_empty(RESULT_HEADS, [] if outage else rows)
    return Section(
        title=label,
        anchor=f"{runs[0].experiment}-{label}",
        facts=facts,
        recipe=provenance.blocks(recipe) if isinstance(recipe, dict) else [],
        alert=prose.left_out(label, left, not_valid=not_valid, on_kernel=every[0].world == "emulated"),
        not_valid=not_valid,
        sentences=sentences,
        heads=heads,
        rows=rows,
        start_up=[
            *(row for summary in summaries for row in _rows(summary, _start_up_cells)),
            *(row for each in whole for row in _no_rows(each, len(START_UP_HEADS))),
        ],
        limits=[*_limits(held), *(line for each in whole for line in _no_limits(each))],
        held_back=held_back,
        losses=[*_losses(runs), *(Losses(each.scheme, *[text.NONE] * (len(DROP_CAUSES) + 1)) for each in whole)],
        queues=path.queues(runs),
        buffers=about_it + path.buffers(runs),
        seed_heads=_by_seed(runs)[0],
        seed_rows=_by_seed(runs)[1],
        runs=[_run_line(out, run) for run in every],
        profile_file=quote(file, safe=SAFE) if (out / file).is_file() else "",
    )


def _rows(summary: SchemeSummary, cells: Any) -> list[Row]:  # noqa: ANN401 -- one of the two functions below
    return [
        Row(
            summary.scheme,
            len(summary.flows),
            i == 0,
            flow.controller,
            look(flow.controller).colour,
            cells(summary, flow),
        )
        for i, flow in enumerate(summary.flows)
    ]


def _without_empty(heads: Sequence[tuple[str, str]], rows: Sequence[Row]) -> tuple[list[tuple[str, str]], list[Row]]:
    """Only the columns that a result has something in: without flows that share the path there are no shares."""
    there = [i for i in range(len(heads)) if any(row.cells[i][0] for row in rows if row.counts)]
    return [heads[i] for i in there], [replace(row, cells=tuple(row.cells[i] for i in there)) for row in rows]


def _no_rows(left: LeftOut, columns: int) -> list[Row]:
    """A scheme without a valid Run: named, with dashes for figures, and how many Runs were left out at the end."""
    cells = (*[(text.NONE, "")] * (columns - 1), ("0", f"of {left.runs}"))
    controllers = flow_parts(left.scheme)
    return [
        Row(left.scheme, len(controllers), i == 0, controller, look(controller).colour, cells, counts=False)
        for i, controller in enumerate(controllers)
    ]


def _no_limits(left: LeftOut) -> list[Limits]:
    return [
        Limits(left.scheme, controller, look(controller).colour, *[text.NONE] * len(LIMITS))
        for controller in flow_parts(left.scheme)
    ]


def _result_cells(summary: SchemeSummary, flow: FlowSummary) -> tuple[tuple[str, str], ...]:
    """Mean and interval of what `RESULT_HEADS` names."""
    return (
        (text.mean(flow.goodput_bps, text.MBIT), text.interval(flow.goodput_bps, text.MBIT)),
        (text.mean(flow.whole_run_bps, text.MBIT), text.interval(flow.whole_run_bps, text.MBIT)),
        (text.mean(flow.share, 100), text.interval(flow.share, 100)) if flow.share else ("", ""),
        (text.mean(flow.rtt_median_ms), text.interval(flow.rtt_median_ms)),
        (text.mean(flow.rtt_p95_ms), text.interval(flow.rtt_p95_ms)),
        (text.mean(flow.retransmits), text.interval(flow.retransmits)),
        (text.mean(flow.completed_s), text.interval(flow.completed_s)) if flow.completed_s else ("", ""),
        text.count(summary),
    )


def _start_up_cells(summary: SchemeSummary, flow: FlowSummary) -> tuple[tuple[str, str], ...]:
    """Mean and extremes of what `START_UP_HEADS` names.

    An interval of Student's t supposes values spread like a bell: a start-up's are cut at the warm-up and far apart.
    """
    start = flow.start_up
    return (
        (text.mean(start.time_to_90_s), text.extremes(start.time_to_90_s)),
        (text.mean(start.overshoot), text.extremes(start.overshoot)),
        (text.mean(start.retransmits), text.extremes(start.retransmits)),
        (f"{start.reached} of {summary.n}", ""),
    )


def _that_count(runs: Iterable[Run]) -> Iterator[Run]:
    """The Runs that the table of results is of."""
    for group in group_runs(runs).values():
        yield from counted(group)


def _limits(held: Mapping[tuple[str, int, str], Sequence[float]]) -> list[Limits]:
    return [
        Limits(scheme, controller, look(controller).colour, *map(text.number, shares))
        for (scheme, _, controller), shares in held.items()
    ]


def _held_back(runs: Iterable[Run]) -> dict[tuple[str, int, str], list[float]]:
    """By scheme, flow and controller the shares of `LIMITS` in what held it back [%], mean over the runs."""
    found: dict[tuple[str, int, str], list[list[float]]] = {}
    for run in _that_count(runs):
        samples = run.samples()
        for i, name in enumerate(run.names):
            times = [series.values(samples, i, column)[1].max(initial=0.0) for column in LIMITS]
            found.setdefault((run.scheme, i, name), []).append([100 * time / (sum(times) or 1.0) for time in times])
    return {flow: [sum(each) / len(each) for each in zip(*shares, strict=True)] for flow, shares in found.items()}


def _losses(runs: Iterable[Run]) -> list[Losses]:
    found: dict[str, list[list[float]]] = {}
    for run in _that_count(runs):
        totals = (
            with_marks(run.links())
            .filter((pl.col("flow") < 0) & pl.col("direction").is_in(path.directions([run])))
            .group_by("profile", "hop", "direction")
            .agg(pl.col(cause).max() for cause in (*DROP_CAUSES, *MARK_CAUSES))
        )
        lost = [float(totals[cause].sum()) for cause in DROP_CAUSES]
        found.setdefault(run.scheme, []).append([*lost, float(sum(totals[cause].sum() for cause in MARK_CAUSES))])
    return [
        Losses(scheme, *(text.number(sum(each) / len(each)) for each in zip(*drops, strict=True)))
        for scheme, drops in found.items()
    ]


def _run_line(out: Path, run: Run) -> RunLine:
    return RunLine(
        scheme=run.scheme,
        seed=run.seed,
        begins=format_utc(run.start_unix_ns // 1_000_000 * 1_000_000),
        valid=bool(run.record["valid"]),
        why_invalid=str(run.record.get("why_invalid") or ""),
        content_hash=str(run.record["content_hash"]),
        folder=quote(run.path.relative_to(out).as_posix(), safe=SAFE),
    )


def shown_seed(runs: Sequence[Run]) -> tuple[int, str]:
    """The seed whose Runs are drawn over time, and that in words: the median by the goodput of all its Runs together.

    Of the seeds that have the most Runs; of two in the middle the lower.
    """
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    most = max(map(len, by_seed.values()))
    totals = sorted((sum(map(total_goodput_bps, found)), seed) for seed, found in by_seed.items() if len(found) == most)
    seed = totals[(len(totals) - 1) // 2][1]
    if len(totals) == 1:
        return seed, f"seed {seed}"
    return seed, f"seed {seed} (of {len(totals)}, the median by the goodput of all schemes together)"


def _by_seed(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Goodput by seed, one column per scheme [Mbit/s]; flows that share the path by ``+``; none of a single seed."""
    schemes = list(dict.fromkeys(run.scheme for run in runs))
    found = {(run.seed, run.scheme): run for run in runs if run.record["valid"]}
    seeds = sorted({seed for seed, _ in found})
    if len(seeds) < 2 or is_command(runs[0].scheme):  # of a command several Runs may have one seed
        return [], []

    def cell(run: Run | None) -> str:
        if run is None:
            return text.NONE
        return " + ".join(text.number(flow["goodput_bps"] * text.MBIT) for flow in run.flows)

    return schemes, [[str(seed), *(cell(found.get((seed, scheme))) for scheme in schemes)] for seed in seeds]


def _seeds_fact(runs: Sequence[Run]) -> str:
    """What a seed changed on this Profile."""
    seeds = sorted({run.seed for run in runs})
    again = [
        run.seed
        for run in runs
        if any(profile.get("hash") != profile["base_hash"] for profile in run.record["profiles"])
    ]
    if again:
        drawn = ("seeds " if len(set(again)) > 1 else "seed ") + ", ".join(map(str, sorted(set(again))))
        return (
            "the file (what bentpipe profile show shows) is what seed 0 met; "
            f"{drawn}: same geometry, capacity, loss and jitter drawn anew"
        )
    return "every run met the path as it is in the file" if len(seeds) > 1 else "the path as it is in the file"


def repeat_commands(out: Path, runs: Sequence[Run]) -> list[str]:
    """Commands that run the races in `out` again, from inside `out`; none for Experiments that came from a file.

    As they were asked for, also where they were not finished; Runs that nobody asked for here, as they are; programs'
    by `bentpipe run`.
    """
    commands: dict[str, None] = {}
    asked = read_manifest(out)
    places = set[asking.Place]().union(*(entry.places() for entry in asked))
    groups: dict[tuple[str, str, float, float | None], list[Run]] = {}
    for run in runs:
        if (run.experiment, run.world, run.label, run.scheme, run.seed) not in places:
            phase_s = run.offset_s if run.record.get("phase") == "given" else None
            groups.setdefault((run.experiment, run.world, run.duration_s, phase_s), []).append(run)
    for (experiment, where, duration_s, phase_s), mine in groups.items():
        labels = list(dict.fromkeys(run.label for run in mine))
        schemes = list(dict.fromkeys(run.scheme for run in mine))
        seeds = [max(run.seed for run in mine)]
        asked.append(Manifest(experiment, labels, schemes, seeds, duration_s, phase_s, where))
    for entry in asked:
        if entry.experiment in RACES:
            command = ["bentpipe", "race", *(f"profiles/{label}.parquet" for label in entry.profiles)]
            command += ["--cc", ",".join(entry.schemes)]
            command += ["--direction", entry.experiment.removeprefix("race-")]
            command += ["--duration", _seconds(entry.duration_s), "--seeds", str(max(entry.seeds) + 1)]
            command += ["--on-kernel"] if entry.world == "emulated" else []
            command += ["--phase", _seconds(entry.phase_s)] if entry.phase_s is not None else []
            commands[shlex.join([*command, "-o", "again"])] = None
    for run in runs:
        if again := program.repeat(run):
            commands[shlex.join(again)] = None
    return [f"cd {shlex.quote(str(out))}", *commands, "bentpipe report again"] if commands else []


def _seconds(value_s: float) -> str:
    """To the nanosecond, without an exponent."""
    return f"{value_s:.9f}".rstrip("0").rstrip(".")

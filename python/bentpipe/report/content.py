"""The report's content as plain data for the page, without drawing or writing."""

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
from bentpipe.runs import manifest, text
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

    from bentpipe.runs.run_record import World
    from bentpipe.runs.summary import FlowSummary, LeftOut, SchemeSummary


SAFE = "/+~"
"""Characters that need no quoting in a relative address, beside letters, digits and ``_.-`` (RFC 3986, 3.3)."""

RESULT_HEADS = (
    ("Goodput", "Mbit/s"),
    ("Whole run", "Mbit/s"),
    ("Share", "%"),
    ("Median RTT", "ms"),
    ("p95 RTT", "ms"),
    ("Retransmits", "segments a run"),
    ("Completed in", "s"),
    ("n", "results"),
)
"""Columns of the table of results: name and unit."""

START_UP_HEADS = (
    ("Time to 90 %", "s"),
    ("Overshoot", "× steady in flight"),
    ("Retransmits", "segments a run"),
    ("Reached 90 %", "runs"),
)


RACES = ("race-up", "race-down")
"""Names of the Experiments of `bentpipe race` without a file: only bulk flows."""

LIMITS = ("cwnd_limited_s", "receiver_limited_s", "sender_limited_s")

PHASES = {
    "drawn": "drawn from the seed",
    "given": "given",
    "wall_clock": "at the machine's second of the minute",
    "beginning": "at the beginning",
}
"""Values of a Run's `phase`, in words."""


@dataclass(frozen=True)
class Figure:
    """A figure: its file relative to the report, its data URI and its caption."""

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
    """Packets dropped in the directions of a scheme's data, mean per run, by cause; and packets marked."""

    scheme: str
    tail_drop: str
    random_loss: str
    handover_drop: str
    aqm_drop: str
    no_route: str
    marked: str


@dataclass(frozen=True)
class Limits:
    """A flow's limiting factors as shares of its time [%], mean over the runs; `cwnd` as in `world.cwnd_column`."""

    scheme: str
    flow: str
    colour: str
    cwnd: str
    rwnd: str
    sndbuf: str


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
    """One Profile in one Experiment.

    `alert` warns of Runs that are not valid. `not_valid`: no Run is valid, and the section shows invalid Runs.
    `thinned` states what the page leaves out of the section because the page covers many.
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
    cwnd_head: tuple[str, str]
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
    """One Experiment: its facts, figures over all its Profiles, and a section per Profile."""

    experiment: str
    title: str
    facts: list[tuple[str, str]]
    sections: list[Section]
    unfinished: str = ""
    failed: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    thinned: str = ""


def parts(out: Path, runs: Sequence[Run]) -> list[Part]:
    """Return the page's content, by Experiment and Profile."""
    runs = sorted_runs(runs)
    stored = {(run.experiment, run.world, run.label, run.scheme, run.seed) for run in runs}
    if is_written := is_locked(out):
        warnings.warn(f"{out}: a race is writing there; the report covers the Runs finished so far", UserWarning, 3)
    failed = [run for run in read_failed(out) if run.place not in stored]
    requested = set[manifest.Place]().union(*(entry.places() for entry in read_manifest(out))) - {
        run.place for run in failed
    }
    return [
        Part(
            experiment=name,
            title=_direction(mine[0]),
            facts=_experiment_facts(mine, _missing(mine, requested)),
            unfinished=_unfinished(mine, _missing(mine, requested), is_written=is_written),
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


def drawable_runs(runs: Sequence[Run]) -> list[Run]:
    """Return the Runs to draw. If none of a Profile's is valid, return all of them, marked valid."""
    if any(run.record.valid for run in runs):
        return list(runs)
    return [replace(run, record=run.record.replace(valid=True)) for run in runs]


def sorted_runs(runs: Iterable[Run]) -> list[Run]:
    """Sort by Experiment and Profile; single flows before shared paths, in the order of `LOOKS`; then by seed."""
    known = {controller: i for i, controller in enumerate(LOOKS)}

    def key(run: Run) -> tuple[object, ...]:
        controllers = flow_parts(run.scheme)
        ranks = [known.get(controller.partition(":")[0], len(known)) for controller in controllers]
        return run.experiment, run.label, len(controllers), ranks, run.scheme, run.seed

    return sorted(runs, key=key)


def _direction(run: Run) -> str:
    titles = {"down": "Download: server to terminal", "up": "Upload: terminal to server"}
    directions = {str(flow["direction"]) for flow in run.flows}
    if not directions:
        return "No TCP flow"
    return titles[directions.pop()] if len(directions) == 1 and directions <= titles.keys() else "Both directions"


def _missing(runs: Sequence[Run], requested: set[manifest.Place]) -> int:
    """Count the requested Runs of this Experiment that are not stored."""
    stored = {(run.experiment, run.world, run.label, run.scheme, run.seed) for run in runs}
    return sum(place[0] == runs[0].experiment for place in requested - stored)


def _unfinished(runs: Sequence[Run], missing: int, *, is_written: bool) -> str:
    if is_written:
        of = f" of {len(runs) + missing}" if missing else ""
        return (
            f"A race was writing into this folder when this page was made. The page shows the {len(runs)}{of} Runs "
            "finished by then, among them earlier Runs that the race had not replaced yet."
        )
    if not missing:
        return ""
    return (
        f"Unfinished: {len(runs)} of {text.plural(len(runs) + missing, 'Run')} are stored. The page covers only these; "
        "the same race command runs the rest."
    )


def _experiment_facts(runs: Sequence[Run], missing: int) -> list[tuple[str, str]]:
    seeds = sorted({run.seed for run in runs})
    invalid = sum(not run.record.valid for run in runs)
    phases = {str(run.record.phase) for run in runs}
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
        *([("Idle connections left out", f"{idle} (for example control connections)")] if idle else []),
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
    outage = path.is_permanent_outage(every)
    excluded = left_out(every)
    runs = drawable_runs(every)
    not_valid = not any(run.record.valid for run in every)
    whole = [] if not_valid else [each for each in excluded if each.whole]
    summaries = summarise(runs)
    cwnd_head, cwnd_note = world.cwnd_column(runs)
    limits = _limiting_factors(runs)
    sentences = path.sentences(label, runs)
    if not outage and not not_valid:
        sentences += program.sentences(label, runs)
        if any(run.flows for run in runs) and path.has_capacity(runs):
            sentences += (
                program.carried(label, summaries)
                if is_command(runs[0].scheme)
                else prose.opening(label, summaries, runs)
            )
        # A kernel's counters tell less (`world.ABOUT_KERNEL`); flows of an Experiment file may have nothing to send.
        if runs[0].world == "simulated" and runs[0].experiment in RACES:
            sentences += prose.buffered({scheme: shares[1:] for (scheme, _, _), shares in limits.items()})
    profile = runs[0].record.profiles[0]
    origin = profile.provenance
    facts = [
        ("Path", str(origin.get("description", "not recorded"))),
        ("Kind", str(origin.get("kind", "not recorded"))),
        ("Starts", format_utc(profile.start_unix_ns)),
        ("Lasts", f"{profile.duration_s:g} s"),
        ("Delays include", provenance.includes(origin.get("includes"))),
        ("Drawn from the seed", _seeds_fact(runs)),
        *path.facts(runs),
        ("Made by", str(origin.get("made_by", "not recorded"))),
        ("Content hash", profile.base_hash),
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
        alert=prose.left_out(label, excluded, not_valid=not_valid, on_kernel=every[0].world == "emulated"),
        not_valid=not_valid,
        sentences=sentences,
        heads=heads,
        rows=rows,
        start_up=[
            *(row for summary in summaries for row in _rows(summary, _start_up_cells)),
            *(row for each in whole for row in _no_rows(each, len(START_UP_HEADS))),
        ],
        limits=[*_limits(limits), *(line for each in whole for line in _no_limits(each))],
        cwnd_head=cwnd_head,
        losses=[*_losses(runs), *(Losses(each.scheme, *[text.NONE] * (len(DROP_CAUSES) + 1)) for each in whole)],
        queues=path.queues(runs),
        buffers=cwnd_note + path.buffers(runs),
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
    """Drop empty columns: without flows that share the path there are no shares."""
    filled = [i for i in range(len(heads)) if any(row.cells[i][0] for row in rows if row.counts)]
    return [heads[i] for i in filled], [replace(row, cells=tuple(row.cells[i] for i in filled)) for row in rows]


def _no_rows(left: LeftOut, columns: int) -> list[Row]:
    """Return the rows of a scheme without a valid Run: dashes, and the number of its Runs in the last column."""
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
    """Return mean and interval for each column of `RESULT_HEADS`."""
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
    """Return mean and extremes for each column of `START_UP_HEADS`.

    Student's t supposes normal values. Those of a start-up are truncated at the warm-up and widely spread.
    """
    start = flow.start_up
    return (
        (text.mean(start.time_to_90_s), text.extremes(start.time_to_90_s)),
        (text.mean(start.overshoot), text.extremes(start.overshoot)),
        (text.mean(start.retransmits), text.extremes(start.retransmits)),
        (f"{start.reached} of {summary.n}", ""),
    )


def _counted_runs(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield the Runs that the table of results counts."""
    for group in group_runs(runs).values():
        yield from counted(group)


def _limits(factors: Mapping[tuple[str, int, str], Sequence[float]]) -> list[Limits]:
    return [
        Limits(scheme, controller, look(controller).colour, *map(text.number, shares))
        for (scheme, _, controller), shares in factors.items()
    ]


def _limiting_factors(runs: Iterable[Run]) -> dict[tuple[str, int, str], list[float]]:
    """Return by scheme, flow and controller the share of each of `LIMITS` in its limited time [%], mean over runs."""
    by_flow: dict[tuple[str, int, str], list[list[float]]] = {}
    for run in _counted_runs(runs):
        samples = run.samples()
        for i, name in enumerate(run.names):
            times = [series.values(samples, i, column)[1].max(initial=0.0) for column in LIMITS]
            by_flow.setdefault((run.scheme, i, name), []).append([100 * time / (sum(times) or 1.0) for time in times])
    return {flow: [sum(each) / len(each) for each in zip(*shares, strict=True)] for flow, shares in by_flow.items()}


def _losses(runs: Iterable[Run]) -> list[Losses]:
    counts: dict[str, list[list[float]]] = {}
    for run in _counted_runs(runs):
        totals = (
            with_marks(run.links())
            .filter((pl.col("flow") < 0) & pl.col("direction").is_in(path.directions([run])))
            .group_by("profile", "hop", "direction")
            .agg(pl.col(cause).max() for cause in (*DROP_CAUSES, *MARK_CAUSES))
        )
        drops = [float(totals[cause].sum()) for cause in DROP_CAUSES]
        marks = float(sum(totals[cause].sum() for cause in MARK_CAUSES))
        counts.setdefault(run.scheme, []).append([*drops, marks])
    return [
        Losses(scheme, *(text.number(sum(each) / len(each)) for each in zip(*rows, strict=True)))
        for scheme, rows in counts.items()
    ]


def _run_line(out: Path, run: Run) -> RunLine:
    return RunLine(
        scheme=run.scheme,
        seed=run.seed,
        begins=format_utc(run.start_unix_ns // 1_000_000 * 1_000_000),
        valid=bool(run.record.valid),
        why_invalid=str(run.record.why_invalid or ""),
        content_hash=str(run.record.content_hash),
        folder=quote(run.path.relative_to(out).as_posix(), safe=SAFE),
    )


def shown_seed(runs: Sequence[Run]) -> tuple[int, str]:
    """Select the seed whose Runs are drawn over time: the median by the goodput of all its Runs together.

    Only seeds with the most Runs are candidates. Of two medians the lower is taken.

    Returns:
        The seed, and the selection in words.
    """
    by_seed: dict[int, list[Run]] = {}
    for run in runs:
        by_seed.setdefault(run.seed, []).append(run)
    most = max(map(len, by_seed.values()))
    totals = sorted((sum(map(total_goodput_bps, each)), seed) for seed, each in by_seed.items() if len(each) == most)
    seed = totals[(len(totals) - 1) // 2][1]
    if len(totals) == 1:
        return seed, f"seed {seed}"
    return seed, f"seed {seed} (of {len(totals)}, the median by the goodput of all schemes together)"


def _by_seed(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """Return goodput by seed, one column per scheme [Mbit/s]; ``+`` joins flows that share the path.

    Empty if there is only one seed.
    """
    schemes = list(dict.fromkeys(run.scheme for run in runs))
    valid = {(run.seed, run.scheme): run for run in runs if run.record.valid}
    seeds = sorted({seed for seed, _ in valid})
    if len(seeds) < 2 or is_command(runs[0].scheme):  # several Runs of a command may have the same seed
        return [], []

    def cell(run: Run | None) -> str:
        if run is None:
            return text.NONE
        return " + ".join(text.number(flow["goodput_bps"] * text.MBIT) for flow in run.flows)

    return schemes, [[str(seed), *(cell(valid.get((seed, scheme))) for scheme in schemes)] for seed in seeds]


def _seeds_fact(runs: Sequence[Run]) -> str:
    """Describe the effect of the seed on this Profile."""
    seeds = sorted({run.seed for run in runs})
    changed = [run.seed for run in runs if any(profile.hash != profile.base_hash for profile in run.record.profiles)]
    if changed:
        others = ("seeds " if len(set(changed)) > 1 else "seed ") + ", ".join(map(str, sorted(set(changed))))
        return (
            "the file (see bentpipe profile show) is the path of seed 0; "
            f"{others}: same geometry, other capacity, loss and jitter"
        )
    return "nothing: every run has the path in the file" if len(seeds) > 1 else "nothing: the path in the file"


def repeat_commands(out: Path, runs: Sequence[Run]) -> list[str]:
    """Return commands that repeat the races in `out`, from inside `out`; none for Experiments from a file.

    Races are repeated as requested, even if unfinished. Runs without a manifest are repeated as they are, programs by
    `bentpipe run`.
    """
    commands: dict[str, None] = {}
    requested = read_manifest(out)
    places = set[manifest.Place]().union(*(entry.places() for entry in requested))
    groups: dict[tuple[str, World, float, float | None], list[Run]] = {}
    for run in runs:
        if (run.experiment, run.world, run.label, run.scheme, run.seed) not in places:
            phase_s = run.offset_s if run.record.phase == "given" else None
            groups.setdefault((run.experiment, run.world, run.duration_s, phase_s), []).append(run)
    for (experiment, world_name, duration_s, phase_s), mine in groups.items():
        repeated = Manifest(
            experiment=experiment,
            profiles=tuple(dict.fromkeys(run.label for run in mine)),
            schemes=tuple(dict.fromkeys(run.scheme for run in mine)),
            seeds=(max(run.seed for run in mine),),
            duration_s=duration_s,
            phase_s=phase_s,
            world=world_name,
        )
        requested.append(repeated)
    for entry in requested:
        if entry.experiment in RACES:
            command = ["bentpipe", "race", *(f"profiles/{label}.parquet" for label in entry.profiles)]
            command += ["--cc", ",".join(entry.schemes)]
            command += ["--direction", entry.experiment.removeprefix("race-")]
            command += ["--duration", _seconds(entry.duration_s), "--seeds", str(max(entry.seeds) + 1)]
            command += ["--on-kernel"] if entry.world == "emulated" else []
            command += ["--phase", _seconds(entry.phase_s)] if entry.phase_s is not None else []
            commands[shlex.join([*command, "-o", "again"])] = None
    for run in runs:
        if command := program.repeat(run):
            commands[shlex.join(command)] = None
    return [f"cd {shlex.quote(str(out))}", *commands, "bentpipe report again"] if commands else []


def _seconds(value_s: float) -> str:
    """Format seconds to the nanosecond, without an exponent."""
    return f"{value_s:.9f}".rstrip("0").rstrip(".")

"""The report's content as typed rows (`bentpipe.report.rows`), computed from Runs, without drawing or writing."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.experiments.flow_names import is_command, without_folders
from bentpipe.plots.style import legend_name
from bentpipe.report import latency, path, program, prose, provenance, tables, world
from bentpipe.report.rows import Part, Section, SeedTable
from bentpipe.report.selection import drawable_runs, sorted_runs
from bentpipe.runs import manifest, text
from bentpipe.runs.apart import experiment_of, find_alike
from bentpipe.runs.commands import idle_connections
from bentpipe.runs.failed import FailedRun, by_scheme
from bentpipe.runs.manifest import read_manifest
from bentpipe.runs.profiles import stored_profile
from bentpipe.runs.summary import left_out, summarise
from bentpipe.segments import is_locked
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.report.place import Place
    from bentpipe.runs.store import Run

PHASES = {
    "drawn": "drawn from the seed",
    "given": "given",
    "wall_clock": "at the machine's second of the minute",
    "beginning": "at the start",
}
"""Values of a Run's `phase`, in words."""


def parts(
    place: Place,
    runs: Sequence[Run],
    failed: Sequence[FailedRun] = (),
    *,
    unfinished: int = 0,
    is_selection: bool = False,
) -> list[Part]:
    """Return the page's content, by Experiment and Profile.

    Args:
        place: Where the page and the Runs are.
        runs: The Runs.
        failed: Runs that failed.
        unfinished: Number of missing Runs of an interrupted Experiment, if no folder lists them.
        is_selection: Whether the folder has other Runs: then none is called missing.
    """
    runs = sorted_runs(runs)
    stored = {manifest.place_of(run) for run in runs}
    failed = [run for run in failed if run.place not in stored]
    by_part: dict[str, list[Run]] = {}
    for run in runs:
        by_part.setdefault(run.experiment, []).append(run)
    part_of: dict[manifest.Place, str | None] = {}
    is_written = False
    if (out := place.folder) is not None:
        if is_written := is_locked(out):
            warnings.warn(f"{out}: a race is writing there; the report covers the Runs finished so far", UserWarning, 3)
        for entry in [] if is_selection else read_manifest(out):
            for request in entry.requests:
                part = find_alike(request.experiment, request.scheme, runs)
                part_of |= dict.fromkeys(entry.places_of(request), part)
    requested = part_of.keys() - {run.place for run in failed}
    missing = Counter(part_of[each] for each in requested - stored)
    failed_in: dict[str | None, list[FailedRun]] = {}
    for each in failed:
        failed_in.setdefault(experiment_of(each, runs), []).append(each)
    content = [
        Part(
            experiment=name,
            title=_title(mine[0]),
            facts=_experiment_facts(mine, missing[name], is_selection=is_selection),
            unfinished=_unfinished(mine, missing[name], is_written=is_written),
            failed=by_scheme(failed_in.get(name, ())),
            sections=[
                _section(
                    place,
                    label,
                    [run for run in mine if run.label == label],
                )
                for label in dict.fromkeys(run.label for run in mine)
            ],
        )
        for name, mine in by_part.items()
    ]
    if unfinished and not requested:
        content[0].unfinished = f"Unfinished: the Experiment was interrupted; {text.plural(unfinished, 'Run')} missing."
    elif missing[None] and not is_written:
        others = f"Unfinished: {text.plural(missing[None], 'Run')} missing, of Experiments without a stored Run."
        content[0].unfinished = " ".join(filter(None, [content[0].unfinished, others]))
    elsewhere = failed_in.get(None, [])
    for name in dict.fromkeys(each.experiment for each in elsewhere):
        lines = by_scheme(each for each in elsewhere if each.experiment == name)
        content[0].failed += [f"{name}: {line}" for line in lines]
    return content


def _title(run: Run) -> str:
    if (test := run.record.experiment.test) is not None:
        title = f"Latency under load: test {test}"
        return f"{title} ({run.settings})" if run.settings else title
    titles = {"down": "Download: server to terminal", "up": "Upload: terminal to server"}
    directions = {str(flow["direction"]) for flow in run.flows}
    if not directions:
        title = "No TCP flow"
    else:
        title = titles[directions.pop()] if len(directions) == 1 and directions <= titles.keys() else "Both directions"
    return f"{title} ({run.settings})" if run.settings else title


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


def _experiment_facts(runs: Sequence[Run], missing: int, *, is_selection: bool) -> list[tuple[str, str]]:
    seeds = sorted({run.seed for run in runs})
    invalid = sum(not run.record.valid for run in runs)
    phases = {str(run.record.phase) for run in runs}
    begin = " or ".join(PHASES.get(phase, phase) for phase in sorted(phases))
    first = runs[0]
    lengths = {run.duration_s for run in runs}
    length = f"{first.duration_s:g}" if len(lengths) == 1 else path.span(sorted(lengths))
    idle = idle_connections(runs)
    schemes = list(dict.fromkeys(run.scheme for run in runs))
    return [
        ("Experiment", first.experiment),
        *world.facts(runs),
        ("Schemes", ", ".join(without_folders(scheme, schemes) for scheme in schemes)),
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
            )
            + (", a selection of those in the folder" if is_selection else ""),
        ),
    ]


def _section(place: Place, label: str, every: list[Run]) -> Section:
    outage = path.is_permanent_outage(every)
    excluded = left_out(every)
    runs = drawable_runs(every)
    not_valid = not any(run.record.valid for run in every)
    whole = [] if not_valid else [each for each in excluded if each.whole]
    test = runs[0].record.experiment.test
    summaries = summarise(runs, together=test is not None)
    cwnd_column, cwnd_note = world.cwnd_column(runs)
    factors = tables.limiting_factors(runs, together=test is not None)
    sentences = path.sentences(label, runs)
    if not outage and not not_valid:
        sentences += program.sentences(label, runs)
        if any(run.flows for run in runs) and path.has_capacity(runs):
            if test is None:
                sentences += (
                    program.carried(label, summaries)
                    if is_command(runs[0].scheme)
                    else prose.opening(label, summaries, runs)
                )
            sentences += latency.sentences(label, runs)
        # A kernel's counters tell less (`world.ABOUT_KERNEL`); other applications than bulk may have nothing to send.
        if runs[0].world == "simulated" and test is None and all(_is_bulk(run) for run in runs):
            sentences += prose.buffered({scheme: shares[1:] for (scheme, _, _), shares in factors.items()})
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
    file = None if place.folder is None else stored_profile(place.folder, label)
    columns, rows = ([], []) if outage else tables.results(summaries, whole, tables.RESULT_COLUMNS)
    return Section(
        title=label,
        anchor=f"{runs[0].experiment}-{label}",
        facts=facts,
        recipe=provenance.blocks(recipe) if isinstance(recipe, dict) else [],
        alert=prose.left_out(label, excluded, not_valid=not_valid, on_kernel=every[0].world == "emulated"),
        not_valid=not_valid,
        sentences=sentences,
        latency=[] if outage else latency.rows(runs),
        columns=columns,
        rows=rows,
        start_up=tables.start_up(summaries, whole),
        limits=tables.limits(factors, whole, summaries),
        cwnd_column=cwnd_column,
        losses=tables.losses(runs, whole),
        queues=path.queues(runs),
        buffers=cwnd_note + path.buffers(runs),
        seeds=tables.by_seed(runs) if test is None else SeedTable(),
        runs=[tables.run_line(place, run) for run in every],
        profile_file="" if file is None else place.link(file),
    )


def _is_bulk(run: Run) -> bool:
    return all(flow.app == "bulk" for flow in run.record.experiment.flows)


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

"""Both worlds' Runs of every cell: the same Profiles, the same Experiments, the same seeds."""

from __future__ import annotations

import json
import shutil
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.errors import UserError
from bentpipe.execution.emulation.result import START_BOUND_MS
from bentpipe.execution.emulation.send_memory import wmem_segment_bytes
from bentpipe.execution.plan import drawn_phase_ns
from bentpipe.execution.racing import OtherRunError, run_experiment
from bentpipe.experiments.experiment import NS_PER_S, ROLE, Experiment, Host, ProfileRef, for_scheme
from bentpipe.experiments.file import ExperimentFile
from bentpipe.files import atomic_write, read_text
from bentpipe.report.path import HOST_BUFFERS
from bentpipe.runs.figures import Side, figures_of, lateness_ms
from bentpipe.validation.sim_vs_kernel.cells import WARMUP_S
from bentpipe.validation.sim_vs_kernel.paths import SLACK_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.runs.store import Run
    from bentpipe.validation.sim_vs_kernel.cells import Cell, Effort

ATTEMPTS = 3
"""Runs on a machine that other work disturbed are invalid, and repeated; with one that is invalid so often its cell is
outside."""

CALM_P999_MS = 2.0
"""A Run with a later p99.9 is repeated too, and kept if it does not get better: the relay stood still for a while, and
what it then handed on at once is a burst that the path's queue may not hold. Chosen here: a tenth of the shortest queue
(fibre) [ms]."""

TAKEN = "taken.txt"
"""File with the content hashes of the kernel's Runs that a look was content with."""

STAGGER_S = 1.0
"""A second flow starts up to this long after the first [s]. Chosen here: more than the longest RTT, so that
either may be ahead of the other; much less than the warm-up."""

HOST = "host"
"""All ends are alike: the buffers of a simulated host that nobody set, in both worlds (`HOST_BUFFERS`)."""

STAGGER_SEED = 1_000_000
"""Added to a seed for that draw, which is not to follow the start phase's."""


@dataclass(frozen=True)
class Worlds:
    """A cell's Runs, seed by seed.

    `more`: the simulator's with further seeds. `repeated`: the kernel's once more with the first of the seeds. `host`:
    what is built into the kernel, and the simulated hosts had too (`kernel_host`).
    """

    cell: Cell
    simulated: tuple[Run, ...]
    kernel: tuple[Run, ...]
    more: tuple[Run, ...] = ()
    repeated: tuple[Run, ...] = ()
    host: Mapping[str, int] = field(default_factory=dict)

    @property
    def why_invalid(self) -> str | None:
        """Why not all of the kernel's Runs count; None: they do."""
        runs = (*self.kernel, *self.repeated)
        return next((why for run in runs if (why := why_invalid(run)) is not None), None)


def run_cell(
    cell: Cell, path: Profile, effort: Effort, out: Path, on_progress: Callable[[float], None], *, look: int = 0
) -> Worlds:
    """A cell in both worlds, kept below `out`; what is there already is not run again.

    Args:
        cell: Which.
        path: Its Profile.
        effort: How long, how many seeds.
        out: Folder for the Runs.
        on_progress: Called with the share done, 0 to 1.
        look: With the seeds of which look.

    Raises:
        UserError: what this machine cannot run.
    """
    seeds = effort.seeds(cell)[look]
    host = kernel_host()
    simulated = simulate(cell, path, effort, seeds, out, host)
    kernel = tuple(calm(cell, path, effort, range(seeds), _folder(out, cell) / "kernel", on_progress))
    return Worlds(cell, simulated[:seeds], kernel, more=simulated[seeds:], host=host)


def simulate(
    cell: Cell,
    path: Profile,
    effort: Effort,
    seeds: int,
    out: Path,
    host: Mapping[str, int],
    on_progress: Callable[[float], None] = lambda _: None,
) -> tuple[Run, ...]:
    """The simulator's Runs of a cell, kept below `out`: of a pair more than the kernel's `seeds`.

    `host`: what is built into the kernel that they are held against (`kernel_host`).
    """
    many = seeds if cell.alone else max(seeds, effort.simulated)
    folder = _folder(out, cell) / "simulated"
    return tuple(_race(cell, path, effort, range(many), folder, on_kernel=False, host=host, on_progress=on_progress))


def kernel_host() -> dict[str, int]:
    """What is built into this machine's kernel and a simulated host can be given."""
    per_segment = wmem_segment_bytes()
    return {} if per_segment is None else {"wmem_segment_bytes": per_segment}


def repeat(worlds: Worlds, path: Profile, effort: Effort, out: Path, on_progress: Callable[[float], None]) -> Worlds:
    """The same with the kernel's Runs of the first seeds once more, kept below `out` like the others."""
    many = min(effort.repeated, len(worlds.kernel))
    out = _folder(out, worlds.cell) / "kernel-repeated"
    return replace(worlds, repeated=tuple(calm(worlds.cell, path, effort, range(many), out, on_progress)))


def why_invalid(run: Run) -> str | None:
    """Also where a flow did not begin in time: whom it meets on the path is then another question."""
    if not run.record.valid:
        return str(run.record.why_invalid)
    late_ms = run.record.summary["emulator"]["start_late_max_ms"]
    return f"a flow began {late_ms:.3g} ms after its time" if late_ms is not None and late_ms > START_BOUND_MS else None


def _folder(out: Path, cell: Cell) -> Path:
    """Where a cell's Runs go: those of lone flows and of pairs meet paths of one name and of another length."""
    return out / ("alone" if cell.alone else "pairs")


def calm(
    cell: Cell, path: Profile, effort: Effort, seeds: Sequence[int], out: Path, on_progress: Callable[[float], None]
) -> list[Run]:
    """The kernel's Runs with some seeds, kept below `out`; those that something disturbed are tried again."""
    # What an earlier look took is not drawn again, however late it was: that would be to choose among results.
    taken = set(read_text(out / TAKEN).split()) if (out / TAKEN).exists() else set[str]()
    for _ in range(ATTEMPTS - 1):
        runs = _race(cell, path, effort, seeds, out, on_kernel=True, on_progress=on_progress)
        spoilt = [
            run
            for run in runs
            if why_invalid(run) is not None
            or (effort.insist and lateness_ms(run)[1] > CALM_P999_MS and run.record.content_hash not in taken)
        ]
        if not spoilt:
            break
        for run in spoilt:
            shutil.rmtree(run.path)
    else:
        runs = _race(cell, path, effort, seeds, out, on_kernel=True, on_progress=on_progress)
    taken |= {run.record.content_hash for run in runs if run.record.valid}
    with atomic_write(out / TAKEN) as file:
        file.write("".join(f"{one}\n" for one in sorted(taken)).encode())
    return runs


def _race(
    cell: Cell,
    path: Profile,
    effort: Effort,
    seeds: Sequence[int],
    out: Path,
    *,
    on_kernel: bool,
    host: Mapping[str, int] | None = None,
    on_progress: Callable[[float], None] = lambda _: None,
) -> list[Run]:
    runs: list[Run] = []
    with warnings.catch_warnings():
        # The measured path has no limit upwards, where only acknowledgements go.
        warnings.simplefilter("ignore")
        for before, seed in enumerate(seeds):

            def on_run_progress(share: float, *_: int, before: int = before) -> None:
                on_progress((before + share) / len(seeds))

            experiment = experiment_of(cell, path, effort.duration_s(cell), seed)
            if host and not on_kernel:
                experiment = experiment.replace(hosts={HOST: experiment.hosts[HOST].replace(**host)})
            file = ExperimentFile(experiment, {ROLE: Path(cell.profile)})
            try:
                result = run_experiment(
                    file, [path], out=out, on_kernel=on_kernel, careful=False, on_progress=on_run_progress
                )
            except OtherRunError as error:
                raise UserError(f"{error.problem}; choose another folder with -o, or remove {out}") from error
            runs += result.runs
    return runs


def experiment_of(cell: Cell, path: Profile, duration_s: float, seed: int) -> Experiment:
    """The Experiment of a cell and a seed.

    The start phase is drawn as in a race. A second flow starts within `STAGGER_S` after the first: of two that start at
    the same instant, whose first window is ahead of the other's decides for long who gets what, and on a kernel that is
    chance.
    """
    duration_ns = round(duration_s * NS_PER_S)
    experiment = for_scheme(
        cell.flows,
        "down",
        ProfileRef(role=ROLE, name=path.name, hash=path.content_hash()),
        duration_ns=duration_ns,
        seed=seed,
        offset_ns=drawn_phase_ns(seed, round(SLACK_S * NS_PER_S)),
    )
    later_ns = drawn_phase_ns(STAGGER_SEED + seed, round(STAGGER_S * NS_PER_S))
    first, *others = (flow.replace(sender=HOST, receiver=HOST) for flow in experiment.flows)
    flows = (first, *(flow.replace(start_ns=later_ns) for flow in others))
    return experiment.replace(flows=flows, hosts={HOST: Host.check(HOST_BUFFERS, HOST)})


def side(runs: Sequence[Run]) -> Side:
    """The figures of one world's Runs."""
    tables = ("samples", "links", "events")
    return Side(tuple(figures_of(run, *(table(run, name) for name in tables), warmup_s=WARMUP_S) for run in runs))


def table(run: Run, name: str) -> pl.DataFrame:
    """One of a Run's tables."""
    return pl.read_parquet(run.path / f"{name}.parquet")


def same_path(worlds: Worlds) -> bool:
    """Whether both worlds met the same realised Profile at the same phase, seed by seed."""
    return [met(run) for run in worlds.simulated] == [met(run) for run in worlds.kernel]


def met(run: Run) -> str:
    """The realised Profiles that a Run met, where it began in them, and its seed: the same text, the same path."""
    return json.dumps([[p.hash for p in run.record.profiles], run.record.experiment.offset_ns, run.seed])

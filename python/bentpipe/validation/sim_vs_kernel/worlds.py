"""Runs of every cell in both worlds: the same Profiles, Experiments and seeds."""

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
from bentpipe.execution.racing import run_experiment
from bentpipe.execution.sinks.folder import OtherRunError
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
    from bentpipe.execution.engine import Progress
    from bentpipe.runs.store import Run
    from bentpipe.validation.sim_vs_kernel.cells import Cell, Effort

ATTEMPTS = 3
"""Most attempts at a Run, which is invalid if other work disturbed it. If it stays invalid, its cell is outside."""

CALM_P999_MS = 2.0
"""A Run with a larger p99.9 of lateness is repeated too, and accepted if that stays so [ms]. The relay paused, and the
packets that it then delivered together may overflow the path's queue. Chosen here: a tenth of the shortest queue
(fibre)."""

TAKEN = "taken.txt"
"""File with the content hashes of the kernel's Runs that a look accepted."""

STAGGER_S = 1.0
"""Most time between the starts of two flows [s]. Chosen here: more than the longest RTT, so that either may be ahead of
the other; much less than the warm-up."""

HOST = "host"
"""Both ends in both worlds have the default buffers of a simulated host (`HOST_BUFFERS`)."""

STAGGER_SEED = 1_000_000
"""Added to the seed for that draw, so that it is independent of the start phase's."""


@dataclass(frozen=True)
class Worlds:
    """Runs of a cell, by seed.

    Attributes:
        more: The simulator's Runs with further seeds.
        repeated: The kernel's second Runs of the first seeds.
        host: Constants of the kernel, which the simulated hosts had too (`kernel_host`).
    """

    cell: Cell
    simulated: tuple[Run, ...]
    kernel: tuple[Run, ...]
    more: tuple[Run, ...] = ()
    repeated: tuple[Run, ...] = ()
    host: Mapping[str, int] = field(default_factory=dict)

    @property
    def why_invalid(self) -> str | None:
        """Why not all of the kernel's Runs count; None: all do."""
        runs = (*self.kernel, *self.repeated)
        return next((why for run in runs if (why := why_invalid(run)) is not None), None)


def run_cell(
    cell: Cell, path: Profile, effort: Effort, out: Path, on_progress: Callable[[float], None], *, look: int = 0
) -> Worlds:
    """Run a cell in both worlds. Runs that `out` already has are not repeated.

    Args:
        cell: The cell.
        path: Its Profile.
        effort: Duration of the Runs and number of seeds.
        out: Folder for the Runs.
        on_progress: Called with the part done, 0 to 1.
        look: Number of the look, which decides the seeds.

    Raises:
        UserError: The machine cannot run it.
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
    """Simulate a cell, with Runs below `out`; a pair has more seeds than the kernel's `seeds`.

    `host` has constants of the kernel that the Runs are compared with (`kernel_host`).
    """
    many = seeds if cell.alone else max(seeds, effort.simulated)
    folder = _folder(out, cell) / "simulated"
    return tuple(_race(cell, path, effort, range(many), folder, on_kernel=False, host=host, on_progress=on_progress))


def kernel_host() -> dict[str, int]:
    """Return constants of this machine's kernel that a simulated host can have."""
    per_segment = wmem_segment_bytes()
    return {} if per_segment is None else {"wmem_segment_bytes": per_segment}


def repeat(worlds: Worlds, path: Profile, effort: Effort, out: Path, on_progress: Callable[[float], None]) -> Worlds:
    """Return the same with second kernel Runs of the first seeds, stored below `out`."""
    many = min(effort.repeated, len(worlds.kernel))
    out = _folder(out, worlds.cell) / "kernel-repeated"
    return replace(worlds, repeated=tuple(calm(worlds.cell, path, effort, range(many), out, on_progress)))


def why_invalid(run: Run) -> str | None:
    """Return why a Run is invalid; also if a flow started late, since it then competes with other traffic."""
    if not run.record.valid:
        return str(run.record.why_invalid)
    late_ms = run.record.summary["emulator"]["start_late_max_ms"]
    return f"a flow began {late_ms:.3g} ms after its time" if late_ms is not None and late_ms > START_BOUND_MS else None


def _folder(out: Path, cell: Cell) -> Path:
    """Return the folder of a cell's Runs: paths of lone flows and of pairs have the same name but other durations."""
    return out / ("alone" if cell.alone else "pairs")


def calm(
    cell: Cell, path: Profile, effort: Effort, seeds: Sequence[int], out: Path, on_progress: Callable[[float], None]
) -> list[Run]:
    """Run seeds on the kernel, with Runs below `out`; disturbed Runs are repeated."""
    # A Run that an earlier look accepted is not repeated, however late it was: that would select among results.
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

            def on_run_progress(progress: Progress, before: int = before) -> None:
                on_progress((before + progress.share) / len(seeds))

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
    """Return the Experiment of a cell and a seed.

    The start phase is drawn as in a race. A second flow starts within `STAGGER_S` after the first: if two start at the
    same instant, the order of their first windows decides their shares for a long time, and on a kernel that order is
    chance.
    """
    duration_ns = round(duration_s * NS_PER_S)
    experiment = for_scheme(
        cell.flows,
        "down",
        [ProfileRef(role=ROLE, name=path.name, hash=path.content_hash())],
        duration_ns=duration_ns,
        seed=seed,
        offset_ns=drawn_phase_ns(seed, round(SLACK_S * NS_PER_S)),
    )
    later_ns = drawn_phase_ns(STAGGER_SEED + seed, round(STAGGER_S * NS_PER_S))
    first, *others = (flow.replace(sender=HOST, receiver=HOST) for flow in experiment.flows)
    flows = (first, *(flow.replace(start_ns=later_ns) for flow in others))
    return experiment.replace(flows=flows, hosts={HOST: Host.check(HOST_BUFFERS, HOST)})


def side(runs: Sequence[Run]) -> Side:
    """Return the results of one world's Runs."""
    tables = ("samples", "links", "events")
    return Side(tuple(figures_of(run, *(table(run, name) for name in tables), warmup_s=WARMUP_S) for run in runs))


def table(run: Run, name: str) -> pl.DataFrame:
    """Read one of a Run's tables."""
    return pl.read_parquet(run.path / f"{name}.parquet")


def same_path(worlds: Worlds) -> bool:
    """Return whether both worlds had the same realised Profile at the same phase, by seed."""
    return [met(run) for run in worlds.simulated] == [met(run) for run in worlds.kernel]


def met(run: Run) -> str:
    """Return the identity of a Run's path: the hashes of its realised Profiles, its start in them, and its seed."""
    return json.dumps([[p.hash for p in run.record.profiles], run.record.experiment.offset_ns, run.seed])

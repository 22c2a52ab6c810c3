"""Races: Runs in the simulator on all cores, or on this machine's kernel one after the other."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe._native import Network, Profile
from bentpipe.errors import ControllerError, UserError
from bentpipe.execution import captures, kernel
from bentpipe.execution import plan as planning
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.engine import Execution, RunsInterruptedError, simulate
from bentpipe.execution.interrupts import ctrl_c_deferred
from bentpipe.execution.pools import on_threads
from bentpipe.execution.repetition import given_profiles, plan_repetition
from bentpipe.execution.rows import RunRows
from bentpipe.execution.service import check_service, warn_of_paths
from bentpipe.execution.sinks.folder import FolderSink, KernelWarning
from bentpipe.execution.sinks.memory import MemorySink
from bentpipe.experiments.apps import parse_app
from bentpipe.experiments.recovery import parse_recoveries
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs import failed as failures
from bentpipe.runs import record, store
from bentpipe.runs.rows import RunKey
from bentpipe.segments import holding

if TYPE_CHECKING:
    from bentpipe.execution.engine import OnProgress
    from bentpipe.execution.pools import Reports
    from bentpipe.execution.rows import OnRows
    from bentpipe.experiments.experiment import Direction, HostTiming
    from bentpipe.experiments.file import ExperimentFile
    from bentpipe.runs.failed import FailedRun
    from bentpipe.runs.run_record import World
    from bentpipe.runs.work import Base, Work


@dataclass(frozen=True)
class RaceResult:
    """Result of a race: its Runs in the order of the plan; `resumed` of them existed before.

    `out` is its folder; None: the Runs are in memory. `failed` lists the Runs that failed in a Python controller, with
    time and reason; they are not in `runs`.
    """

    out: Path | None
    runs: list[store.Run]
    resumed: int = 0
    failed: tuple[FailedRun, ...] = ()

    def __repr__(self) -> str:
        """Return one line with counts instead of all Runs."""
        failed = f", failed={len(self.failed)}" if self.failed else ""
        out = None if self.out is None else str(self.out)
        return f"RaceResult(out={out!r}, runs={len(self.runs)}, resumed={self.resumed}{failed})"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``race --json``."""
        rows = {"runs": [record.race_row(run) for run in self.runs]}
        return {**rows, "failed": [str(run) for run in self.failed]} if self.failed else rows


def race(
    paths: Sequence[Profile | Network],
    schemes: Sequence[str],
    *,
    out: str | os.PathLike[str] | None,
    direction: Direction = "down",
    duration_s: float | None = None,
    seeds: int = 1,
    phase_s: float | None = None,
    queues: Sequence[str] = (),
    traffic: str | None = None,
    app: str = "bulk",
    host_timing: HostTiming = "linux-vm",
    test: str | None = None,
    recovery: str | None = None,
    on_kernel: bool = False,
    careful: bool = True,
    capture: bool = False,
    hook_trace: bool = False,
    jobs: int | None = None,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
    on_rows: OnRows | None = None,
) -> RaceResult:
    """Run every scheme on every Profile with every seed, and store each Run below `out`.

    Args:
        paths: The Profiles and networks; all paths of a network are used at once, each by the flows of the scheme.
            Seed 0 uses them as given; for seed s ≥ 1 each is redrawn with its own seed + s (presets and measurements
            are unchanged).
        schemes: ``cubic``; ``cubic+bbr`` is two flows that share the path.
        out: Folder for the Runs; None: they stay in memory (`MemoryRun`), and nothing is written. Existing Runs with
            the same Experiment, Profile, version and build are reused; those that are not valid are run again.
        direction: Direction of the data.
        duration_s: Duration of each Run [s]; None: that of the shortest Profile.
        seeds: N stands for the seeds 0 … N−1.
        phase_s: Offset in the Profile at which each Run begins [s]; None: drawn from the seed, uniform in the first
            15 s slot, or in the remainder of the Profile if that is less.
        traffic: Cross traffic on each path, of `bentpipe.scenarios.load_traffic`; None: none.
        app: Application of every flow, in the syntax of `bentpipe.experiments.apps.parse_app`.
        host_timing: Model of the time that the simulated hosts take.
        test: A test of `bentpipe.scenarios.load_tests`: pings, and flows whose directions and times it decides; None:
            flows of every scheme that start together.
        recovery: Schemes of loss recovery inside the network, ``none,satguard``: each has its own Runs, which record
            the one-way delays of the flows; None: none, without them.
        queues: Queue disciplines that replace the Profiles' own, in the syntax of `bentpipe.profiles.queues`; of
            several rules for one queue the last one holds.
        on_kernel: Use this machine's own TCP, in real time, one Run after the other, instead of the simulator.
        careful: On the kernel: first measure this machine's lateness, and repeat invalid Runs over the same path, up to
            `kernel.TRIES` times in all.
        capture: With `on_kernel`: store the packets at both ends in each Run, as `client.pcapng` and `server.pcapng`.
            An existing Run without them is run again.
        hook_trace: In the simulator: store the calls of each flow's controller in each Run, as ``flow-0.hooks.gz``, …
            (`bentpipe.experiments.hook_traces`). An existing Run without them is run again.
        jobs: Number of threads; None: the number of this process's cores. It does not affect results.
        fresh: Run again and replace existing Runs.
        on_progress: Called from this thread, about ten times a second.
        on_rows: Called from this thread with the rows of the Runs in progress as lines of JSON (`bentpipe.runs.rows`),
            about ten times a second. Simulations wait while it works; emulations drop rows if it falls far behind, and
            a row says how many. An exception from it ends the race.

    Raises:
        UserError: Before anything runs: a Run is impossible, the folder holds other Runs, or another race writes there.
        RunsInterruptedError: After Ctrl-C, when all threads have stopped.
        ControllerError: All Runs failed in a Python controller; if only some did, see `RaceResult.failed`.
        StoreError: The disk cannot be written; finished Runs are stored.
        EmulationError: An emulation stopped early; finished Runs are stored.
    """
    bases = planning.label_contents(paths)
    rules = tuple(parse_queue(text) for text in queues)
    world = _world(on_kernel)
    folder = None if out is None else Path(out)
    root = folder or Path()
    work = planning.plan_race(
        bases,
        schemes,
        direction,
        duration_s,
        seeds,
        root,
        phase_s,
        world,
        rules,
        traffic,
        parse_app(app),
        host_timing,
        test,
        () if recovery is None else parse_recoveries(recovery),
    )
    extras = captures.Extras(capture, hook_trace)
    return _execute(bases, work, folder, jobs, fresh, extras, on_progress, on_rows, careful)


def run_experiment(
    file: ExperimentFile,
    paths: Sequence[Profile | Network],
    *,
    out: str | os.PathLike[str] | None,
    seeds: int = 1,
    on_kernel: bool = False,
    careful: bool = True,
    capture: bool = False,
    hook_trace: bool = False,
    jobs: int | None = None,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
    on_rows: OnRows | None = None,
) -> RaceResult:
    """Run an Experiment from a file, `seeds` times from its own seed on, over the Profiles of its roles, in order.

    `paths` may also be one network with paths of these names, in this order.

    Raises as `race` does.
    """
    roles = [reference.role for reference in file.experiment.profiles]
    bases = planning.label_contents(paths) if any(isinstance(path, Network) for path in paths) else []
    if not bases:
        labelled = planning.label_profiles([path for path in paths if isinstance(path, Profile)], distinct=False)
        bases = [replace(base, role=role) for base, role in zip(labelled, roles, strict=True)]
    folder = None if out is None else Path(out)
    work = planning.plan_experiment(file.experiment, bases, seeds, folder or Path(), _world(on_kernel))
    extras = captures.Extras(capture, hook_trace)
    return _execute(bases, work, folder, jobs, fresh, extras, on_progress, on_rows, careful)


def repeat(
    folder: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    careful: bool = True,
    capture: bool = False,
    hook_trace: bool = False,
    jobs: int | None = None,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
    on_rows: OnRows | None = None,
) -> RaceResult:
    """Run the races in `folder` once more, as its manifest and its Profiles have them, and store the Runs below `out`.

    With `out` as the folder itself, this runs what is missing. Raises as `race` does.
    """
    work = plan_repetition(Path(folder), Path(out))
    bases = given_profiles(work)
    extras = captures.Extras(capture, hook_trace)
    return _execute(bases, work, Path(out), jobs, fresh, extras, on_progress, on_rows, careful)


def _world(on_kernel: bool) -> World:
    return "emulated" if on_kernel else "simulated"


def _execute(
    bases: Sequence[Base],
    work: list[Work],
    out: Path | None,
    jobs: int | None,
    fresh: bool,
    extras: captures.Extras,
    on_progress: OnProgress | None,
    on_rows: OnRows | None,
    careful: bool,
) -> RaceResult:
    if jobs is not None and jobs < 1:
        raise UserError(str(jobs), where="jobs", expected="at least 1")
    on_kernel = any(item.world == "emulated" for item in work)
    extras.check(on_kernel=on_kernel, has_folder=out is not None)
    if on_kernel:
        if jobs not in (None, 1):
            problem = "1: runs on the kernel are in real time and share the machine"
            raise UserError(str(jobs), where="jobs", expected=problem)
        kernel.check(work)
        jobs = 1
    check_service(work)
    threads = jobs or len(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        sink: FolderSink | MemorySink
        if out is None:
            sink = MemorySink(work)
        else:
            store.check_folder(out)
            busy = "another race writes there; wait for its end, or choose another folder (`out`)"
            stack.enter_context(holding(out, busy))
            sink = FolderSink(work, out, fresh=fresh, extras=extras)
        execution: Execution[store.Run] = Execution(work, sink.pending, sink, KernelWarning, on_progress, on_rows)
        pending = [work[i] for i in sink.pending]
        careful = careful and any(item.world == "emulated" for item in pending)
        warn_of_paths(work)
        try:
            with execution.reported():
                sink.begin(bases)
                if careful:
                    _warn_of_machine()
                tries = kernel.TRIES if careful else 1
                has_rows = on_rows is not None
                worker = _Worker(pending, sink, tries, threads=threads, extras=extras, has_rows=has_rows)
                execution.take(on_threads(worker, len(pending), threads))
        except RunsInterruptedError as stop:
            stop.finished, stop.failed = _results(work, sink, execution)
            raise
        finally:
            sink.end(execution.failed)
        runs, failed = _results(work, sink, execution)
        if not runs:
            raise ControllerError("; ".join(failures.by_scheme(failed)))
        return RaceResult(out, runs, sink.resumed, failed)


def _results(
    work: Sequence[Work], sink: FolderSink | MemorySink, execution: Execution[store.Run]
) -> tuple[list[store.Run], tuple[FailedRun, ...]]:
    """Return the finished and the failed Runs, in the order of the plan."""
    runs = [run for i in range(len(work)) if (run := sink.run(i)) is not None]
    return runs, tuple(failed for _, failed in sorted(execution.failed.items()))


class _Worker:
    """Executes one Run of a race in a thread, and hands it to the sink."""

    def __init__(
        self,
        pending: Sequence[Work],
        sink: FolderSink | MemorySink,
        tries: int,
        *,
        threads: int,
        extras: captures.Extras,
        has_rows: bool,
    ) -> None:
        self._pending, self._sink, self._extras, self._has_rows = pending, sink, extras, has_rows
        self._emulations = kernel.Emulations(tries)
        self._drawn = DrawnProfiles((threads + 1) * max((len(item.bases) for item in pending), default=1))

    def __call__(self, number: int, reports: Reports) -> store.Run:
        item = self._pending[number]
        if not self._has_rows:
            return self._run(item, reports, None)
        rows = RunRows(reports.rows, RunKey.of(item), real_time=item.world == "emulated")
        with rows.with_end():
            kept = self._run(item, reports, rows)
            rows.why_invalid = kept.record.why_invalid
        return kept

    def _run(self, item: Work, reports: Reports, rows: RunRows | None) -> store.Run:
        with captures.temporary_folder(item.folder.parent if self._extras != captures.Extras() else None) as captured:
            if item.world == "emulated":
                run = self._emulations.run(item, self._drawn, reports.share, reports.message, captured, rows)
            else:
                run = simulate(item, self._drawn, reports.share, captured, rows)
            return self._sink.keep(run, captured)


def _warn_of_machine() -> None:
    """Measure this machine's lateness in a thread, so that Ctrl-C in the main thread interrupts the race."""
    with ctrl_c_deferred(), ThreadPoolExecutor(max_workers=1) as pool:
        late = pool.submit(kernel.too_late).result()
    if late is not None:
        warnings.warn(late, KernelWarning, stacklevel=4)

"""Races: many Runs, spread over the cores, each stored as soon as it is finished."""

from __future__ import annotations

import os
import queue
import threading
import warnings
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import ControllerError, StoppedError, StoreError, UserError
from bentpipe.execution import captures, kernel, separate
from bentpipe.execution import plan as planning
from bentpipe.execution.drawn import DrawnProfiles, with_references
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.spec import EmulationError
from bentpipe.execution.interrupts import ctrl_c_deferred, ctrl_c_ignored
from bentpipe.execution.service import check_service, warn_of_paths
from bentpipe.experiments import plugins
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs import failed as failures
from bentpipe.runs import manifest, record, store, text
from bentpipe.runs.profiles import store_profiles
from bentpipe.runs.work import Base, Work, identity
from bentpipe.segments import holding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction, Experiment
    from bentpipe.experiments.file import ExperimentFile
    from bentpipe.runs.run_record import World

    OnProgress = Callable[[float, int, int], None]
    """Called with the share done (0 … 1), the number of finished Runs and the number of all Runs."""

POLL_S = 0.1
"""Interval at which the waiting thread reports progress and handles Ctrl-C [s]. Chosen here: unnoticeable."""


class KernelWarning(UserWarning):
    """A machine that is too busy for a race on the kernel, and the consequence."""


class RaceInterruptedError(StoppedError):
    """Ctrl-C: `stored` of `total` Runs are on disk; a fresh race counts only its own."""

    def __init__(self, stored: int, total: int, message: str) -> None:
        """Take the counts and the whole message."""
        super().__init__(message)
        self.stored = stored
        self.total = total


@dataclass(frozen=True)
class RaceResult:
    """Result of a race in `out`: its Runs in the order of the plan; `resumed` of them existed before.

    `failed` lists the Runs that failed in a Python controller, with time and reason; they are not in `runs`.
    """

    out: Path
    runs: list[store.Run]
    resumed: int = 0
    failed: tuple[failures.FailedRun, ...] = ()

    def __repr__(self) -> str:
        """Return one line with counts instead of all Runs."""
        failed = f", failed={len(self.failed)}" if self.failed else ""
        return f"RaceResult(out={str(self.out)!r}, runs={len(self.runs)}, resumed={self.resumed}{failed})"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``race --json``."""
        rows = {"runs": [record.race_row(run) for run in self.runs]}
        return {**rows, "failed": [str(run) for run in self.failed]} if self.failed else rows


def race(
    paths: Sequence[Profile],
    schemes: Sequence[str],
    *,
    out: str | os.PathLike[str],
    direction: Direction = "down",
    duration_s: float | None = None,
    seeds: int = 1,
    phase_s: float | None = None,
    queues: Sequence[str] = (),
    traffic: str | None = None,
    on_kernel: bool = False,
    careful: bool = True,
    capture: bool = False,
    jobs: int | None = None,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
) -> RaceResult:
    """Run every scheme on every Profile with every seed, and store each Run below `out`.

    Args:
        paths: The Profiles. Seed 0 uses them as given; for seed s ≥ 1 each is redrawn with its own seed + s (presets
            and measurements are unchanged).
        schemes: ``cubic``; ``cubic+bbr`` is two flows that share the path.
        out: Folder for the Runs. Existing Runs with the same Experiment, Profile, version and build are reused; those
            that are not valid are run again.
        direction: Direction of the data.
        duration_s: Duration of each Run [s]; None: that of the shortest Profile.
        seeds: N stands for the seeds 0 … N−1.
        phase_s: Offset in the Profile at which each Run begins [s]; None: drawn from the seed, uniform in the first
            15 s slot, or in the remainder of the Profile if that is less.
        traffic: Cross traffic on each path, of `bentpipe.scenarios.load_traffic`; None: none.
        queues: Queue disciplines that replace the Profiles' own, in the syntax of `bentpipe.profiles.queues`; of
            several rules for one queue the last one holds.
        on_kernel: Use this machine's own TCP, in real time, one Run after the other, instead of the simulator.
        careful: On the kernel: first measure this machine's lateness, and repeat invalid Runs over the same path, up to
            `kernel.TRIES` times in all.
        capture: With `on_kernel`: store the packets at both ends in each Run, as `client.pcapng` and `server.pcapng`.
            An existing Run without them is run again.
        jobs: Number of threads; None: the number of this process's cores. It does not affect results.
        fresh: Run again and replace existing Runs.
        on_progress: Called from the waiting thread.

    Raises:
        UserError: Before anything runs: a Run is impossible, the folder holds other Runs, or another race writes there.
        RaceInterruptedError: After Ctrl-C, when all threads have stopped.
        ControllerError: All Runs failed in a Python controller; if only some did, see `RaceResult.failed`.
        StoreError: The disk cannot be written; finished Runs are stored.
        EmulationError: An emulation stopped early; finished Runs are stored.
    """
    bases = planning.label_profiles(paths)
    rules = tuple(parse_queue(text) for text in queues)
    world = _world(on_kernel)
    out = Path(out)
    work = planning.plan_race(bases, schemes, direction, duration_s, seeds, out, phase_s, world, rules, traffic)
    return _execute(bases, work, out, jobs, fresh, capture, on_progress, careful)


def run_experiment(
    file: ExperimentFile,
    paths: Sequence[Profile],
    *,
    out: str | os.PathLike[str],
    seeds: int = 1,
    on_kernel: bool = False,
    careful: bool = True,
    capture: bool = False,
    jobs: int | None = None,
    fresh: bool = False,
    on_progress: OnProgress | None = None,
) -> RaceResult:
    """Run an Experiment from a file, `seeds` times from its own seed on, over the Profiles of its roles, in order.

    Raises as `race` does.
    """
    roles = [reference.role for reference in file.experiment.profiles]
    bases = [replace(base, role=role) for base, role in zip(planning.label_profiles(paths), roles, strict=True)]
    out = Path(out)
    work = planning.plan_experiment(file.experiment, bases, seeds, out, _world(on_kernel))
    return _execute(bases, work, out, jobs, fresh, capture, on_progress, careful)


def _world(on_kernel: bool) -> World:
    return "emulated" if on_kernel else "simulated"


def _execute(
    bases: Sequence[Base],
    work: list[Work],
    out: Path,
    jobs: int | None,
    fresh: bool,
    capture: bool,
    on_progress: OnProgress | None,
    careful: bool,
) -> RaceResult:
    if jobs is not None and jobs < 1:
        raise UserError(f"--jobs: {jobs}; expected at least 1")
    if any(item.world == "emulated" for item in work):
        if jobs not in (None, 1):
            raise UserError(f"--jobs: {jobs}; expected 1: runs on the kernel are in real time and share the machine")
        kernel.check(work)
        jobs = 1
    elif capture:
        raise UserError("--capture: the simulator's packets have no content; expected --on-kernel with it")
    check_service(work)
    store.check_folder(out)
    with holding(out, "another race writes there; wait for its end, or choose another folder with -o"):
        store.remove_partial(item.folder.parent for item in work)
        finished: dict[Path, store.Run] = {}
        try:
            if not fresh:
                existing = _reusable(work, out)
                finished = {
                    folder: run for folder, run in existing.items() if not capture or captures.are_stored(folder)
                }
            resumed = len(finished)
            warn_of_paths(work)
            store_profiles(bases, out, fresh=fresh)
            manifest.add(out, work, fresh=fresh)
            pending = [item for item in work if item.folder not in finished]
            careful = careful and any(item.world == "emulated" for item in pending)
            if careful:
                _warn_of_machine()
            pool = _WorkerPool(
                pending,
                len(work),
                on_progress,
                finished,
                capture=capture,
                most_tries=kernel.TRIES if careful else 1,
            )
            try:
                pool.run(jobs or len(os.sched_getaffinity(0)))
            finally:
                pool.store_failed(out)
            if pool.interrupted:
                raise KeyboardInterrupt
        except StoreError as error:
            _, summary, rest = _stored_runs(work, finished, fresh)
            raise StoreError(f"{error}; {summary}: make room; then {rest}") from error
        except EmulationError as error:
            _, summary, rest = _stored_runs(work, finished, fresh)
            raise EmulationError(f"{error}; {summary}; {rest}") from error
        except KeyboardInterrupt as stop:
            with ctrl_c_ignored():
                stored, summary, rest = _stored_runs(work, finished, fresh)
                raise RaceInterruptedError(stored, len(work), f"interrupted: {summary} in {out}; {rest}") from stop
        runs = [finished[item.folder] for item in work if item.folder in finished]
        failed = tuple(pool.failed[item.folder] for item in work if item.folder in pool.failed)
        if not runs:
            raise ControllerError("; ".join(failures.by_scheme(failed)))
        return RaceResult(out, runs, resumed, failed)


def _warn_of_machine() -> None:
    """Measure this machine's lateness in a thread, so that Ctrl-C in the main thread interrupts the race."""
    with ctrl_c_deferred(), ThreadPoolExecutor(max_workers=1) as pool:
        late = pool.submit(kernel.too_late).result()
    if late is not None:
        warnings.warn(late, KernelWarning, stacklevel=4)


def _reusable(work: Sequence[Work], out: Path) -> dict[Path, store.Run]:
    """Return the existing valid Runs; warn of invalid ones, which are run again."""
    existing = {item.folder: run for item in work if (run := _already_there(item)) is not None}
    valid = {folder: run for folder, run in existing.items() if run.record.valid}
    if invalid := len(existing) - len(valid):
        are = "is not valid and is" if invalid == 1 else "are not valid and are"
        warnings.warn(f"{text.plural(invalid, 'Run')} in {out} {are} run again", KernelWarning, stacklevel=4)
    return valid


class OtherRunError(UserError):
    """The place of a Run holds another Run: `problem` says where, and how it differs."""

    def __init__(self, folder: Path, other: str) -> None:
        """Name the `folder` and the differing property `other`."""
        self.problem = f"{folder}: holds a Run of another {other}"
        super().__init__(f"{self.problem}; choose another folder with -o, or replace it with --fresh")


_OTHER = {
    "bentpipe": "version of bentpipe",
    "build": "build of bentpipe",
    "kernel": "kernel",
    "machine": "architecture",
}
"""Names of the keys of a Run's versions."""


def _already_there(item: Work) -> store.Run | None:
    if not item.folder.exists():
        return None
    try:
        run = store.read_run(item.folder)
    except store.DamagedRunError as error:
        warnings.warn(f"a damaged Run is replaced: {error}", store.DamagedRunWarning, stacklevel=4)
        return None
    hashes = [profile.base_hash for profile in run.record.profiles]
    actual, expected = identity(run.record.experiment, hashes, run.record.versions), item.identity
    if actual != expected:
        ours, theirs = expected.pop("versions"), actual.pop("versions")
        other = "Experiment or Profile"
        if actual == expected:  # except for the versions
            differs = next((key for key in ours if ours[key] != theirs.get(key)), "bentpipe")
            other = f"{_OTHER.get(differs, 'version of the controller')}, whose results may differ"
        raise OtherRunError(item.folder, other)
    return run


def _stored_runs(work: Sequence[Work], finished: Mapping[Path, store.Run], fresh: bool) -> tuple[int, str, str]:
    """Return for a race that stopped early the number of stored Runs, that in words, and how to continue."""
    total = len(work)
    if not fresh:
        stored = sum(_is_run(item.folder) for item in work)
        return stored, f"{stored} of {total} Runs are stored", "the same command runs the rest"
    stored = len(finished)
    # --fresh would repeat those. Without it, earlier Runs must match the request, or the race is refused.
    can_continue = stored > 0 and all(item.folder in finished or _is_free_or_matches(item) for item in work)
    rest = "the same command without --fresh runs the rest" if can_continue else "the same command starts over"
    return stored, f"{stored} of {total} new Runs are finished", rest


def _is_run(folder: Path) -> bool:
    """Tell whether the folder has a valid Run."""
    try:
        return bool(store.read_run(folder).record.valid)
    except UserError:
        return False


def _is_free_or_matches(item: Work) -> bool:
    """Tell whether the place of the work is empty or holds a matching Run."""
    try:
        with warnings.catch_warnings(action="ignore"):
            _already_there(item)
    except UserError:
        return False
    return True


class _StopRunError(Exception):
    """Raised inside the simulator's progress callback to stop a run."""


@dataclass
class _WorkerPool:
    """The threads of one race. Threads suffice because the simulator releases the GIL."""

    pending: list[Work]
    total: int
    on_progress: OnProgress | None
    finished: dict[Path, store.Run]
    capture: bool = False
    interrupted: bool = False
    most_tries: int = 1
    failed: dict[Path, failures.FailedRun] = field(default_factory=dict)
    _gave_up: bool = False
    _messages: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _stop: threading.Event = field(default_factory=threading.Event)
    _shares: dict[int, float] = field(default_factory=dict)

    def run(self, jobs: int) -> None:
        """Run all pending work, or until an error or Ctrl-C, and add the Runs to `finished`."""
        drawn = DrawnProfiles((jobs + 1) * max((len(item.bases) for item in self.pending), default=1))
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="race") as pool:
            futures: list[Future[store.Run | None]] = []
            try:
                with ctrl_c_deferred():
                    futures += [pool.submit(self._one, i, item, drawn) for i, item in enumerate(self.pending)]
                self._watch(futures)
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                with ctrl_c_ignored():
                    self._stop.set()
                    pool.shutdown(wait=True, cancel_futures=True)
                    for item, future in zip(self.pending, futures, strict=False):  # empty if submission was interrupted
                        if not future.cancelled() and future.exception() is None and (run := future.result()):
                            self.finished[item.folder] = run
        for future in futures:
            if not future.cancelled():
                future.result()

    def store_failed(self, out: Path) -> None:
        """Store which of the completed Runs failed, however the race ends."""
        ended = [item for item in self.pending if item.folder in self.failed or item.folder in self.finished]
        failed = [self.failed[item.folder] for item in ended if item.folder in self.failed]
        failures.store_failed(out, ended, failed)

    def _watch(self, futures: list[Future[store.Run | None]]) -> None:
        before = self.total - len(futures)
        waiting = set(futures)
        while waiting:
            with ctrl_c_deferred():
                finished, waiting = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
            while not self._messages.empty():  # from this thread only: `warnings` is not thread-safe
                warnings.warn(self._messages.get(), KernelWarning, stacklevel=5)
            for future in finished:
                future.result()
            if self.on_progress is not None:
                completed = before + len(futures) - len(waiting)
                self.on_progress((before + sum(self._shares.copy().values())) / self.total, completed, self.total)

    def _one(self, number: int, item: Work, drawn: DrawnProfiles) -> store.Run | None:
        def on_share(share: float) -> None:
            if self._stop.is_set():
                raise _StopRunError
            self._shares[number] = share

        if self._stop.is_set():
            return None
        paths = drawn.take(item.bases, item.seed)
        experiment = with_references(item.experiment, paths)
        with captures.temporary_folder(item.folder.parent if self.capture else None) as captured:
            try:
                if item.world == "emulated":
                    data: record.Data = self._on_kernel(item, experiment, paths[0], on_share, captured)
                elif controllers := list(plugins.python_controllers(experiment)):
                    data = separate.simulate(experiment, paths, controllers, on_share)
                else:
                    data = plugins.simulate(experiment, paths, on_share)
            except _StopRunError:
                return None
            except ControllerError as error:  # a fault in the user's controller; the other Runs continue
                self.failed[item.folder] = failures.of_work(item, str(error))
                return None
            self._shares[number] = 1.0
            try:
                if isinstance(data, EmulationResult):
                    captures.make_room(captured, data)
                tables = record.tables(experiment.to_dict()["flows"], data)
                run = store.write_run(item.folder, record.run_record(item, experiment, paths, data), tables)
                captures.move_into(captured, run)
            except KeyboardInterrupt:
                # Polars catches a Ctrl-C during its work and raises it here instead of in the main thread.
                self.interrupted = True
                self._stop.set()
                return None
            return run

    def _on_kernel(
        self,
        item: Work,
        experiment: Experiment,
        path: Profile,
        on_share: Callable[[float], None],
        captured: Path | None,
    ) -> EmulationResult:
        """Emulate a Run; repeat it while it is not valid.

        If a Run fails all its tries, the machine's disturbance is not short. Then each Run has one try until one is
        valid again.
        """
        name = item.name
        tries = 1 if self._gave_up else self.most_tries
        for attempt in range(1, tries + 1):
            data = kernel.run_on_kernel(experiment, path, on_share, captured)
            why = data.why_invalid
            if why is None:
                self._gave_up = False
                return data
            if attempt < tries:
                self._messages.put(f"{name}: not valid, run again ({attempt + 1} of {tries}): {why}")
        if data.done is None:
            raise EmulationError(f"{name}: {why}")
        self._gave_up = True
        return data

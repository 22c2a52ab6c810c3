"""Races: many Runs, spread over the cores, each kept as soon as it is finished."""

from __future__ import annotations

import os
import queue
import threading
import warnings
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import ControllerError, StoppedError, StoreError, UserError
from bentpipe.execution import captures, kernel, separate
from bentpipe.execution import plan as planning
from bentpipe.execution.drawn import DrawnProfiles, referring_to
from bentpipe.execution.emulation.engine import Emulated, EmulationError
from bentpipe.execution.interrupts import ctrl_c_held_back, deaf_to_ctrl_c
from bentpipe.experiments import plugins
from bentpipe.profiles.path import PathView
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs import failed as failing
from bentpipe.runs import manifest as asked
from bentpipe.runs import record, store, text
from bentpipe.runs.profiles import keep_profiles
from bentpipe.runs.work import Base, Work, identity
from bentpipe.segments import holding

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction, Experiment
    from bentpipe.experiments.file import ExperimentFile

    OnProgress = Callable[[float, int, int], None]
    """Called with the share done (0 … 1), the Runs that are there and the Runs wanted."""

POLL_S = 0.1
"""How often the waiting thread looks up to report progress and hear Ctrl-C [s]. Chosen here: unnoticeable."""


class PathWarning(UserWarning):
    """A Profile on which a race says less than it seems to."""


class KernelWarning(UserWarning):
    """A machine too busy for a race on the kernel, and what is done about it."""


class RaceInterruptedError(StoppedError):
    """Ctrl-C: `kept` of `total` Runs are on disk; of a fresh race only its own count."""

    def __init__(self, kept: int, total: int, said: str) -> None:
        """`said` is the whole line."""
        super().__init__(said)
        self.kept = kept
        self.total = total


@dataclass(frozen=True)
class RaceResult:
    """What a race left in `out`: its Runs in the order of the plan; `resumed` of them were there before.

    `failed` says of Runs that a controller in Python ended which, when and why: those are not in `runs`.
    """

    out: Path
    runs: list[store.Run]
    resumed: int = 0
    failed: tuple[failing.FailedRun, ...] = ()

    def __repr__(self) -> str:
        """One line: the Runs themselves are in `runs`."""
        failed = f", failed={len(self.failed)}" if self.failed else ""
        return f"RaceResult(out={str(self.out)!r}, runs={len(self.runs)}, resumed={self.resumed}{failed})"

    def to_dict(self) -> dict[str, Any]:
        """What ``race --json`` prints."""
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
    """Run every scheme on every Profile with every seed, and keep each Run below `out`.

    Args:
        paths: The Profiles. Seed 0 runs them as they are; for seed s ≥ 1 each is drawn anew with its own seed + s
            (presets and measurements stay as they are).
        schemes: ``cubic``; ``cubic+bbr`` is two flows that share the path.
        out: Folder for the Runs. Those already there with the same Experiment, Profile, version and build are kept;
            those that are not valid are run again.
        direction: The way the data goes.
        duration_s: Length of each Run; None: the whole of the shortest Profile.
        seeds: N stands for the seeds 0 … N−1.
        phase_s: Where in the Profile each Run begins; None: uniform, by seed, in the first 15 s slot, or in what the
            Profile leaves if that is less.
        traffic: cross traffic on each path, of `bentpipe.scenarios.load_traffic`; None: the path is empty.
        queues: Other queues than the Profiles' own, as `bentpipe.profiles.queues.parse_queue` reads them; of several
            for one queue the last one holds.
        on_kernel: On this machine's own TCP, in real time, one Run after the other, instead of the simulator.
        careful: On the kernel: look first whether this machine keeps time, and run what is not valid again, over the
            same path, `kernel.TRIES` times in all.
        capture: With `on_kernel`: whether the packets at both ends are kept in each Run, as `client.pcapng` and
            `server.pcapng`. A Run that is there without them is run again.
        jobs: Threads; None: as many as this process has cores. The result does not depend on it.
        fresh: Run again, and replace, what is already there.
        on_progress: Called from the waiting thread.

    Raises:
        UserError: before anything runs, for what cannot be run, a folder that holds other Runs, or one into which
            another race writes.
        RaceInterruptedError: after Ctrl-C, when all threads have stopped.
        ControllerError: where all Runs failed of a controller in Python; of some, `RaceResult.failed` tells.
        StoreError: where the disk refuses; what was finished is kept.
        EmulationError: where an emulation ended before its end; likewise.
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


def _world(on_kernel: bool) -> store.World:
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
        raise UserError(f"--jobs: {jobs}; wanted at least 1")
    if any(item.world == "emulated" for item in work):
        if jobs not in (None, 1):
            raise UserError(f"--jobs: {jobs}; runs on the kernel are in real time and share the machine: wanted 1")
        kernel.check(work)
        jobs = 1
    elif capture:
        raise UserError("--capture: the simulator's packets have no content; wanted it with --on-kernel")
    _check_service(work)
    store.check_folder(out)
    with holding(out, "another race writes there; wait for its end, or choose another folder with -o"):
        store.remove_partial(item.folder.parent for item in work)
        finished: dict[Path, store.Run] = {}
        try:
            if not fresh:
                there = _kept(work, out)
                finished = {folder: run for folder, run in there.items() if not capture or captures.are_kept(folder)}
            resumed = len(finished)
            _warn_of_paths(work)
            keep_profiles(bases, out, fresh=fresh)
            asked.keep(out, work, fresh=fresh)
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
                pool.keep_failed(out)
            if pool.interrupted:
                raise KeyboardInterrupt
        except StoreError as error:
            _, said, rest = _what_is_kept(work, finished, fresh)
            raise StoreError(f"{error}; {said}: make room; then {rest}") from error
        except EmulationError as error:
            _, said, rest = _what_is_kept(work, finished, fresh)
            raise EmulationError(f"{error}; {said}; {rest}") from error
        except KeyboardInterrupt as stop:
            with deaf_to_ctrl_c():
                kept, said, rest = _what_is_kept(work, finished, fresh)
                raise RaceInterruptedError(kept, len(work), f"interrupted: {said} in {out}; {rest}") from stop
        runs = [finished[item.folder] for item in work if item.folder in finished]
        failed = tuple(pool.failed[item.folder] for item in work if item.folder in pool.failed)
        if not runs:
            raise ControllerError("; ".join(failing.by_scheme(failed)))
        return RaceResult(out, runs, resumed, failed)


def _check_service(work: Sequence[Work]) -> None:
    """Refuse a Profile over which no Run of the race could send anything.

    A Run in an outage is a result where other Runs of the Profile have service; a race without any has none.
    """
    routes: dict[str, list[tuple[float, float, list[int]]]] = {}
    served: dict[str, bool] = {}
    for item in work:
        begin, end = item.experiment.offset_ns / 1e9, (item.experiment.offset_ns + item.experiment.duration_ns) / 1e9
        used = {flow.profile for flow in item.experiment.flows}
        for base in (base for base in item.bases if base.role in used):
            if base.label not in routes:
                routes[base.label] = PathView(base.profile).routes()
            here = any(hops and a < end and b > begin for a, b, hops in routes[base.label])
            served[base.label] = served.get(base.label, False) or here
    for label in (label for label, has_service in served.items() if not has_service):
        if any(hops for _, _, hops in routes[label]):
            raise UserError(
                f"the Profile {label!r} has no service in the time that is raced; expected a satellite in at least one "
                "Run; try a longer --duration or another --phase"
            )
        raise UserError(
            f"the Profile {label!r} has no service from beginning to end; expected a satellite in at least one slot; "
            "try a site that `bentpipe sites` shows covered, or make the Profile with --gateways FILE"
        )


def _warn_of_paths(work: Sequence[Work]) -> None:
    """Warn, once for each Profile, that it has no capacity where its data go."""
    ways = {
        (base.label, flow.direction): base.profile
        for item in work
        for base in item.bases
        for flow in item.experiment.flows
        if flow.profile == base.role
    }
    for (label, direction), profile in ways.items():
        if not np.isfinite(PathView(profile).capacity(direction).value).all():
            warnings.warn(
                f"the Profile {label!r} has no capacity {direction}wards: windows and buffers alone limit its flows",
                PathWarning,
                stacklevel=4,
            )


def _warn_of_machine() -> None:
    """Look whether this machine keeps time, in a thread: the main one's Ctrl-C is the race's and not the trial's."""
    with ctrl_c_held_back(), ThreadPoolExecutor(max_workers=1) as pool:
        late = pool.submit(kernel.too_late).result()
    if late is not None:
        warnings.warn(late, KernelWarning, stacklevel=4)


def _kept(work: Sequence[Work], out: Path) -> dict[Path, store.Run]:
    """What is there and need not be run again; says how many Runs are there that must."""
    there = {item.folder: run for item in work if (run := _already_there(item)) is not None}
    kept = {folder: run for folder, run in there.items() if run.record["valid"]}
    if again := len(there) - len(kept):
        are = "is not valid and is" if again == 1 else "are not valid and are"
        warnings.warn(f"{text.plural(again, 'Run')} in {out} {are} run again", KernelWarning, stacklevel=4)
    return kept


class OtherRunError(UserError):
    """A Run is in the place of another: `found` says where, and what it is of."""

    def __init__(self, folder: Path, other: str) -> None:
        """In `folder`, and of which `other` thing."""
        self.found = f"{folder}: holds a Run of another {other}"
        super().__init__(f"{self.found}; choose another folder with -o, or replace it with --fresh")


_OTHER = {
    "bentpipe": "version of bentpipe",
    "build": "build of bentpipe",
    "kernel": "kernel",
    "machine": "architecture",
}
"""What a Run is of, by what differs in its versions."""


def _already_there(item: Work) -> store.Run | None:
    if not item.folder.exists():
        return None
    try:
        run = store.read_run(item.folder)
    except store.DamagedRunError as error:
        warnings.warn(f"a damaged Run is replaced: {error}", store.DamagedRunWarning, stacklevel=4)
        return None
    hashes = [profile["base_hash"] for profile in run.record["profiles"]]
    found, wanted = identity(run.record["experiment"], hashes, run.record["versions"]), item.identity
    if found != wanted:
        ours, theirs = wanted.pop("versions"), found.pop("versions")
        other = "Experiment or Profile"
        if found == wanted:  # but for what ran it
            differs = next((key for key in ours if ours[key] != theirs.get(key)), "bentpipe")
            other = f"{_OTHER.get(differs, 'version of the controller')}, whose figures may differ"
        raise OtherRunError(item.folder, other)
    return run


def _what_is_kept(work: Sequence[Work], finished: Mapping[Path, store.Run], fresh: bool) -> tuple[int, str, str]:
    """After a race that ended early: how many Runs there are, that in words, and what does the rest."""
    total = len(work)
    if not fresh:
        kept = sum(_is_run(item.folder) for item in work)
        return kept, f"{kept} of {total} Runs are kept", "the same command does the rest"
    kept = len(finished)
    # --fresh would run those again; without it what was there before must be what is asked for, or it is refused.
    goes_on = kept > 0 and all(item.folder in finished or _is_run_of(item) for item in work)
    rest = "the same command without --fresh does the rest" if goes_on else "the same command begins again"
    return kept, f"{kept} of {total} new Runs are finished", rest


def _is_run(folder: Path) -> bool:
    """Whether a Run is there that need not be run again."""
    try:
        return bool(store.read_run(folder).record["valid"])
    except UserError:
        return False


def _is_run_of(item: Work) -> bool:
    """Whether nothing, or what is asked for, is in its place."""
    try:
        with warnings.catch_warnings(action="ignore"):
            _already_there(item)
    except UserError:
        return False
    return True


class _StopRunError(Exception):
    """Raised inside the simulator's progress callback to end a run early."""


@dataclass
class _WorkerPool:
    """The threads of one race. The simulator releases the GIL, so threads do."""

    pending: list[Work]
    total: int
    on_progress: OnProgress | None
    finished: dict[Path, store.Run]
    capture: bool = False
    interrupted: bool = False
    most_tries: int = 1
    failed: dict[Path, failing.FailedRun] = field(default_factory=dict)
    _gave_up: bool = False
    _said: queue.SimpleQueue[str] = field(default_factory=queue.SimpleQueue)
    _stop: threading.Event = field(default_factory=threading.Event)
    _shares: dict[int, float] = field(default_factory=dict)

    def run(self, jobs: int) -> None:
        """Puts into `finished` what is finished before the end, an error or Ctrl-C."""
        drawn = DrawnProfiles((jobs + 1) * max((len(item.bases) for item in self.pending), default=1))
        with ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="race") as pool:
            futures: list[Future[store.Run | None]] = []
            try:
                with ctrl_c_held_back():
                    futures += [pool.submit(self._one, i, item, drawn) for i, item in enumerate(self.pending)]
                self._watch(futures)
            except KeyboardInterrupt:
                self.interrupted = True
            finally:
                with deaf_to_ctrl_c():
                    self._stop.set()
                    pool.shutdown(wait=True, cancel_futures=True)
                    for item, future in zip(self.pending, futures, strict=False):  # none, if they were not all taken
                        if not future.cancelled() and future.exception() is None and (run := future.result()):
                            self.finished[item.folder] = run
        for future in futures:
            if not future.cancelled():
                future.result()

    def keep_failed(self, out: Path) -> None:
        """Says which of those that came to an end failed, however the race ends."""
        ended = [item for item in self.pending if item.folder in self.failed or item.folder in self.finished]
        failed = [self.failed[item.folder] for item in ended if item.folder in self.failed]
        failing.keep_failed(out, ended, failed)

    def _watch(self, futures: list[Future[store.Run | None]]) -> None:
        before = self.total - len(futures)
        waiting = set(futures)
        while waiting:
            with ctrl_c_held_back():
                finished, waiting = wait(waiting, timeout=POLL_S, return_when=FIRST_COMPLETED)
            while not self._said.empty():  # from this thread: what warnings do is not for several at once
                warnings.warn(self._said.get(), KernelWarning, stacklevel=5)
            for future in finished:
                future.result()
            if self.on_progress is not None:
                there = before + len(futures) - len(waiting)
                self.on_progress((before + sum(self._shares.copy().values())) / self.total, there, self.total)

    def _one(self, number: int, item: Work, drawn: DrawnProfiles) -> store.Run | None:
        def heard(share: float) -> None:
            if self._stop.is_set():
                raise _StopRunError
            self._shares[number] = share

        if self._stop.is_set():
            return None
        paths = drawn.take(item.bases, item.seed)
        experiment = referring_to(item.experiment, paths)
        with captures.taking(item.folder.parent if self.capture else None) as captured:
            try:
                if item.world == "emulated":
                    data: record.Data = self._on_kernel(item, experiment, paths[0], heard, captured)
                elif controllers := list(plugins.python_controllers(experiment)):
                    data = separate.simulate(experiment, paths, controllers, heard)
                else:
                    data = plugins.simulate(experiment, paths, heard)
            except _StopRunError:
                return None
            except ControllerError as error:  # the user's; the other Runs go on
                self.failed[item.folder] = failing.of_work(item, str(error))
                return None
            self._shares[number] = 1.0
            try:
                if isinstance(data, Emulated):
                    captures.make_room(captured, data)
                tables = record.tables(experiment.to_dict()["flows"], data)
                run = store.write_run(item.folder, record.run_record(item, experiment, paths, data), tables)
                captures.keep(captured, run)
            except KeyboardInterrupt:
                # Polars takes a Ctrl-C that comes while it works and raises it here, in place of the main thread.
                self.interrupted = True
                self._stop.set()
                return None
            return run

    def _on_kernel(
        self,
        item: Work,
        experiment: Experiment,
        path: Profile,
        heard: Callable[[float], None],
        captured: Path | None,
    ) -> Emulated:
        """A Run, tried again while it is not valid.

        A machine on which one Run failed all its tries is not disturbed for a moment only: until one is valid again,
        each has one.
        """
        name = item.name
        tries = 1 if self._gave_up else self.most_tries
        for attempt in range(1, tries + 1):
            data = kernel.run_on_kernel(experiment, path, heard, captured)
            why = data.why_invalid
            if why is None:
                self._gave_up = False
                return data
            if attempt < tries:
                self._said.put(f"{name}: not valid, run again ({attempt + 1} of {tries}): {why}")
        if data.done is None:
            raise EmulationError(f"{name}: {why}")
        self._gave_up = True
        return data

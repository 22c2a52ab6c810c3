"""The engine that executes planned Runs: a pool of workers, a sink for the results, one rule for everything between.

- **Resume.** A sink names the results that it has already; only the others run. A stored result counts if everything
  that it depends on is equal (`Work.identity`).
- **Ctrl-C** stops the Runs in progress; finished ones are kept, and the error says how many.
- **Progress** is the simulated time done; a Run counts by its duration and its number of flows.
- **Rows** of the Runs in progress reach the caller's function in the caller's thread, those of one Run in order.
- **Failures.** A Run that fails through its user's mistake is a `FailedRun`; the others continue. Any other error ends
  the execution, and its message says how many results are stored.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from bentpipe.errors import BentpipeError, StoppedError, StoreError
from bentpipe.execution import separate
from bentpipe.execution.drawn import with_references
from bentpipe.execution.emulation.spec import EmulationError
from bentpipe.execution.interrupts import ctrl_c_ignored
from bentpipe.execution.pools import ClusterError, Finished, Message, Rows
from bentpipe.experiments import plugins
from bentpipe.experiments.hook_traces import HookRecorder
from bentpipe.runs.failed import FailedRun, of_work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Profile
    from bentpipe.execution.drawn import DrawnProfiles
    from bentpipe.execution.pools import Event, OnShare
    from bentpipe.execution.rows import OnRows, RunRows
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.runs.record import Data
    from bentpipe.runs.store import Run
    from bentpipe.runs.work import Work

    OnProgress = Callable[["Progress"], object]

R = TypeVar("R")
K_contra = TypeVar("K_contra", contravariant=True)


class RunsInterruptedError(StoppedError):
    """Ctrl-C: `stored` of `total` Runs are kept; an execution that replaces earlier Runs counts only its own.

    Attributes:
        finished: The finished Runs of a race, in the order of its plan.
        failed: Its Runs that failed until then.
    """

    finished: Sequence[Run] = ()
    failed: Sequence[FailedRun] = ()

    def __init__(self, stored: int, total: int, message: str) -> None:
        """Take the counts and the whole message."""
        super().__init__(message)
        self.stored = stored
        self.total = total


@dataclass(frozen=True)
class Progress:
    """Progress of an execution.

    Attributes:
        share: Share of all work done, 0 to 1, including earlier results.
        done: Number of finished or failed Runs.
        total: Number of all Runs.
        left_s: Estimate of the time left [s]; None before any work is done.
    """

    share: float
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class Simulated:
    """A Run as it left the simulator or the emulator."""

    work: Work
    experiment: Experiment
    paths: Sequence[Profile]
    data: Data


@dataclass(frozen=True)
class Stored:
    """What a sink has: the number of Runs of this execution, that in words, and how to continue."""

    count: int
    summary: str
    rest: str


class Sink(Protocol[K_contra]):
    """Where the Runs of an execution go."""

    @property
    def survives(self) -> type[BentpipeError]:
        """Error of a Run after which the others continue."""

    def add(self, number: int, kept: K_contra) -> None:
        """Add what a worker kept of a Run; `number` counts the pool's Runs."""

    def fail(self, failed: FailedRun) -> None:
        """Take note of a Run that failed."""

    def flush(self) -> None:
        """Called about ten times a second."""

    def stored(self) -> Stored:
        """Return what is stored, for the message of an execution that ended early."""


@dataclass
class Execution(Generic[R]):
    """One execution: `work` is all of it, `pending` the indices of the Runs that have no result yet."""

    work: Sequence[Work]
    pending: Sequence[int]
    sink: Sink[R]
    warning: type[Warning]
    on_progress: OnProgress | None = None
    on_rows: OnRows | None = None
    failed: dict[int, FailedRun] = field(default_factory=dict)
    """The Runs that failed, by their index in `work`."""

    def __post_init__(self) -> None:
        """Refuse an execution that the file of a plugin starts while it is loaded. Raises `UserError`."""
        plugins.refuse_while_loading()

    def take(self, pool: Iterator[Event[R]]) -> None:
        """Take the pool's events until all Runs are finished. Raises the error of a Run that the sink does not survive.

        Call it within `reported`.
        """
        try:
            self._drain(pool)
        finally:
            pool.close()  # type: ignore[attr-defined]  # generators have it

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Report how many Runs are stored, and how to continue, if the block ends early.

        Raises:
            RunsInterruptedError: After Ctrl-C.
            StoreError, EmulationError, ClusterError: The same error with that report.
        """
        try:
            yield
        except KeyboardInterrupt as stop:
            with ctrl_c_ignored():
                stored = self.sink.stored()
                message = f"interrupted: {stored.summary}; {stored.rest}"
                raise RunsInterruptedError(stored.count, len(self.work), message) from stop
        except (StoreError, EmulationError, ClusterError) as error:
            stored = self.sink.stored()
            then = f": make room; then {stored.rest}" if isinstance(error, StoreError) else f"; {stored.rest}"
            raise type(error)(f"{error}; {stored.summary}{then}") from error

    def _drain(self, pool: Iterator[Event[R]]) -> None:
        watch = _Watch(self.work, self.pending, self.on_progress)
        for event in pool:
            if isinstance(event, Finished):
                self._take(event)
                watch.finished(event.number)
            elif isinstance(event, Message):
                warnings.warn(event.text, self.warning, stacklevel=5)
            elif isinstance(event, Rows):
                if self.on_rows is not None:
                    self.on_rows(event.lines)
            else:
                self.sink.flush()
                watch.tick(event.shares)

    def _take(self, event: Finished[R]) -> None:
        index = self.pending[event.number]
        if event.error is None:
            assert event.result is not None  # a finished Run without an error has a result
            self.sink.add(event.number, event.result)
        elif isinstance(event.error, self.sink.survives):
            self.failed[index] = of_work(self.work[index], str(event.error))
            self.sink.fail(self.failed[index])
        else:
            raise event.error


class _Watch:
    """Converts finished Runs into `Progress`."""

    def __init__(self, work: Sequence[Work], pending: Sequence[int], on_progress: OnProgress | None) -> None:
        self._costs = [cost_s(work[i]) for i in pending]
        self._whole = sum(self._costs)
        self._all = sum(cost_s(item) for item in work)
        self._total, self._done = len(work), len(work) - len(pending)
        self._spent = 0.0
        self._shares: Mapping[int, float] = {}
        self._on_progress = on_progress
        self._began = time.monotonic()

    def finished(self, number: int) -> None:
        self._done += 1
        self._spent += self._costs[number]
        self.tick({running: share for running, share in self._shares.items() if running != number})

    def tick(self, shares: Mapping[int, float]) -> None:
        self._shares = shares
        if self._on_progress is None:
            return
        running = sum(share * self._costs[number] for number, share in shares.items())
        spent = min(self._spent + running, self._whole)
        elapsed = time.monotonic() - self._began
        left = elapsed * (self._whole - spent) / spent if spent > 0 else None
        share = 1.0 - (self._whole - spent) / self._all
        self._on_progress(Progress(share, self._done, self._total, left))


def cost_s(item: Work) -> float:
    """Return the simulated time of all flows of a Run [s]: about proportional to the time that it takes."""
    return item.experiment.duration_ns / 1e9 * max(1, len(item.experiment.flows))


def simulate(
    item: Work,
    drawn: DrawnProfiles,
    on_share: OnShare | None = None,
    hooks: Path | None = None,
    rows: RunRows | None = None,
) -> Simulated:
    """Simulate one Run; with Python controllers in a process of its own, which may then end without harm to others.

    `hooks` is a folder for the hook traces of the flows; `rows` receives the rows but the last.

    Raises:
        UserError: The Experiment cannot be run.
        ControllerError: A Python controller failed; the message names it.
    """
    paths = drawn.take(item.bases, item.seed)
    network = drawn.network(item.bases, item.seed)
    experiment = with_references(item.experiment, paths)
    on_rows = None if rows is None else rows.add
    if in_python := plugins.python_plugins(experiment):
        data: Data = separate.simulate(
            experiment, paths, in_python, on_share or (lambda _: None), hooks, on_rows, network
        )
    else:
        with nullcontext() if hooks is None else HookRecorder(hooks) as on_hooks:
            data = plugins.simulate(experiment, paths, on_share, on_hooks, on_rows, network)
    return Simulated(item, experiment, paths, data)

"""The interface of all runners.

``prepare`` makes the namespace and loads the program, which then waits at a gate; ``start`` opens the gate. So a
trigger needs milliseconds, not the time of a container's start. The gate is before the program is executed, or, for a
request with a `gate`, in the program: it then has started, and reads at the gate what it was not told before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from bentpipe.errors import BentpipeError

if TYPE_CHECKING:
    from collections.abc import Collection

    from bentpipe.testbed.runners.request import RunRequest

Reason = Literal["exited", "killed: memory", "killed: disk", "killed: pids", "stopped", "time limit", "lost"]
"""Why a run ended. `lost`: its processes were killed from outside."""


class RunnerError(BentpipeError):
    """A run could not be prepared, without a mistake of the user: the message names the step that failed."""

    code = "runner_failed"


@dataclass(frozen=True)
class ExitReport:
    """The end of a run."""

    code: int
    """Exit code, as a shell reports it (128 + signal)."""

    reason: Reason
    peak_memory_bytes: int | None = None
    """None: the runner does not know it."""

    forks_refused: int | None = None
    """How often the limit on processes refused one; None: the runner does not know it."""


@dataclass(frozen=True)
class Traffic:
    """Counters of a run's interface since it was made, seen from the run: up is sent."""

    up_bytes: int
    down_bytes: int
    up_packets: int
    down_packets: int


class PreparedRun(Protocol):
    """A run that waits at its gate, runs, or has ended."""

    run_id: str
    pid: int
    """A process in the run's network namespace, as this process's PID namespace numbers it."""
    settings: list[dict[str, object]]
    """Outcome of each kernel setting, in the order of the request."""

    @property
    def interface(self) -> str | None:
        """Interface of this machine that has the run's packets alone; None: an emulated path, which has its own."""

    async def start(self, message: bytes = b"") -> None:
        """Open the gate; `message` is for the program of a request with a `gate`. Limits of time count from here."""

    async def link_down(self) -> None:
        """Take the run's interface down. It never comes up again."""

    async def freeze(self) -> None:
        """Stop all processes of the run from running."""

    async def thaw(self) -> None:
        """Let frozen processes go on."""

    async def stop(self, grace_s: float) -> None:
        """Send SIGTERM to all processes, and SIGKILL `grace_s` later; return when they are gone."""

    async def wait(self) -> ExitReport:
        """Wait for the end. May be called before `start`."""

    def traffic(self) -> Traffic:
        """Return the counters; after the end, the last ones. Takes tens of microseconds."""

    async def remove(self) -> None:
        """Remove everything but the output. May be called at any time and repeatedly."""


class Runner(Protocol):
    """Prepares runs."""

    @property
    def name(self) -> str:
        """Its name in policies."""

    async def available(self) -> str | None:
        """Return in one line why this machine cannot use the runner; None: it can. Probes by doing."""

    async def prepare(self, request: RunRequest) -> PreparedRun:
        """Make the namespace, load the program, leave it waiting at the gate.

        Raises:
            UserError: The request cannot be fulfilled on any machine, or not with this runner.
            RunnerError: This machine could not do it. Nothing is left behind in either case.
        """

    async def sweep(self, label: str, keep: Collection[str] = ()) -> list[str]:
        """Remove what killed agents of this label left behind, except runs with an id in `keep`.

        Returns the names of the runs that were removed.
        """

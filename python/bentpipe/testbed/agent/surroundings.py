"""What an end of a run needs of its node, and what it is: shared by both ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from bentpipe.testbed.agent.admission import Host
    from bentpipe.testbed.agent.clock import OrchestratorClock
    from bentpipe.testbed.agent.spool import Spool
    from bentpipe.testbed.agent.store import AgentStore, Body
    from bentpipe.testbed.runners.base import Runner
    from bentpipe.testbed.schemas.desired import Assignment, End, Peer, Work
    from bentpipe.testbed.schemas.policy import HostPolicy


@dataclass(frozen=True)
class RunPlan:
    """One end of a run, from the calendar, a trigger, a retry or a client's hello."""

    run: str
    plan: str
    end: End
    fence: int
    attempt: int
    work: Work
    due_at_ms: int
    start_at_ms: float
    """When it starts; 0: at once."""
    latest_start_at_ms: float
    """When it is missed; 0: never."""
    peer: Peer | None
    cause: Literal["calendar", "trigger", "retry", "client"] = "calendar"

    @classmethod
    def of(cls, assignment: Assignment, work: Work, *, is_late: bool = False) -> RunPlan:
        """Return that of an assignment; a late one that is made up for starts at once."""
        return cls(
            run=assignment.run,
            plan=assignment.plan,
            end=assignment.end,
            fence=assignment.fence,
            attempt=assignment.attempt,
            work=work,
            due_at_ms=assignment.due_at_ms,
            start_at_ms=0 if is_late else assignment.start_at_ms,
            latest_start_at_ms=0 if is_late else assignment.latest_start_at_ms,
            peer=assignment.peer,
        )


class Terminal(Protocol):
    """The recorded telemetry of the terminal."""

    def slice(self, from_s: float, to_s: float, folder: Path) -> str:
        """Write the telemetry between two times [s since 1970] as a measured Run; return why there is none, or ""."""


class Household(Protocol):
    """Whether the household uses its link (`bentpipe.testbed.agent.household`)."""

    @property
    def state(self) -> Literal["off", "clear", "yielding", "quiet"]:
        """State, as heartbeats say it."""

    def why_not(self) -> str | None:
        """Return why no run may start now; None: one may."""

    def begin(self, plan: RunPlan) -> None:
        """A run starts."""

    async def ended(self, plan: RunPlan) -> None:
        """A run has ended."""


class NoHousehold:
    """A node that yields to nobody: its host turned that off, or it is a server."""

    state: Literal["off"] = "off"

    def why_not(self) -> str | None:
        """Return None: a run may start."""
        return None

    def begin(self, plan: RunPlan) -> None:
        """Do nothing."""

    async def ended(self, plan: RunPlan) -> None:
        """Do nothing."""


@dataclass
class Surroundings:
    """The node, as its runs see it."""

    node: str
    """Name of the node."""
    label: str
    """Label of the agent's namespaces and containers."""
    folder: Path
    """Folder of the agent."""
    clock: OrchestratorClock
    store: AgentStore
    spool: Spool
    policy: Callable[[], HostPolicy]
    host: Callable[[], Host]
    runners: Mapping[str, Runner]
    report: Callable[[Body], object]
    """Keeps an event and sends it when it can."""
    profile: Callable[[str], Awaitable[Path]]
    """File of a Profile, by hash; fetched if it is missing."""
    household: Household = field(default_factory=NoHousehold)
    terminal: Terminal | None = None
    is_alone: Callable[[], bool] = lambda: False
    """Whether the orchestrator cannot be asked."""
    ports: range = range(8800, 8900)
    """Ports of a server node's programs."""
    nameservers: tuple[str, ...] = ("1.1.1.1", "8.8.8.8")
    extra_networks: tuple[str, ...] = ()
    """Networks that runs may reach beside the policy's: of the laptop's testbed."""

    def wall_s(self) -> float:
        """Return this machine's wall clock, which its recordings have [s since 1970]."""
        import time

        return time.time()

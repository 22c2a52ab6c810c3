"""What happens to runs when the household uses its link: a state machine without clock and IO.

A run yields in this order: its link goes down, its server is told, it is frozen, asked to end, and killed two seconds
later. Once it has ended and the link was quiet for the owner's time it is tried once more, until it has been preempted
as often as its experiment allows. Times are steady seconds that the caller gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.testbed.agent.scavenger.user_traffic import Residual

Verb = Literal["link_down", "tell_server", "freeze", "terminate", "kill", "reschedule", "report"]
State = Literal["clear", "yielding", "quiet"]

SILENCE: tuple[Verb, ...] = ("link_down", "tell_server", "freeze", "terminate")
"""Actions that come at once, the link first: all runs' links go down before anything else is done."""

GRACE_S = 2.0
"""Time between the request to end and the kill [s]."""

KILL_AGAIN_S = 5.0
"""Time after which a run that has not ended is killed once more [s]."""

BLIND_S = 10.0
"""Time without a fresh sample after which runs yield [s]: nobody would see the household's traffic."""

USED, BLIND = "the household uses its link", "no sample of the link for 10 s"


@dataclass(frozen=True)
class ScavengedRun:
    """A run that yields.

    Attributes:
        id: Its id.
        first_id: Id of its first attempt; preemptions are counted by that.
        max_preemptions: Preemptions after which it is not tried again.
        is_rescheduled: Whether it is tried again at all.
        preemptions: Preemptions of its earlier attempts, also those before this agent began.
    """

    id: str
    first_id: str
    max_preemptions: int = 5
    is_rescheduled: bool = True
    preemptions: int = 0


@dataclass(frozen=True)
class Action:
    """Something to do to a run.

    Attributes:
        verb: What. ``terminate`` also thaws the run, so that it sees the request; its link stays down. ``reschedule``:
            in the first free slot. ``report``: it is not tried again.
        run: The run.
        reason: Why, in one line.
    """

    verb: Verb
    run: ScavengedRun
    reason: str


@dataclass
class _Ending:
    run: ScavengedRun
    reason: str
    kill_at_s: float


class Yielding:
    """Decides what runs do. The caller carries out the actions in their order, and says when a run has ended.

    Example:
        >>> from bentpipe.testbed.agent.scavenger.user_traffic import Residual
        >>> yielding = Yielding(quiet_s=60.0)
        >>> quiet, used = Residual(0, 0, 0, False, False), Residual(0, 9e6, 0, True, True)
        >>> _ = [yielding.observe(float(second), quiet) for second in range(61)]
        >>> yielding.may_start(60.0)
        True
        >>> yielding.begin(60.0, ScavengedRun("a", "a"))
        >>> [action.verb for action in yielding.observe(61.0, used)]
        ['link_down', 'tell_server', 'freeze', 'terminate']
        >>> [action.verb for action in yielding.pass_time(63.0)]
        ['kill']
    """

    def __init__(self, quiet_s: float = 60.0) -> None:
        """Begin without a run; the link counts as used until it has been quiet for `quiet_s` [s]."""
        self._quiet_s = quiet_s
        self._runs: dict[str, ScavengedRun] = {}
        self._ending: dict[str, _Ending] = {}
        self._waiting: dict[str, ScavengedRun] = {}
        self._preemptions: dict[str, int] = {}
        self._sampled_s: float | None = None
        self._quiet_since_s: float | None = None

    def set_quiet(self, quiet_s: float) -> None:
        """Go on with another time of quiet [s]."""
        self._quiet_s = quiet_s

    @property
    def state(self) -> State:
        """``clear``: runs may run; ``yielding``: one is ending; ``quiet``: waiting for quiet."""
        if self._ending:
            return "yielding"
        return "clear" if self._runs or self._is_quiet(self._sampled_s) else "quiet"

    @property
    def waiting(self) -> tuple[ScavengedRun, ...]:
        """Preempted runs that wait for quiet."""
        return tuple(self._waiting.values())

    def preemptions(self, first_id: str) -> int:
        """Return how often a run and its earlier attempts were preempted."""
        return self._preemptions.get(first_id, 0)

    def restore(self, preemptions: dict[str, int], waiting: Iterable[ScavengedRun]) -> None:
        """Take over what an agent that was killed had in its journal."""
        self._preemptions.update(preemptions)
        self._waiting.update((run.id, run) for run in waiting)

    def may_start(self, now_s: float) -> bool:
        """Return whether a run may start: none is ending, and the link has been quiet."""
        return not self._ending and self._is_quiet(now_s)

    def begin(self, now_s: float, run: ScavengedRun) -> None:
        """A run starts; the caller has asked `may_start`."""
        if self._sampled_s is None:
            self._sampled_s = now_s
        self._runs[run.id] = run

    def ended(self, now_s: float, run_id: str) -> list[Action]:
        """A run has ended: by itself, or after its preemption."""
        self._runs.pop(run_id, None)
        ending = self._ending.pop(run_id, None)
        if ending is None:
            return []
        run = ending.run
        count = self._preemptions[run.first_id] = max(self.preemptions(run.first_id), run.preemptions) + 1
        if not run.is_rescheduled:
            return [Action("report", run, f"preempted: {ending.reason}")]
        if count >= run.max_preemptions:
            return [Action("report", run, f"preempted {count} times, the last time because {ending.reason}")]
        self._waiting[run.id] = run
        return self.pass_time(now_s)

    def observe(self, now_s: float, residual: Residual) -> list[Action]:
        """Take a fresh sample."""
        if self._sampled_s is not None and now_s - self._sampled_s > BLIND_S:
            self._quiet_since_s = None
        self._sampled_s = now_s
        # Beside a run single samples are rough: only traffic that was detected ends the quiet.
        is_used = residual.is_user or (residual.is_above and not self._runs)
        if is_used:
            self._quiet_since_s = None
        elif self._quiet_since_s is None:
            self._quiet_since_s = now_s
        actions = self._preempt(now_s, USED) if residual.is_user else []
        return actions + self.pass_time(now_s)

    def pass_time(self, now_s: float) -> list[Action]:
        """Let time pass; to be called at least every half second while a run is there."""
        actions: list[Action] = []
        if self._runs and self._sampled_s is not None and now_s - self._sampled_s > BLIND_S:
            self._quiet_since_s = None
            actions += self._preempt(now_s, BLIND)
        for ending in self._ending.values():
            if now_s >= ending.kill_at_s:
                ending.kill_at_s = now_s + KILL_AGAIN_S
                actions.append(Action("kill", ending.run, ending.reason))
        if self._waiting and self.may_start(now_s):
            actions += [Action("reschedule", run, "the link is quiet") for run in self._waiting.values()]
            self._waiting.clear()
        return actions

    def _is_quiet(self, now_s: float | None) -> bool:
        if now_s is None or self._sampled_s is None or self._quiet_since_s is None:
            return False
        return now_s - self._sampled_s <= BLIND_S and self._sampled_s - self._quiet_since_s >= self._quiet_s

    def _preempt(self, now_s: float, reason: str) -> list[Action]:
        runs, self._runs = list(self._runs.values()), {}
        self._ending.update((run.id, _Ending(run, reason, now_s + GRACE_S)) for run in runs)
        return [Action(verb, run, reason) for verb in SILENCE for run in runs]

"""The standbys of a client node: the runs of its armed triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.testbed.agent.admission import refusal, runner_for
from bentpipe.testbed.agent.standby import Purpose, Standby, StandbySet
from bentpipe.testbed.agent.surroundings import RunPlan

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.agent.surroundings import Surroundings
    from bentpipe.testbed.schemas.desired import ArmedTrigger, Desired, Work


class ClientStandbys(StandbySet):
    """At most as many as runs may be parallel, those of the triggers armed last.

    Args:
        around: The node.
        is_held: Whether none is prepared now for this run, as one that it would disturb is under way.
    """

    def __init__(self, around: Surroundings, is_held: Callable[[RunPlan], bool] = lambda _: False) -> None:
        """Begin without standbys."""
        super().__init__(around)
        self._is_held = is_held
        self._wanted: Desired | None = None
        self._armed: dict[str, ArmedTrigger] = {}

    def follow(self, wanted: Desired | None) -> None:
        """Follow a wanted state; a trigger that is new or has changed counts as armed last."""
        self._wanted = wanted
        armed = {} if wanted is None else {each.trigger: each for each in wanted.triggers}
        for name, before in list(self._armed.items()):
            now = armed.get(name)
            if now is None or now.replace(started_runs=0) != before.replace(started_runs=0):
                del self._armed[name]
                self._not_before_s.pop(name, None)
        self._armed.update(armed)
        self._changed.set()

    def take(self, trigger: ArmedTrigger) -> Standby | None:
        """Take the standby of a trigger, perhaps one that is still being prepared; None: there is none."""
        return self._take(trigger.trigger, self._purpose(trigger))

    def _begin(self, purpose: Purpose) -> Standby | None:
        return None if self._is_held(purpose.plan) else Standby(purpose, self._around)

    def _purposes(self) -> dict[str, Purpose]:
        """Return the standbys that there should be, by trigger."""
        wanted = self._wanted
        if wanted is None or wanted.settings.paused or wanted.settings.draining:
            return {}
        most = self._around.policy().max_parallel
        firing = [each for each in self._armed.values() if self._may_fire(each)]
        fitting = [(each.trigger, purpose) for each in firing if (purpose := self._purpose(each)) is not None]
        return dict(fitting[-most:])

    def _may_fire(self, trigger: ArmedTrigger) -> bool:
        around = self._around
        is_over = around.clock.now_ms() > trigger.until_at_ms
        return not is_over and max(around.store.firings(trigger.plan), trigger.started_runs) < trigger.most_runs

    def _purpose(self, trigger: ArmedTrigger) -> Purpose | None:
        """Return what a standby of this trigger is for; None: there can be none, or the host does not want the run."""
        wanted, around = self._wanted, self._around
        work = None if wanted is None else wanted.works.get(trigger.work)
        if work is None or not can_wait(work):
            return None
        policy, host = around.policy(), around.host()
        if not policy.triggers or refusal(work, policy, host) is not None:
            return None
        runner = runner_for(work, policy, host)
        if runner is None:
            return None
        plan = RunPlan(
            run=trigger.trigger,
            plan=trigger.plan,
            end="client",
            fence=trigger.fence,
            attempt=1,
            work=work,
            due_at_ms=0,
            start_at_ms=0,
            latest_start_at_ms=0,
            peer=trigger.peer,
            cause="trigger",
        )
        return Purpose(plan, policy, runner)


def can_wait(work: Work) -> bool:
    """Return whether work can be prepared long before it starts.

    An emulated path cannot: its time would run. A container with a server cannot: its environment has the ports.
    """
    return work.profile_sha256 is None and (work.program.image is None or not work.program.server_command)

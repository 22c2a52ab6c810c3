"""The standbys of a server node: of the works that armed triggers of clients may bring.

Clients with the same work share them, since a server's end learns at the client's hello whose run it is. A standby's
program is not executed yet, or does not listen yet: before a hello with a plan's key nobody reaches anything of it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.admission import refusal, runner_for
from bentpipe.testbed.agent.program import server_port_names
from bentpipe.testbed.agent.standby import Purpose, Standby, StandbySet
from bentpipe.testbed.agent.surroundings import RunPlan
from bentpipe.testbed.schemas.identifiers import derived_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.agent.ports import Ports
    from bentpipe.testbed.agent.surroundings import Surroundings
    from bentpipe.testbed.schemas.desired import Desired, Work
    from bentpipe.testbed.schemas.policy import HostPolicy

RENEW_S = 1.0
"""Time between taking a standby and preparing the next [s]: the start of the run comes first."""


class ServerStandbys(StandbySet):
    """At most as many as runs may be parallel: one for each work first, then more for works with several clients.

    Args:
        around: The node.
        ports: Its ports. Standbys leave as many free as runs may be parallel.
        is_held: Whether none is prepared now, as a run that it would disturb is under way.
    """

    def __init__(self, around: Surroundings, ports: Ports, is_held: Callable[[], bool] = lambda: False) -> None:
        """Begin without standbys."""
        super().__init__(around)
        self._ports, self._is_held = ports, is_held
        self._wanted: Desired | None = None

    def follow(self, wanted: Desired | None) -> None:
        """Follow a wanted state."""
        self._wanted = wanted
        self._changed.set()

    def take(self, work: Work, policy: HostPolicy, runner: str) -> Standby | None:
        """Take a standby of a work with its ports, perhaps one still being prepared; None: there is none."""
        mine = [_purpose(work, policy, runner, copy) for copy in range(policy.max_parallel)]
        for name, purpose in sorted(mine, key=self._is_unready):
            standby = self._take(name, purpose)
            if standby is not None:
                self._not_before_s[name] = asyncio.get_running_loop().time() + RENEW_S
                return standby
        return None

    def _is_unready(self, named: tuple[str, Purpose]) -> bool:
        standby = self._standbys.get(named[0])
        return standby is None or not standby.is_ready

    def _purposes(self) -> dict[str, Purpose]:
        wanted, around = self._wanted, self._around
        if wanted is None or wanted.settings.paused or wanted.settings.draining:
            return {}
        now_ms = around.clock.now_ms()
        clients = Counter(each.work for each in wanted.grants if each.is_armed and now_ms < each.until_at_ms)
        if not clients:
            return {}
        policy, host = around.policy(), around.host()
        purposes: list[tuple[str, Purpose]] = []
        for copy in range(min(policy.max_parallel, max(clients.values()))):
            for work in (wanted.works[each] for each, count in clients.items() if copy < count):
                runner = runner_for(work, policy, host)
                if runner is not None and refusal(work, policy, host, end="server") is None:
                    purposes.append(_purpose(work, policy, runner, copy))
        return dict(purposes[: policy.max_parallel])

    def _begin(self, purpose: Purpose) -> Standby | None:
        names = server_port_names(purpose.plan)
        if self._is_held() or self._ports.free < len(names) + purpose.policy.max_parallel:
            return None
        return Standby(purpose, self._around, self._ports.take(names))

    async def _discard(self, standby: Standby) -> None:
        await standby.remove()
        self._ports.give_back(standby.ports)


def _purpose(work: Work, policy: HostPolicy, runner: str, copy: int) -> tuple[str, Purpose]:
    """Return the name and the purpose of one of a work's standbys."""
    name = derived_id("server", work.model_dump_json(), copy)
    plan = RunPlan(
        run=name,
        plan=name,
        end="server",
        fence=0,
        attempt=1,
        work=work,
        due_at_ms=0,
        start_at_ms=0,
        latest_start_at_ms=0,
        peer=None,
        cause="client",
    )
    return name, Purpose(plan, policy, runner)

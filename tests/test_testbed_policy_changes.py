"""A changed policy counts in the running agent: levels of the scavenger, URLs of feeds; a broken one does not."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace

import pytest
from test_testbed_agent import POLICY, make
from test_testbed_standby import Calls, preempted_plan
from testbed_orchestrator import Orchestrator

from bentpipe.errors import UserError
from bentpipe.testbed.agent import agent as agent_module
from bentpipe.testbed.agent.counters import NodeExporterCounters
from bentpipe.testbed.agent.household import ScavengerMode
from bentpipe.testbed.agent.policy_changes import PolicyFollower
from bentpipe.testbed.agent.signals.weather import WeatherFeed
from bentpipe.testbed.schemas.policy import ScavengerLevels

URL = "http://127.0.0.1:9/weather.json"


async def give(mode, *rates_bps):
    for rate_bps in rates_bps:
        await mode.dish_sample({"downlink_bps": rate_bps, "uplink_bps": 0.0})


def test_new_levels_count_for_the_next_sample_and_the_mode_is_turned_off_and_on():
    async def test():
        calls = Calls()
        mode = ScavengerMode(ScavengerLevels(quiet=0.0), lambda: calls, lambda _: None)
        plan = preempted_plan()
        calls.clients = [SimpleNamespace(plan=plan)]
        mode.begin(plan)
        await mode.set_levels(ScavengerLevels(down=50_000_000, quiet=0.0))
        await give(mode, 9e6, 9e6)
        assert mode.state == "clear"
        await mode.set_levels(ScavengerLevels(enabled=False))
        await give(mode, 9e6, 9e6)
        assert (mode.state, mode.why_not()) == ("off", None)
        await mode.set_levels(ScavengerLevels(quiet=0.0))
        await give(mode, 9e6, 9e6)
        assert mode.state == "yielding"  # the run that began before

    asyncio.run(test())


def test_the_running_agent_takes_a_changed_file_and_refuses_a_broken_one(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(agent_module, "POLICY_EVERY_S", 0.02)
    caplog.set_level(logging.INFO, "bentpipe.agent")
    feed, router = WeatherFeed(URL, allowed=[URL]), NodeExporterCounters(URL, "wan", [URL])

    async def test():
        orchestrator = Orchestrator()
        await orchestrator.start()
        agent, _ = make(orchestrator, tmp_path)
        mode = ScavengerMode(agent.policy_file.policy.scavenger, lambda: agent.executor, lambda _: None)
        agent.around.household = mode
        agent.policy_follower = PolicyFollower([feed], mode, router)
        stopped = asyncio.Event()
        task = asyncio.create_task(agent.run(stopped))
        try:
            await orchestrator.until(lambda: orchestrator.reports == 1)
            assert mode.state == "off"
            (tmp_path / "policy.yml").write_text(POLICY.replace("enabled: false", "down: 9mbit, quiet: 7s"))
            await orchestrator.until(lambda: orchestrator.reports == 2)
            assert mode.state == "quiet"
            for each in (feed._read(), router.read()):
                with pytest.raises(UserError, match="not allowed by the host"):
                    await each
            (tmp_path / "policy.yml").write_text(POLICY.replace("enabled: false", "down: many"))
            await orchestrator.until(lambda: orchestrator.reports == 3)
            assert mode.scavenger.yielding._quiet_s == 7.0
            assert agent.policy_file.policy.scavenger.down == 9_000_000
            assert agent.policy_file.policy.paused
        finally:
            stopped.set()
            await asyncio.wait_for(task, 20)
            await orchestrator.stop()

    asyncio.run(test())
    changed = [each for each in caplog.records if "host's policy changed" in each.getMessage()]
    assert len(changed) == 1
    (broken,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert "down" in broken
    assert broken.endswith("the node is paused until it is mended")

"""What the orchestrator and the agent do for containers, emulated paths and captures, without a network."""

import asyncio

import pytest
from sqlalchemy import insert
from testbed_orchestrators import join, orchestrator, plan_all, runs_of, user, yaml_of
from testbed_records import policy, work

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.agent.capture import Capture, is_wanted
from bentpipe.testbed.agent.program import EMULATED_SERVER, server_name
from bentpipe.testbed.agent.starting import find_runners
from bentpipe.testbed.agent.surroundings import RunPlan
from bentpipe.testbed.orchestrator.database.tables import ProfileRow
from bentpipe.testbed.orchestrator.services import experiments
from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
from bentpipe.testbed.runners.docker import DockerRunner
from bentpipe.testbed.runners.process import ProcessRunner
from bentpipe.testbed.schemas.experiment import CaptureRule, TestbedExperiment

IRTT = "{builtin: irtt, args: {seconds: 30}}"


@pytest.mark.anyio
async def test_a_run_on_an_emulated_path_books_no_server_node(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        await join(testbed, "pop", "server")
        caller = await user(testbed)
        async with testbed.write() as transaction:
            row = {"name": "leo", "sha256": "0" * 64, "bytes": 1, "owner_id": caller.user, "created_at_ms": 0}
            await transaction.execute(insert(ProfileRow).values(row))
        await experiments.submit(testbed, caller, yaml_of(run=IRTT, path="{profile: leo}", server="{near: node}"))
        await plan_all(testbed)
        (run,) = await runs_of(testbed)
        assert run.server is None


def test_an_emulated_path_needs_no_server_key():
    assert not TestbedExperiment.from_yaml(yaml_of(run=IRTT, path="{profile: leo}"), "file").needs_server_node
    with pytest.raises(UserError, match="key 'server' is missing"):
        TestbedExperiment.from_yaml(yaml_of(run=IRTT), "file")


def test_the_other_end_of_an_emulated_path_has_a_name():
    ping = work(profile_sha256="0" * 64, path={"profile": "leo"})
    assert server_name(RunPlan("r", "p", "client", 1, 1, ping, 0, 0, 0, None)) == EMULATED_SERVER


def test_the_docker_runner_is_offered_where_it_works(tmp_path, monkeypatch):
    async def works(_):
        return None

    async def lacks(self):
        return f"{self.name}: no rights"

    for runner, answer in ((BubblewrapRunner, lacks), (ProcessRunner, lacks), (DockerRunner, works)):
        monkeypatch.setattr(runner, "available", answer)
    notes = []
    runners = asyncio.run(find_runners(tmp_path, None, notes.append, pause_image=f"pause@sha256:{'0' * 64}"))
    assert list(runners) == ["docker"]
    assert notes == ["bubblewrap: no rights", "process: no rights"]


@pytest.mark.parametrize(
    ("ends", "client", "server"), [("client", True, False), ("server", False, True), ("both", True, True)]
)
def test_an_end_captures_if_it_is_asked(ends, client, server):
    rule = CaptureRule(ends=ends)
    assert (is_wanted(rule, "client"), is_wanted(rule, "server")) == (client, server)


def test_a_capture_that_cannot_be_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BentpipeError, match="tcpdump is not installed"):
        asyncio.run(Capture.begin("lo", tmp_path / "capture", 96))
    assert policy().captures

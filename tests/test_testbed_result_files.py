"""Names of result files, from the folder of a program to the user's disk."""

import asyncio
import contextlib
import os
import ssl

import pytest
from test_testbed_api import token_of
from test_testbed_joining import request_with, signing_request
from test_testbed_operation import local_s3
from test_testbed_runs import Agent, submitted
from testbed_orchestrators import serving_testbed, user

from bentpipe.testbed.agent.connection import Orchestrator
from bentpipe.testbed.agent.result_files import LEFT_OUT, committed_files
from bentpipe.testbed.agent.spool import Spool
from bentpipe.testbed.client import TestbedClient
from bentpipe.testbed.orchestrator.services import joining
from bentpipe.testbed.schemas.identifiers import is_file_path

ORDINARY = (".cache/x", "a b.csv", "résumé.txt", "x+y=z,(1)[2]@~.txt", "数/据.json")
STRANGE = ("a?b", "a#1", "50%", "x:y", "two\nlines", "\u202etxt.exe", " x", "a&b", "d/d/d/d/d/d/d/d/x", "n" * 250)


def write_files(folder, paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)


@pytest.mark.anyio
@pytest.mark.parametrize("store", ["folder", "s3"])
async def test_files_with_ordinary_names_arrive_and_others_are_named(tmp_path, monkeypatch, store):
    results = tmp_path / "result"
    write_files(results, (*ORDINARY, *STRANGE))
    (results / "testbed.json").write_text("{}")
    with contextlib.ExitStack() as stack:
        address = str(tmp_path / "store") if store == "folder" else stack.enter_context(local_s3(monkeypatch))
        async with serving_testbed(tmp_path, f"sqlite:///{tmp_path / 't.db'}", store=address) as running:
            await send(running, tmp_path, results)
            client = TestbedClient(running.url, await token_of(running.orchestrator, "viewer"))
            (run,) = await asyncio.to_thread(client.results, "lab", tmp_path / "got")
    assert {path: (run / path).read_text() for path in ORDINARY} == {path: path for path in ORDINARY}
    note = (run / LEFT_OUT).read_text()
    assert note.count("\n") == 1 + len(STRANGE)
    assert "50%: a name that is too long" in note
    assert "two\\x0alines: " in note


async def send(running, tmp_path, results):
    testbed = running.orchestrator
    key_pem, pem = signing_request()
    enrolled = await joining.enrol(testbed, request_with(await joining.issue_join_token(testbed, who="test"), pem))
    agent = Agent(testbed, testbed.nodes.get(enrolled.node))
    await submitted(testbed, await user(testbed), name="lab")
    (assignment,) = (await agent.desired()).assignments
    spool = Spool(tmp_path / "spool")
    await spool.add(assignment.run, "client", assignment.fence, "done", "", results)
    (tmp_path / "node.pem").write_bytes(key_pem + enrolled.certificate_pem.encode())
    context = ssl.create_default_context(cadata=enrolled.authority_pem)
    context.load_cert_chain(tmp_path / "node.pem")
    orchestrator = Orchestrator(running.agents_url, lambda: context)
    try:
        (result,) = spool.waiting()
        assert "not sent: see left-out.txt" in result.request.reason
        assert "refused" not in await spool.send(orchestrator, result)
    finally:
        await orchestrator.close()


def test_what_a_hostile_program_leaves_costs_nothing_but_itself(tmp_path):
    write_files(tmp_path, ("testbed.json", "logs/out", *(f"a/{number}" for number in range(600))))
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / LEFT_OUT).symlink_to(tmp_path / "testbed.json")
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "b").open("wb") as file:
        file.truncate(1 << 40)  # sparse
    (tmp_path / os.fsdecode(b"\xff")).write_text("x")
    files, left_out = committed_files(tmp_path)
    paths = {each.path for each in files}
    assert len(files) == 500
    assert {"testbed.json", "logs/out", LEFT_OUT} <= paths
    assert not {"link", "fifo", "b"} & paths
    assert left_out == 606 - 499
    assert (tmp_path / "testbed.json").read_text() == "testbed.json"
    assert "link: a link" in (tmp_path / LEFT_OUT).read_text()


def test_many_entries_are_not_all_looked_at(tmp_path):
    write_files(tmp_path, ("testbed.json", *(f"{number % 9}/{number}" for number in range(2100))))
    files, _ = committed_files(tmp_path)
    assert "testbed.json" in {each.path for each in files}
    assert "not all were looked at" in (tmp_path / LEFT_OUT).read_text()


def test_a_path_stays_below_its_folder():
    for path in ("..", "a/../b", "/a", "a//b", "./a", "a/", "a\x00b", "\udcff", "x" * 241, "é" * 121):
        assert not is_file_path(path), path

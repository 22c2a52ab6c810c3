"""The whole testbed on one machine: `bentpipe testbed laptop`, from its start to a run that was preempted and done."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from emulation import cannot

from bentpipe import TestbedClient
from bentpipe.errors import UserError
from bentpipe.testbed.agent.settings import AgentSettings
from bentpipe.testbed.laptop.home import keep_place
from bentpipe.testbed.laptop.internet import serve_joins
from bentpipe.testbed.laptop.plan import HOMES
from bentpipe.testbed.laptop.supervising import check_machine
from bentpipe.testbed.laptop.until_signal import run_until_signal

LIMIT_S = 420


def test_a_newcomer_sees_a_run_a_trigger_and_a_preemption(tmp_path: Path) -> None:
    try:
        check_machine()
    except UserError as error:
        cannot(str(error))
    ports = [free_port() for _ in range(2)]
    command = [sys.executable, "-m", "bentpipe", "testbed", "laptop", "--folder", str(tmp_path / "t")]
    command += ["--listen", f"127.0.0.1:{ports[0]}", "--agents", f"127.0.0.1:{ports[1]}"]
    with (tmp_path / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        wanted = {"done", "trigger", "preempted", "retry"}
        end_s = time.monotonic() + LIMIT_S
        seen: set[str] = set()
        while not wanted <= seen and time.monotonic() < end_s:
            assert process.poll() is None, (tmp_path / "out.txt").read_text()
            seen = states(tmp_path / "t", ports[0])
            time.sleep(1)
        assert wanted <= seen, (tmp_path / "out.txt").read_text()
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
    assert code == 0
    assert "stopping" in (tmp_path / "out.txt").read_text()
    (run,) = list((tmp_path / "t" / "orchestrator" / "store").glob("*-download/*/*/*/server"))[:1]
    assert json.loads((run / "testbed.json").read_text())["end"] == "server"
    assert not subprocess.run(["pgrep", "-f", str(tmp_path)], check=False, capture_output=True).stdout


def test_the_wait_for_homes_does_not_hold_up_the_end(tmp_path: Path) -> None:
    """It was a thread in `accept`, for which the end of the program waited until it was killed."""

    async def briefly() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await serve_joins(tmp_path / "joins.sock")

    begin_s = time.monotonic()
    asyncio.run(briefly())
    assert time.monotonic() - begin_s < 5


def test_homes_say_where_they_are(tmp_path: Path) -> None:
    AgentSettings(url="https://198.51.100.10:8792", name="barn").write(tmp_path)
    keep_place(HOMES[1], tmp_path)
    place = AgentSettings.read(tmp_path).place
    assert place is not None
    assert (place.latitude_deg, place.longitude_deg) == (40.42, -3.7)


def test_a_signal_is_answered_at_once() -> None:
    lines: list[str] = []

    async def program() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    run_until_signal(program(), lambda: lines.append("stopping"))
    assert lines == ["stopping"]


def free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def states(folder: Path, port: int) -> set[str]:
    """States of runs, ``trigger`` if one that a trigger started is done, ``retry`` if a repeated one is."""
    credentials = folder / "orchestrator" / "admin.json"
    if not credentials.exists():
        return set()
    client = TestbedClient(f"http://127.0.0.1:{port}", credentials=credentials)
    try:
        runs = client.runs()
    except UserError:
        return set()
    return {run.state for run in runs} | {run.cause for run in runs if run.state == "done"}

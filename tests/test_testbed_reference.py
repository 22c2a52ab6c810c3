"""The testbed's reference pages agree with the records, their examples are valid, and the example container works."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from testbed_builtins import free_port

from bentpipe.measurements.runs.imports import read_file
from bentpipe.testbed.agent.listening import listening_ports
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.policy import HostPolicy

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "testbed-container"
sys.path.append(str(ROOT / "tools" / "docs"))

import testbed_tables  # noqa: E402 - the path above


@pytest.mark.parametrize("page", testbed_tables.PAGES, ids=lambda page: page.stem)
def test_the_tables_are_those_of_the_records(page):
    text = page.read_text(encoding="utf-8")
    assert testbed_tables.renewed(text) == text, "run python tools/docs/testbed_tables.py"


def test_every_table_is_on_a_page():
    text = "".join(page.read_text(encoding="utf-8") for page in testbed_tables.PAGES)
    assert set(testbed_tables.tables()) == set(re.findall(r"<!-- table (\S+) -->", text))


@pytest.mark.parametrize("number", [0, 1])
def test_the_examples_are_valid(number):
    page, record = testbed_tables.PAGES[number], (TestbedExperiment, HostPolicy)[number]
    (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    record.from_yaml(text, page.name)


def test_the_example_container(tmp_path):
    experiment = TestbedExperiment.from_yaml((EXAMPLE / "experiment.yml").read_text(), "experiment.yml")
    assert experiment.needs_server_node
    port = free_port()
    environment = {
        **os.environ,
        **experiment.run.env,
        "COUNT": "3",
        "BENTPIPE_SERVER": "127.0.0.1",
        "BENTPIPE_PORT_SERVER": str(port),
        "BENTPIPE_OUTPUT": str(tmp_path),
    }
    command = [sys.executable, str(EXAMPLE / "echo_times.py")]
    with subprocess.Popen([*command, *experiment.run.server_command], env=environment) as server:
        try:
            while port not in listening_ports(server.pid):
                assert server.poll() is None
            subprocess.run([*command, *experiment.run.command], env=environment, check=True, timeout=20)
        finally:
            server.kill()
    assert read_file(tmp_path / "echoes.csv").measurement.tables["probes"].height == 3

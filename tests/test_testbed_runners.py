"""Runners against hostile programs, as root with cgroups and as a user without, in namespaces of the test's own."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from emulation import cannot, need
from testbed_scenarios import NAMES, PYTHON

from bentpipe.errors import UserError
from bentpipe.testbed.runners.names import agent_tag, run_name
from bentpipe.testbed.runners.reach import prohibited_ipv4, prohibited_ipv6
from bentpipe.testbed.runners.request import RunRequest

SCENARIOS = Path(__file__).with_name("testbed_scenarios.py")

PRIVILEGES = {"root": (["unshare", "-n"], "cgroups"), "user": (["unshare", "-Urn"], "polled")}


@functools.cache
def outcomes(runner, privilege):
    """Outcomes of all scenarios, which run at once in one world."""
    need("unshare", "nft", *(["bwrap", "setpriv"] if runner == "bubblewrap" else []))
    if not Path(PYTHON).exists():
        cannot(f"no {PYTHON} on this machine")
    if privilege == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    enter, limits = PRIVILEGES[privilege]
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    done = subprocess.run(
        [*enter, sys.executable, str(SCENARIOS), runner, limits],
        capture_output=True, text=True, check=False, timeout=120, env=environment,
    )  # fmt: skip
    if done.returncode != 0 and not done.stdout:
        if "unshare" in done.stderr:
            cannot(f"no namespaces on this machine: {done.stderr.strip()}")
        raise AssertionError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("privilege", PRIVILEGES)
@pytest.mark.parametrize("runner", ["process", "bubblewrap"])
@pytest.mark.parametrize("scenario", [*NAMES, "left"])
def test_a_runner(scenario, runner, privilege):
    results = outcomes(runner, privilege)
    if "unavailable" in results:
        cannot(results["unavailable"])
    assert not results[scenario], results[scenario]


def request(**fields):
    return RunRequest(**{"run_id": "r", "label": "n", "output": Path("out"), "command": ("true",), **fields})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"image": "debian:12"}, "image: 'debian:12'; expected name@sha256:… with 64 hexadecimal digits"),
        ({"allowed": ("192.168.1.1/24",)}, "host bits set"),
        ({"inputs": {"../x": Path("x")}}, "expected file names of letters"),
        ({"environment": {"A=B": "1"}}, "names without `=`"),
        ({"run_id": "a\nb"}, "run_id"),
    ],
)
def test_a_bad_request_gives_one_line(fields, message):
    with pytest.raises(UserError) as error:
        request(**fields)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_request_for_another_runner_is_refused():
    with pytest.raises(UserError, match="expected a command; try the docker runner"):
        request(image="x@sha256:" + "0" * 64).check_program(takes_image=False)
    with pytest.raises(UserError, match="no program"):
        request(command=()).check_program(takes_image=False)


def test_names_fit_interfaces_and_tell_agents_apart():
    name = run_name("node", "run")
    assert len(name) == 15
    assert name.startswith(agent_tag("node"))
    assert not name.startswith(agent_tag("other"))
    assert name != run_name("node", "run2")


def test_a_grant_leaves_the_rest_refused():
    refused = {str(network) for network in prohibited_ipv4(("192.168.0.0/16", "10.1.0.0/16", "fd00::/8"))}
    assert "192.168.0.0/16" not in refused
    assert "10.0.0.0/8" in refused
    assert "fc00::/7" in {str(network) for network in prohibited_ipv6(("192.168.0.0/16",))}


def test_refused_networks_do_not_overlap_and_a_grant_wins():
    """Sets of nftables take no network that lies in another one."""
    networks = ("203.0.113.0/24", "203.0.113.7/32", "203.0.113.0/24", "10.1.0.0/16", "192.0.0.0/8", "2001:db8::/32")
    refused = prohibited_ipv4((), networks)
    assert sum(network.overlaps(other) for network in refused for other in refused) == len(refused)
    assert {"203.0.113.0/24", "192.0.0.0/8", "10.0.0.0/8"} < {str(network) for network in refused}
    assert "203.0.113.0/24" not in map(str, prohibited_ipv4(("203.0.112.0/22",), networks))
    assert "2001:db8::/32" in map(str, prohibited_ipv6((), networks))

"""Requests of the Docker runner to a daemon, `fake_docker`. By hand it was tried with dockerd 20.10 too."""

import os

import pytest
from emulation import in_own_network, need


@pytest.fixture(scope="module")
def seen():
    need("unshare", "nft")
    return in_own_network("testbed_docker.py", as_user=os.geteuid() != 0)


def test_it_says_why_it_is_not_available(seen):
    assert seen["available"] is None
    assert seen["no pause"] == "docker: no image for pause; expected its digest in the node's configuration"
    assert seen["no daemon"].startswith("docker: ")
    assert "expected it on this machine" in seen["no image"]
    assert seen["emulated"].startswith("UserError: network: an emulated path; expected the uplink")


def test_every_container_is_hardened(seen):
    pause, program = seen["bodies"]
    for body in (pause, program):
        host = body["HostConfig"]
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["ReadonlyRootfs"] is True
        assert "@sha256:" in body["Image"]
        assert set(body["Labels"]) == {"bentpipe.agent", "bentpipe.run"}
        assert "Privileged" not in host or not host["Privileged"]
    assert pause["HostConfig"]["NetworkMode"] == "none"
    assert program["HostConfig"]["NetworkMode"].startswith("container:")


def test_limits_and_mounts_are_those_of_the_request(seen):
    body = seen["bodies"][1]
    host = body["HostConfig"]
    assert (host["Memory"], host["MemorySwap"]) == (64 << 20, 64 << 20)
    assert (host["PidsLimit"], host["NanoCpus"]) == (20, 500_000_000)
    assert "CapAdd" not in host
    assert body["Cmd"] == ["a", "b c"]
    modes = {bind.split(":")[1]: bind.split(":")[2] for bind in host["Binds"]}
    assert modes == {"/output": "rw", "/etc/resolv.conf": "ro", "/inputs/in.txt": "ro"}
    assert body["User"].split(":")[0] != "0" or os.geteuid() != 0
    assert seen["raw"] == [["NET_RAW"], "0:0"]


def test_it_waits_at_the_gate_and_ends_frozen_runs(seen):
    assert seen["started before the gate"] == 1  # pause alone
    assert seen["report"] == [143, "stopped"]
    assert [each for each in seen["actions"] if each in ("start", "pause", "unpause", "kill")] == [
        "start", "start", "pause", "unpause", "kill",
    ]  # fmt: skip


def test_nothing_is_left(seen):
    assert seen["left"] == 0
    assert seen["kept"] == []
    assert seen["swept"]
    assert (seen["lost"], seen["left after sweep"]) == ("lost", 0)

"""The kernel service: its vocabulary, its effects on a namespace, and that any other bytes on its socket have none."""

import functools
import json
import os
import socket
import tempfile
from pathlib import Path

import pytest
from emulation import in_own_network, need
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.kernel_service.service import KernelService
from bentpipe.testbed.kernel_service.vocabulary import (
    MAX_LINE_BYTES,
    QDISCS,
    SYSCTL_TRIPLES,
    SYSCTLS,
    VERBS,
    parse_call,
    sysctl_text,
)


@functools.cache
def seen(privilege):
    need("unshare", "nft")
    if privilege == "root" and os.geteuid() != 0:
        pytest.skip("needs root")
    return in_own_network("testbed_kernel.py", as_user=privilege == "user")


privileges = pytest.mark.parametrize("privilege", ["root", "user"])


@privileges
def test_capabilities_are_tried(privilege):
    able = seen(privilege)["capabilities"]
    assert "reno" in able["controllers"]
    assert {"pfifo", "bfifo"} <= set(able["qdiscs"])
    assert "net.ipv4.tcp_ecn" in able["sysctls"]
    assert "tso" in able["offloads"]


@privileges
def test_only_namespaces_of_runs_can_be_registered(privilege):
    results = seen(privilege)
    assert "the machine's own network" in results["own network"]
    assert "another file; expected a network namespace" in results["other file"]
    assert "0 descriptors" in results["no descriptor"]
    assert "unknown run 'nobody'" in results["unknown run"]
    assert "unknown run" in results["forgotten"]


@privileges
def test_settings_change_the_namespace_alone_and_are_reset(privilege):
    results = seen(privilege)
    assert results["after"] == ["1", ["4096", "8192", "16384"]]
    assert results["reset"] == results["before"]
    assert results["here"] != "1"
    assert results["no interface"] == "refused: the run has no interface that is up"


@privileges
def test_a_run_has_its_settings_when_it_starts(privilege):
    results = seen(privilege)
    assert "unknown kind 'no_such'" in results["vocabulary"]  # optional is for what the kernel lacks
    assert results["outcomes"][:3] == ["applied"] * 3
    assert "no_such" in results["outcomes"][3]
    assert (results["code"], results["out"], results["left"]) == (0, "reno", [])
    (queue,) = results["counters"]["queues"]
    assert queue["kind"] == "pfifo"
    assert queue["packets"] >= 2
    assert results["counters"]["interface"]["tx_packets"] >= 2
    assert results["counters"]["protocols"]["Icmp"]["OutEchos"] >= 2


@privileges
def test_callers_are_checked_and_audited(privilege):
    results = seen(privilege)
    assert results["mode"] == "0o600"
    assert results["other user"].startswith("failed")
    outcomes = {(entry["verb"], entry["run"]): entry for entry in results["audit"]}
    assert outcomes["sysctl.set", "r"]["values"]["net.ipv4.tcp_ecn"] == 1
    assert outcomes["sysctl.set", "r"]["outcome"] == "ok"
    assert "unknown run" in outcomes["cc.set", "nobody"]["outcome"]
    assert results["audit"][-1]["outcome"] == "refused connection"
    assert all(entry["at_ms"] > 1_700_000_000_000 and entry["pid"] > 0 for entry in results["audit"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"verb": "exec", "run": "r"}, "unknown verb 'exec'"),
        ({"verb": "cc.sett", "run": "r"}, "did you mean"),
        ({"verb": "cc.set"}, "no run"),
        ({"verb": "cc.set", "run": "../r", "values": {"controller": "bbr"}}, "run is '../r'"),
        ({"verb": "cc.set", "run": "r", "values": {"controller": "bbr; reboot"}}, "controller is"),
        ({"verb": "sysctl.set", "run": "r", "values": {"kernel.core_pattern": "|/x"}}, "unknown setting"),
        ({"verb": "sysctl.set", "run": "r", "values": {"net.ipv4.tcp_ecn": 99}}, "a whole number from 0 to 5"),
        ({"verb": "sysctl.set", "run": "r", "values": {"net.ipv4.tcp_ecn": True}}, "a whole number"),
        ({"verb": "sysctl.set", "run": "r", "values": {"net.ipv4.tcp_rmem": "1 2 3"}}, "three growing"),
        ({"verb": "sysctl.set", "run": "r", "values": {}}, "no settings"),
        ({"verb": "qdisc.set", "run": "r", "values": {"kind": "tbf", "options": {"rate_bps": 1}}}, "rate_bps is 1"),
        ({"verb": "qdisc.set", "run": "r", "values": {"kind": "tbf", "options": {}}}, "no rate_bps"),
        ({"verb": "qdisc.set", "run": "r", "values": {"kind": "fq", "options": {"x": 1}}}, "unknown option 'x'"),
        ({"verb": "offload.set", "run": "r", "values": {"offload": {"lro": True}}}, "'lro'; expected gro or"),
        ({"verb": "counters", "run": "r", "values": {"x": 1}}, "expected none"),
        ({"verb": "counters", "run": "r", "shell": "x"}, "unknown key 'shell'"),
        ([1], "kernel service"),
    ],
)
def test_what_is_not_in_the_vocabulary_is_refused_in_one_line(call, message):
    with pytest.raises(UserError) as error:
        parse_call(json.dumps(call).encode())
    assert message in str(error.value), str(error.value)
    assert "\n" not in str(error.value)


words = st.text(max_size=20) | st.sampled_from([*VERBS, *SYSCTLS, *SYSCTL_TRIPLES, *QDISCS, "register", "forget", "r"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
calls = st.fixed_dictionaries({"verb": words}, optional={"run": words, "values": values})


@given(calls | values)
@settings(max_examples=300, deadline=None)
def test_any_json_gives_a_call_or_an_error_of_one_line(data):
    try:
        text = parse_call(json.dumps(data).encode()).verb
    except UserError as error:
        text = str(error)
    assert "\n" not in text


@given(st.sampled_from([*SYSCTLS, *SYSCTL_TRIPLES]), values)
@settings(max_examples=300, deadline=None)
def test_what_is_written_to_the_kernel_is_numbers(key, value):
    try:
        text = sysctl_text(key, value)
    except UserError:
        return
    assert all(part.lstrip("-").isascii() and part.lstrip("-").isdigit() for part in text.split(" "))


@pytest.fixture(scope="module")
def service():
    with tempfile.TemporaryDirectory() as folder:
        audit: list[str] = []
        made = KernelService(Path(folder, "s"), {os.geteuid()}, audit.append)
        with made:
            yield Path(folder, "s"), audit


@given(st.lists(st.binary(max_size=200) | calls.map(lambda call: json.dumps(call).encode()), max_size=5), st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_on_the_socket_are_answered_and_change_nothing(service, chunks, passes_descriptor):
    path, audit = service
    before = Path("/proc/sys/net/ipv4/tcp_ecn").read_text()
    with socket.socket(socket.AF_UNIX) as client, Path("/dev/null").open("rb") as null:
        client.settimeout(20)
        client.connect(str(path))
        data = b"\n".join(chunk for chunk in chunks if b'"capabilities"' not in chunk) + b'\n{"verb": "x"}\n'
        if passes_descriptor:
            socket.send_fds(client, [data], [null.fileno()] * 3)
        else:
            client.sendall(data)
        received = b""
        while received.count(b"\n") < data.count(b"\n"):
            more = client.recv(65_536)
            assert more
            received += more
    for line in received.splitlines():
        answer = json.loads(line)
        assert not answer["ok"] or answer["result"] is None
        assert answer["ok"] or answer["code"] != "failed", answer
    assert Path("/proc/sys/net/ipv4/tcp_ecn").read_text() == before
    assert all(json.loads(line)["outcome"] for line in audit)


def test_an_endless_line_closes_the_connection(service):
    path, _ = service
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(str(path))
        try:
            client.sendall(b"x" * (MAX_LINE_BYTES + 70_000))
            assert client.recv(10) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass


def test_descriptors_of_clients_are_closed(service):
    path, _ = service
    own = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as client, Path("/dev/null").open("rb") as null:
            client.settimeout(20)
            client.connect(str(path))
            socket.send_fds(client, [b'{"verb": "x"}\n'], [null.fileno()])
            assert client.recv(1000)
    assert len(list(Path("/proc/self/fd").iterdir())) < own + 10


def test_a_socket_that_cannot_be_made_is_an_error_of_one_line(tmp_path):
    with pytest.raises(BentpipeError, match="expected a path that a socket can have"):
        KernelService(tmp_path / ("x" * 200), {0}, print)

"""Hook traces: recorded in Runs, replayed without a network, read in C."""

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import bentpipe as bp
from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.execution.racing import race
from bentpipe.experiments.apps import parse_app
from bentpipe.experiments.experiment import Experiment, Flow, ProfileRef
from bentpipe.experiments.hook_traces import HookRecorder, name_of, replay
from bentpipe.experiments.plugins import simulate
from bentpipe.experiments.schemes import deployable_controllers
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile

ROOT = Path(__file__).parent.parent
NAMES = deployable_controllers()  # the others know the path, and leave nothing to these
S = 1_000_000_000


def record(folder, schemes, path, duration_s=8, app="bulk"):
    """Record one Run of these controllers on a path."""
    flows = [
        Flow(controller=name, options=options, direction=("down", "up")[i % 2], app=parse_app(app))
        for i, (name, options) in enumerate(schemes)
    ]
    experiment = Experiment(
        name="traced",
        seed=4,
        duration_ns=duration_s * S,
        profiles=(ProfileRef(role="path", name=path.name, hash=path.content_hash()),),
        flows=tuple(flows),
    )
    with HookRecorder(folder) as on_hooks:
        return simulate(experiment, [path], None, on_hooks)


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Traces of every controller, together on a path with handovers."""
    folder = tmp_path_factory.mktemp("traces")
    record(folder, [(name, {}) for name in NAMES], make_profile("london", "frankfurt", duration_s=20, seed=3))
    return {name: folder / name_of(i) for i, name in enumerate(NAMES)}


@pytest.mark.parametrize("name", NAMES)
def test_a_trace_replayed_on_its_controller_has_no_difference(traces, name):
    result = replay(traces[name])
    assert (result.recorded, result.difference) == (name, None)
    assert result.calls > 1000


def test_recording_changes_no_value_of_a_run(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 10)
    hashes = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        hashes.append(record(tmp_path / name, [("cubic", {})], path).content_hash())
    assert (tmp_path / "a" / name_of(0)).read_bytes() == (tmp_path / "b" / name_of(0)).read_bytes()
    flow = Flow(controller="cubic")
    reference = ProfileRef(role="path", name=path.name, hash=path.content_hash())
    plain = Experiment(name="traced", seed=4, duration_ns=8 * S, profiles=(reference,), flows=(flow,))
    assert {*hashes} == {simulate(plain, [path]).content_hash()}


@pytest.mark.parametrize("app", ["transfers:200kb", "request:2kb/200kb", "paced:2mbit"])
@pytest.mark.parametrize("name", ["cubic", "bbr3"])
def test_the_trace_of_an_application_is_that_of_its_first_connection(tmp_path, name, app):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 10)
    record(tmp_path, [(name, {}), (name, {})], path, 3, app)
    for flow in range(2):
        result = replay(tmp_path / name_of(flow))
        assert (result.recorded, result.difference) == (name, None)
        assert gzip.decompress((tmp_path / name_of(flow)).read_bytes()).count(b'"controller"') == 1
        assert result.calls > 100


def test_a_flow_that_sends_nothing_has_an_empty_trace(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 10)
    record(tmp_path, [("cubic", {})], path, 1, "request:1kb/1kb,think=60s")
    assert gzip.decompress((tmp_path / name_of(0)).read_bytes()) == b""
    with pytest.raises(UserError, match="the trace ends within it"):
        replay(tmp_path / name_of(0))


def test_an_experiment_stores_traces_that_replay_reads(tmp_path):
    path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=2)
    run = bp.Experiment(path, schemes=["cubic"]).simulate(tmp_path, hook_trace=True)[0]
    assert bp.replay(run.folder / name_of(0)).difference is None
    assert bp.replay(run.folder / name_of(0), "reno").controller == "reno"


def test_another_option_is_reported_at_its_first_call(traces):
    result = replay(traces["cubic"], "cubic:hystart=off")
    assert result.controller == "cubic:hystart=off"
    assert result.difference.startswith("call ")
    assert " in the trace, " in result.difference


def test_options_of_the_run_are_stored_in_the_trace(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 10)
    record(tmp_path, [("cubic", {"hystart": "pp", "fast_convergence": 0.0})], path)
    assert replay(tmp_path / name_of(0)).difference is None
    assert replay(tmp_path / name_of(0), "cubic").difference is not None


def test_the_command_ends_with_1_at_a_difference_and_2_for_a_damaged_file(traces, tmp_path):
    run = CliRunner().invoke
    same, other = run(app, ["replay", str(traces["reno"])]), run(app, ["replay", str(traces["reno"]), "--cc", "bbr"])
    assert (same.exit_code, other.exit_code) == (0, 1)
    assert same.stdout.startswith("reno replayed on reno: ")
    assert other.stdout.startswith("reno replayed on bbr: call 0, on_")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(traces["reno"].read_bytes()[:5000])
    for file, message in ((cut, "is damaged"), (ROOT / "README.md", "not a hook trace"), (tmp_path, "is a directory")):
        failed = run(app, ["replay", str(file)])
        assert failed.exit_code == 2
        assert message in failed.stderr
        assert len(failed.stderr.splitlines()) == 1


def test_a_python_controller_is_recorded_and_replayed(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 10)
    steady = f"{ROOT / 'examples' / 'my_controller.py'}:Steady"
    result = race([path], [steady], out=tmp_path, duration_s=3, hook_trace=True)
    (trace,) = tmp_path.rglob("*.hooks.gz")
    assert trace.parent == result.runs[0].path
    replayed = replay(trace)
    assert (replayed.recorded, replayed.difference) == (steady, None)
    assert replay(trace, "reno").difference is not None


def test_a_race_keeps_runs_with_traces_and_repeats_those_without(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 10)
    settings = {"out": tmp_path, "duration_s": 2, "seeds": 2}
    race([path], ["reno"], **settings)
    assert race([path], ["reno"], hook_trace=True, **settings).resumed == 0
    assert race([path], ["reno"], hook_trace=True, **settings).resumed == 2
    assert len(list(tmp_path.rglob("flow-0.hooks.gz"))) == 2


@given(st.binary(max_size=400), st.booleans(), st.booleans())
def test_any_bytes_are_refused_in_one_line(tmp_path_factory, data, has_magic, packed):
    file = tmp_path_factory.getbasetemp() / "any.hooks"
    data = b"BPHOOKS\x01" + data if has_magic else data
    file.write_bytes(gzip.compress(data) if packed else data)
    with pytest.raises(UserError) as caught:
        replay(file)
    assert len(str(caught.value).splitlines()) == 1


READER = """
#include "hook_trace.h"
#include <stdio.h>
#include <string.h>
int main(void) {
    char magic[8]; uint64_t length, calls = 0, cwnd = 0, acked = 0; struct bp_head head; static char body[65536];
    if (fread(magic, 8, 1, stdin) != 1 || memcmp(magic, BP_MAGIC, 8) || fread(&length, 8, 1, stdin) != 1) return 1;
    if (fread(body, length, 1, stdin) != 1) return 1;
    while (fread(&head, sizeof head, 1, stdin) == 1 && fread(body, head.size - sizeof head, 1, stdin) == 1) {
        if (head.call != calls++) return 2;
        if (head.kind == BP_ACK && head.size != sizeof head + sizeof(struct bp_ack) + sizeof(struct bp_state)) return 3;
        if (head.kind == BP_ACK) acked += ((struct bp_ack *)body)->acked;
        cwnd = ((struct bp_state *)(body + head.size - sizeof head - sizeof(struct bp_state)))->cwnd;
    }
    printf("%lu %lu %lu\\n", calls, acked, cwnd);
    return !feof(stdin);
}
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_c_program_reads_a_trace_with_the_header(traces, tmp_path):
    (tmp_path / "reader.c").write_text(READER)
    header = ROOT / "crates" / "cc"
    subprocess.run(["cc", "-I", header, "-o", tmp_path / "reader", tmp_path / "reader.c"], check=True)
    unpacked = gzip.decompress(traces["bbr3"].read_bytes())
    done = subprocess.run([tmp_path / "reader"], input=unpacked, capture_output=True, check=True)
    calls, acked, cwnd = map(int, done.stdout.split())
    assert calls == replay(traces["bbr3"]).calls
    assert acked > 100_000
    assert cwnd % 1448 == 0

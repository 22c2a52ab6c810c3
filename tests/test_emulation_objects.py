"""The Python objects in real time: Runs on this machine's kernel in memory, a program behind a path, a prober."""

import pytest
from emulation import can_emulate

import bentpipe as bp

pytestmark = pytest.mark.skipif(not can_emulate(), reason="no user namespaces here")


@pytest.fixture(scope="module")
def path():
    return bp.Profile.preset("dumbbell:rate=10mbit,rtt=20ms", duration=4, name="dumbbell")


def test_runs_on_the_kernel_stay_in_memory_and_leave_no_file(path, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    runs = bp.Experiment(path, schemes=["cubic"], duration=2).emulate(careful=False)
    run = runs["cubic", 0]
    assert (run.world, run.folder) == ("emulated", None)
    assert run.samples()["goodput_bytes"].max() > 1e6
    assert run.profile == path
    assert list(tmp_path.iterdir()) == []
    simulated = bp.Experiment(path, schemes=["cubic"], duration=2).simulate()
    if run.valid:
        assert simulated.compare(runs).names == ("simulated", "this kernel")


def test_a_program_runs_behind_a_path_and_its_exit_code_is_known(path, tmp_path):
    done = path.run(["sh", "-c", "exit 3"], out=tmp_path / "out", internet="none")
    assert done.exit_code == 3
    assert done.run is not None
    assert done.run.world == "emulated"
    assert bp.RunSet.read(tmp_path / "out")[0].content_hash == done.run.content_hash
    with pytest.raises(bp.UserError, match="internet: 'all'; expected public or any or none"):
        path.run(["true"], internet="all")


def test_a_host_is_probed_for_a_time(tmp_path):
    measured = bp.probe("127.0.0.1", tmp_path, method="tcp", port=9, duration="1s", every="100ms")
    assert measured.to_polars().height >= 5
    assert measured.latency()["median_ms"][0] < 100

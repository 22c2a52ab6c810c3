"""The kernel's MPTCP over two emulated paths."""

import pytest
from emulation import require_emulation

from bentpipe.errors import UserError
from bentpipe.execution.emulation.spec import Spec
from bentpipe.execution.multipath_kernel import emulate_multipath, why_no_mptcp
from bentpipe.profiles.presets import preset_profile

PATHS = preset_profile("dumbbell:rate=8mbit,rtt=20ms", 20.0), preset_profile("dumbbell:rate=12mbit,rtt=20ms", 20.0)


@pytest.fixture
def mptcp():
    require_emulation()
    if why := why_no_mptcp():
        pytest.skip(why)


@pytest.mark.usefixtures("mptcp")
def test_the_kernel_uses_both_paths():
    run = emulate_multipath(PATHS, duration_s=4.0, warmup_s=1.5)
    assert run.goodput_bps is not None
    assert run.goodput_bps > 13e6  # more than either alone
    assert min(run.path_bytes) > 1e6


@pytest.mark.usefixtures("mptcp")
def test_writes_over_one_path_leave_the_other_alone():
    writes = [(0.2 + 0.05 * number, 5000) for number in range(40)]
    run = emulate_multipath(PATHS, duration_s=3.0, writes=writes, paths=(1,))
    assert len(run.completion_ms) == len(writes)
    assert 10 < min(run.completion_ms) < 30
    assert run.path_bytes[0] < 10_000


def test_nodes_have_one_path():
    program = {"command": ["true"], "server": None, "server_log": None}
    spec = Spec(workload={"program": program}, nodes=True, beside=PATHS[1])
    with pytest.raises(UserError, match="one path"):
        spec.to_json(PATHS[0])

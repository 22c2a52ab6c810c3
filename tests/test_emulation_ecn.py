"""CE marks in the emulator, and this kernel's response to them."""

from __future__ import annotations

import polars as pl
import pytest
from emulation import require_emulation

from bentpipe.errors import UserError
from bentpipe.execution import racing
from bentpipe.profiles.presets import preset_profile

QUEUES = ["step:threshold_packets=20"]


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    require_emulation()
    path = preset_profile("dumbbell:rate=20mbit,rtt=20ms,queue=4bdp", 30.0)
    how = {"duration_s": 5.0, "phase_s": 0.0, "on_kernel": True, "careful": False, "queues": QUEUES}
    out = tmp_path_factory.mktemp("marks")
    return {
        scheme: racing.race([path], [scheme], out=out / scheme[-3:], **how).runs[0]
        for scheme in ("cubic:ecn=classic", "cubic")
    }


def grown(run, column):
    return run.links().filter(pl.col("flow") < 0)[column].max()


def test_the_kernel_responds_to_marks_without_a_loss(raced):
    run = raced["cubic:ecn=classic"]
    assert grown(run, "marks_threshold") > 0
    assert grown(run, "drops_aqm") == 0  # also acknowledgements: there is no queue where they go
    assert run.samples()["marks"].max() >= grown(run, "marks_threshold") * 0.5
    assert run.flows[0]["goodput_bps"] > 0.5 * 20e6
    assert run.flows[0]["marks"] > 0


def test_packets_without_ecn_are_dropped(raced):
    run = raced["cubic"]
    assert grown(run, "marks_threshold") == 0 < grown(run, "drops_aqm")
    assert run.flows[0]["retransmits"] > 0


def test_flows_with_different_ecn_modes_are_refused_on_one_kernel(tmp_path):
    path = preset_profile("dumbbell", 5.0)
    with pytest.raises(UserError, match="flows with and without ecn"):
        racing.race([path], ["cubic+cubic:ecn=classic"], out=tmp_path, duration_s=1.0, on_kernel=True)

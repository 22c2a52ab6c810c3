"""A firing and a preemption of a real run, end to end with the orchestrator down: few repetitions, wide bounds."""

import os

import pytest
from emulation import cannot, need

from bentpipe.validation.testbed_latency import measure_part, rows_of


def test_a_run_starts_and_falls_silent_in_time_and_is_done_at_its_third_attempt():
    if os.geteuid() != 0:
        pytest.skip("needs root")
    need("unshare", "nft", "bwrap", "setpriv", "iperf3")
    try:
        world = measure_part("bubblewrap", "with a server", 2)
    except RuntimeError as error:
        if "unshare" in str(error):
            cannot(str(error))
        raise
    assert world["twice"]["states"] == ["preempted", "preempted", "done"], world
    for cycle in world["cycles"]:
        assert 0 < cycle["packet_ms"] < 2000
        assert cycle["silent_ms"] < 2000
    assert "after_bye_ms" in world["cycles"][0]
    assert world["cycles"][1]["after_beat_ms"] < 2000  # its last message was lost
    rows = rows_of("a", [world])
    assert [row.within is None for row in rows] == [False, True, False, False, True, False, False]

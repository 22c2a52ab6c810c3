"""Hybla over a path whose grants let packets through in bursts, which the receiver acknowledges at once (GRO)."""

from bentpipe.execution.racing import race
from bentpipe.profiles.make import make_profile
from bentpipe.runs.summary import summarise


def test_hybla_is_close_to_reno_only_where_it_counts_packets(tmp_path):
    path = make_profile("louvain", "london", duration_s=120.0, seed=0)
    schemes = ["reno", "hybla", "hybla:counts=packets"]
    result = race([path], schemes, out=tmp_path, duration_s=110.0)
    goodput = {one.scheme: one.total_bps.mean for one in summarise(result.runs)}
    assert abs(goodput["hybla:counts=packets"] / goodput["reno"] - 1) < 0.1
    assert goodput["hybla"] < 0.75 * goodput["reno"]

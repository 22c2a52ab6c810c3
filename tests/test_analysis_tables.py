"""Latency, spikes, loss, paths, orientation and speed tests against figures that can be worked out by hand."""

import json

import numpy as np
import polars as pl
import pytest
from analysis_series import START_NS, table
from hypothesis import given
from hypothesis import strategies as st
from shared_data import require_data

from bentpipe.analysis.latency import cdf, latency_summary
from bentpipe.analysis.loss import loss_episodes
from bentpipe.analysis.orientation import orientation_maps
from bentpipe.analysis.path import path_segments
from bentpipe.analysis.spikes import latency_spikes
from bentpipe.analysis.throughput import throughput_series
from bentpipe.errors import UserError

DAY_NS = 86_400 * 10**9


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=60), st.integers(0, 5))
def test_quantiles_are_numpys(rtts, lost):
    rows = table(np.arange(len(rtts) + lost), [*rtts, *[np.nan] * lost])
    row = latency_summary(rows).row(0, named=True)
    assert row["probes"] == len(rtts) + lost
    assert row["lost"] == lost
    for name, level in (("min_ms", 0), ("median_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99), ("max_ms", 1)):
        assert row[name] == pytest.approx(np.quantile(rtts, level))
    points = cdf(rows, points=11)
    assert points["rtt_ms"].is_sorted()
    assert points["rtt_ms"][5] == pytest.approx(np.median(rtts))


def test_series_are_told_apart_and_one_without_a_reply_stays():
    rows = pl.concat(
        [
            table(np.arange(4), [10, 20, 30, 40], site="A", target="x"),
            table(np.arange(2), [np.nan, np.nan], site="A", target="y"),
            table(np.arange(2), [7, 9], site="B", target="x"),
        ]
    )
    summary = latency_summary(rows)
    assert summary.select("site", "target", "median_ms").rows() == [("A", "x", 25), ("A", "y", None), ("B", "x", 8)]
    assert summary["loss"].to_list() == [0, 1, 0]
    assert summary["jitter_ms"].to_list() == [10, None, 2]
    assert latency_summary(rows.lazy()).equals(summary)
    assert cdf(rows)["target"].unique().to_list() == ["x"]


def test_spikes_last_for_slots_and_dips_do_not_end_them():
    t_s = np.arange(0, 900, 0.5)
    rtt_ms = np.full(t_s.size, 30.0)
    rtt_ms[(t_s >= 102) & (t_s < 132)] = 80.0
    rtt_ms[(t_s >= 110) & (t_s < 112)] = 40.0
    rtt_ms[(t_s >= 300) & (t_s < 304)] = 90.0
    rtt_ms[(t_s >= 600) & (t_s < 621)] = 61.0
    rtt_ms[204] = np.nan
    spikes = latency_spikes(table(t_s, rtt_ms), period_s=15.0)
    assert (spikes.median_ms, spikes.threshold_ms) == (30.0, 60.0)
    assert spikes.spikes["duration_s"].to_list() == [30.0, 4.0, 21.0]
    assert spikes.spikes["lasting"].to_list() == [True, False, True]
    assert spikes.spikes["periods"].to_list() == [2, 0, 1]
    assert spikes.spikes["lost_at_ends"].to_list() == [True, False, False]
    assert spikes.spikes["start_unix_ns"][0] == START_NS + 102 * 10**9
    assert spikes.near_multiple == 0.5
    assert spikes.share_lasting == pytest.approx(51 / 900)
    assert latency_spikes(table([0.0, 1.0], [np.nan, np.nan])).spikes.is_empty()


def test_loss_comes_in_episodes_with_lengths_gaps_and_phases():
    t_s = np.delete(np.arange(0, 60, 0.1), slice(300, 400))
    rtt_ms = np.full(t_s.size, 30.0)
    rtt_ms[[50, 51, 52, 120]] = np.nan
    rtt_ms[-1] = np.nan
    episodes = loss_episodes(table(t_s, rtt_ms), 15.0, START_NS + 2 * 10**9)
    assert (episodes.probes, episodes.lost) == (500, 5)
    assert episodes.episodes["probes"].to_list() == [3, 1, 1]
    assert episodes.episodes["duration_s"].to_list() == pytest.approx([0.3, 0.1, None], abs=1e-6)
    assert episodes.episodes["since_last_s"].to_list()[1:] == pytest.approx([6.7, 47.8], abs=1e-6)
    assert episodes.episodes["phase_s"].to_list() == pytest.approx([3.0, 10.0, 12.9], abs=1e-6)
    assert episodes.multi_share == pytest.approx(1 / 3)
    assert episodes.silences["duration_s"].to_list() == pytest.approx([10.1], abs=1e-6)
    assert episodes.by_phase[3] == pytest.approx(3 / 30)
    assert len(episodes.by_phase) == 15
    assert loss_episodes(table([0.0, 1.0], [1.0, 1.0])).multi_share is None


def hops(rows):
    kinds = {"probe": pl.String, "target": pl.String, "unix_ns": pl.Int64, "ttl": pl.Int64, "address": pl.String}
    return pl.DataFrame(rows, schema={**kinds, "rtt_ms": pl.Float64}, orient="row")


ROUTE = [
    (1, "192.168.1.1", 1.0),
    (2, "100.64.0.1", 31.0),
    (3, "172.16.250.74", 33.0),
    (4, "206.224.65.194", 35.0),
    (5, "206.224.65.178", 36.0),
    (6, "80.81.194.52", 39.0),
    (7, None, None),
    (8, "8.8.8.8", 50.0),
]


def test_segments_end_by_address():
    rows = [("p", "8.8.8.8", k, *hop[:2], hop[2] and hop[2] + k) for k in range(3) for hop in ROUTE]
    segments = path_segments(hops(rows))
    assert segments.traces["reached"].to_list() == [True] * 3
    assert segments.segments["segment"].to_list() == ["S1", "S2", "S3", "S4", "S5", "S6"]
    assert segments.segments["one_way_ms"].to_list() == pytest.approx([1.0, 15.0, 1.0, 1.0, 0.5, 7.0])
    assert segments.segments["share"].sum() == pytest.approx(1.0)
    assert segments.segments["share"][1] == pytest.approx(30 / 51)


def test_paths_without_a_bent_pipe_or_an_end_are_marked():
    fibre = [("f", "8.8.8.8", 0, 1, "192.168.2.1", 1.0), ("f", "8.8.8.8", 0, 2, "216.194.71.1", 15.0)]
    fibre.append(("f", "8.8.8.8", 0, 3, "8.8.8.8", 20.0))
    cut_short = [("c", "8.8.8.8", 0, *hop) for hop in ROUTE[:4]]
    segments = path_segments(hops(fibre + cut_short))
    assert segments.traces.select("probe", "reached", "bent_pipe").rows() == [("c", False, True), ("f", True, False)]
    assert segments.segments.is_empty()
    with pytest.raises(UserError, match=r"address is 'router\.example'"):
        path_segments(hops([("p", "8.8.8.8", 0, 1, "router.example", 1.0)]))


def test_another_carriers_nat_is_no_bent_pipe():
    """Four times 500 km at the speed of light are 6.7 ms: no satellite answers sooner."""
    near = [
        ("n", "8.8.8.8", 0, *hop) for hop in ((1, "192.168.1.1", 0.3), (2, "100.100.3.1", 3.0), (3, "8.8.8.8", 9.0))
    ]
    far = [("f", "8.8.8.8", 0, *hop) for hop in ((1, "192.168.1.1", 0.3), (2, "100.64.0.1", 7.1), (3, "8.8.8.8", 9.0))]
    segments = path_segments(hops(near + far))
    assert dict(segments.traces.select("probe", "bent_pipe").rows()) == {"n": False, "f": True}
    assert segments.segments["probe"].unique().to_list() == ["f"]
    # The way home may be long by itself.
    slow_wifi = [("s", "8.8.8.8", 0, 1, "192.168.1.1", 20.0), ("s", "8.8.8.8", 0, 2, "100.100.3.1", 23.0)]
    assert path_segments(hops(slow_wifi)).traces["bent_pipe"].to_list() == [False]


@pytest.mark.parametrize("gateway", ["129.224.201.1", "188.92.254.1", "98.97.32.1"])
@pytest.mark.parametrize("home", [True, False], ids=["behind a router", "on the dish"])
def test_a_gateway_may_have_a_public_address(gateway, home):
    route = [(1, "192.168.1.1", 1.0)] if home else []
    route += [(2, gateway, 31.0), *ROUTE[2:]]
    rows = [("p", "8.8.8.8", 0, *hop) for hop in route]
    traces = path_segments(hops(rows)).traces
    expected = (True, True, 1.0 if home else None, 31.0, 33.0, 35.0, 36.0, 50.0)
    columns = ["reached", "bent_pipe", *(f"S{n}_end_ms" for n in range(1, 7))]
    assert traces.select(columns).row(0) == expected
    # Its target may be in Starlink's network, and a near hop is not a satellite.
    inside = [(*row[:1], "206.224.65.178", *row[2:]) for row in rows[: 4 + home]]
    assert path_segments(hops(inside)).traces.select("reached", "bent_pipe").row(0) == (True, True)
    near = [(*row[:5], row[5] / 10) if row[5] else row for row in rows]
    assert path_segments(hops(near)).traces["bent_pipe"].to_list() == [False]


def test_a_path_of_another_carrier_to_starlink_has_no_bent_pipe():
    route = [(1, "192.168.1.1", 1.0), (2, "216.194.71.1", 15.0), (3, "10.1.1.1", 16.0), (4, "80.81.194.52", 17.0)]
    rows = [("f", "206.224.65.178", 0, *hop) for hop in [*route, (5, "206.224.65.178", 20.0)]]
    assert path_segments(hops(rows)).traces["bent_pipe"].to_list() == [False]


def test_a_slow_router_at_home_hides_no_bent_pipe():
    """The terminal's own router answers late, but forwards without delay."""
    slow = [("r", "8.8.8.8", 0, *hop) for hop in ((1, "192.168.1.1", 1.0), (2, "192.168.100.1", 25.0), *ROUTE[1:])]
    traces = path_segments(hops(slow)).traces
    assert traces.select("bent_pipe", "S1_end_ms", "S2_end_ms").row(0) == (True, 25.0, 31.0)


def test_ripe_atlas_traceroutes_pass_the_gateway():
    file = require_data("traceroute_ripe_atlas/ripe_atlas_traceroute_2023.json")
    rows = [
        (str(trace["prb_id"]), trace["dst_addr"], trace["timestamp"] * 10**9, hop["hop"], a.get("from"), a.get("rtt"))
        for trace in json.loads(file.read_text())
        for hop in trace["result"]
        for a in hop.get("result", [])
    ]
    segments = path_segments(hops(rows))
    assert segments.traces.height == 24
    assert segments.traces["bent_pipe"].sum() == 23
    # The paper's medians over thousands of traceroutes are 52 to 65 %; one each scatters around that.
    share = segments.segments.filter(segment="S2")["share"].median()
    assert 0.5 < share < 1.2


def test_orientation_counts_and_ranks_bins():
    rng = np.random.default_rng(0)
    common, rare = 900, 100
    rows = pl.DataFrame(
        {
            "azimuth_deg": np.concatenate([rng.uniform(0.01, 0.99, common), rng.uniform(-170.99, -170.01, rare)]),
            "elevation_deg": np.concatenate([np.full(common, 64.5), np.full(rare, 70.5)]),
            "latency_ms": np.concatenate([np.full(common, 30.0), np.full(rare, 80.0)]),
        }
    )
    few = pl.DataFrame({"azimuth_deg": [5.5], "elevation_deg": [64.5], "latency_ms": [500.0]})
    maps = orientation_maps(pl.concat([rows, few]), bin_deg=1.0)
    assert maps.samples == 1001
    assert maps.bins.select("azimuth_deg", "elevation_deg", "samples", "p95_ms").rows() == [
        (-170.5, 70.5, 100, 80.0),
        (0.5, 64.5, 900, 30.0),
        (5.5, 64.5, 1, None),
    ]
    assert maps.azimuth_band_deg[0] > 0
    assert maps.azimuth_band_deg[1] < 6
    assert maps.elevation_band_deg == (64.5, 64.5)
    with pytest.raises(UserError, match="bin_deg is 0"):
        orientation_maps(rows, bin_deg=0.0)


def test_a_band_may_lie_across_south():
    rows = pl.DataFrame(
        {"azimuth_deg": [179.0, -179.0] * 50, "elevation_deg": [60.0] * 100, "latency_ms": [30.0] * 100}
    )
    assert orientation_maps(rows).azimuth_band_deg == (179.0, 181.0)


def test_speed_tests_have_a_trend_and_peak_hours_of_their_zone():
    at = np.arange(0, 240 * DAY_NS, DAY_NS // 6)
    hour = (at // (3600 * 10**9) + 10) % 24
    day = at / DAY_NS
    down = np.where((hour >= 19) & (hour < 23), 50e6, 150e6) * (1 + 0.01 * day / 30)
    rows = pl.DataFrame({"unix_ns": START_NS // DAY_NS * DAY_NS + at, "direction": "down", "throughput_bps": down})
    series = throughput_series(rows, "Australia/Brisbane")
    row = series.summary.row(0, named=True)
    assert row["off_peak_over_peak"] == pytest.approx(3.0, rel=0.05)
    assert row["trend_per_month"] == pytest.approx(0.01, rel=0.1)
    assert series.months.height == 9
    assert series.hours.height == 6
    utc = throughput_series(rows).summary.row(0, named=True)
    assert utc["off_peak_over_peak"] < 1.2
    with pytest.raises(UserError, match="unknown time zone 'Mars/Olympus'"):
        throughput_series(rows, "Mars/Olympus")
    with pytest.raises(UserError, match="throughput_bps is -1"):
        throughput_series(rows.with_columns(throughput_bps=pl.lit(-1.0)))

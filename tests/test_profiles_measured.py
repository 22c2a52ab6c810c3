"""Measured Profiles reproduce the measurement; invalid tables are refused in one line."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ping_tables import even, recipe, table
from shared_data import require_data
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.measurements.profile import profile_from
from bentpipe.measurements.runs.imports import import_files
from bentpipe.measurements.runs.store import Source, write_measured
from bentpipe.plots.profile import plot_profile
from bentpipe.profiles.measured.agreement import ping_stats, regular_times, simulated_ping_stats
from bentpipe.profiles.measured.capacity import read_capacity
from bentpipe.profiles.measured.make import FromPings, profile_from_pings
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.pings import known_at, ping, ping_table
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.show import as_rows, summarise
from bentpipe.runs.path import RacedPath
from bentpipe.validation import CLAIMS, check
from bentpipe.validation.measured_profile import with_coin
from bentpipe.validation.measured_profile.series import PHASE_S, SLOT_S, START_UNIX_NS, drawn

run = CliRunner().invoke


@pytest.fixture(scope="module")
def series():
    return drawn(seed=7)


@pytest.fixture(scope="module")
def made(series):
    return profile_from_pings(series)


@pytest.mark.parametrize("shift", [0.1, 0.5, 0.9])
def test_a_simulated_ping_reproduces_the_measured_statistics(made, series, shift):
    was, now = ping_stats(series), simulated_ping_stats(made.profile, regular_times(made.probes, made.profile, shift))
    for key in ("median_ms", "p95_ms", "p99_ms", "loss"):
        assert getattr(now, key) == pytest.approx(getattr(was, key), rel=0.05), key
    assert now.run == pytest.approx(was.run, rel=0.10)


def test_independent_loss_fails_the_comparison(made, series):
    was = ping_stats(series)
    coin = simulated_ping_stats(with_coin(made.profile, was.loss), regular_times(made.probes, made.profile))
    assert coin.loss == pytest.approx(was.loss, rel=0.10)
    assert coin.run < 0.9 * was.run


def test_a_ping_at_the_measured_times_gives_the_measured_rtts(made):
    sent_s = made.probes.sent_ns / 1e9
    pings = ping(made.profile, sent_s)
    lost = made.probes.lost
    assert (np.isnan(pings) == lost).mean() > 0.999
    both = ~np.isnan(pings) & ~lost
    assert (
        np.quantile(np.abs(pings - made.probes.rtt_ms)[both], 0.99) < 0.06
    )  # printed to 0.1 ms: order is off by half of that


def test_falling_delays_do_not_delay_a_dense_flow(made):
    """A delay that falls faster than time passes would make later packets wait: there is none."""
    view = PathView(made.profile)
    for direction in ("up", "down"):
        points = view.points(0, direction, "delay_s")
        slope = np.diff(points.value) / np.diff(points.t_s)
        assert slope.min() > -1.01


@pytest.mark.parametrize("number", [2, 3])
def test_victoria_is_reproduced_within_five_percent(number):
    file = require_data("latency_victoria_10ms") / f"bent_pipe_victoria_{number}_latency.csv"
    rows = pl.read_csv(file, has_header=False, new_columns=["unix_ns", "rtt_ms"])
    rows = rows.with_columns(pl.col("unix_ns") - (pl.col("rtt_ms") * 1e6).cast(pl.Int64))
    for silent_is_lost in (False, True):
        made = profile_from_pings(rows, FromPings(silent_is_lost=silent_is_lost))
        was, now = (
            ping_stats(made.probes.table()),
            simulated_ping_stats(made.profile, regular_times(made.probes, made.profile)),
        )
        assert (was.loss > 0) is silent_is_lost
        for key in ("median_ms", "p95_ms", "p99_ms", "loss"):
            assert getattr(now, key) == pytest.approx(getattr(was, key), rel=0.05), key
        assert recipe(made.profile)["slots"]["period_s"] == 15.0


def test_a_rise_is_a_jump_and_a_fall_keeps_order():
    rtt_ms = np.full(40, 20.0)
    rtt_ms[20] = 60.0
    view = PathView(profile_from_pings(table(np.arange(40) * 0.1, rtt_ms)).profile)
    up = view.points(0, "up", "delay_s")
    at = np.array([1.94, 1.96, 2.0, 2.029, 2.05, 2.075])
    assert np.interp(at, up.t_s, up.value) == pytest.approx([0.01, 0.03, 0.03, 0.03, 0.02, 0.01], abs=1e-6)
    assert view.rtt_ms(np.array([1.0, 2.0, 2.02])) == pytest.approx([20, 60, 60])


def test_the_split_is_the_share_of_the_rtt_that_is_up():
    profile = profile_from_pings(even(), FromPings(split=0.8)).profile
    assert profile.delay_ms("up", np.array([1.0])) == pytest.approx([24.0])
    assert profile.delay_ms("down", np.array([1.0])) == pytest.approx([6.0])
    assert recipe(profile)["split"] == 0.8
    assert json.loads(profile.metadata_json())["basis"] == "half_rtt"


def test_one_way_delays_are_taken_where_they_are_known():
    rows = even().with_columns(up_ms=pl.lit(22.0), down_ms=pl.lit(8.0))
    profile = profile_from_pings(rows).profile
    assert profile.delay_ms("up", np.array([1.0])) == pytest.approx([22.0])
    assert profile.delay_ms("down", np.array([1.0])) == pytest.approx([8.0])
    assert json.loads(profile.metadata_json())["basis"] == "one_way"
    # Clocks that do not agree: a delay below zero is none.
    wrong = profile_from_pings(rows.with_columns(down_ms=pl.lit(-1.0))).profile
    assert json.loads(wrong.metadata_json())["basis"] == "half_rtt"


def test_overtaken_replies_do_not_delay_others():
    rtt_ms = np.full(40, 20.0)
    rtt_ms[10] = 500.0
    made = profile_from_pings(table(np.arange(40) * 0.1, rtt_ms))
    assert ping(made.profile, [1.2, 1.5]) == pytest.approx([20, 20], abs=0.01)
    assert any("overtaken" in note for note in made.notes)
    assert not any("reply times" in note for note in made.notes)


def test_provenance_names_included_effects_and_source(made):
    meta = json.loads(made.profile.metadata_json())
    assert meta["provenance"]["kind"] == "measured"
    assert set(meta["provenance"]["includes"]) == {"queueing", "mac_jitter", "cross_traffic"}
    assert meta["provenance"]["seed"] is None
    assert made.profile.reseed(5).content_hash() == made.profile.content_hash()


def test_slots_are_events_at_their_edges(made):
    events = PathView(made.profile).handovers()
    phases = np.array([(made.profile.start_unix_ns + event["at_ns"]) / 1e9 % SLOT_S for event in events])
    assert 50 <= len(events) <= 52
    assert np.abs((phases - PHASE_S + 7.5) % 15 - 7.5).max() < 0.3
    assert {event["interruption_ns"] for event in events} == {0}


def test_edges_have_one_name(made):
    view = PathView(made.profile)
    count = len(view.handovers())
    assert made.handovers.reason.startswith("a reconfiguration every 15 s")
    facts, _, _ = as_rows(summarise(made.profile))
    assert dict(facts)["handovers"] == f"0, and {count} reconfigurations without one"
    assert plot_profile(made.profile).axes[0].get_title("left").endswith(f"({count} reconfigurations)")
    path = RacedPath(view, 0.0, view.duration_s)
    assert (path.handovers().size, path.reconfigurations().size) == (0, count)


def test_without_slots_there_are_no_events():
    assert PathView(profile_from_pings(even()).profile).handovers() == []


def test_gaps_stay_gaps():
    sent_s = np.concatenate([np.arange(50) * 0.1, 7200 + np.arange(50) * 0.1])
    made = profile_from_pings(table(sent_s, np.full(100, 30.0)))
    profile = made.profile
    assert known_at(profile, np.array([1.0, 3600.0, 7202.0])).tolist() == [True, False, True]
    assert PathView(profile).valid("down").mean() < 0.002
    assert ping_table(profile, np.arange(0, 7205, 1.0)).height == 10
    assert any("1 gap(s)" in note for note in made.notes)


def test_silences_count_as_loss_on_request():
    sent_s = np.concatenate([np.arange(50) * 0.1, 6 + np.arange(50) * 0.1])
    rows = table(sent_s, np.full(100, 30.0))
    lost = profile_from_pings(rows, FromPings(silent_is_lost=True))
    assert ping_stats(lost.probes.table()).longest_run == 10
    assert simulated_ping_stats(lost.profile, np.arange(0, 11, 0.1) + 0.01).longest_run == 10
    assert simulated_ping_stats(profile_from_pings(rows).profile, np.arange(0, 11, 0.1) + 0.01).loss == 0


def test_a_burst_is_a_bad_interval_of_its_length_in_both_directions():
    rtt_ms = np.full(60, 30.0)
    rtt_ms[20:25] = np.nan
    profile = profile_from_pings(table(np.arange(60) * 0.02, rtt_ms)).profile
    view = PathView(profile)
    for direction, begins in (("up", 0.39), ("down", 0.405)):
        loss = view.loss(direction)
        assert loss.t_s[loss.value == 1] == pytest.approx([begins], abs=1e-6)
        assert loss.mean() * profile.duration_s == pytest.approx(0.49 - begins, abs=1e-6)
    assert np.isnan(ping(profile, np.arange(0.385, 0.495, 0.02))).sum() == 5
    # How late a packet would have been, nobody knows; that it was lost is known.
    assert view.valid("up").mean() * profile.duration_s == pytest.approx(profile.duration_s - 0.1, abs=1e-6)
    assert known_at(profile, np.array([0.44])).all()


def test_a_single_loss_of_sparse_probes_becomes_many_short_intervals():
    rtt_ms = np.full(2000, 30.0)
    rtt_ms[50:1950:50] = np.nan
    made = profile_from_pings(table(np.arange(2000) * 0.15, rtt_ms))
    view = PathView(made.profile)
    for direction in ("up", "down"):
        loss = view.loss(direction)
        assert loss.widths_s()[loss.value == 1].max() < 0.016
    assert view.loss("up").mean() + view.loss("down").mean() == pytest.approx(38 / 2000, rel=0.05)
    now = simulated_ping_stats(made.profile, regular_times(made.probes, made.profile, 0.3))
    assert now.loss == pytest.approx(38 / 2000, rel=0.3)


def iperf3(start_s: int, seconds: int = 20) -> str:
    spans = [
        {"start": i, "end": i + 1, "seconds": 1, "bytes": 125_000 * (i + 1), "bits_per_second": 1e6 * (i + 1)}
        for i in range(seconds)
    ]
    common = {"omitted": False, "sender": False}
    intervals = [{"streams": [{"socket": 5, **span, **common}], "sum": {**span, **common}} for span in spans]
    start = {
        "version": "iperf 3.16",
        "timestamp": {"timesecs": start_s},
        "connecting_to": {"host": "server", "port": 5201},
        "test_start": {"protocol": "TCP", "num_streams": 1, "reverse": 1},
    }
    return json.dumps({"start": start, "intervals": intervals})


def test_a_test_during_the_pings_keeps_its_time(tmp_path):
    file = tmp_path / "i.json"
    file.write_text(iperf3(START_UNIX_NS // 10**9 + 10))
    made = profile_from_pings(even(400), FromPings(capacities=[read_capacity(str(file))]))
    steps, valid = PathView(made.profile).capacity("down"), PathView(made.profile).valid("down")
    assert np.interp([10.5, 15.5], steps.t_s, steps.value) == pytest.approx([1.5e6, 6.5e6])
    assert valid.mean() == pytest.approx(20 / 40, abs=0.01)
    assert "congestion_control" in json.loads(made.profile.metadata_json())["provenance"]["includes"]


def test_a_test_of_another_day_is_moved_by_whole_slots(tmp_path, series):
    file = tmp_path / "i.json"
    file.write_text(iperf3(START_UNIX_NS // 10**9 - 86_400 + 3, 32))
    made = profile_from_pings(series, FromPings(capacities=[read_capacity(str(file))]))
    steps = PathView(made.profile).capacity("down")
    # It began 3 s after an edge's quarter minute, and 32 s hold two slots: so its copies begin, every 30 s.
    at = steps.t_s[steps.value == 1e6]
    assert np.allclose(at[1:] % 15, 3.0)
    assert np.allclose(np.diff(at[1:]), 30.0)
    assert PathView(made.profile).valid("down").mean() > 0.99


def test_a_runs_own_tests_and_traces_are_its_capacity(tmp_path):
    begin = START_UNIX_NS + np.repeat(np.arange(3), 2) * 10**9
    samples = pl.DataFrame(
        {
            "unix_ns": begin + np.tile([0, 200_000], 3),
            "source": "i.json",
            "flow": [0, 1] * 3,
            "t_s": np.repeat(np.arange(1.0, 4.0), 2),
            "duration_s": 1.0,
            "direction": "up",
            "goodput_bps": [1e6, 2e6] * 3,
        }
    )
    trace = pl.DataFrame(
        {"source": "bw", "t_s": [1.0, 2.0], "duration_s": 1.0, "direction": "down", "capacity_bps": [4e6, 8e6]}
    )
    rows = even(40).with_columns(site=pl.lit("home"), target=pl.lit("pop"), kind=pl.lit("icmp"))
    made_run = write_measured(
        tmp_path, {"probes": rows, "samples": samples, "links": trace}, [Source(name="x", format="ping")]
    )
    made = profile_from(made_run.path)
    view = PathView(made.profile)
    assert view.capacity("up").value.tolist()[0] == 3e6
    assert view.valid("up").mean() == pytest.approx(3 / 4, abs=0.01)
    assert view.capacity("down").value.tolist() == [4e6, 8e6, 4e6, 8e6]
    only = write_measured(tmp_path / "other", {"links": trace}, [Source(name="y", format="mahimahi")])
    with pytest.raises(UserError, match="has no probes, only links"):
        profile_from(only.path)


def test_it_names_the_files_that_it_is_made_of(tmp_path):
    start_s = START_UNIX_NS // 10**9
    (tmp_path / "in").mkdir()
    for number, (name, host) in enumerate([("a", "one"), ("b", "two"), ("c", "two"), ("d", "two"), ("e", "two")]):
        rows = "".join(f"{start_s + 60 * number + i},{20 + i % 3},{host}\n" for i in range(40))
        (tmp_path / "in" / f"{name}.csv").write_text(f"unix_s,rtt_ms,host\n{rows}")
    (tmp_path / "in" / "trace.txt").write_text("".join(f"{ms}\n" for ms in range(1, 1001)))
    out = import_files([tmp_path / "in"], tmp_path / "out").run
    series = {source.name: list(source.series) for source in out.record.sources}
    assert series["a.csv"] == [{"site": "here", "target": "one", "kind": "icmp"}]
    assert series["trace.txt"] == []
    for target, message in (("one", "a.csv: "), ("two", "b.csv, c.csv, d.csv and 1 more: ")):
        made = profile_from(out.path, FromPings(target=target))
        assert json.loads(made.profile.metadata_json())["provenance"]["description"].startswith(message)


def refused(rows, **options) -> str:
    with pytest.raises(UserError) as caught:
        profile_from_pings(rows, FromPings(**options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_tables_that_cannot_be_a_profile_are_refused_in_one_line():
    assert "only 3 of 3 probes were answered; expected at least 10 replies" in refused(even(3))
    assert "every probe was lost" in refused(table(np.arange(50), np.full(50, np.nan)))
    assert "rtt_ms is 180000 at 2024-12-18T18:00:00Z; expected at most 60000" in refused(even(rtt_ms=180_000.0))
    assert "expected 0 ms or more" in refused(even(rtt_ms=-1.0))
    assert "they span 110.0 days; expected at most 31" in refused(table(np.arange(20) * 5e5, np.full(20, 9.0)))
    assert "the table has no rows" in refused(even(0))
    assert "no column 'rtt_ms'" in refused(even().drop("rtt_ms"))
    assert "split: 1.5; expected 0 to 1" in refused(even(), split=1.5)


def test_several_series_are_named_and_one_can_be_chosen():
    rows = pl.concat(
        [even().with_columns(site=pl.lit(site), target=pl.lit(to)) for site in ("home", "van") for to in ("pop", "dns")]
    )
    assert "2 sites (home, van); a Profile is one path: choose with `site`" in refused(rows)
    assert "2 targets (dns, pop); a Profile is one path: choose with `target`" in refused(rows, site="van")
    assert "no probe with site 'boat'; there are: home, van" in refused(rows, site="boat")
    assert "no column 'kind'; `kind` cannot choose" in refused(rows, site="van", target="dns", kind="udp")
    assert profile_from_pings(rows, FromPings(site="van", target="dns")).profile.name == "van → dns"


def test_a_clock_that_was_set_back_is_refused():
    sent_s = np.concatenate([np.arange(100) * 0.1, 5 + np.arange(100) * 0.1])
    rows = table(sent_s, np.full(200, 30.0), seq=np.arange(200)).sort("unix_ns")
    assert "the prober's clock was set back" in refused(rows)
    # A prober that was started again counts anew: that is no such thing.
    again = table(np.arange(200) * 0.1, np.full(200, 30.0), seq=np.arange(200) % 100)
    assert profile_from_pings(again).profile.duration_s == pytest.approx(20.0)


def test_duplicates_do_not_count():
    rows = pl.concat([even(), even(5)]).with_columns(duplicate=pl.Series([False] * 40 + [True] * 5))
    assert profile_from_pings(rows).probes.sent_ns.size == 40


@settings(max_examples=150)
@given(
    steps_ns=st.lists(st.integers(0, 10**10) | st.sampled_from([0, 1, 10**7, 3 * 10**12]), min_size=10, max_size=60),
    rtts_ms=st.lists(
        st.floats(0.001, 70_000) | st.none() | st.sampled_from([1e-6, 25.0, 25.1]), min_size=60, max_size=60
    ),
    split=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    silent=st.booleans(),
)
def test_any_pings_give_a_profile_or_a_one_line_error(tmp_path_factory, steps_ns, rtts_ms, split, silent):
    unix_ns = START_UNIX_NS + np.cumsum(np.array(steps_ns, np.int64))
    rows = pl.DataFrame({"unix_ns": unix_ns, "rtt_ms": pl.Series(rtts_ms[: len(steps_ns)], dtype=pl.Float64)})
    made, line = None, ""
    try:
        made = profile_from_pings(rows, FromPings(split=split, silent_is_lost=silent))
    except UserError as error:
        line = str(error)
    assert "\n" not in line
    if made is None:
        return
    replies = rows["rtt_ms"].drop_nulls()
    now = ping(made.profile, made.probes.sent_ns / 1e9)
    back = now[~np.isnan(now)]
    # Nothing is later than the latest reply, but for what waits behind it; and nothing earlier than the earliest.
    assert back.size == 0 or back.max() <= replies.max() + 0.001
    file = tmp_path_factory.mktemp("p") / "p.parquet"
    write_profile(made.profile, file)
    assert read_profile(file).content_hash() == made.profile.content_hash()


def test_the_command_makes_a_profile_and_compares_pings(series, tmp_path):
    file, out = tmp_path / "pings.parquet", tmp_path / "P.parquet"
    series.with_columns(site=pl.lit("home"), target=pl.lit("pop")).write_parquet(file)
    result = run(app, ["profile", "from", str(file), "-o", str(out), "--capacity", "100mbit", "--json"])
    assert result.exit_code == 0, result.output
    was, now = json.loads(result.stdout)["agreement"]
    assert now["median_ms"] == pytest.approx(was["median_ms"], rel=0.05)
    assert read_profile(out).name == "home → pop"
    shown = run(app, ["profile", "show", str(out)])
    assert shown.exit_code == 0, shown.output
    plain = run(app, ["profile", "from", str(file), "-o", str(out)])
    assert plain.exit_code == 0, plain.output


def test_the_command_reads_logs_and_names_errors(tmp_path):
    log, out = tmp_path / "ping.txt", tmp_path / "P.parquet"
    lines = [
        f"[{1_700_000_000 + i * 0.2:.6f}] 64 bytes from 192.0.2.1: icmp_seq={i + 1} ttl=63 time={30 + i % 3} ms"
        for i in range(60)
        if i % 20 != 7
    ]
    log.write_text("PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n" + "\n".join(lines) + "\n")
    result = run(app, ["profile", "from", str(log), "-o", str(out), "--json"])
    assert result.exit_code == 0, result.output
    was, _ = json.loads(result.stdout)["agreement"]
    assert was["loss"] == 0.05
    for arguments, message in (
        ([str(tmp_path / "none")], "no such file"),
        ([str(log), "--silent", "maybe"], "expected gap or lost"),
        ([str(log), "--target", "x"], "no probe with target 'x'"),
    ):
        bad = run(app, ["profile", "from", *arguments, "-o", str(out)])
        assert bad.exit_code != 0
        assert message in bad.output


def test_the_claim_holds_on_the_drawn_series():
    assert "measured-profile" in CLAIMS
    outcome = check("measured-profile")
    assert outcome.holds, outcome.rows
    assert any("negative control" in row.quantity for row in outcome.rows)


def test_pings_over_a_preset_have_its_rtt():
    profile = preset_profile("dumbbell:rate=10mbit,rtt=40ms", 10.0)
    assert ping(profile, [0.0, 5.0], size_bytes=1250) == pytest.approx([41.0, 41.0], abs=1.1)
    with pytest.raises(UserError, match=r"10\.5 s is outside"):
        ping(profile, [10.5])

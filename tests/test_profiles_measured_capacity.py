"""Capacity of measured Profiles: stalls do not delay pings, and a capacity of 0 at the end is an outage."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import require_data
from test_profiles_measured import even, table
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.measurements.profile import profile_from
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.measured.agreement import agreement, disagreement, simulated_ping_stats
from bentpipe.profiles.measured.capacity import Capacity, read_capacity
from bentpipe.profiles.measured.envelope import envelope
from bentpipe.profiles.measured.make import FromPings, profile_from_pings
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.path import PathView
from bentpipe.validation.measured_profile.series import START_UNIX_NS, drawn

run = CliRunner().invoke


def iperf3(rates_bps, every_s=0.1) -> str:
    """A download as `iperf3 -J -R -i` keeps it, of another day than the pings."""
    spans = [
        {
            "start": n * every_s,
            "end": (n + 1) * every_s,
            "seconds": every_s,
            "bytes": round(bps * every_s / 8),
            "bits_per_second": bps,
        }
        for n, bps in enumerate(rates_bps)
    ]
    common = {"omitted": False, "sender": False}
    start = {
        "version": "iperf 3.16",
        "timestamp": {"timesecs": START_UNIX_NS // 10**9 - 86_400},
        "connecting_to": {"host": "server", "port": 5201},
        "test_start": {"protocol": "TCP", "num_streams": 1, "reverse": 1},
    }
    intervals = [{"streams": [{"socket": 5, **span, **common}], "sum": {**span, **common}} for span in spans]
    return json.dumps({"start": start, "intervals": intervals})


def stalling(seed=1, seconds=120):
    """Goodput by tenths of a second: bursts, stalls of up to 2.4 s, and TCP's rise after each."""
    rng = np.random.default_rng(seed)
    rate = np.repeat(rng.uniform(20e6, 80e6, seconds // 15), 150) * rng.uniform(0.3, 1.7, seconds * 10)
    for begin in rng.integers(0, rate.size - 30, 12):
        rate[begin : begin + rng.integers(2, 25)] = 0.0
    return rate


def closed(times_s, values, duration_s) -> Capacity:
    """A capacity from a Profile whose link may be closed."""
    return Capacity(None, Points.of(times_s, values), duration_s, None, "a trace")


# --- what a transfer achieved


def test_stalls_of_a_transfer_do_not_delay_pings(tmp_path):
    (tmp_path / "i.json").write_text(iperf3(stalling()))
    made = profile_from_pings(drawn(seed=7), FromPings(capacities=[read_capacity(f"{tmp_path / 'i.json'}")]))
    rows = agreement(made)
    for key in ("median_ms", "p95_ms", "p99_ms"):
        assert rows[1][key] == pytest.approx(rows[0][key], rel=0.05), key
    assert disagreement(rows) == []
    assert PathView(made.profile).capacity("down").value.min() > 5e6


@pytest.mark.parametrize("way", ["isl", "no-isl"])
def test_real_downloads_do_not_delay_pings(way):
    pings = require_data("latency_victoria_10ms") / "bent_pipe_victoria_3_latency.csv"
    test = require_data("throughput_iperf3_downlink") / f"dl-{way}-iperf3-2m-2023-09-21-06-10-00.json"
    made = profile_from(pings, FromPings(capacities=[read_capacity(f"down={test}")]))
    assert disagreement(agreement(made)) == []


def test_bins_of_a_second_or_more_are_kept_but_for_stalls_and_the_rise_after_them():
    mean = [30, 32, 28, 40, 2, 5, 9, 15, 22, 21, 60, 0, 50, 0, 0, 0, 0, 0, 44]
    found = envelope(Points.of(np.arange(len(mean)), np.array(mean, float)), len(mean))
    assert found is not None
    assert found.value[[0, 1, 2, 3, 9, 10, 12, 18]] == pytest.approx([30, 32, 28, 40, 21, 60, 50, 44])
    assert found.value[4:8].min() > 20
    assert found.value.min() > 20
    # A transfer that grows is kept: nothing says that it was its sender.
    ramp = envelope(Points.of(np.arange(20), np.arange(1.0, 21.0)), 20.0)
    assert ramp is not None
    assert ramp.value.tolist() == list(range(1, 21))


@settings(max_examples=80)
@given(
    rates=st.lists(st.one_of(st.just(0.0), st.floats(1e3, 1e9)), min_size=1, max_size=60),
    lasts=st.sampled_from([0.1, 0.5, 1.0, 10.0]),
    gaps=st.sets(st.integers(0, 59)),
)
def test_an_envelope_is_within_what_was_achieved(rates, lasts, gaps):
    t = np.arange(len(rates)) * lasts
    valid = np.array([n not in gaps for n in range(len(rates))])
    end_s = len(rates) * lasts
    found = envelope(Points.of(t, rates, valid), end_s)
    known = np.array(rates)[valid]
    if found is None:
        assert not (known > 0).any()
        return
    assert (np.diff(found.t_s) > 0).all()
    assert (found.value > 0).all()
    assert found.value.max() <= known.max() * (1 + 1e-9)
    # It is known wherever the transfer was.
    known_s = np.diff(np.append(found.t_s, end_s))[found.valid].sum()
    assert known_s == pytest.approx(valid.sum() * lasts, rel=1e-6)


def test_a_transfer_without_throughput_is_refused(tmp_path):
    (tmp_path / "i.json").write_text(iperf3([0.0] * 20))
    with pytest.raises(UserError, match="the test carried nothing"):
        read_capacity(str(tmp_path / "i.json"))


def test_a_quantile_that_differs_gives_a_warning(tmp_path):
    """A capacity that is the path's own, closed for half a second out of four, is taken as it is."""
    made = profile_from_pings(even(400), FromPings(capacities=[closed([0.0, 3.5], [50e6, 0.0], 4.0)]))
    (line,) = disagreement(agreement(made))
    assert "the Profile's delay differs by more than 5 %" in line
    trace = tmp_path / "bw.txt"
    trace.write_text("".join(f"{ms}\n" for ms in [*range(1, 3000), 4000]))
    even(400).write_parquet(tmp_path / "pings.parquet")
    arguments = [
        "profile",
        "from",
        str(tmp_path / "pings.parquet"),
        "-o",
        str(tmp_path / "P"),
        "--capacity",
        str(trace),
    ]
    result = run(app, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert any("delay differs by more than 5 %" in note for note in json.loads(result.stdout)["notes"])


def test_a_capacity_that_would_repeat_for_ever_is_refused():
    days = table(np.arange(0, 30 * 86_400, 600.0), np.full(4320, 30.0))
    tiny = closed(np.arange(10) * 0.001, np.full(10, 1e6), 0.01)
    with pytest.raises(UserError, match=r"would repeat \d+ times"):
        profile_from_pings(days, FromPings(capacities=[tiny]))


# --- a capacity that is closed at its end


@pytest.mark.parametrize("at_s", [3.9, 3.0, 2.05])
def test_a_capacity_that_ends_at_0_is_an_outage(at_s):
    made = profile_from_pings(even(40), FromPings(capacities=[closed([0.0, at_s], [50e6, 0.0], 4.0)]))
    assert any(f"an outage from {at_s:g} s to the end" in note for note in made.notes)
    view = PathView(made.profile)
    assert view.capacity("down").value.min() > 0
    assert view.loss("down").value[-1] == 1.0
    assert view.loss("down").t_s[-1] == pytest.approx(at_s)
    assert view.loss("up").value.max() == 0
    # A probe in the last step is lost; those before it are as they were.
    sent_s = np.arange(40) * 0.1 + 0.01
    now = simulated_ping_stats(made.profile, sent_s)
    assert now.loss == pytest.approx((sent_s + 0.015 >= at_s).mean(), abs=0.03)
    assert now.median_ms == pytest.approx(30, abs=0.1)


def test_an_end_that_was_not_measured_is_no_outage():
    one = Capacity(None, Points.of([0.0, 2.0, 3.0], [5e6, 0.0, 0.0], [True, False, False]), 4.0, None, "x")
    made = profile_from_pings(even(40), FromPings(capacities=[one]))
    assert not any("outage" in note for note in made.notes)
    assert simulated_ping_stats(made.profile, np.arange(40) * 0.1).loss == 0


def test_a_capacity_of_0_from_beginning_to_end_is_refused():
    with pytest.raises(UserError, match="is 0 at all times of the pings"):
        profile_from_pings(even(40), FromPings(capacities=[closed([0.0], [0.0], 4.0)]))


def test_a_profile_that_ends_at_0_affects_only_its_direction(tmp_path):
    delay = Points.constant(0.01)
    side = Side(delay, Points.of([0.0, 2.0], [5e6, 0.0]))
    profile = single_hop_profile(
        name="x", hop="h", start_unix_ns=0, duration_s=4.0, basis="one_way",
        provenance=Provenance("preset", "x"), up=Side(delay), down=side,
    )  # fmt: skip
    write_profile(profile, tmp_path / "c.parquet")
    made = profile_from_pings(even(40), FromPings(capacities=[read_capacity(str(tmp_path / "c.parquet"))]))
    assert PathView(made.profile).loss("down").value[-1] == 1.0
    assert np.isinf(PathView(made.profile).capacity("up").value).all()

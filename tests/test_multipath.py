"""A connection over several paths, and what its scheduler may know of them."""

from itertools import pairwise

import pytest

from bentpipe.errors import UserError
from bentpipe.execution.multipath import SCHEDULERS, simulate_multipath
from bentpipe.execution.outlooks import forecast_outlook, known_outlook, learn_path, tail_outlook
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import parse_utc

LEARN_S = 900.0


@pytest.fixture(scope="module")
def leo():
    start_unix_ns = parse_utc("2026-05-12T01:00:00Z")
    return make_profile("victoria", "seattle", start_unix_ns=start_unix_ns, duration_s=LEARN_S + 33, loss="idle")


@pytest.fixture(scope="module")
def learned(leo):
    return learn_path(leo, LEARN_S)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_every_scheduler_uses_both_paths(scheduler):
    paths = [preset_profile(f"dumbbell:rate=10mbit,rtt={rtt}ms", 12.0) for rtt in (20, 40)]
    run = simulate_multipath(paths, scheduler, duration_s=10)
    assert 16e6 < run.goodput_bps(2) < 20e6
    assert (run.acked_bytes[:, -1] > 6e6).all()


def test_names_and_times_that_do_not_exist_are_refused():
    paths = [preset_profile("dumbbell", 5.0)]
    with pytest.raises(UserError, match="scheduler"):
        simulate_multipath(paths, "blest", duration_s=2)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="shortest Profile"):
        simulate_multipath(paths, "min-rtt", duration_s=6)
    with pytest.raises(UserError, match="outlooks"):
        simulate_multipath(paths, "min-rtt", duration_s=2, outlooks=[])
    with pytest.raises(UserError, match="rising"):
        simulate_multipath(paths, "min-rtt", duration_s=2, writes=[(1.0, 1000), (0.5, 1000)])
    with pytest.raises(UserError, match="duration_s"):
        simulate_multipath(paths, "min-rtt", duration_s=0.0)


def test_the_learned_clock_has_the_edges(leo, learned):
    assert learned.handovers is not None
    assert 0.0 < learned.interruption_s < 0.2
    edges_s = [event["at_ns"] / 1e9 for event in PathView(leo).handovers()]
    interruptions = forecast_outlook(leo, learned, LEARN_S + 30).interruptions_ns
    inside = [any(begin <= edge * 1e9 <= end for begin, end in interruptions) for edge in edges_s if edge > LEARN_S]
    assert all(inside)
    assert len(inside) == 2


@pytest.mark.parametrize("outlook", [forecast_outlook, tail_outlook])
def test_no_forecast_sees_the_future(leo, learned, outlook):
    whole, short = outlook(leo, learned, LEARN_S + 30), outlook(leo, learned, LEARN_S + 15)
    assert len(short.rtts_ns) > 10
    # The last second of the shorter one is not over.
    assert whole.rtts_ns[: len(short.rtts_ns) - 1] == short.rtts_ns[:-1]
    assert all(at_ns >= (LEARN_S - 360) * 1e9 for at_ns, _ in whole.rtts_ns)


def test_interruptions_of_an_oracle_do_not_overlap(leo):
    interruptions = known_outlook(leo, LEARN_S, LEARN_S + 30).interruptions_ns
    assert all(begin < end for begin, end in interruptions)
    assert all(first[1] < second[0] for first, second in pairwise(interruptions))


def test_too_little_to_learn_from_is_refused():
    with pytest.raises(UserError, match="every sample is"):
        learn_path(preset_profile("fibre", 30.0), 20.0)

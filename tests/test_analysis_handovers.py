"""Detection of slots: period and phase of existing ones, "none" without slots, and never a crash."""

import json

import numpy as np
import polars as pl
import pytest
from analysis_series import START_NS, campaigns, noise, shifting, slotted, table
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.analysis.evidence import Evidence
from bentpipe.analysis.handovers import NO_CLOCK, SIGNIFICANCE, analyze_handovers
from bentpipe.analysis.period import search
from bentpipe.errors import UserError
from bentpipe.validation.slots import as_table, sources, stretch
from bentpipe.validation.slots.nulls import NULLS


def apart(a, b, period_s):
    return abs((a - b + period_s / 2) % period_s - period_s / 2)


@pytest.mark.parametrize(("period_s", "phase_s"), [(15.0, 11.98), (15.0, 3.3), (12.0, 7.1), (10.0, 0.05), (20.0, 13.0)])
def test_period_and_phase_are_found_whatever_they_are(period_s, phase_s):
    handovers = analyze_handovers(slotted(period_s=period_s, phase_s=phase_s))
    assert handovers.found
    assert handovers.period_s == period_s
    assert apart(handovers.phase_s, (phase_s + START_NS / 1e9) % period_s, period_s) <= 0.1
    assert handovers.phase_error_s < 0.1


def test_a_period_off_the_second_is_found():
    handovers = analyze_handovers(slotted(period_s=10.7, phase_s=4.0))
    assert handovers.found
    assert abs(handovers.period_s - 10.7) < 0.01
    # 1.7e9 s since 1970 say nothing about a phase here: the edge does.
    assert apart((handovers.edge_unix_ns - START_NS) / 1e9, 4.0, 10.7) < 0.5


def test_slots_have_their_generated_properties():
    handovers = analyze_handovers(slotted(loss=0.0))
    inner = handovers.slots[1:-1]
    assert (inner["probes"] == 300).mean() > 0.9
    assert (inner["start_unix_ns"].diff().drop_nulls() == 15_000_000_000).all()
    assert 3 < handovers.step_ms < 12
    assert handovers.step_p95_ms > handovers.step_ms
    assert handovers.edges.loss == 0
    assert handovers.jitter_ms == pytest.approx(0.6, abs=0.3)
    assert handovers.slots["probes"].sum() == handovers.probes


def test_loss_and_delay_at_edges_exceed_those_elsewhere():
    rows = slotted(loss=0.0, every_s=0.02)
    t_s = (rows["unix_ns"].to_numpy() - START_NS) / 1e9
    phase = (t_s - 12.0) % 15.0
    rtt_ms = rows["rtt_ms"].to_numpy().copy()
    rtt_ms[phase < 0.3] += 60
    rtt_ms[phase < 0.1] = np.nan
    edges = analyze_handovers(table(t_s, rtt_ms)).edges
    assert edges.excess_ms > edges.excess_mid_ms + 40
    assert edges.loss > 0.05 > edges.loss_elsewhere
    assert edges.silence_ms > 2 * edges.silence_mid_ms


def test_without_a_wall_clock_there_is_a_period_and_no_phase():
    rows = slotted()
    known, unknown = analyze_handovers(rows), analyze_handovers(rows, clock_known=False)
    assert unknown.period_s == known.period_s == 15.0
    assert unknown.edge_unix_ns == known.edge_unix_ns  # beside the series it is right
    assert (known.phase_s, unknown.phase_s) == (pytest.approx(12.0, abs=0.1), None)
    document = unknown.to_dict()
    assert document["phase_s"] is document["edge_unix_ns"] is None
    assert [window["phase_s"] for window in document["windows"]] == [None]
    assert "no time of the day" in unknown.reason
    # Slots have the same start since the first probe, and no time of the day.
    assert document["slots"]
    assert {entry["start_unix_ns"] for entry in (*document["slots"], *document["windows"])} == {None}
    begin_ns = int(rows["unix_ns"].min())
    for name in ("slots", "windows"):
        for entry, beside in zip(document[name], known.to_dict()[name], strict=True):
            assert entry["start_s"] == beside["start_s"] == pytest.approx((beside["start_unix_ns"] - begin_ns) / 1e9)
    assert -15 < document["slots"][0]["start_s"] <= 0
    assert document["windows"][0]["start_s"] == 0
    json.dumps(document, allow_nan=False)


def test_one_probe_a_second_is_enough_over_an_hour():
    handovers = analyze_handovers(slotted(span_s=3600.0, every_s=1.0))
    assert handovers.period_s == 15.0
    assert apart(handovers.phase_s, 12.0, 15.0) < 0.6


def test_gaps_and_slow_variation_do_not_hide_slots():
    rows = slotted(span_s=1800.0)
    t_s = (rows["unix_ns"].to_numpy() - START_NS) / 1e9
    rtt_ms = rows["rtt_ms"].to_numpy() * (1 + 0.5 * np.sin(np.pi * t_s / 1800))
    keep = ~((t_s > 400) & (t_s < 520)) & ((t_s % 37) > 4)
    assert analyze_handovers(table(t_s[keep], rtt_ms[keep])).period_s == 15.0


def test_order_of_rows_changes_nothing_and_calls_repeat():
    rows = slotted()
    mixed = rows.sample(fraction=1.0, shuffle=True, seed=1)
    assert analyze_handovers(rows).to_dict() == analyze_handovers(mixed).to_dict() == analyze_handovers(rows).to_dict()


@pytest.mark.parametrize("mean_s", [15.0, 45.0])
def test_random_level_changes_are_not_slots(mean_s):
    assert not any(analyze_handovers(shifting(seed, mean_s=mean_s)).found for seed in range(15))


def test_noise_alone_is_not_slots():
    rng = np.random.default_rng(0)
    t_s = np.arange(0, 900, 0.05)
    for rtt_ms in (20 + noise(rng, t_s.size), np.full(t_s.size, 30.0), 30 + 5 * np.sin(t_s / 150)):
        handovers = analyze_handovers(table(t_s, rtt_ms))
        assert not handovers.found, handovers.reason
        assert handovers.slots.is_empty()
        assert handovers.period_s is None


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (table(np.arange(0, 900, 0.1), np.full(9000, np.nan)), "0 replies"),
        (table(np.arange(30.0), np.full(30, 20.0)), "30 replies"),
        (table(np.arange(0, 100, 0.05), np.full(2000, 20.0)), "too short to tell (100 s; expected 3600 s with a"),
        (
            table(np.arange(0, 30000, 10.0), np.full(3000, 20.0)),
            "too sparse to tell (a probe every 10 s; expected 0.6 s",
        ),
        (table([0.0], [20.0]), "too little to tell: 1 replies"),
    ],
)
def test_unsearchable_records_state_the_reason(rows, why):
    handovers = analyze_handovers(rows)
    assert not handovers.found
    assert handovers.undecided
    assert handovers.p_value is None
    assert why in handovers.reason


@pytest.mark.parametrize(
    ("span_s", "every_s", "enough_s", "message"),
    [
        (300.0, 0.01, 600.0, "too short to tell (300 s; expected 600 s with a probe every 0.01 s): no period from 5"),
        (599.0, 0.01, 600.0, None),  # ten minutes, but for a second
        (900.0, 0.2, 3600.0, "too short to tell (900 s; expected 3600 s with a probe every 0.2 s): no period from 5"),
        (3600.0, 1.0, None, "too sparse to tell (a probe every 1 s; expected 0.6 s, for 3600 s): no period from 5"),
    ],
)
def test_a_too_short_record_is_undecided(span_s, every_s, enough_s, message):
    handovers = analyze_handovers(shifting(1, span_s=span_s, every_s=every_s))
    document = handovers.to_dict()
    assert (document["found"], document["undecided"], document["enough_s"]) == (False, message is not None, enough_s)
    assert handovers.reason.startswith(message or "no period from 5")


@pytest.mark.parametrize(("step_ms", "seed"), [(1.0, 4), (1.5, 3)])
def test_a_probability_between_the_levels_is_undecided(step_ms, seed):
    """A record that is long enough, with slots of small steps: too unlikely for none, too likely for some."""
    handovers = analyze_handovers(slotted(seed, every_s=0.02, span_s=650.0, step_ms=step_ms))
    assert SIGNIFICANCE < handovers.p_value <= NO_CLOCK
    assert (handovers.found, handovers.undecided, handovers.enough_s) == (False, True, 600.0)
    assert handovers.reason.startswith("undecided: no period from 5 to 60 s stands out")
    assert handovers.reason.endswith("above 0.01, but not above 0.1")


def test_slots_of_the_campaigns_are_never_ruled_out():
    """Stretches of ten minutes and more at 10 ms, by send times: slots are found, or it is undecided."""
    rng = np.random.default_rng(1)
    for name in ("victoria 2", "victoria 3"):
        results = [analyze_handovers(as_table(stretch(campaigns()[name], 700.0, rng))) for _ in range(6)]
        assert all(one.found or one.undecided for one in results)
        assert sum(one.found for one in results) >= 3


def test_found_slots_are_decided():
    handovers = analyze_handovers(slotted())  # 900 s of a probe every 50 ms
    assert (handovers.found, handovers.undecided, handovers.enough_s) == (True, False, 3600.0)


def test_invalid_tables_are_refused_in_one_line():
    rows = slotted()
    two = pl.concat([rows.with_columns(target=pl.lit("a")), rows.with_columns(target=pl.lit("b"))])
    with pytest.raises(UserError, match="several series"):
        analyze_handovers(two)
    with pytest.raises(UserError, match="no column 'rtt_ms'"):
        analyze_handovers(rows.drop("rtt_ms"))
    with pytest.raises(UserError, match="'unix_ns' is Float64; expected Int64"):
        analyze_handovers(rows.with_columns(pl.col("unix_ns").cast(pl.Float64)))
    with pytest.raises(UserError, match=r"rtt_ms is -1 .*null for a lost probe"):
        analyze_handovers(rows.with_columns(pl.col("rtt_ms").fill_null(-1.0)))
    with pytest.raises(UserError, match="no 'unix_ns'"):
        analyze_handovers(rows.with_columns(pl.when(pl.col("rtt_ms") > 30).then("unix_ns").alias("unix_ns")))
    with pytest.raises(UserError, match="no rows"):
        analyze_handovers(rows.with_columns(target=pl.lit("a")).clear())


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 10**12), st.none() | st.floats(1e-3, 1e6)),
        max_size=300,
    )
)
def test_any_table_gives_an_answer_that_is_json(rows):
    schema = {"unix_ns": pl.Int64, "rtt_ms": pl.Float64}
    handovers = analyze_handovers(pl.DataFrame(rows, schema=schema, orient="row"))
    json.dumps(handovers.to_dict(), allow_nan=False)
    assert handovers.probes == len(rows)


@pytest.mark.parametrize(("name", "phase_s"), [("victoria 2", 11.75), ("victoria 3", 11.75), ("seattle", 12.0)])
def test_the_campaigns_have_slots_where_they_are_known_to_be(name, phase_s):
    handovers = analyze_handovers(as_table(campaigns()[name]))
    assert handovers.period_s == 15.0
    assert apart(handovers.phase_s, phase_s, 15.0) <= 0.3


def test_a_moving_obstructed_terminal_with_gaps_says_too_little():
    """15 % of the probes are lost, in 15 minutes: the clock is the best there is, but by chance too (p = 0.4)."""
    handovers = analyze_handovers(as_table(campaigns()["joint"]))
    best = handovers.windows.row(0, named=True)
    assert not handovers.found
    assert best["period_s"] == 15.0
    assert apart(best["phase_s"], 12.0, 15.0) <= 0.3


@pytest.mark.parametrize("kind", NULLS)
def test_the_campaigns_own_steps_without_a_clock_raise_no_alarm(kind):
    """The quick version of `bentpipe validate slots`: 18 series of each kind, 126 in all.

    One alarm at most excludes, at 95 %, that a kind raises more than 24 % (two of 18 are 1.4 % likely at 1 %): this
    detects gross errors; the 500 of each kind of the full version detect small ones.
    """
    whole, rng = campaigns(), np.random.default_rng(3)
    makers = list(sources(whole).values())
    results = [analyze_handovers(as_table(NULLS[kind](make(rng), rng))).found for _ in range(3) for make in makers]
    assert sum(results) <= 1


def changes_at(phases_s, *, block_s=120.0, height=3.0):
    """Evidence with a peak every 15 s, at a phase of its own in each block, among noise."""
    value = np.random.default_rng(4).exponential(1.0, int(len(phases_s) * block_s / 0.25))
    for block, phase_s in enumerate(phases_s):
        at = np.arange(block * block_s + phase_s, (block + 1) * block_s, 15.0)
        value[(at / 0.25).astype(int)] += height
    return Evidence(0.0, 0.25, value, 0.5)


def test_one_stretch_with_a_clear_phase_is_not_slots():
    """Three of eight blocks in a row, 360 s of 960, agree by themselves; one phase in all of them is found."""
    of_a_stretch = search(changes_at([11, 5, 5, 5, 1.5, 8, 13, 3]), 5.0, 60.0, 0.01)
    assert of_a_stretch.p_value > 0.01
    throughout = search(changes_at([5] * 8), 5.0, 60.0, 0.01)
    assert (throughout.period_s, throughout.edge_s) == (15.0, 5.0)
    assert throughout.p_value < 1e-4

"""Marks from end to end in the simulator: asked for, made, counted, answered."""

from __future__ import annotations

import polars as pl
import pytest

from bentpipe.errors import UserError
from bentpipe.execution import racing
from bentpipe.experiments.schemes import ecn_of, flows_of, parse_scheme, parse_schemes, scheme_of
from bentpipe.profiles.presets import preset_profile

PATH = "dumbbell:rate=20mbit,rtt=40ms,queue=4bdp"


@pytest.mark.parametrize(
    ("text", "written", "ecn"),
    [
        ("cubic:ecn=on", "cubic:ecn=classic", ["classic"]),
        ("cubic:ecn=off", "cubic", ["off"]),
        ("bbr3:ecn=on", "bbr3:ecn=accurate,ecn_low=1", ["accurate"]),
        ("bbr2:ecn=classic", "bbr2:ecn=classic,ecn_enable=1", ["classic"]),
        ("bbr3:ecn=on,ecn_low=0", "bbr3:ecn=accurate,ecn_low=0", ["accurate"]),
        ("reno+cubic:ecn=accurate,hystart=off", "reno+cubic:ecn=accurate,hystart=off", ["off", "accurate"]),
    ],
)
def test_a_flow_asks_for_ecn_among_its_tunables(text, written, ecn):
    assert parse_scheme(text) == written == parse_scheme(written)
    assert ecn_of(written) == ecn
    assert scheme_of(flows_of(written), ecn) == written


def test_another_value_is_refused():
    with pytest.raises(UserError, match="ecn is 'maybe'; expected on, off, classic or accurate"):
        parse_scheme("cubic:ecn=maybe")


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("ecn")
    text = "cubic,cubic:ecn=on,cubic:ecn=accurate,bbr3:ecn=on,ecn_max_rtt_ms=0,cubic+cubic:ecn=on"
    schemes = parse_schemes(text)
    path = preset_profile(PATH, 25.0)
    done = racing.race([path], schemes, out=out, duration_s=20.0, phase_s=0.0, queues=["fq_codel"])
    return {run.scheme: run for run in done.runs}


def totals(run, column):
    return run.links().filter(pl.col("flow") < 0).group_by("hop", "direction").agg(pl.col(column).max())[column].sum()


def test_marks_stand_in_for_drops(raced):
    plain, marked = raced["cubic"], raced["cubic:ecn=classic"]
    assert totals(plain, "drops_aqm") > 0
    assert totals(plain, "marks_law") == plain.flows[0]["marks"] == 0
    assert totals(marked, "marks_law") >= marked.flows[0]["marks"] > 0
    assert totals(marked, "drops_aqm") == 0
    assert marked.flows[0]["retransmits"] < plain.flows[0]["retransmits"]


def test_each_flow_has_its_own_marks(raced):
    run = raced["cubic+cubic:ecn=classic"]
    last = run.links().filter(pl.col("flow") >= 0).group_by("flow", "direction").agg(pl.col("marks_law").max())
    counts = dict(last.filter(pl.col("direction") == "down").select("flow", "marks_law").iter_rows())
    assert counts[0] == run.flows[0]["marks"] == 0
    assert counts[1] == run.flows[1]["marks"] > 0


def test_accurate_feedback_counts_what_arrived(raced):
    run = raced["cubic:ecn=accurate"]
    echoed = run.samples()["marks"].max()
    assert run.flows[0]["marks"] - 50 < echoed <= run.flows[0]["marks"]  # the last ones are still on their way


def test_bbr_answers_marks_beyond_5_ms_where_that_is_lifted(raced):
    run = next(run for scheme, run in raced.items() if scheme.startswith("bbr3"))
    assert run.flows[0]["marks"] > 0
    assert run.flows[0]["goodput_bps"] > 0.5 * 20e6


def test_the_experiment_says_what_was_asked(raced):
    experiment = raced["cubic:ecn=classic"].record.experiment
    assert experiment.flows[0].ecn == "classic"
    assert "fq_codel" in experiment.queues[0].to_dict()["discipline"]
    plain = raced["cubic"].record.experiment.to_dict()["flows"][0]
    assert "ecn" not in plain

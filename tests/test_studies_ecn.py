"""What the study of marks makes of Runs: waits, shares, ratios, verdicts."""

from __future__ import annotations

from itertools import product

import polars as pl
import pytest

from bentpipe.execution.job import race_jobs
from bentpipe.execution.sweeps.sweep import run_sweep
from bentpipe.execution.waits import lone_ms
from bentpipe.experiments import schemes
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.queues import parse_queue
from bentpipe.studies import ecn_on_starlink as study
from bentpipe.studies.files import EcnOnStarlink


def outcome(goodput_mbps, queueing_ms, share=0.5):
    return study.Outcome(goodput_mbps * 1e6, queueing_ms, 1.0, (share, 1 - share), 10, 0.2, 0.1)


def field(own, plain, marked):
    """Each queue gives the same: without ECN `plain`, with it `marked`."""
    results = {}
    for direction, queue in product(study.DIRECTIONS, [study.OWN, *study.NAMES.values()]):
        for scheme in study._schemes(queue):
            outcomes = own if queue == study.OWN else marked if "ecn=" in scheme else plain
            results[direction, queue, scheme] = outcomes
    return results


def measured(run):
    rtt_ms = run.samples().filter(pl.col("t_s") > run.experiment.warmup_ns / 1e9)["rtt_latest_ms"]
    return study.marked(run) | {"rtt_ms": rtt_ms.drop_nulls().mean()}


def holds(runs_of, text):
    chosen = [verdict.holds for verdict in study._verdicts(runs_of, "here") if text in verdict.statement]
    assert chosen
    return chosen


def test_a_queue_with_half_the_delay_and_equal_goodput_is_reported_so():
    own = [outcome(100, 80), outcome(90, 60), outcome(110, 70)]
    plain = [outcome(80, 6), outcome(70, 5), outcome(85, 7)]
    marked = [outcome(99, 5), outcome(88, 6), outcome(109, 5)]
    field_runs = field(own, plain, marked)
    assert all(holds(field_runs, "halves the queueing delay"))
    assert all(holds(field_runs, "marks give more goodput than drops"))
    assert all(holds(field_runs, "loss-based control does as BBR does"))
    assert set(holds(field(own, plain, plain), "halves the queueing delay")) == {False}  # it costs goodput
    assert set(holds(field(own, plain, plain), "marks give more")) == {None}  # neither more nor less
    unsure = [outcome(80, 60), outcome(130, 5), outcome(85, 30)]
    assert set(holds(field(own, plain, unsure), "halves the queueing delay")) == {None}
    rows = study._rows(field_runs, "here")
    assert len({row.quantity for row in rows}) == len(rows)
    assert all(row.published is None and row.ours is not None for row in rows)


def test_queues_and_schemes_of_the_study_are_valid():
    queues = EcnOnStarlink.load().queues
    for name in study.NAMES:
        assert parse_queue(getattr(queues, name)).discipline
    for queue in (study.OWN, "CoDel"):
        assert all(schemes.parse_schemes(scheme) == (scheme,) for scheme in study._schemes(queue))


@pytest.mark.parametrize(("queue", "most_ms"), [("up=drop_tail", None), ("up=step:threshold_ms=5", 8.0)])
def test_queueing_delay_excludes_the_delay_of_a_lone_packet(tmp_path, queue, most_ms):
    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=2bdp", 12.0)
    jobs = race_jobs(
        [path], ["cubic:ecn=classic"], direction="up", duration_s=10.0, phase_s=0.0, queues=[queue], measure=measured
    )
    (run,) = run_sweep(jobs, out=tmp_path).whole()
    result = study._outcome(run, lone_ms(path, "up"))
    waited_ms = run.measures["rtt_ms"] - 40.0
    assert result.retransmitted >= 0
    assert result.queueing_ms == pytest.approx(waited_ms, rel=0.35, abs=2.0)
    assert most_ms is None or result.queueing_ms < most_ms
    assert (result.marks > 0) == (most_ms is not None)
    assert result.after_handover in (0.0, None)

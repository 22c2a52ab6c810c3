"""The handover model: schedule, steps, gaps, and slots drawn from it."""

import json

import numpy as np
import pytest
from emulation import bentpipe

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.predict.handovers import HIGH, generate_handovers, learn_handovers

START_S = 1_747_000_002.0


@pytest.fixture(scope="module")
def pings(tmp_path_factory):
    """Fourteen minutes of pings each 20 ms: levels by slot, and a gap of 120 ms at each edge at :12 modulo 15."""
    rng = np.random.default_rng(1)
    sent_s = START_S + np.arange(0, 840, 0.02)
    slot = np.floor((sent_s - 12) / 15).astype(int)
    levels = np.where(rng.random(80) < 0.15, 60.0, 30.0) + rng.normal(0, 1.5, 80)
    rtt_ms = levels[slot - slot.min()] + rng.gamma(2, 1, len(sent_s))
    kept = (sent_s - 12) % 15 > 0.12
    lines = [f"{t:.3f},{rtt:.3f}" for t, rtt in zip(sent_s[kept], rtt_ms[kept], strict=True)]
    path = tmp_path_factory.mktemp("pings") / "pings.csv"
    path.write_text("\n".join(["unix_s,rtt_ms", *lines]) + "\n", encoding="utf-8")
    return path


def test_the_model_has_the_schedule_the_steps_and_the_gaps(pings):
    model = learn_handovers(pings)
    assert model.period_s == pytest.approx(15, abs=0.01)
    assert min(abs(model.phase_s - 12), abs(model.phase_s - 12 - 15)) < 0.2
    assert model.edges > 40
    assert 100 < np.median(model.gap_ms) < 200
    assert 0.02 < model.high_after_usual < 0.35
    edge_s, error_s = model.next_edge(START_S)
    assert START_S < edge_s <= START_S + 15
    assert error_s < 0.2


def test_the_probability_of_a_step_is_that_of_the_pairs(pings):
    model = learn_handovers(pings)
    assert model.step_probability(model.median_ms, 0.0) == pytest.approx(1.0, abs=0.01)
    assert model.step_probability(model.median_ms, 1e4) == 0.0
    steps = [model.step_probability(model.median_ms, over) for over in (1, 2, 5, 10, 20, 40)]
    assert steps == sorted(steps, reverse=True)
    assert model.step_probability(model.median_ms, 20) == pytest.approx(model.high_after_usual, abs=0.08)


def test_slots_drawn_from_the_model_have_its_levels_and_depend_on_the_seed_alone(pings):
    model = learn_handovers(pings)
    drawn = generate_handovers(model, 4000, 7, START_S)
    assert drawn.equals(generate_handovers(model, 4000, 7, START_S))
    assert not drawn.equals(generate_handovers(model, 4000, 8, START_S))
    high = (drawn["level_ms"] > HIGH * model.median_ms).mean()
    assert high == pytest.approx(model.high_after_usual, abs=0.06)
    assert drawn["gap_ms"].median() == pytest.approx(np.median(model.gap_ms), rel=0.1)
    assert np.allclose(np.diff(drawn["edge_s"]), model.period_s)
    with pytest.raises(UserError, match="slots: 0"):
        generate_handovers(model, 0, 1)


def test_the_command_prints_the_next_edge(pings, tmp_path):
    document = json.loads(bentpipe("predict", "handovers", pings, "--over", "20", "--json").stdout)
    assert 0 < document["in_s"] <= 15
    assert 0 <= document["step_probability"] <= 1
    assert bp.handover_model(pings).model_dump(mode="json") == document["model"]
    assert "next edge in" in bentpipe("predict", "handovers", pings).stdout
    assert len(json.loads(bentpipe("predict", "handovers", pings, "--draw", "3", "--json").stdout)["slots"]) == 20
    short = tmp_path / "short.csv"
    short.write_text("\n".join(pings.read_text(encoding="utf-8").splitlines()[:2000]), encoding="utf-8")
    result = bentpipe("predict", "handovers", short)
    assert result.returncode == 2
    assert "expected pings with slots" in result.stderr

"""The claim `nodes`: its paths, and its comparison."""

import numpy as np
import pytest

from bentpipe._native import node_names
from bentpipe.validation import nodes
from bentpipe.validation.nodes import figures, worlds


def world(lost, delay_ms, seed, seeds=1, seconds=20):
    """Return datagrams each millisecond, of which a share is lost."""
    draws = np.random.default_rng(seed)
    sent_s = np.arange(seconds * 1000) / 1000
    delays = np.where(draws.random((seeds, len(sent_s))) < lost, np.nan, delay_ms + draws.random((seeds, len(sent_s))))
    return worlds.World({"up": sent_s}, {"up": delays})


def compared(with_recovery=0.001, delay_ms=20.0):
    pairs = {
        "none": (world(0.02, delay_ms, 1), world(0.02, 20.0, 2, 5)),
        "satguard": (world(with_recovery, delay_ms, 3), world(0.001, 20.0, 4, 5)),
    }
    return figures.compare("P", "up", pairs)


def test_every_path_runs_on_nodes_and_outlasts_the_datagrams():
    for path in nodes.paths():
        assert node_names(path)[:2] == ["terminal", "ground"]
        assert path.duration_s > worlds.SECONDS + 10


def test_equal_worlds_agree():
    rows = compared()
    assert len(rows) == 5
    assert all(row.within for row in rows)


@pytest.mark.parametrize(
    ("changed", "bad"),
    [({"with_recovery": 0.006}, [0]), ({"delay_ms": 22.0}, [1, 2, 3, 4])],
    ids=["losses", "delays"],
)
def test_a_difference_beyond_the_tolerance_is_found(changed, bad):
    assert [number for number, row in enumerate(compared(**changed)) if not row.within] == bad


def test_without_losses_nothing_can_be_recovered():
    assert np.isnan(figures.recovered(np.zeros(10), np.zeros(10)))


def test_the_simulator_sends_at_the_times_of_the_other_world():
    (path, *_) = nodes.paths()
    sent_s = {"up": np.arange(1, 3, 0.01), "down": np.arange(2, 3, 0.01)}
    like = worlds.World(sent_s, {})
    simulated = worlds.simulate(path, "none", like)
    assert {name: rows.shape for name, rows in simulated.delays_ms.items()} == {"up": (10, 200), "down": (10, 100)}
    assert np.nanmean(simulated.delays_ms["up"]) == pytest.approx(20.1, abs=0.1)

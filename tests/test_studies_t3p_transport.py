"""T3P's section 5: the files of its studies, and when and where its uploads go."""

from types import SimpleNamespace

import pytest

from bentpipe.scenarios.services import load_services
from bentpipe.scenarios.sites import Place
from bentpipe.studies import find_study
from bentpipe.studies.t3p import load_terminals
from bentpipe.studies.t3p_bbr2_grid import _setup
from bentpipe.studies.t3p_files import T3pBbr2Grid
from bentpipe.studies.t3p_pooled import Span, pooled
from bentpipe.studies.t3p_uplink import HOUR_NS, load_uplink, starts_of_tests, uplink_paths
from bentpipe.times import parse_utc
from bentpipe.tuning.scores import score


def test_the_grid_has_the_default_and_the_published_point():
    setup = _setup(T3pBbr2Grid.load(), quick=False)
    points = list(setup.grid.points())
    assert len(points) == 20
    assert {("5000", "0.02"), ("4000", "0.08")} <= set(points)
    assert setup.chosen == ("4000", "0.08")
    assert setup.tests * setup.duration_s == 6000  # "a total of 100 min"
    assert find_study("t3p-fairness").name == "t3p-fairness"


def test_all_figures_use_the_path_of_the_preset():
    uplink = load_uplink()
    assert _setup(T3pBbr2Grid.load(), quick=False).uplink == uplink
    service = load_services()["leo-bcn1"]
    assert service.terminal.pop == uplink.terminal.pop == "MAD"
    assert abs(service.terminal.lat_deg - uplink.terminal.lat_deg) < 0.05
    assert parse_utc(service.start) == starts_of_tests(uplink.first, uplink.hours, 1)[0]
    first, second = uplink.paths(2, 10.0)
    (again,) = uplink.paths(1, 10.0, skip=1)
    assert (first.seed, second.seed, again.seed) == (uplink.seed, uplink.seed + 1, uplink.seed + 1)


def test_the_papers_statistic_pools_all_seconds():
    def run(scheme, label, level, rtt_ms):
        measures = {"goodput_bps": [level] * 10, "rtt_ms": [None, *[rtt_ms] * 9]}
        return SimpleNamespace(
            scheme=scheme, label=label, seed=0, record=SimpleNamespace(valid=True), measures=measures
        )

    runs = []
    for i, level in enumerate((1e6, 9e6)):  # by tests 2.5 on geometric average, of all seconds together 4.6
        runs += [run("bbr2", str(i), level, 40.0), run("other", str(i), level * (1.25, 5.0)[i], 42.0)]
    result = pooled(runs, "other", "bbr2")
    assert result.gain.value == pytest.approx((1.25 * 1 + 5 * 9) / 10)
    assert result.rtt_p95.value == pytest.approx(1.05)
    assert score(runs, "other", "bbr2").gain.mean == pytest.approx(2.5)
    assert pooled(runs, "absent", "bbr2").gain is None
    assert Span(2.1, 2.0, 2.2, 25).meets(2.15, 1.25) is True
    assert Span(1.2, 1.1, 1.3, 25).meets(2.15, 1.25) is False
    assert Span(1.5, 0.8, 3.0, 25).meets(2.15, 1.25) is None  # it is in there because little is known
    assert Span(2.1, 2.0, 2.2, 3).meets(2.15, 1.25) is None


def test_tests_are_at_the_same_hours_and_fresh_ones_follow():
    first = parse_utc("2023-06-01T00:00:00Z")
    starts = starts_of_tests("2023-06-01T00:00:00Z", [6, 14, 22], 4)
    assert [(start - first) // HOUR_NS for start in starts] == [6, 14, 22, 30]
    later = starts_of_tests("2023-06-01T00:00:00Z", [6, 14, 22], 2, skip=4)
    assert min(later) > max(starts)


def test_each_path_has_its_own_seed_and_takes_parameters():
    terminal, server = load_terminals()["bcn-1"], Place("there", 52.37, 4.9)
    starts = starts_of_tests("2023-06-01T00:00:00Z", [6], 1)
    one, other = (
        uplink_paths(terminal, server, starts, 20.0, seed=1, parameters={"loss": {"up": {"episodes_per_s": rate}}})[0]
        for rate in (0.01, 5.0)
    )
    assert one.seed == 1
    assert one.content_hash() != other.content_hash()

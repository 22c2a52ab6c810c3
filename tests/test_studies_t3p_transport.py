"""T3P's section 5: the files of its studies, and when and where its uploads go."""

from bentpipe.scenarios import Place
from bentpipe.studies import find_study
from bentpipe.studies.scenario import load_scenario
from bentpipe.studies.t3p import load_terminals
from bentpipe.studies.t3p_bbr2_grid import _take
from bentpipe.studies.t3p_uplink import HOUR_NS, starts_of_tests, uplink_paths
from bentpipe.times import parse_utc


def test_the_grid_has_the_default_and_the_published_point():
    asked = _take(load_scenario("t3p-bbr2-grid").table, quick=False)
    points = list(asked.grid.points())
    assert len(points) == 20
    assert {("5000", "0.02"), ("4000", "0.08")} <= set(points)
    assert asked.chosen == ("4000", "0.08")
    assert asked.tests * asked.duration_s == 6000  # "a total of 100 min"
    assert find_study("t3p-fairness").name == "t3p-fairness"


def test_tests_are_at_the_same_hours_of_each_day_and_fresh_ones_come_after_them():
    first = parse_utc("2023-06-01T00:00:00Z")
    starts = starts_of_tests("2023-06-01T00:00:00Z", [6, 14, 22], 4)
    assert [(start - first) // HOUR_NS for start in starts] == [6, 14, 22, 30]
    later = starts_of_tests("2023-06-01T00:00:00Z", [6, 14, 22], 2, skip=4)
    assert min(later) > max(starts)


def test_paths_are_drawn_each_with_its_own_seed_and_take_parameters():
    terminal, server = load_terminals()["bcn-1"], Place("there", 52.37, 4.9)
    starts = starts_of_tests("2023-06-01T00:00:00Z", [6], 1)
    one, other = (
        uplink_paths(terminal, server, starts, 20.0, seed=1, parameters={"loss": {"up": {"episodes_per_s": rate}}})[0]
        for rate in (0.01, 5.0)
    )
    assert one.seed == 1
    assert one.content_hash() != other.content_hash()

"""`bentpipe compare`: the pairing of Runs, its notes, and the page."""

import json

import numpy as np
import polars as pl
import pytest
from emulation import bentpipe

from bentpipe.errors import UserError
from bentpipe.execution.racing import race
from bentpipe.experiments.experiment import Host
from bentpipe.plots.worlds import plot_worlds
from bentpipe.profiles.presets import preset_profile
from bentpipe.report import compare
from bentpipe.runs.figures import delays_by_second, seconds_without_delay
from bentpipe.runs.pairing import pair_up
from bentpipe.runs.store import Run

PATH = preset_profile("dumbbell:rate=10mbit,rtt=30ms,loss=0.001", 40.0, start_unix_ns=0, name="lossy")


ONE_PAIR = "one pair of Runs of a scheme: variation between seeds is unknown (`seeds`)"


def raced(folder, *schemes, **options):
    options = {"duration_s": 8.0, "seeds": 2, "phase_s": 0.0, **options}
    return race([PATH], list(schemes), out=folder, **options).runs


def test_a_race_compared_with_itself_is_equal(tmp_path):
    runs = raced(tmp_path, "cubic", "reno+bbr")
    pairing = pair_up(runs, runs)
    assert (pairing.alone, pairing.invalid) == ((0, 0), (0, 0))
    for scheme in pairing.schemes:
        assert [pair.runs[0].seed for pair in scheme.pairs] == [0, 1]
        ratio = scheme.goodput_ratio()
        assert (ratio.n, ratio.mean) == (2, 1.0)
        assert scheme.means("delay_ms")[0] == scheme.means("delay_ms")[1] > 15.0
    alone, shared = pairing.schemes
    assert alone.means("first_share") == (1.0, 1.0)
    assert 0.0 < shared.means("first_share")[0] < 1.0
    assert alone.means("goodput_bps")[0] == pytest.approx(
        sum(r.flows[0]["goodput_bps"] for r in runs[::2]) / 2, rel=0.02
    )


def test_partners_have_scheme_seed_and_path_in_common(tmp_path):
    first = raced(tmp_path / "a", "cubic", "reno", seeds=3)
    second = raced(tmp_path / "b", "cubic", "bbr")
    pairing = pair_up(first, second)
    assert [(e.name, len(e.pairs)) for e in pairing.schemes] == [("cubic", 2)]
    assert pairing.alone == (4, 2)
    spoilt = [*second[:1], *(type(run)(run.path, run.record.replace(valid=False)) for run in second[1:])]
    assert pair_up(first, spoilt).invalid == (0, 3)
    assert compare.left_out(pair_up(first, spoilt), ("a", "b")) == [
        "a: 5 Runs without a partner over the same path left out",
        "b: 3 Runs not valid, left out",
        ONE_PAIR,
    ]


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"phase_s": 3.0}, r"start phases \[s\] differ \(0\.0; 3\.0\)"),
        ({"duration_s": 9.0}, r"lengths \[s\] differ \(8\.0; 9\.0\)"),
    ],
)
def test_races_without_partners_are_refused_with_the_reason(tmp_path, other, message):
    first, second = raced(tmp_path / "a", "cubic"), raced(tmp_path / "b", "cubic", **other)
    with pytest.raises(UserError, match=message):
        pair_up(first, second)
    with pytest.raises(UserError, match="no valid Run"):
        pair_up(first, [type(run)(run.path, run.record.replace(valid=False)) for run in second])
    with pytest.raises(UserError, match=r"schemes differ \(cubic; reno\)"):
        pair_up(first, raced(tmp_path / "c", "reno"))


def test_other_differences_prevent_pairing_or_are_reported(tmp_path):
    first = raced(tmp_path / "a", "cubic")
    for other, message in (
        ({"traffic": "peak"}, "cross traffic differ"),
        ({"queues": ["down=fq_codel"]}, r"queue rules differ \(the Profile's queues; .*fq_codel"),
    ):
        second = raced(tmp_path / next(iter(other)), "cubic", **other)
        with pytest.raises(UserError, match=message):
            pair_up(first, second)
    with pytest.raises(UserError, match=r"have the same path, so the partner is ambiguous"):
        pair_up(first, [*first, *(type(run)(run.path.with_name("twice"), run.record) for run in first)])
    hosts = {"server": Host(wmem_max_bytes=1 << 20)}
    small = [
        type(run)(run.path, run.record.replace(experiment=run.record.experiment.replace(hosts=hosts))) for run in first
    ]
    assert compare.left_out(pair_up(first, small), ("a", "b")) == [
        "the hosts' settings differ in 2 pairs (`hosts`, `host_timing` in run.json)"
    ]


def test_a_run_without_figures_is_excluded_and_the_others_are_compared(tmp_path):
    runs = raced(tmp_path, "cubic")
    without = type(runs[0])(
        runs[0].path, runs[0].record.model_copy(update={"summary": {**runs[0].record.summary, "flows": []}})
    )
    lines = compare.left_out(pair_up([without, runs[1]], runs), ("a", "b"))
    assert lines[:1] == ["left out: lossy, cubic, seed 0: it has no flow (no reason is given)"]
    assert lines[1:] == [ONE_PAIR]
    with pytest.raises(UserError, match=r"no pair of Runs has figures to compare \(lossy, cubic, seed 0: it has"):
        pair_up([without], runs)


def test_a_race_beside_itself_has_two_columns(tmp_path):
    runs = raced(tmp_path / "a$1$", "cubic")
    compare.write_page(pair_up(runs, runs), ("a$1$", "a$1$"), tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 20_000


def test_the_command_prints_a_table_json_and_a_page(tmp_path):
    raced(tmp_path / "a", "cubic", "cubic+bbr")
    raced(tmp_path / "b", "cubic", "cubic+bbr")
    page = tmp_path / "page.html"
    done = bentpipe("compare", tmp_path / "a", tmp_path / "b", "-o", page)
    assert done.returncode == 0, done.stderr
    assert "CUBIC + BBR" in done.stdout
    assert "1.000" in done.stdout
    html = page.read_text()
    assert html.count("data:image/png") == 2
    assert "http://" not in html
    output = json.loads(bentpipe("compare", tmp_path / "a", tmp_path / "b", "--json").stdout)
    assert [one["goodput_ratio"] for one in output["schemes"]] == [1.0, 1.0]
    assert output["schemes"][0]["seeds"] == [0, 1]
    assert output["page"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("a", "a", "-o", "page.pdf"), "expected a file that ends in .html"), (("a", "none"), "none")],
)
def test_an_impossible_comparison_is_one_line(tmp_path, arguments, message):
    raced(tmp_path / "a", "cubic", seeds=1)
    words = [tmp_path / word if word in ("a", "none") else word for word in arguments]
    done = bentpipe("compare", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def links(*rows):
    """Return a table of links from rows of hop, window, mean delay [ms] and packets."""
    return pl.DataFrame(
        {
            "t_s": [float(second) for _, second, _, _ in rows],
            "hop": [str(hop) for hop, _, _, _ in rows],
            "direction": ["down"] * len(rows),
            "flow": [-1] * len(rows),
            "delay_mean_ms": [delay for _, _, delay, _ in rows],
            "delay_n": [packets for _, _, _, packets in rows],
        },
        schema_overrides={"delay_n": pl.UInt64},
    )


def test_a_second_whose_packets_were_still_in_flight_has_no_delay():
    """The satellite passed packets on in second 2, the gateway behind it none."""
    delays = delays_by_second(links((0, 1, 5.0, 100), (1, 1, 7.0, 100), (0, 2, 5.0, 3), (1, 3, 9.0, 3)), "down", 0.0)
    assert delays == {1: (1200.0, 100), 3: (27.0, 3)}
    assert seconds_without_delay(delays, 3.0, 0.0) == 1
    assert seconds_without_delay(delays, 3.0, 2.0) == 0
    assert delays_by_second(links((0, 1, 5.0, 0)), "down", 0.0) == {}


def test_routes_that_share_no_hop_count_each_packet_once():
    """Hops 0, 1 and 2 carry all packets of two seconds, hops 5, 3 and 4 those of the next two."""
    rows = [
        *((hop, second, 4.0, 50) for second in (1, 2) for hop in (0, 1, 2)),
        *((hop, second, 6.0, 40) for second in (3, 4) for hop in (5, 3, 4)),
    ]
    delays = delays_by_second(links(*rows), "down", 0.0)
    assert [ms / packets for ms, packets in delays.values()] == [12.0, 12.0, 18.0, 18.0]


def test_a_second_without_packets_is_left_out_of_page_and_figure(tmp_path, monkeypatch):
    runs = raced(tmp_path, "cubic", seeds=1)
    whole = runs[0].links()
    quiet = whole.with_columns(
        pl.when(pl.col("t_s").is_between(4.5, 5.5)).then(0).otherwise(pl.col("delay_n")).alias("delay_n")
    )
    monkeypatch.setattr(Run, "links", lambda _: quiet)
    pairing = pair_up(runs, runs)
    assert pairing.seconds_without_delay() == (1, 1)
    sentence = "a: 1 second in which no packet was delivered left out of the delay"
    assert sentence in compare.left_out(pairing, ("a", "b"))
    axis = plot_worlds([("a", runs[0]), ("b", runs[0])], warmup_s=runs[0].warmup_s).axes[2]
    assert np.flatnonzero(np.isnan(axis.lines[0].get_ydata())).tolist() == [4]
    compare.write_page(pairing, ("a", "b"), tmp_path / "page.html")
    assert sentence in (tmp_path / "page.html").read_text(encoding="utf-8")

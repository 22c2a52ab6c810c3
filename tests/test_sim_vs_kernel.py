"""The comparison of the two worlds: its cells, figures, limits and paths. The kernel itself is not needed here."""

import itertools
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy import stats

from bentpipe.errors import UserError
from bentpipe.profiles import Profile
from bentpipe.profiles.build import Points, Provenance, single_hop_profile
from bentpipe.profiles.build import Side as PathSide
from bentpipe.profiles.path import PathView
from bentpipe.runs import Run, race
from bentpipe.runs.store import DamagedRunError
from bentpipe.validation import sim_vs_kernel
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, QUICK, Cell
from bentpipe.validation.sim_vs_kernel.explanations import CHANCE, REASONS, TOO_FEW_RUNS, explained_by
from bentpipe.validation.sim_vs_kernel.figures import Figures, Side, figures_of
from bentpipe.validation.sim_vs_kernel.judge import SHARE_MARGIN, Verdict, judge, share_test
from bentpipe.validation.sim_vs_kernel.paths import TRACE, make_paths, read_trace
from bentpipe.validation.sim_vs_kernel.worlds import Worlds, experiment_of, same_path

SHARED = Path(__file__).parents[2] / "shared" / "data"


def side(*runs: tuple[float, float, float, float]) -> Side:
    """Runs as goodput [Mbit/s], first share, delay [ms], part sent again."""
    return Side(tuple(Figures(g * 1e6, (s, 1 - s), d, r, None) for g, s, d, r in runs))


def test_every_path_controller_and_kind_is_covered():
    assert len(set(CELLS)) == 24
    for path in {cell.profile for cell in CELLS}:
        mine = [cell.flows for cell in CELLS if cell.profile == path]
        assert mine[:3] == ["reno", "cubic", "bbr"]
        kinds = {len(set(flows.split("+"))) for flows in mine[3:]}
        assert kinds == {1, 2}, "two of a kind and two of different kinds on every path"
    pairs = Counter("+".join(sorted(cell.flows.split("+"))) for cell in CELLS if not cell.alone)
    assert len(pairs) == 6
    assert set(pairs.values()) == {2}
    assert FULL.pairs >= 10
    assert QUICK.kernel_s < 600 < FULL.kernel_s


def test_limits_are_those_of_the_claim():
    alone, pair = Cell("fibre", "reno"), Cell("fibre", "reno+bbr")
    kernel = side((100, 1, 40, 0.02))
    assert judge(alone, side((104.9, 1, 41.9, 0.0239)), kernel).within
    assert judge(alone, side((105.1, 1, 40, 0.02)), kernel).outside == ("goodput",)
    assert judge(alone, side((100, 1, 42.1, 0.02)), kernel).outside == ("delay",)
    assert judge(alone, side((100, 1, 40, 0.0241)), kernel).outside == ("retransmits",)
    # Of little, what counts is how much: 1 ms, a tenth of a percentage point.
    little = side((100, 1, 10, 0.0))
    assert judge(alone, side((100, 1, 10.9, 0.0009)), little).within
    assert judge(alone, side((100, 1, 11.1, 0.0011)), little).outside == ("delay", "retransmits")
    assert judge(pair, side((103.1, 0.5, 1, 0.5)), kernel).outside == ("goodput",)
    assert judge(pair, side((102.9, 0.5, 1, 0.5)), kernel).within, "one run says nothing about shares"
    assert judge(alone, kernel, kernel, "too busy").outside == ("invalid",)
    silent = judge(alone, side((1, 1, 40, 0.02)), side((0, 1, float("nan"), 0.02)))
    assert {"goodput", "delay"} <= set(silent.outside)
    assert silent.to_dict(None)["goodput_ratio"] is None


def test_shares_are_equivalent_only_if_both_one_sided_tests_say_so():
    rng = np.random.default_rng(1)
    tight = list(0.6 + 0.01 * rng.standard_normal(10))
    near = [x + 0.02 + 0.01 * rng.standard_normal() for x in tight]
    found = share_test(tight, near)
    # The same by SciPy's own paired test, once from each side.
    lower = stats.ttest_rel([x + SHARE_MARGIN for x in tight], near, alternative="greater").pvalue
    upper = stats.ttest_rel([x - SHARE_MARGIN for x in tight], near, alternative="less").pvalue
    assert found is not None
    assert found.equivalent
    assert found.p == pytest.approx(max(lower, upper), rel=1e-9)
    far = share_test(tight, [x + 0.06 for x in tight])
    assert far is not None
    assert not far.equivalent
    assert far.p > 0.5
    scattered = list(0.6 + 0.2 * rng.standard_normal(10))
    unknown = share_test(scattered, list(scattered[::-1]))
    assert unknown is not None
    assert not unknown.equivalent, "equal means of scattered runs are not known to be equal"
    assert share_test(tight[:9], near[:9]) is None
    assert share_test([0.5] * 10, [0.5] * 10).equivalent  # type: ignore[union-attr]


def test_figures_agree_with_the_run_they_are_taken_from(tmp_path):
    paths, _ = make_paths(20.0, None, tmp_path / "trace")
    (run,) = race([paths["fibre"]], ["cubic"], out=tmp_path / "a", duration_s=20.0, phase_s=0.0).runs
    found = figures_of(run, run.samples(), run.links())
    assert found.goodput_bps == pytest.approx(run.flows[0]["goodput_bps"], rel=0.01)
    assert found.shares == (1.0,)
    assert found.lateness_ms is None
    # Half of 19.5 ms, and what waits in a queue of as much again.
    assert 9.75 < found.delay_ms < 9.75 + 19.5 + 0.1
    again = run.samples()["retransmits"][-1]
    assert 0 <= found.retransmit_rate * run.flows[0]["goodput_bps"] * 15 / 8 / 1448 <= again + 1
    (computed,) = race([paths["leo-computed"]], ["bbr"], out=tmp_path / "b", duration_s=20.0, phase_s=0.0).runs
    over_hops = figures_of(computed, computed.samples(), computed.links()).delay_ms
    span_s = np.arange(5.0, 20.0, 0.1)
    least = float(np.nanmean(paths["leo-computed"].delay_ms("down", span_s)))
    assert least * 0.9 < over_hops < least + 200, "the sum over the hops: satellite, gateway and exchange"


def test_a_run_that_is_not_whole_is_one_line(tmp_path):
    paths, _ = make_paths(20.0, None, tmp_path / "trace")
    (run,) = race([paths["fibre"]], ["cubic"], out=tmp_path / "a", duration_s=12.0, phase_s=0.0).runs
    samples, links = run.samples(), run.links()
    killed = {**run.record, "why_invalid": "the emulation ended before its end"}
    killed["summary"] = {"flows": [], "emulator": {"relay": None}}
    with pytest.raises(DamagedRunError, match=r"no flow .the emulation ended before its end.; delete this folder"):
        figures_of(Run(run.path, killed), samples, links)
    killed["summary"] = {**run.record["summary"], "emulator": {"relay": None}}
    with pytest.raises(DamagedRunError, match="not a whole Run: the emulation ended"):
        figures_of(Run(run.path, killed), samples, links)
    with pytest.raises(DamagedRunError, match=r"end at 3\.0 s; wanted more than 10 s"):
        figures_of(run, samples.filter(pl.col("t_s") < 3.05), links)
    with pytest.raises(DamagedRunError, match="end at none at all"):
        figures_of(run, samples.clear(), links)


def test_a_path_that_stands_still_for_milliseconds_makes_bbr_queue(tmp_path):
    """What an emulator on a busy machine does to BBR (`explanations`), done to a simulated path: CUBIC hardly minds."""
    still_s, every_s, span_s = 0.004, 0.5, 40.0
    at_s = np.arange(every_s, span_s, every_s)
    # What comes while it stands still is handed on at its end, one by one but faster: in a quarter of the time.
    t_s = np.concatenate([[0.0], np.column_stack([at_s - 1e-6, at_s, at_s + 1.25 * still_s]).ravel()])
    delay_s = np.full(t_s.shape, 0.00975)
    delay_s[2::3] += still_s

    def path(name: str, down: Points) -> Profile:
        def at(delay: Points, bps: float, queue_bytes: int) -> PathSide:
            return PathSide(delay_s=delay, capacity_bps=Points.constant(bps), queue={"bytes": queue_bytes})

        return single_hop_profile(
            name=name,
            hop="bottleneck",
            start_unix_ns=0,
            duration_s=span_s,
            basis="one_way",
            provenance=Provenance("preset", "fibre"),
            up=at(Points.constant(0.00975), 25e6, 60_937),
            down=at(down, 275e6, 670_312),
        )

    calm, halting = path("calm", Points.constant(0.00975)), path("halting", Points.of(t_s, delay_s))
    runs = race([calm, halting], ["bbr", "cubic"], out=tmp_path, phase_s=0.0, duration_s=span_s).runs
    found = {(run.label, run.entrant): figures_of(run, run.samples(), run.links()) for run in runs}
    bbr, cubic = (found["halting", cc].delay_ms - found["calm", cc].delay_ms for cc in ("bbr", "cubic"))
    assert bbr > 2.0
    assert abs(cubic) < 1.5
    assert found["halting", "cubic"].goodput_bps == pytest.approx(found["calm", "cubic"].goodput_bps, rel=0.02)


def test_a_reason_explains_only_its_kind_and_only_a_late_emulator():
    def verdict(cell: Cell, late_ms: float) -> Verdict:
        kernel = Side((Figures(1e8, (1.0,), 40.0, 0.0, (0.1, late_ms)),))
        return judge(cell, side((100, 1, 50, 0.0)), kernel)

    assert "stands_still" in (explained_by(verdict(Cell("fibre", "bbr"), 1.0)) or "")
    assert explained_by(verdict(Cell("fibre", "bbr"), 0.1)) is None
    assert explained_by(verdict(Cell("fibre", "cubic"), 1.0)) is None
    assert explained_by(verdict(Cell("geo", "bbr"), 1.0)) is None

    def of_five(late_ms: list[float], delay_ms: list[float]) -> str | None:
        kernel = Side(
            tuple(Figures(1e8, (1.0,), d, 0.0, (0.1, late)) for d, late in zip(delay_ms, late_ms, strict=True))
        )
        return explained_by(judge(Cell("fibre", "bbr"), side(*[(100, 1, 40, 0.0)] * 5), kernel))

    assert of_five([3.0, 0.1, 0.1, 0.1, 0.1], [60, 40, 40, 40, 40]), "the one Run outside was late"
    assert of_five([3.0, 0.1, 0.1, 0.1, 0.1], [60, 60, 40, 40, 40]) is None, "one late Run does not excuse another"
    assert of_five([3.0, 0.1, 0.1, 0.1, 0.1], [40, 50, 50, 50, 50]) is None
    assert of_five([0.6] * 5, [60] * 5)
    with pytest.raises(ValueError, match="shorter"):  # seeds without a partner are no pairs
        of_five([3.0] * 4, [60] * 4)
    names = Path(__file__).read_text(encoding="utf-8")
    assert all(f"def {reason.test.split('::')[1]}(" in names for reason in REASONS)


def test_runs_that_scatter_cannot_show_that_shares_are_the_same():
    def verdict(offset: float, ours: float, theirs: float) -> Verdict:
        turns = [1 if i % 2 else -1 for i in range(10)]
        return judge(
            Cell("leo-measured", "reno+reno"),
            side(*((100, 0.5 + offset + ours * turn, 40, 0.0) for turn in turns)),
            side(*((100, 0.5 - theirs * turn, 40, 0.0) for turn in turns)),
        )

    # 5 points / (sd / sqrt(10)) has to reach t(0.9706, 9) = 2.16: up to a standard deviation of 7.3 points.
    assert verdict(0.0, 0.065, 0.0).within
    wild = verdict(0.02, 0.1, 0.1)
    assert (wild.outside, explained_by(wild)) == (("shares",), TOO_FEW_RUNS)
    for what, found in {
        "six points are a difference": verdict(0.06, 0.1, 0.1),
        "that was for the test to find, and it did not": verdict(0.04, 0.05, 0.01),
        "a simulator that scatters where the kernel does not is a finding": verdict(0.0, 0.1, 0.0),
    }.items():
        assert (found.outside, explained_by(found)) == (("shares",), None), what


def test_a_kernel_that_scatters_cannot_show_that_means_are_the_same():
    def explained(offset: float, ours: float, theirs: float, n: int = 10) -> str | None:
        turns = [1 if i % 2 else -1 for i in range(n)]
        verdict = judge(
            Cell("leo-computed", "cubic"),
            side(*((100 + offset + ours * turn, 1, 40, 0.0) for turn in turns)),
            side(*((100 - theirs * turn, 1, 40, 0.0) for turn in turns)),
        )
        assert verdict.outside == ("goodput",)
        return explained_by(verdict)

    # 5 Mbit/s against 2.26 sd / sqrt(10): a standard deviation of 7 Mbit/s, where the kernel's.
    assert explained(8, 30, 30) == CHANCE
    assert explained(8, 30, 30, n=4) is None, "few runs are a reason for more of them"
    assert explained(8, 30, 3) is None, "a simulator that scatters where the kernel does not is a finding"
    assert explained(8, 3, 3) is None, "what can be told is told"
    assert explained(60, 30, 30) is None, "further apart than chance has it"


def test_a_cell_that_is_outside_is_looked_at_again_with_more_seeds(tmp_path, monkeypatch):
    looks = []

    def ran(cell, path, effort, out, heard, *, second_look):
        seeds = effort.seeds(cell, second_look=second_look)
        looks.append((cell, seeds))
        heard(1.0)
        return SimpleNamespace(cell=cell, simulated=(cell,) * seeds, kernel=(cell,) * seeds, why_invalid=None)

    def sides(runs):
        # The simulator of the first look is off by a tenth, for one cell.
        off = 10 if runs[0] == Cell("geo", "reno") and len(runs) == 3 and next(turn) % 2 == 0 else 0
        return side(*[(100 + off, 0.5, 40, 0.0)] * len(runs))

    turn = itertools.count()
    monkeypatch.setattr(sim_vs_kernel, "run_cell", ran)
    monkeypatch.setattr(sim_vs_kernel, "same_path", lambda worlds: True)
    monkeypatch.setattr(sim_vs_kernel, "side", sides)
    monkeypatch.setattr(sim_vs_kernel, "write_page", lambda out, cells, worlds, notes: out)
    shares = []
    found = sim_vs_kernel.compare(tmp_path, FULL, on_progress=shares.append)
    assert looks[24:] == [(Cell("geo", "reno"), FULL.alone_again)]
    assert [cell["n"] for cell in found.cells() if cell["n"] not in (3, 10)] == []
    assert {(c["profile"], c["n"]) for c in found.cells() if c["flows"] == "reno"} >= {("geo", 10), ("fibre", 3)}
    assert all(verdict.within for verdict in found.verdicts)
    assert shares[-1] == 1.0
    assert shares == sorted(shares)


def test_the_same_path_is_known_by_hash_phase_and_seed(tmp_path):
    paths, _ = make_paths(2.0, None, tmp_path / "trace")
    first, second = race([paths["leo-computed"]], ["reno"], out=tmp_path / "a", duration_s=2.0, seeds=2).runs
    assert same_path(Worlds(CELLS[0], (first, second), (first, second)))
    assert not same_path(Worlds(CELLS[0], (first,), (second,)))


def test_a_second_flow_starts_a_little_later_by_seed_and_a_lone_one_at_once(tmp_path):
    paths, _ = make_paths(60.0, None, tmp_path)
    pair = [experiment_of(Cell("fibre", "reno+bbr"), paths["fibre"], 60.0, seed) for seed in range(10)]
    starts = [experiment.flows[1].start_ns / 1e9 for experiment in pair]
    assert all(experiment.flows[0].start_ns == 0 for experiment in pair)
    assert len(set(starts)) == 10
    assert 0 <= min(starts) < 0.4
    assert 0.6 < max(starts) < 1
    offsets = [experiment.offset_ns / 1e9 for experiment in pair]
    assert len(set(offsets)) == 10
    assert max(offsets) <= 15
    (lone,) = experiment_of(Cell("fibre", "bbr"), paths["fibre"], 60.0, 3).flows
    assert lone.start_ns == 0


def test_without_the_measurement_one_is_generated_in_its_form(tmp_path):
    paths, notes = make_paths(10.0, tmp_path, tmp_path / "trace")
    assert "generated" in notes[0]
    assert set(paths) == {cell.profile for cell in CELLS}
    view = PathView(paths["leo-measured"])
    assert view.duration_s >= 24
    assert 1e6 < np.median(view.capacity("down").value) < 1e9
    assert paths["leo-measured"].content_hash() != paths["leo-computed"].content_hash()
    again, _ = make_paths(10.0, None, tmp_path / "again")
    assert again["leo-measured"].content_hash() == paths["leo-measured"].content_hash()


def test_the_measurement_is_read_where_it_is(tmp_path):
    if not (SHARED / TRACE).is_dir():
        pytest.skip(f"no measurement {TRACE} beside this repository")
    paths, notes = make_paths(60.0, SHARED, tmp_path)
    view = PathView(paths["leo-measured"])
    assert "LeoCC" in notes[0]
    assert view.duration_s == pytest.approx(120, abs=0.1)
    assert 40e6 < view.capacity("down").value.mean() < 60e6
    assert pl.Series(paths["leo-measured"].delay_ms("down", np.arange(0, 119, 0.01))).median() == pytest.approx(11)


@pytest.mark.parametrize("text", ["", "12\nx\n", "12\n-1\n", "nan\n"])
def test_delays_that_are_none_are_refused(tmp_path, text):
    (tmp_path / "bw").write_text("1\n2\n3\n", encoding="ascii")
    (tmp_path / "delay").write_text(text, encoding="ascii")
    with pytest.raises(UserError, match="delay"):
        read_trace(tmp_path / "bw", tmp_path / "delay", "test")

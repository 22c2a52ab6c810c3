"""Every study of flows over canned Runs, from its file to its page: once all statements hold, once none does."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from canned_studies import canned_flows, canned_sweeps, no_paths, verdicts, wobble

from bentpipe.plots import style
from bentpipe.studies import huston_ping
from bentpipe.studies.study import Result

S = "bentpipe.studies"


@pytest.fixture(autouse=True)
def one_size_of_figures(monkeypatch):
    """Save figures fast: coarse, and without the layout that takes most of the time."""
    save = style.save

    def roughly(figure, path):
        figure.set_layout_engine("none")
        save(figure, path)

    monkeypatch.setitem(style.SETTINGS, "savefig.dpi", 30)
    monkeypatch.setattr(style, "save", roughly)


def held(result):
    return {verdict.statement: verdict.holds for verdict in result.verdicts}


def supposed(result, change):
    """Return the verdicts under a change, by the study's own statements."""
    label = f"counterfactual, {change}: "
    statements = [each for each in result.counterfactuals if each.statement.startswith(label)]
    return {each.statement.removeprefix(label): each.holds for each in statements}


def assert_orders(result, rows, good):
    """Each path of `rows` has as many levels, in order of loss, and the published order among them."""
    paths = [each.path for each in result.orders]
    assert {path: paths.count(path) for path in paths} == rows
    for path in rows:
        levels = [each for each in result.orders if each.path == path]
        assert sum(bool(each.published) for each in levels) == 1
        known = [each.lost for each in levels if each.lost is not None]
        assert known == sorted(known)
    # The worlds are canned, so every level has the same order.
    assert {each.holds for each in result.orders if not each.published} == {good}


def all_hold(result):
    assert [statement for statement, holds in held(result).items() if holds is not True] == []


def none_hold(result):
    assert [statement for statement, holds in held(result).items() if holds is not False] == []


def apnic(good):
    def world(key, number, flow):
        path, controller = key
        bbr = controller == "bbr"
        k = wobble(number + len(controller))
        if path == "fibre":
            both = 130e6 if good or bbr else 60e6
            uneven = 1.2 if bbr != good else 1.0
            return {"goodput_bps": lambda t_s: np.where(t_s <= 20, 2, 1) * both * (uneven if flow else 1.0)}
        if path.startswith("geo"):
            return {"goodput_bps": k * (22e6 if bbr == good else 15e6)}
        if controller == "cubic":
            late = 0.1 if good else 1.0
            return {"goodput_bps": lambda t_s: k * (45e6 if good else 120e6) * np.where(t_s < 50, 1.0, late)}
        return {"goodput_bps": k * (80e6 if bbr else 30e6 if good else 110e6)}

    return world


@pytest.mark.parametrize("good", [True, False])
def test_apnic_2022(monkeypatch, tmp_path, good):
    no_paths(monkeypatch, f"{S}.apnic_2022.on_day", f"{S}.apnic_2022.preset_profile")
    canned_flows(monkeypatch, apnic(good))
    result = verdicts("apnic-2022", tmp_path, saved=good)
    assert_orders(result, {"leo": 5, "geo": 3}, good)
    (all_hold if good else none_hold)(result)
    ours = {row.quantity: row.ours for row in result.rows}
    assert ours["GEO: mean RTT of a ping"] == pytest.approx(40, abs=2)
    assert set(result.figures) == {"figures-6-16", "figures-9-13"}
    # The worlds are canned, so every change finds what the study does: each statement of its path, and no other.
    changed = supposed(result, "LEO with bursts every 4 s that take 7 % of their second")
    assert changed == {key: holds for key, holds in held(result).items() if key.startswith("over LEO")}
    assert supposed(result, "GEO with 0.6 % of pings lost, each for itself").keys() == {
        "over GEO BBR uses the path better than Reno and CUBIC"
    }


def huston(good):
    level = {
        ("peak", "cubic"): 50e6 if good else 200e6,
        ("off-peak", "cubic"): 175e6 if good else 100e6,
        ("peak", "bbr"): 190e6 if good else 90e6,
        ("off-peak", "bbr"): 200e6 if good else 50e6,
    }
    return lambda key, number, flow: {"goodput_bps": level[key[1:]] * wobble(number + len(key[2]))}


@pytest.mark.parametrize("good", [True, False])
def test_huston_2024(monkeypatch, tmp_path, good):
    no_paths(monkeypatch, f"{S}.huston_2024.on_day")
    monkeypatch.setattr(huston_ping, "STUDY", SimpleNamespace(run=lambda request: Result([], [], [])))
    canned_flows(monkeypatch, huston(good))
    result = verdicts("huston-2024", tmp_path, saved=good)
    assert_orders(result, {"peak": 6, "off-peak": 4}, good)
    (all_hold if good else none_hold)(result)
    assert supposed(result, "1 % of pings lost, each for itself") == held(result)


def bbr3(good):
    rtt_ms = {"sydney": 40.0, "tokyo": 150.0, "mumbai": 200.0, "london": 290.0, "sao-paulo": 350.0}

    def world(key, number, flow):
        _, direction, city, controller = key
        bbr, k = controller == "bbr3", wobble(number + len(controller) + len(city))
        place = rtt_ms[city] if good else 400 - rtt_ms[city]
        loud = city in ("tokyo", "mumbai") and direction == "down"
        again = place * (3 if loud else 1) / 5
        if bbr != good:
            again = (2.0 - place / 400) * (0.2 if loud else 1)
        return {
            "goodput_bps": k * (150e6 if bbr == good else 50e6),
            "retransmits": k * again,
            "cwnd_bytes": lambda t_s: 1e6 + k * (5e5 if bbr == good else 1e5) * np.sin(t_s),
            "rtt_ms": k * place,
            "rtt_var_ms": k * (3.0 if good or bbr else 9.0),
        }

    return world


@pytest.mark.parametrize("good", [True, False])
def test_bbr3_starlink(monkeypatch, tmp_path, good):
    no_paths(monkeypatch, f"{S}.bbr3_starlink.preset_profile")
    if not good:  # its fifteen boxes a panel are drawn once
        monkeypatch.setattr(f"{S}.bbr3_starlink._figures", lambda runs, plan: {})
    canned_flows(monkeypatch, bbr3(good))
    result = verdicts("bbr3-starlink", tmp_path, saved=False)
    assert_orders(result, {"sydney, down": 4}, good)
    answers = held(result)
    growing = {statement: answers.pop(statement) for statement in list(answers) if "at longer RTTs" in statement}
    assert len(growing) == 3
    changed = supposed(result, "bursts every 4 s that take 7 % of their second")
    assert {statement.partition(",")[0] for statement in changed} == {"sydney"}
    assert set(changed.values()) == {good}
    assert set(answers.values()) == {good}
    assert growing["up, default buffers: BBRv3 retransmits more at longer RTTs"] is good


def t3p_cc(good):
    level = (
        {"bbr": 10e6, "bbr2": 3e6, "cubic": 3e6, "reno": 3e6} if good else dict.fromkeys(("bbr2", "cubic", "reno"), 9e6)
    )

    def world(key, number, flow):
        where, controller = key
        k = wobble(number + len(controller))
        if where == "fibre":
            base = 80e6 if good or controller == "bbr" else 20e6
            return {"goodput_bps": lambda t_s: k * base * (1 + (t_s % 60 < 1) * (0.2 if good else 20.0))}
        return {
            "goodput_bps": lambda t_s: k * level.get(controller, 6e6) * (1 + (t_s % 60 < 1) * (2.0 if good else 0.1))
        }

    return world


@pytest.mark.parametrize("good", [True, False])
def test_t3p_cc(monkeypatch, tmp_path, good):
    no_paths(monkeypatch, f"{S}.t3p_cc.preset_profile", f"{S}.t3p_uplink.make_profile")
    canned_flows(monkeypatch, t3p_cc(good))
    result = verdicts("t3p-cc", tmp_path, saved=good)
    assert_orders(result, {"leo": 5}, good)
    (all_hold if good else none_hold)(result)
    changed = supposed(result, "2 % of packets lost, each for itself")
    assert len(changed) == 3
    assert changed.items() <= held(result).items()


def grid(good):
    """Gain and inflation of a point, by place."""

    def measures(scheme, label, seed, seconds):
        number = int(label.rpartition("-")[2])
        at = dict(each.split("=") for each in scheme.partition(":")[2].split(",") if each)
        point = at.get("probe_rtt_win_ms"), at.get("loss_thresh")
        home = label.startswith("BCN-1")
        chosen = ("4000", "0.08") if home else ("2000", "0.16")
        gain, rtt = (1.0, 1.0) if point in ((None, None), ("5000", "0.02")) else (1.3, 1.02)
        if point == chosen:
            gain, rtt = 2.15, 1.05
        elif point == ("1000", "0.16"):
            gain, rtt = 2.5, 1.5
        if not good:
            gain, rtt = {("1000", "0.16"): (0.8, 0.9), ("1000", "0.04"): (1.5, 1.0)}.get(point, (1.0, 1.0))
        k = wobble(number + len(scheme))
        return {"goodput_bps": [8e6 * gain * k] * seconds, "rtt_ms": [40.0 * rtt * k] * seconds}

    return measures


@pytest.mark.parametrize("good", [True, False])
def test_t3p_bbr2_grid(monkeypatch, tmp_path, good):
    no_paths(monkeypatch, f"{S}.t3p_uplink.make_profile")
    canned_sweeps(monkeypatch, [f"{S}.t3p_bbr2_grid.run_sweep"], grid(good))
    result = verdicts("t3p-bbr2-grid", tmp_path, saved=good)
    (all_hold if good else none_hold)(result)
    ours = {row.quantity: row.ours for row in result.rows}
    best = ours["best point within 10 %, BCN-1: probe_rtt_win_ms"]
    assert best == (4000.0 if good else 1000.0)
    gained = {each.holds for each in result.counterfactuals}
    assert (len(result.counterfactuals), gained) == (3, {good})


def test_a_grid_without_goodput_is_undecided_without_an_error(monkeypatch, tmp_path):
    no_paths(monkeypatch, f"{S}.t3p_uplink.make_profile")
    nothing = lambda scheme, label, seed, seconds: {"goodput_bps": [0.0] * seconds, "rtt_ms": [None] * seconds}  # noqa: E731
    canned_sweeps(monkeypatch, [f"{S}.t3p_bbr2_grid.run_sweep"], nothing)
    result = verdicts("t3p-bbr2-grid", tmp_path, quick=True)
    assert set(held(result).values()) == {None}
    assert {each.holds for each in result.counterfactuals} == {None}
    assert {row.ours for row in result.rows if not row.quantity.endswith(": lost on the path")} == {None}


@pytest.mark.parametrize("good", [True, False])
def test_t3p_fairness(monkeypatch, tmp_path, good):
    def measures(scheme, label, seed, seconds):
        at = dict(each.split("=") for each in scheme.rpartition("+")[2].partition(":")[2].split(",") if each)
        loss, probe = float(at.get("loss_thresh", 0.02)), float(at.get("probe_rtt_win_ms", 5000))
        step = {(0.02, 5000): 0, (0.04, 4000): 1, (0.08, 4000): 2, (0.08, 2000): 3, (0.16, 1000): 4}[loss, probe]
        ratio = (1.0 - 0.05 * step if good else [1.0, 1.05, 0.5, 1.2, 1.3][step]) * wobble(int(label[-1]) + step)
        cubic, bbr2 = [1e6 * ratio] * seconds, [1e6] * seconds
        return {"goodput_bps": [cubic] * 8 + [bbr2] * 8}

    no_paths(monkeypatch, f"{S}.t3p_uplink.make_profile")
    canned_sweeps(monkeypatch, [f"{S}.t3p_fairness.run_sweep"], measures)
    (all_hold if good else none_hold)(verdicts("t3p-fairness", tmp_path, saved=good))


@pytest.mark.parametrize("good", [True, False])
def test_ecn_on_starlink(monkeypatch, tmp_path, good):
    def measures(scheme, label, seed, seconds):
        flows = scheme.split("+")
        marks = "ecn=" in flows[0]
        k = wobble(len(scheme) + int(label[-1]))
        goodput = 90e6 * (0.85 if good and not marks else 1.0) * (0.7 if marks and not good else 1.0)
        wait = 5.0 if marks and good else 50.0
        times = list(range(1, seconds + 1))
        return {
            "run_flows": [{"goodput_bps": k * goodput / len(flows)} for _ in flows],
            "t_s": times,
            "n": [100] * seconds,
            "sum_ms": [100 * (20.0 + k * wait)] * seconds,  # 20 ms is what a lone packet takes
            "goodput_bytes": 10**8,
            "retransmits": 100,
            "marks": 5,
            "near": 1,
            "acted": 4,
            "struck": 0.13,
        }

    no_paths(monkeypatch, f"{S}.ecn_on_starlink.make_profile")
    canned_sweeps(monkeypatch, [f"{S}.ecn_on_starlink.run_sweep"], measures)
    result = verdicts("ecn-on-starlink", tmp_path, saved=good)
    (all_hold if good else none_hold)(result)


def scored(level, wait_ms):
    """Return canned measures of each scheme on each path, from functions for goodput and queueing delay."""

    def measures(scheme, label, seed, seconds):
        number = sum(map(ord, label)) + len(scheme) + seed
        flows = scheme.split("+")
        return {
            "run_flows": [{"goodput_bps": level(scheme, i) * wobble(number)} for i in range(len(flows))],
            "t_s": list(range(1, seconds + 1)),
            "n": [100] * seconds,
            "sum_ms": [100 * (20.0 + wait_ms(scheme) * wobble(number))] * seconds,
        }

    return measures


@pytest.mark.parametrize("good", [True, False])
def test_hint_error(monkeypatch, tmp_path, good):
    parents = ("bbr", "bbr3", "cubic")
    level = lambda scheme, flow: 50e6 if scheme in parents else 60e6 if good else 40e6  # noqa: E731
    no_paths(monkeypatch, f"{S}.field.make_profile")
    canned_sweeps(monkeypatch, [f"{S}.field.run_sweep"], scored(level, lambda scheme: 30.0))
    result = verdicts("hint-error", tmp_path, saved=good)
    (all_hold if good else none_hold)(result)
    assert len(result.verdicts) == 6
    # Those that learn a clock have Runs in which they can.
    lengths = {row.quantity.split(",")[0]: row.basis.split(" Profiles × ")[1][:5] for row in result.rows[:-1]}
    assert lengths["bbr3-leo"] == lengths["cubic-leo"] == "240 s"
    assert lengths["bbr3-leo-schedule"] == lengths["satcp"] == "60 s,"


@pytest.mark.parametrize("good", [True, False])
def test_leo_field(monkeypatch, tmp_path, good):
    def level(scheme, flow):
        if "+" in scheme:
            even = ("leo" in scheme) == good
            return 50e6 if even else (80e6, 20e6)[flow]
        slow = {"cubic": 40e6, "cubic-leo": 60e6 if good else 20e6, "bbr3-leo": 90e6 if good else 60e6}
        return slow.get(scheme, 70e6)

    def wait_ms(scheme):
        return (10.0 if good else 90.0) if "leo" in scheme and scheme != "leocc" else 50.0

    no_paths(monkeypatch, f"{S}.field.make_profile", f"{S}.field.preset_profile")
    canned_sweeps(monkeypatch, [f"{S}.field.run_sweep"], scored(level, wait_ms))
    result = verdicts("leo-field", tmp_path, saved=good)
    (all_hold if good else none_hold)(result)
    assert len(result.verdicts) == 6 + 2 * 2 * 4


@pytest.mark.parametrize("good", [True, False])
def test_cc_ceiling(monkeypatch, tmp_path, good):
    def level(scheme, flow):
        if scheme.startswith("oracle"):
            return 98e6 if good else 80e6
        return {"bbr3": 60e6, "bbr3-leo": 90e6 if good else 62e6, "hybla": 40e6 if good else 120e6}.get(scheme, 58e6)

    def wait_ms(scheme):
        return 0.0 if scheme == "oracle" else 10.0 if (scheme in ("bbr3-leo", "cubic-leo")) == good else 50.0

    no_paths(monkeypatch, f"{S}.field.make_profile")
    monkeypatch.setattr(f"{S}.ceiling.bound_bps", lambda *_: 102e6)
    canned_sweeps(monkeypatch, [f"{S}.field.run_sweep"], scored(level, wait_ms))
    result = verdicts("cc-ceiling", tmp_path, saved=good)
    (all_hold if good else none_hold)(result)
    assert len(result.verdicts) == 4
    ours = {row.quantity: row.ours for row in result.rows}
    assert ours["95th percentile of seconds' mean queueing delay: bbr3-leo"] == pytest.approx(
        10.0 if good else 50.0, rel=0.02
    )
    assert ours["clock: learned clock, Profiles whose Run differs"] == 12
    # Every piece alone, beside the others, and all of a set.
    alone = [quantity for quantity in ours if "alone, added share" in quantity]
    assert len(alone) == len([quantity for quantity in ours if "beside the others, added share" in quantity]) == 8
    stored = result.by_profile["goodput, share of the oracle's, Runs of 60 s"]["bbr3-leo"]
    assert len(stored) == 24
    assert (
        len(result.by_profile["95th percentile of seconds' mean queueing delay [ms], Runs of 240 s"]["bbr3-leo"]) == 12
    )

"""cc-ceiling: the bound by hand and on random Profiles, the oracle, and what the study concludes from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bentpipe._native import Profile
from bentpipe.execution.waits import wait_p95_ms
from bentpipe.experiments.schemes import deployable_controllers, known_controllers, parse_scheme
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.path import PathView, held
from bentpipe.profiles.presets import preset_profile
from bentpipe.studies import ceiling, field
from bentpipe.studies.bound import bound_bps
from bentpipe.studies.ceiling_knowledge import Pieces, clock_rows, piece_rows
from bentpipe.studies.ceiling_scores import Ceilings
from bentpipe.studies.files import Ceiling, HintError, LeoField
from bentpipe.studies.study import Request

S = 1448 / 1500
DUMBBELL = "dumbbell:rate=20mbit,rtt=40ms,queue=100ms"


def steps(*points: tuple[float, float]) -> Points:
    return Points.of([at for at, _ in points], [value for _, value in points])


def profile(capacity: Points, loss: Points | None = None, delay_s: float = 0.02, duration_s: float = 10.0) -> Profile:
    side = Side(Points.constant(delay_s), capacity, loss, {"packets": 100})
    return single_hop_profile(
        name="test",
        hop="hop",
        start_unix_ns=0,
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance("measured", "test"),
        up=Side(Points.constant(delay_s)),
        down=side,
    )


def test_the_bound_by_hand() -> None:
    # Packets that arrive from 1 s to 3 s leave from 0.98 s to 2.98 s: 1.02 s at 12 Mbit/s and 0.98 s at 6 Mbit/s, of
    # which a quarter of 0.4 s is lost.
    path = profile(steps((0, 12e6), (2, 6e6)), steps((0, 0), (2.5, 0.25), (2.9, 0)))
    mbit = 1.02 * 12 + (0.98 - 0.4 * 0.25) * 6
    assert bound_bps(path, "down", 1.0, 3.0) == pytest.approx(mbit / 2 * S * 1e6, rel=1e-3)


def test_on_a_static_path_the_bound_is_the_capacity_and_the_oracle_reaches_it_without_a_queue(tmp_path: Path) -> None:
    path = field.preset_path(DUMBBELL, 10)
    scores = field.race_field(Request(tmp_path), [path], ["oracle", "oracle:queue_ms=10"], (10.0, 4.0))
    bound = bound_bps(path.profile, "down", 4.0, 10.0)
    assert bound == pytest.approx(20e6 * S)
    for scheme, queue_ms in (("oracle", 0.0), ("oracle:queue_ms=10", 10.0)):
        (score,) = scores[path.name, scheme]
        assert 0.99 * bound < score.goodput_bps[0] <= 1.001 * bound
        # The delay of a hop contains a packet's own transmission, 0.6 ms; a lone packet's does not.
        assert score.queue_ms == pytest.approx(queue_ms + 0.6, abs=0.1)


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_controller_exceeds_the_bound(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    times = np.cumsum([0, *data.draw(st.lists(st.floats(0.05, 1.5), min_size=3, max_size=8))])
    mbit = data.draw(st.lists(st.integers(0, 20), min_size=len(times), max_size=len(times)))
    lost = data.draw(st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.5]), min_size=len(times), max_size=len(times)))
    path = field.Path(
        "random",
        profile(
            Points.of(times, [m * 1e6 + 1e5 for m in mbit]), Points.of(times, lost), data.draw(st.floats(0.001, 0.1))
        ),
    )
    schemes = [*known_controllers(), "oracle:queue_ms=20"]
    scores = field.race_field(Request(tmp_path_factory.mktemp("runs")), [path], schemes, (8.0, 0.0))
    bound = bound_bps(path.profile, "down", 0.0, 8.0)
    # Losses are drawn: five standard deviations of their number, and a packet.
    packets = bound * 8 / (8 * 1448) + 1
    most = bound + (5 * np.sqrt(packets) + 1) * 1448 * 8 / 8
    for scheme in schemes:
        assert scores["random", scheme][0].goodput_bps[0] <= most, scheme


def ceilings(shares: dict[str, list[float]], queues: dict[str, list[float]]) -> Ceilings:
    n = len(shares["bbr3"])
    shares, queues = {"oracle": [1.0] * n, **shares}, {"oracle": [0.0] * n, **queues}
    longest = {scheme: [3 * queue for queue in of] for scheme, of in queues.items()}
    return Ceilings([f"p{number}" for number in range(n)], shares, queues, longest)


def of_bound(of: Ceilings) -> dict[str, list[float]]:
    return {scheme: [0.99 * share for share in shares] for scheme, shares in of.shares.items()}


def test_verdicts_follow_the_figures() -> None:
    published = Ceiling.load().published

    def holds(ours: list[float], queue_ms: float) -> list[bool | None]:
        shares = {"bbr3": [0.80, 0.82, 0.78] * 3, "bbr3-leo": ours, "cubic-leo": [0.5] * 9}
        queues = {"bbr3": [40.0] * 9, "bbr3-leo": [queue_ms] * 9, "cubic-leo": [20.0] * 9}
        of = ceilings(shares, queues)
        best, rows, verdicts = ceiling._judge(of, of_bound(of), ["bbr3-leo", "cubic-leo"], published, "b")
        assert best == "bbr3-leo"
        assert [row.relation for row in rows] == [">", "<", ">"]
        return [verdict.holds for verdict in verdicts]

    assert holds([0.95, 0.94, 0.96] * 3, 20.0) == [True, True, True, True]
    assert holds([0.85, 0.84, 0.86] * 3, 20.0) == [False, True, True, True]
    assert holds([0.80, 0.99, 0.94] * 3, 20.0)[0] is None


def test_of_ours_only_those_with_no_longer_queue_than_bbr3_are_judged() -> None:
    shares = {"bbr3": [0.8] * 9, "bbr3-leo": [0.9] * 9, "cubic-leo": [0.99] * 9}
    queues = {"bbr3": [40.0] * 9, "bbr3-leo": [20.0] * 9, "cubic-leo": [60.0] * 9}
    of = ceilings(shares, queues)
    judged = ceiling._judge(of, of_bound(of), ["bbr3-leo", "cubic-leo"], Ceiling.load().published, "b")
    assert judged[0] == "bbr3-leo"
    assert of.goodput_taken("bbr3-leo") == pytest.approx((0.5, 0.5, 0.5))
    assert of.queue_taken("bbr3-leo") == pytest.approx((0.5, 0.5, 0.5))
    assert of.gain("cubic-leo", "bbr3-leo")[0] == pytest.approx(0.09)


def test_more_than_the_bound_is_reported() -> None:
    of = ceilings({"bbr3": [0.8] * 9, "bbr3-leo": [1.05] * 9}, {"bbr3": [40.0] * 9, "bbr3-leo": [20.0] * 9})
    verdict = ceiling._judge(of, of_bound(of), ["bbr3-leo"], Ceiling.load().published, "b")[2][-1]
    assert verdict.holds is False
    assert "bbr3-leo" in verdict.why


def test_a_piece_is_given_alone_and_left_out_of_all() -> None:
    pieces = Pieces.of("both", {"schedule": "hints=schedule", "losses": "known_losses=1"})
    levels = {"none": 0.90, pieces.alone["schedule"]: 0.91, pieces.alone["losses"]: 0.93, pieces.whole: 0.95}
    of = ceilings(
        {scheme: [level] * 9 for scheme, level in levels.items()} | {"bbr3": [0.8] * 9},
        {scheme: [100 * level] * 9 for scheme, level in levels.items()} | {"bbr3": [40.0] * 9},
    )
    rows = piece_rows(of, [pieces], "none", "b")
    shares = {row.quantity.split(", added")[0]: row.ours for row in rows if "share" in row.quantity}
    assert shares == pytest.approx(
        {
            "knowledge both: all": 0.05,
            "knowledge both: schedule alone": 0.01,
            "knowledge both: schedule beside the others": 0.02,
            "knowledge both: losses alone": 0.03,
            "knowledge both: losses beside the others": 0.04,
        }
    )
    assert rows[1].quantity == "knowledge both: all, added mean queueing delay"
    assert rows[1].ours == pytest.approx(5.0)


def test_a_clock_that_changes_no_run_is_reported_as_such() -> None:
    of = ceilings(
        {"bbr3": [0.8] * 9, "with": [0.9] * 7 + [0.95] * 2, "without": [0.9] * 9}, dict.fromkeys(("bbr3",), [40.0] * 9)
    )
    of = Ceilings(of.profiles, of.shares, {scheme: [20.0] * 9 for scheme in of.shares}, of.queues_p95_ms)
    rows = clock_rows(of, {"none": "without", "learned": "with", "nothing": "without"}, "b")
    differ = {row.quantity: row.ours for row in rows if "differs" in row.quantity}
    assert differ == {
        "clock: learned, Profiles whose Run differs": 2,
        "clock: nothing, Profiles whose Run differs": 0,
    }


def test_values_are_kept_by_profile() -> None:
    of = ceilings({"bbr3": [0.80004, 0.9]}, {"bbr3": [40.0, float("nan")]})
    values = of.by_profile()
    assert values["goodput, share of the oracle's"]["bbr3"] == {"p0": 0.8, "p1": 0.9}
    assert values["mean queueing delay [ms]"]["bbr3"] == {"p0": 40.0, "p1": None}
    assert values["95th percentile of seconds' mean queueing delay [ms]"]["bbr3"] == {"p0": 120.0, "p1": None}


def test_the_95th_percentile_of_the_queueing_delay_by_hand() -> None:
    # A lone packet has 20 ms. Packets wait 5 ms in nine seconds and 60 ms in one.
    measured = {"t_s": list(range(1, 11)), "n": [100] * 10, "sum_ms": [2500.0] * 9 + [8000.0]}
    lone = np.full(2000, 20.0)
    assert wait_p95_ms(measured, lone, 0.0) == pytest.approx(60.0)
    # The long second has less than a twentieth of the packets.
    few = {**measured, "n": [100] * 9 + [10], "sum_ms": [2500.0] * 9 + [800.0]}
    assert wait_p95_ms(few, lone, 0.0) == pytest.approx(5.0)
    assert wait_p95_ms(few, lone, 9.0) == pytest.approx(60.0)
    assert wait_p95_ms(few, lone, 10.0) is None


def test_knowledge_that_a_static_path_does_not_have_changes_nothing(tmp_path: Path) -> None:
    path = field.preset_path(DUMBBELL, 6)
    pieces = Pieces.of("both", {"trigger": "known_triggers=1", "losses": "known_losses=1"})
    schemes = ["bbr3-leo:hints=none", *pieces.schemes()]
    scores = field.race_field(Request(tmp_path), [path], schemes, (6.0, 2.0))
    assert len({scores[path.name, scheme][0] for scheme in schemes}) == 1


def test_the_weights_of_a_forecast_follow_from_its_error_and_from_that_of_the_measurement() -> None:
    measured, held_over = [], []
    for path in field.make_paths(LeoField.load().design[:4], 60.0):  # all eleven: 0.141 and 0.126
        capacity = PathView(path.profile).capacity("down")
        bps = np.nan_to_num(held(capacity.t_s, capacity.value, np.arange(0.0, 60.0, 1e-3)))
        rtt_ms = 2 * int(np.nanmedian(path.profile.delay_ms("down", np.arange(0.0, 60.0, 0.05))))
        rounds = bps[: len(bps) // rtt_ms * rtt_ms].reshape(-1, rtt_ms).mean(axis=1)
        last, following = np.maximum(rounds[:-2], rounds[1:-1]), rounds[2:]
        known = (last > 0) & (following > 0)
        measured.append(np.log(following[known] / last[known]).std())
        seconds = bps.reshape(60, 1000).mean(axis=1)
        held_over.append(np.abs(np.diff(seconds)).mean() / seconds.mean())
    assert np.mean(measured) == pytest.approx(0.14, abs=0.01)
    assert np.mean(held_over) == pytest.approx(0.126, abs=0.01)
    # Inverse squares; an error of 13 % is a standard deviation of 0.16 in the logarithm.
    weighted = [scheme for name, scheme in Ceiling.load().knowledge.items() if "by their errors" in name]
    for scheme in weighted:
        given = dict(each.split("=") for each in scheme.partition(":")[2].split(","))
        sigma, weight = float(given.get("forecast_error", 0.4)), float(given.get("known_weight", 0.12))
        assert weight == pytest.approx(0.14**2 / (0.14**2 + sigma**2), abs=0.02)
    assert len(weighted) == 2


def test_the_file_names_known_schemes_and_paths_of_its_own() -> None:
    file = Ceiling.load()
    assert all(parse_scheme(scheme) == scheme for scheme in [*file.knowledge.values(), *file.clock.cases.values()])
    assert len({scheme for name, each in file.pieces.items() for scheme in Pieces.of(name, each).schemes()}) == 14
    assert set(file.ours) <= set(deployable_controllers())
    assert len(file.paths) == 24
    others = [*LeoField.load().paths, *LeoField.load().design, *HintError.load().paths]

    def places(paths: Sequence[str]) -> set[tuple[str, ...]]:
        return {tuple(path.split()[:2]) for path in paths}

    assert not places(file.paths) & places(others)
    assert not {path.split()[3] for path in file.paths} & {path.split()[3] for path in others}
    assert not {path.split()[2][:10] for path in file.paths} & {path.split()[2][:10] for path in others}


def test_controllers_that_know_the_path_stay_out_of_other_studies() -> None:
    assert set(known_controllers()) - set(deployable_controllers()) == {"informed", "oracle"}


def test_the_bound_without_a_path_is_zero() -> None:
    path = preset_profile("fibre", 5.0)
    assert bound_bps(path, "down", 1.0, 2.0) > 0
    assert bound_bps(profile(steps((0, 0.0))), "down", 1.0, 2.0) == 0.0

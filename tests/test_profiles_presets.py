"""Static paths, time-weighted statistics, and time parsing."""

import json

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.profiles.path import Steps
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.show import summarise
from bentpipe.scenarios.presets import load_presets
from bentpipe.times import format_utc, parse_utc


@pytest.mark.parametrize("name", list(load_presets()))
def test_every_preset_makes_a_profile(name: str) -> None:
    profile = preset_profile(name, 10.0)
    assert profile.duration_s == 10.0
    assert profile.seed is None
    assert summarise(profile)["provenance"]["kind"] == "preset"


def test_a_dumbbell_has_its_parameters() -> None:
    profile = preset_profile("dumbbell:rate=80mbit,rtt=50ms,queue=2bdp", 60.0)
    summary = summarise(profile)
    assert summary["rtt_ms"]["median"] == 50.0
    assert summary["down"]["capacity_bps"] == dict.fromkeys(("min", "p5", "median", "p95", "p99", "max"), 80e6)
    assert summary["up"]["queues"] == {"bottleneck": {"bytes": 1_000_000}}
    assert summary["no_path_s"] == 0
    assert json.loads(profile.metadata_json())["provenance"]["recipe"]["preset"].startswith(
        "dumbbell:rate=80mbit,rtt=50ms,queue=2bdp"
    )
    assert preset_profile(summary["name"], 60.0).content_hash() == profile.content_hash()


def test_a_preset_with_loss_loses() -> None:
    summary = summarise(preset_profile("dumbbell:loss=0.01", 1.0))
    assert (summary["up"]["loss_mean"], summary["down"]["loss_mean"]) == pytest.approx((0.01, 0.01))
    assert summarise(preset_profile("dumbbell", 1.0))["up"]["loss_mean"] == 0.0


def test_an_odd_nanosecond_is_not_lost() -> None:
    profile = preset_profile("dumbbell:rtt=41ns", 1.0)
    assert summarise(profile)["rtt_ms"]["median"] == pytest.approx(41e-6)


@pytest.mark.parametrize("duration_s", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_an_invalid_duration_is_refused(duration_s: float) -> None:
    with pytest.raises(UserError, match="duration"):
        preset_profile("dumbbell", duration_s)


def test_means_and_quantiles_weigh_by_time() -> None:
    steps = Steps(np.array([0.0, 1.0, 3.0]), np.array([5.0, 1.0, 3.0]), 10.0)
    assert steps.mean() == pytest.approx((5 + 2 + 21) / 10)
    assert steps.quantiles([0.0, 0.2, 0.5, 0.9, 1.0]).tolist() == [1.0, 1.0, 3.0, 3.0, 5.0]
    assert steps.means(np.array([0.0, 2.0, 10.0])).tolist() == [3.0, 2.75]


@pytest.mark.parametrize(
    ("text", "unix_ns"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01 00:01", 60 * 10**9),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1970-01-01T00:00:00.000000001z", 1),
        ("1969-12-31T23:59:59.5", -5 * 10**8),
        ("2026-05-10T09:00:00Z", 1778403600 * 10**9),
    ],
)
def test_times_without_a_zone_are_utc(text: str, unix_ns: int) -> None:
    assert parse_utc(text) == unix_ns
    assert parse_utc(format_utc(unix_ns)) == unix_ns


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026",
        "2026-13-01",
        "2026-05-10T25:00",
        "2026-05-10T09:00:00.1234567890",
        "10 May 2026",
        "0001-01-01T00:00:00+23:00",
    ],
)
def test_invalid_times_are_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"--start: .*ISO-8601"):
        parse_utc(text, "--start")


def test_a_service_is_a_satellite_path_at_its_start() -> None:
    made = preset_profile("leo-tokyo", 20.0, seed=3)
    assert (made.name, made.duration_s, made.seed) == ("leo-tokyo", 20.0, 3)
    assert format_utc(made.start_unix_ns) == "2025-08-04T02:04:00Z"
    # The way to Tokyo alone is 103 ms there and back (Azure); the satellite leg of Sydney's PoP comes on top.
    assert 115 < summarise(made)["rtt_ms"]["median"] < 190


@pytest.mark.parametrize(
    ("preset", "message"),
    [("leo-tokio", "did you mean 'leo-tokyo'"), ("leo-2022:rtt=1ms", "no parameters")],
)
def test_unknown_services_are_refused(preset: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        preset_profile(preset, 20.0)

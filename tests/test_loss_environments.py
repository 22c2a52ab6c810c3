"""Loss environments: their file, and the loss of the Profiles that are made with them."""

import json
import tomllib
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenario_helpers import assert_one_line, result_or_message
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.profiles.access import default_parameters, loss_name, loss_process, with_loss
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.origin import slot_starts_s
from bentpipe.profiles.path import PathView
from bentpipe.scenarios.losses import DEFAULT_LOSS, LossFile, LossLevel, load_losses, parse_losses
from bentpipe.scenarios.tables import packaged_text
from bentpipe.times import DEFAULT_START_UTC, parse_utc

NAMES = list(load_losses())
START_NS = parse_utc(DEFAULT_START_UTC)
HOUR_NS = 3600 * 10**9

#: Profiles for a level: each of these hours, with as many seeds: more if the loss follows the load.
HOURS, SEEDS, SEEDS_BY_LOAD, LASTS_S = range(0, 24, 3), 3, 12, 300.0
#: Largest error of a level: relative, and in shares of all.
RELATIVE, ABSOLUTE = 0.15, 0.0005

#: Figure 5 of SatGuard: 103 s of lost packets by second, slot edges in seconds 8, 23, …
TRACE_S, FIRST_EDGE_S = 103, 8
PUBLISHED = {
    "mean [%]": 0.90,
    "seconds with a loss": 26,
    "seconds from 3 % up": 12,
    "largest second [%]": 15.5,
    "least at a handover [%]": 1.6,
    "median at a handover [%]": 6.1,
    "most at a handover [%]": 9.2,
    "share at handovers [%]": 43,
    "least distance of groups [s]": 4,
    "largest distance of groups [s]": 11,
}


@cache
def made(name, hour=9, lasts_s=LASTS_S):
    return make_profile(
        "louvain", "london", start_unix_ns=START_NS + (hour - 9) * HOUR_NS, duration_s=lasts_s, loss=name
    )


def by_second(path, direction):
    """Share of packets lost in each second of a Profile, and its number of episodes."""
    loss = PathView(path).loss(direction)
    lossy = loss.value > 0
    return loss.means(np.arange(int(loss.end_s) + 1.0)), int(np.sum(lossy[1:] & ~lossy[:-1]))


def level(paths):
    """Return the level of loss of Profiles that begin on a full second."""
    rows = []
    for path in paths:
        edges = [round(t_s) for t_s in slot_starts_s(json.loads(path.metadata_json())) if t_s > 0]
        sides = [by_second(path, direction) for direction in ("up", "down")]
        rows.append(
            (
                np.mean([lost.mean() for lost, _ in sides]),
                1 - np.prod([1 - lost.mean() for lost, _ in sides]),
                np.mean([count for _, count in sides]) / path.duration_s,
                np.mean([(lost > 1e-6).mean() for lost, _ in sides]),
                np.mean([(lost[np.array(edges)] + lost[np.array(edges) - 1]) / 2 for lost, _ in sides]),
            )
        )
    return dict(zip(LossLevel.model_fields, np.mean(rows, axis=0), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_profiles_have_the_level_that_the_file_states(name):
    expected = load_losses()[name].level.to_dict()
    seeds = SEEDS_BY_LOAD if load_losses()[name].parameters.load_power else SEEDS
    measured = level([made(name, hour).reseed(seed) for hour in HOURS for seed in range(seeds)])
    print(name, {key: float(f"{value:.2g}") for key, value in measured.items()})
    assert measured == {key: pytest.approx(value, rel=RELATIVE, abs=ABSOLUTE) for key, value in expected.items()}


def test_the_page_has_the_levels_of_the_file():
    page = (Path(__file__).parents[1] / "docs" / "reference" / "loss.md").read_text(encoding="utf-8")
    rows = {line.split("`")[1]: line for line in page.partition("## ")[0].splitlines() if line.startswith("| `")}
    assert list(rows) == NAMES
    for name, row in rows.items():
        its = load_losses()[name].level
        shares = [f"{100 * share:.3g} %" for share in (its.lost, its.pings_lost, its.lossy_seconds, its.lost_at_edges)]
        cells = [cell.strip() for cell in row.split("|")]
        assert [cells[2], cells[3], cells[5], cells[6]] == shares, name
        assert cells[4] in (f"{its.episodes_per_s:.3g}", "")


def trace_figures(lost):
    """Return the figures of `PUBLISHED` of losses by second, in percent."""
    lossy = lost > 0.005
    handovers = [lost[edge - 1 : edge + 2].sum() for edge in range(FIRST_EDGE_S, len(lost) - 1, 15)]
    begins = np.flatnonzero(lossy & ~np.append(False, lossy[:-1]))
    apart = np.diff(begins)
    values = (lost.mean(), lossy.sum(), (lost >= 3).sum(), lost.max(), min(handovers), np.median(handovers))
    return [*values, max(handovers), 100 * sum(handovers) / lost.sum(), apart.min(), apart.max()]


def test_satguards_figure_is_a_usual_stretch_of_its_environment():
    """Each published figure is between the 5 % and 95 % quantiles of 103 s of Profiles."""
    base = made("satguard", lasts_s=120.0)
    edge = round(next(t_s for t_s in slot_starts_s(json.loads(base.metadata_json())) if t_s > FIRST_EDGE_S))
    begin = edge - FIRST_EDGE_S
    paths = [base.reseed(seed) for seed in range(150)]
    drawn = [
        trace_figures(100 * by_second(path, direction)[0][begin : begin + TRACE_S])
        for path in paths
        for direction in ("up", "down")
    ]
    for (figure, published), values in zip(PUBLISHED.items(), np.transpose(drawn), strict=True):
        below, above = np.mean(values < published), np.mean(values > published)
        print(f"{figure}: {published} published, {np.median(values):.3g} here, {below:.0%} below")
        assert below < 0.95, figure
        assert above < 0.95, figure


def test_every_handover_has_a_burst_in_satguard():
    path = made("satguard")
    edges = [round(t_s) for t_s in slot_starts_s(json.loads(path.metadata_json())) if t_s > 0]
    assert len(edges) > 15
    for direction in ("up", "down"):
        lost, _ = by_second(path, direction)
        assert all(lost[edge - 1] > 0 and lost[edge] > 0 for edge in edges)


def test_the_default_environment_is_the_access_models_default():
    assert loss_process(DEFAULT_LOSS) == default_parameters()["loss"]
    assert made(None, lasts_s=15.0).content_hash() == made(DEFAULT_LOSS, lasts_s=15.0).content_hash()


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_names_its_environment_and_is_the_same_each_time(name):
    path = made(name, lasts_s=15.0)
    again = make_profile("louvain", "london", start_unix_ns=START_NS, duration_s=15.0, loss=name)
    assert path.content_hash() == again.content_hash()
    recipe = json.loads(path.metadata_json())["provenance"]["recipe"]
    assert recipe["params"]["loss"] == loss_process(name)
    assert loss_name(recipe["params"]["loss"]) == name


def test_no_two_environments_have_the_same_parameters():
    assert len({json.dumps(loss_process(name)) for name in NAMES}) == len(NAMES)


def test_parameters_go_before_those_of_the_environment():
    changed = with_loss({"loss": {"load_power": 0.5}}, "idle")
    assert changed["loss"] == loss_process("idle") | {"load_power": 0.5}
    assert loss_name(changed["loss"]) == "own"
    with pytest.raises(UserError, match=r"^parameters: loss: 5; expected a table of loss parameters$"):
        with_loss({"loss": 5}, "idle")


@pytest.mark.parametrize(("name", "says"), [("loaded", "unknown loss environment 'loaded'"), ("hustn", "'huston'")])
def test_an_unknown_environment_is_refused_with_the_nearest_name(name, says):
    with pytest.raises(UserError, match=says) as error:
        make_profile("louvain", "london", duration_s=15.0, loss=name)
    assert_one_line(error)


def test_the_command_line_names_the_flag():
    done = CliRunner().invoke(
        app, ["profile", "make", "--site", "louvain", "--to", "london", "--loss", "idel", "-o", "x.parquet"]
    )
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("error: --loss: unknown loss environment 'idel'; did you mean 'idle'")


ENTRY = packaged_text("loss.toml").partition("[loss.idle]")[2].partition("\n# ")[0]
ONE = f"[loss.idle]{ENTRY}"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[loss.idle", "[loss.own", r"loss: own is the name of parameters without an environment"),
        ("[loss.idle", "[loss.Idle", r"^f: loss: name 'Idle'; expected lower-case letters"),
        ("[loss.idle", '[loss."../x"', r"^f: loss: name '\.\./x'; expected lower-case letters"),
        ("episodes_per_s = 0.011", "episodes_per_s = 5000", r"loss\.idle\.parameters\.up: episodes_per_s is 5000"),
        ("episodes_per_s = 0.011", "episodes_per_s = nan", r"^f: loss\.idle\.parameters\.up: episodes_per_s"),
        ("episodes_per_s = 0.011", "episodes_per_s = -1", r"expected a number from 0 to 50"),
        ("episodes_per_s = 0.011", "episodes_per_s = true", r"episodes_per_s is True"),
        ("up = {", "upp = {", r"unknown key 'upp'; did you mean 'up'|key 'up' is missing"),
        ("probability_inside = 0.8", "probability_inside = 1.1", r"probability_inside is 1\.1; expected"),
        ("length_median_ms = 20.0", "length_median_ms = 0", r"length_median_ms is 0"),
        ("load_power = 1.0", "load_power = 1e400", r"load_power"),
        ("load_power = 1.0", "load_power = 1.0\nleast_gap_s = 8", r"expected a number from 0 to 7\.5"),
        ("A path that", r"A path\u001b[2J that", r"^f: loss\.idle: description"),
        ("fitted_to =", "fited_to =", r"fitted_to|fited_to"),
        ("[loss.idle", "[lost.idle", r"^f: "),
    ],
)  # fmt: skip
def test_an_invalid_environment_is_refused_in_one_line(old, new, says):
    assert old in ONE
    parse_losses(ONE, "f")
    with pytest.raises(UserError, match=says) as error:
        parse_losses(ONE.replace(old, new), "f")
    assert_one_line(error)


VALUES = st.one_of(
    st.floats(),
    st.integers(-(10**20), 10**20),
    st.booleans(),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=2),
)


@settings(max_examples=200, deadline=None)
@given(key=st.sampled_from(["load_power", "length_median_ms", "probability_inside", "least_gap_s", "up"]), value=VALUES)
def test_any_value_is_read_or_refused_in_one_line_and_what_is_read_makes_a_profile(key, value):
    data = tomllib.loads(ONE)
    data["loss"]["idle"]["parameters"][key] = value

    def make(data):
        process = LossFile.check(data, "f").loss["idle"].parameters.model_dump(exclude_defaults=True)
        return make_profile("louvain", "london", duration_s=1.0, parameters={"loss": process})

    assert len(str(result_or_message(make, data)).splitlines()) == 1

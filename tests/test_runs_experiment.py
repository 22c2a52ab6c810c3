"""Schemes from the command line, and Experiments from TOML."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.execution.racing import race
from bentpipe.experiments.apps import app_name
from bentpipe.experiments.experiment import Experiment, Flow, ProfileRef, for_scheme
from bentpipe.experiments.file import parse_experiment, read_experiment
from bentpipe.experiments.traffic import cross_traffic
from bentpipe.profiles.presets import preset_profile

GOOD = """
name = "two hosts"
seed = 7
duration_s = 12.5
warmup_s = 2
sample_step_s = 0.05
offset_s = 3

[[profiles]]
role = "access"
file = "a.parquet"

[hosts.old]
rmem_max_bytes = 6291456
fq = true

[[flows]]
profile = "access"
direction = "up"
controller = "bbr"
start_s = 0.25
stop_s = 9
app = "transfers:1mb,n=1"
receiver = "old"

[[flows]]
controller = "cubic"
app = "paced:480kbit"

[flows.options]
hystart = "pp"
fast_convergence = 0
"""


def test_a_scheme_is_flows_that_share_the_path():
    path = ProfileRef(role="path", name="p", hash="00")
    made = for_scheme("cubic+bbr", "up", [path], duration_ns=20_000_000_000, seed=3).to_dict()
    assert [(flow["controller"], flow["direction"], flow["profile"]) for flow in made["flows"]] == [
        ("cubic", "up", "path"),
        ("bbr", "up", "path"),
    ]
    assert made["warmup_ns"] == 5_000_000_000  # a quarter of a short race
    alone = Experiment(
        name="by hand",
        duration_ns=20_000_000_000,
        profiles=(path,),
        flows=(Flow(controller="cubic"),),
    )
    assert alone.warmup_ns == 5_000_000_000
    assert alone.replace(warmup_ns=0).to_dict()["warmup_ns"] == 0
    assert made["seed"] == 3


def test_an_experiment_file_is_read_whole(tmp_path):
    file = tmp_path / "e.toml"
    file.write_text(GOOD, encoding="utf-8")
    read = read_experiment(file)
    assert read.files == {"access": tmp_path / "a.parquet"}
    made = json.loads(read.experiment.to_json())
    assert (made["duration_ns"], made["warmup_ns"], made["sample_step_ns"]) == (
        12_500_000_000,
        2_000_000_000,
        50_000_000,
    )
    assert (made["offset_ns"], made["seed"]) == (3_000_000_000, 7)
    assert made["hosts"] == {"old": {"rmem_max_bytes": 6291456, "fq": True}}
    first, second = made["flows"]
    assert (first["start_ns"], first["stop_ns"], first["app"]) == (
        250_000_000,
        9_000_000_000,
        {"transfers": {"sizes_bytes": [1_000_000], "count": 1, "every_ns": None, "poisson": False}},
    )
    assert (first["direction"], first["receiver"], first["sender"]) == ("up", "old", None)
    assert second["app"] == {"paced": {"write_bytes": 1200, "every_ns": 20_000_000}}
    assert (second["profile"], second["direction"], second["options"]) == (
        "access",
        "down",
        {"hystart": "pp", "fast_convergence": 0.0},
    )


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("duration_s = 12.5", "", "duration_s"),
        ("duration_s = 12.5", "duration_s = 0", "duration_s"),
        ("duration_s = 12.5", "duration_s = nan", "duration_s"),
        ("duration_s = 12.5", "duration = 12.5\nduration_s = 3", "did you mean 'duration_s'"),
        ('controller = "bbr"', 'controller = "bbbr"', "did you mean 'bbr'"),
        ('direction = "up"', 'direction = "sideways"', "direction"),
        ('receiver = "old"', 'receiver = "nobody"', "receiver"),
        ("fq = true", "fq = 1", "fq"),
        ("transfers:1mb,n=1", "transfers:1mb,n=0", "flows[0].app: n is '0'"),
        ("paced:480kbit", "paced:480", "flows[1].app"),
        ("fast_convergence = 0", 'fast_convergence = "much"', "fast_convergence"),
        ("[[profiles]]", "[[profiles]]\nrole = 'access'\nfile = 'b.parquet'\n[[profiles]]", "is given twice"),
        ("seed = 7", "seed = -1", "seed"),
        ("seed = 7", "seed = [", "not valid TOML"),
    ],
)
def test_an_error_in_a_file_is_named(tmp_path, old, new, expected):
    assert old in GOOD
    with pytest.raises(UserError) as caught:
        parse_experiment(GOOD.replace(old, new, 1), "e.toml", tmp_path)
    message = str(caught.value)
    assert message.startswith("e.toml")
    assert expected in message
    assert len(message.splitlines()) == 1


@given(st.integers(0, len(GOOD)), st.integers(0, 40), st.text(max_size=12))
def test_a_damaged_file_gives_one_line_or_an_experiment(start, cut, insert):
    text = GOOD[:start] + insert + GOOD[start + cut :]
    try:
        read = parse_experiment(text, "e.toml", Path())
    except UserError as error:
        lines = str(error).splitlines()
    else:
        lines = read.experiment.to_json().splitlines()
    assert len(lines) == 1


@given(st.binary(max_size=300))
def test_any_bytes_give_one_line(tmp_path_factory, data):
    file = tmp_path_factory.mktemp("any") / "e.toml"
    file.write_bytes(data)
    with pytest.raises(UserError):
        read_experiment(file)


def test_the_documented_experiment_is_valid(tmp_path):
    text = (Path(__file__).parents[1] / "docs" / "reference" / "experiment.md").read_text(encoding="utf-8")
    example = text.split("```toml\n")[1].split("```")[0]
    made = parse_experiment(example, "experiment.md", tmp_path).experiment
    assert [app_name(flow.app) for flow in made.flows] == ["bulk", "transfers", "paced", "request"]
    assert made.flows[2].app.paced.to_dict() == {"write_bytes": 1200, "every_ns": 20_000_000}


CROSS = """
[[cross]]
controller = "cubic"
offered_bps = 5000000
least_bytes = 20000
most_bytes = 2000000
tail_index = 1.2
"""


def test_cross_traffic_is_part_of_an_experiment_and_changes_no_other(tmp_path):
    alone = parse_experiment(GOOD, "e.toml", tmp_path).experiment
    among = parse_experiment(GOOD + CROSS, "e.toml", tmp_path).experiment
    assert "cross" not in alone.to_dict()
    (cross,) = among.to_dict()["cross"]
    assert (cross["profile"], cross["direction"], cross["offered_bps"]) == ("access", "down", 5_000_000)
    assert cross["sizes"] == {"least_bytes": 20_000, "most_bytes": 2_000_000, "tail_index": 1.2}
    with pytest.raises(UserError, match=r"cross\[0\]: tail_index is 0"):
        parse_experiment(GOOD + CROSS.replace("1.2", "0"), "e.toml", tmp_path)


def test_traffic_takes_its_share_of_a_path_and_its_race_is_another_one(tmp_path):
    path = preset_profile("dumbbell:rate=10mbit", 8.0, name="dumbbell")
    # What the access model's busiest hour lacks of its quietest: 46 %.
    assert cross_traffic(path, "peak", "up").offered_bps == pytest.approx(4_600_000, rel=0.01)
    alone, among = (
        race([path], ["cubic"], out=tmp_path, duration_s=8.0, traffic=traffic).runs[0] for traffic in (None, "peak")
    )
    assert (alone.experiment, among.experiment) == ("race-down", "race-down-peak")
    (cross,) = among.record.summary["cross"]
    assert cross["transfers"] > 5
    assert cross["goodput_bps"] > 0
    assert among.flows[0]["whole_run_bps"] < alone.flows[0]["whole_run_bps"]
    assert set(among.links()["flow"]) == {-2, -1, 0}
    assert set(among.samples()["flow"]) == {0}

"""The testbed's records: files of users, their traps, and what text keeps of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testbed_records import assignment, desired

from bentpipe.errors import UserError
from bentpipe.testbed.schemas.builtins import BUILTINS
from bentpipe.testbed.schemas.desired import Desired
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.identifiers import derived_id, new_id
from bentpipe.testbed.schemas.policy import HostPolicy
from bentpipe.testbed.schemas.quantities import budget_text, duration_text, parse_budget, size_text
from bentpipe.testbed.schemas.states import ENDED, FINAL, may_follow
from bentpipe.testbed.schemas.yaml_text import parse_yaml

EXPERIMENT = """
schema: bentpipe.experiment/1
name: bbr-when-slow
nodes: {tags: [starlink, spain], max: 5}
server: {near: node}
run: {builtin: iperf3, args: {seconds: 30}}
kernel: {congestion_control: bbr, qdisc: {kind: fq, optional: true}}
class: exclusive
when: {trigger: "latency_ms > 2 * mean(latency_ms, '5s')", window: 500ms, for: 1, cooldown: 5m}
limits: {bytes: 2GB/day, runs: 200, until: 2027-01-31, slip: 10m}
scavenger: {mode: reschedule}
"""


def test_an_experiment_reads_and_survives_json() -> None:
    experiment = TestbedExperiment.from_yaml(EXPERIMENT, "file")
    assert experiment.booking_class == "exclusive"
    assert experiment.when.window == 0.5
    assert experiment.limits.slip == 600
    assert experiment.limits.bytes is not None
    assert experiment.limits.bytes.size_bytes == 2 * 10**9
    assert experiment.is_repeated
    again = TestbedExperiment.check(json.loads(json.dumps(experiment.to_dict())), "again")
    assert again == experiment
    assert experiment.to_dict()["limits"]["bytes"] == "2GB/day"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("builtin: iperf3", "builtin: iperf", "did you mean 'iperf3'"),
        ("args: {seconds: 30}", "args: {seconds: -1}", "seconds is -1"),
        ("server: {near: node}", "", "key 'server' is missing"),
        ("class: exclusive", "class: polite", "exclusive"),
        ("class: exclusive", "class: background", "one of dish, irtt, ping"),
        ("until: 2027-01-31", "until: 2027-02-30", "not a time"),
        ("bytes: 2GB/day", "bytes: 2GB", "2GB/day"),
        ("mean(latency_ms, '5s')", "mean(latency_ms)", "mean(x, 10)"),
        ("cooldown: 5m}", "cooldown: 5m, cron: '0 3 * * *'}", "one of at, every, cron, trigger"),
        ("tags: [starlink, spain], max: 5", "tags: [starlink], names: [a]", "one of the two"),
        ("tags: [starlink, spain]", "tags: [Star Link]", "Star Link"),
        ("name: bbr-when-slow", "name: ../../etc", "../../etc"),
    ],
)
def test_a_mistake_is_one_line(old: str, new: str, message: str) -> None:
    assert old in EXPERIMENT
    with pytest.raises(UserError) as caught:
        TestbedExperiment.from_yaml(EXPERIMENT.replace(old, new), "e.yaml")
    text = str(caught.value)
    assert message in text
    assert text.startswith("e.yaml: ")
    assert "\n" not in text


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ("{cron: '0 3 * *'}", "five"),
        ("{cron: '61 3 * * *'}", "61"),
        ("{cron: '0 0 30 2 *'}", "0 0 30 2"),
        ("{cron: '0 3 * * *', timezone: Mars/Olympus}", "Europe/Madrid"),
        ("{every: 1s}", "at least 10 s"),
        ("later", "when"),
    ],
)
def test_a_schedule_that_never_comes_is_refused(when: str, message: str) -> None:
    text = f"schema: bentpipe.experiment/1\nname: a\nnodes: {{names: [a]}}\nrun: {{builtin: dish}}\nwhen: {when}"
    with pytest.raises(UserError, match=message):
        TestbedExperiment.from_yaml(text, "e.yaml")


def test_an_image_is_named_by_its_digest() -> None:
    text = "schema: bentpipe.experiment/1\nname: a\nnodes: {names: [a]}\nrun: {image: %s, duration: 10s}"
    with pytest.raises(UserError, match="image"):
        TestbedExperiment.from_yaml(text % "docker.io/library/busybox:latest", "e.yaml")
    assert (
        TestbedExperiment.from_yaml(text % f"docker.io/library/busybox@sha256:{'0' * 64}", "e.yaml").run.longest_s == 10
    )


def test_signed_images_are_one_line_in_a_file_and_nothing_in_an_old_report() -> None:
    for line in ("images: signed", "signers: [AAAA]"):
        with pytest.raises(UserError, match=r"p\.yml: signed images are no choice any more; expected"):
            HostPolicy.from_yaml(f"schema: bentpipe.policy/1\n{line}", "p.yml")
    old = {"schema": "bentpipe.policy/1", "images": "signed", "signers": ["AAAA"]}
    assert HostPolicy.check(old, "report").images == "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x", "line 1: an anchor"),
        ("a: !!python/object:os.system x", "a tag"),
        ("a: 1\na: 2", "line 2: key 'a' stands twice"),
        ("[" * 1000, "nested too deeply"),
        ("a: " + "x" * 300_000, "KiB"),
        ("a: [", "YAML"),
        ("a:\n\t- b", "YAML"),
        ("1: a", "key 1"),
        ("\x00", "YAML"),
    ],
)
def test_yaml_has_no_traps(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse_yaml(text, "f")
    assert "\n" not in str(caught.value)


@given(st.text(max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_text_is_data_or_one_line(text: str) -> None:
    problem = ""
    try:
        parse_yaml(text, "f")
        HostPolicy.from_yaml(text, "f")
    except UserError as error:
        problem = str(error)
    assert "\n" not in problem


@given(st.floats(0, 366 * 86400).map(lambda seconds: round(seconds, 3)))
def test_durations_survive_their_text(seconds: float) -> None:
    from pydantic import TypeAdapter

    from bentpipe.testbed.schemas.quantities import Duration

    assert TypeAdapter(Duration).validate_python(duration_text(seconds)) == pytest.approx(seconds, abs=1e-9)


@given(st.integers(1, 10**13))
def test_sizes_survive_their_text(size: int) -> None:
    budget = parse_budget(f"{size_text(size)}/day")
    assert budget.size_bytes == size
    assert parse_budget(budget_text(budget)) == budget


def test_every_builtin_states_time_and_bytes() -> None:
    needed = {"tcp-ping": {"target": "a:1"}, "traceroute": {"targets": ["a"]}, "web": {"url": "https://a/"}}
    for name, kind in BUILTINS.items():
        arguments = kind.check(needed.get(name, {}), name)
        assert 0 < arguments.longest_s() <= 86_400
        assert arguments.expected_bytes() >= 0


def test_a_run_reaches_one_final_state() -> None:
    for old in FINAL:
        assert not any(may_follow(old, new) for new in (*ENDED, "running"))
    assert may_follow("lost", "done")
    assert not may_follow("running", "missed")
    assert not may_follow("running", "preparing")


def test_ids_sort_by_time_and_hashes_do_not_collide() -> None:
    assert new_id(1000) < new_id(1001) < new_id(2**47)
    assert derived_id("a", "bc") != derived_id("ab", "c")


def test_a_wanted_state_survives_json() -> None:
    wanted = desired([assignment("a", 10)])
    assert Desired.check(json.loads(wanted.model_dump_json(by_alias=True)), "wanted") == wanted


def test_the_hours_of_a_host_may_pass_midnight() -> None:
    policy = HostPolicy.from_yaml("schema: bentpipe.policy/1\nhours: ['22:00-06:30', '12:00-13:00']", "f")
    allowed = [minute for minute in range(1440) if policy.allows_at(minute)]
    assert len(allowed) == 510 + 60
    assert policy.allows_at(0)
    assert not policy.allows_at(6 * 60 + 30)
    assert policy.allows_at(23 * 60, duration_s=7.5 * 3600)
    assert not policy.allows_at(23 * 60, duration_s=7.5 * 3600 + 60)
    all_day = policy.replace(hours=("00:00-12:00", "12:00-00:00"))
    assert all_day.allows_at(23 * 60, duration_s=86_400)
    with pytest.raises(UserError, match="HH:MM"):
        HostPolicy.from_yaml("schema: bentpipe.policy/1\nhours: ['24:00-06:30']", "f")


def test_a_ping_without_a_target_is_refused_but_on_an_emulated_path():
    text = "schema: bentpipe.experiment/1\nname: p\nnodes: {names: [attic]}\nrun: {builtin: ping}\n"
    with pytest.raises(UserError, match="key 'target' is missing; expected a host"):
        TestbedExperiment.from_yaml(text + "server: {name: pop}\n", "file")
    assert TestbedExperiment.from_yaml(text + "path: {profile: mel-lon}\n", "file").path.profile == "mel-lon"

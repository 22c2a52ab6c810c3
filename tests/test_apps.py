"""Applications: their syntax, races of them, and applications in Python."""

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import ControllerError, UserError
from bentpipe.execution.racing import race
from bentpipe.experiments.apps import app_name, parse_app
from bentpipe.profiles.presets import preset_profile

GUIDE = Path(__file__).parents[1] / "docs" / "guides" / "own-application.md"


@pytest.fixture(scope="module")
def path():
    return preset_profile("dumbbell:rate=20mbit,rtt=40ms,queue=1bdp", 20)


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.py"


@pytest.mark.parametrize(
    ("text", "record"),
    [
        ("bulk", "bulk"),
        (
            "transfers:1mb+20kb,n=3",
            {"transfers": {"sizes_bytes": [1_000_000, 20_000], "count": 3, "every_ns": None, "poisson": False}},
        ),
        (
            "transfers:1MB,poisson=2s",
            {"transfers": {"sizes_bytes": [1_000_000], "count": None, "every_ns": 2_000_000_000, "poisson": True}},
        ),
        ("paced:2mbit", {"paced": {"write_bytes": 5000, "every_ns": 20_000_000}}),
        (
            "request:200bytes/100kb,think=5ms,n=9",
            {"request": {"request_bytes": 200, "response_bytes": 100_000, "count": 9, "think_ns": 5_000_000}},
        ),
    ],
)
def test_an_application_is_parsed(text, record):
    app = parse_app(text)
    assert (app if isinstance(app, str) else app.to_dict()) == record


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("bulky", "did you mean 'bulk'"),
        ("bulk:3", "bulk alone"),
        ("transfers", "no size or rate"),
        ("transfers:12bytes", "at least 24 bytes"),
        ("transfers:1mb,every=1s,poisson=1s", "one of them"),
        ("transfers:1mb,n=0", "whole number from 1"),
        ("paced:1kbit", "try a longer every"),
        ("request:200bytes", "two sizes"),
        ("request:200bytes/1kb,thnk=1ms", "takes no 'thnk'"),
        ("request:200bytes/1kb,n", "name=value"),
        ("./none.py:Mine", "none.py"),
    ],
)
def test_an_invalid_application_is_refused_with_the_expected_values(text, named):
    with pytest.raises(UserError, match=re.escape(named)):
        parse_app(text)


@given(st.text(max_size=40))
def test_any_text_is_an_application_or_one_line(text):
    with suppress(UserError):
        parse_app(text)


def items_of(result):
    (run,) = result.runs
    return run, run.applications()


def test_requests_are_items_and_take_at_least_an_rtt(path, tmp_path):
    result = race([path], ["cubic"], app="request:200bytes/1kb,n=20,think=10ms", duration_s=5, out=tmp_path)
    run, items = items_of(result)
    took = items["completed_s"] - items["start_s"]
    assert items["kind"].unique().to_list() == ["request"]
    assert items["id"].to_list() == list(range(20))
    assert took.min() >= 0.050
    assert took.max() < 0.055
    summary = run.record.summary["flows"][0]
    assert summary["app"]["items"] == summary["app"]["completed"] == 20
    assert summary["completed_s"] == pytest.approx(items["completed_s"][-1])
    assert run.record.experiment.name == "race-down-request"


def test_transfers_of_a_poisson_process_depend_on_the_seed_alone(path, tmp_path):
    first, again = (
        race([path], ["cubic"], app="transfers:100kb,poisson=200ms", duration_s=10, seeds=2, out=tmp_path / name)
        for name in "ab"
    )
    starts = [run.applications()["start_s"].to_list() for run in first.runs]
    assert starts == [run.applications()["start_s"].to_list() for run in again.runs]
    assert starts[0] != starts[1]
    assert 30 < len(starts[0]) < 80


def test_a_transfer_follows_when_the_last_one_is_acknowledged(path, tmp_path):
    _, items = items_of(race([path], ["reno"], app="transfers:200kb", direction="up", duration_s=5, out=tmp_path))
    complete = items.drop_nulls()
    waits = complete["start_s"][1:] - complete["completed_s"][:-1]
    assert len(complete) > 10
    assert waits.min() >= 0.019
    assert waits.max() < 0.025


def test_a_bulk_flow_has_no_table_of_items(path, tmp_path):
    run, items = items_of(race([path], ["cubic"], duration_s=2, out=tmp_path))
    assert items is None
    assert "app" not in run.record.summary["flows"][0]
    assert not (run.path / "applications.parquet").exists()


def test_the_applications_of_the_guide_run(path, mine):
    mine.write_text("\n".join(re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)))
    _, polls = items_of(race([path], ["cubic"], app="./mine.py:Poll:every_s=0.25", duration_s=5, out="polls"))
    assert polls["kind"].unique().to_list() == ["poll"]
    assert len(polls) == 20
    run, video = items_of(race([path], ["cubic"], app="./mine.py:Video", duration_s=20, out="video"))
    segments = video.filter(kind="segment")
    assert 8 < len(segments) < 20  # ten seconds ahead of twenty
    assert segments["bytes"][-1] > segments["bytes"][0]
    assert "app ./mine.py:Video" in run.record.versions


def test_both_ends_may_be_in_python(path, mine):
    mine.write_text(
        """
from bentpipe.plugin import App

class Echo(App):
    def on_message(self, now_s, stream, message):
        self.write(stream, message.size_bytes, number=message.number)

    def on_closed(self, now_s, stream):
        self.close(stream)

class Ping(App):
    end = "sender"
    peer = Echo

    def on_started(self, now_s):
        stream = self.open()
        self.write(stream, 500, number=7)
        self.record(7, kind="ping", start_s=now_s)

    def on_message(self, now_s, stream, message):
        self.record(7, completed_s=now_s)
        self.close(stream)
        self.finish()
"""
    )
    run, items = items_of(race([path], ["cubic"], app="./mine.py:Ping", duration_s=2, out="out"))
    assert items["completed_s"].to_list() == [pytest.approx(0.080, abs=0.002)]  # the handshake, and there and back
    assert run.record.summary["flows"][0]["completed_s"] is not None


def test_a_connection_may_have_a_controller_of_its_own(path, mine):
    mine.write_text(
        """
from bentpipe.plugin import App

class Mine(App):
    end = "sender"

    def on_started(self, now_s):
        for stream in (self.open(), self.open("hybla", rtt0_ms=50), self.open("bbr")):
            self.write(stream, 1_000_000)
"""
    )
    run, _ = items_of(race([path], ["cubic"], app="./mine.py:Mine", duration_s=5, out="out"))
    states = run.events().filter(kind="state")["detail"].unique().to_list()
    assert "startup" in states  # BBR's


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("def on_mesage(self, now_s, stream, message): ...", "did you mean 'on_message'"),
        ("end = 'server'", "expected 'sender' or 'receiver'"),
    ],
)
def test_an_application_with_unknown_methods_is_refused(mine, body, named):
    mine.write_text(f"from bentpipe.plugin import App\nclass Mine(App):\n    {body}\n")
    with pytest.raises(UserError, match=re.escape(named)):
        parse_app("./mine.py:Mine")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("self.write(self.open(), 10)", "expected at least 24"),
        ("self.set_timer(-1.0)", "the time -1 s"),
        ("return {}['nothing']", "on_started at 0.000000 s raised KeyError: 'nothing'"),
        (
            "self.set_timer(now_s)\n    def on_timer(self, now_s, number): self.set_timer(now_s)",
            "more than 10000 of its timers",
        ),
        ("self.open('bbrr')", "mine.py:Mine: it opens a connection: unknown congestion controller `bbrr`"),
        ("self.open('hybla', rtt=1)", "controller `hybla` has no option `rtt`"),
        ("self.write(3, 100)", "mine.py:Mine: it uses stream 3, which does not exist, at 0.000000 s"),
    ],
)
def test_a_failing_application_ends_its_run_with_one_line(path, mine, body, named):
    mine.write_text(
        f"from bentpipe.plugin import App\nclass Mine(App):\n    def on_started(self, now_s):\n        {body}\n"
    )
    with pytest.raises(ControllerError, match=re.escape(named)) as error:
        race([path], ["cubic"], app="./mine.py:Mine", duration_s=2, out="out")
    assert "\n" not in str(error.value)


def test_an_application_has_a_short_name():
    assert app_name(parse_app("transfers:1mb,n=1")) == "transfers"
    assert json.loads(json.dumps(parse_app("bulk"))) == "bulk"

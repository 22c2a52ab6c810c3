"""Results without the telemetry of a terminal: the run's page and `exp results` say why."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from bentpipe.cli import exp
from bentpipe.testbed.dashboard.timeline import telemetry_words
from bentpipe.testbed.downloads import missing_parts

NOTE = "no terminal/: the node has no terminal"


def shown(files=(), notes=()):
    """A run as its page has it."""
    end = SimpleNamespace(end="client", files=files)
    events = [SimpleNamespace(kind="note", body={"topic": "dish", "text": text}) for text in notes]
    return SimpleNamespace(ends=[end], events=[SimpleNamespace(kind="state", body={"state": "done"}), *events])


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (shown(), ""),
        (shown(["run.json", "terminal/run.json"]), "is in the client's results: 1 file."),
        (shown(["run.json", "dish_samples.parquet", "dish_events.parquet"]), "results: 2 files."),
        (shown(["run.json"], ["a run yields", NOTE]), "no telemetry of a terminal: the node has no terminal."),
        (shown(["run.json"]), "the node did not say why."),
    ],
)
def test_the_page_says_whether_and_why(run, words):
    assert telemetry_words(run).endswith(words)


def test_a_download_says_what_it_lacks(tmp_path, monkeypatch):
    (tmp_path / "testbed.json").write_text(json.dumps({"notes": [NOTE, 7]}))
    (tmp_path / "server").mkdir()
    for hostile in ("[" * 100_000, "[]", '{"notes": 3}'):
        (tmp_path / "server" / "testbed.json").write_text(hostile)
        assert missing_parts(tmp_path) == (NOTE,)
    client = SimpleNamespace(results=lambda *_: [tmp_path])
    monkeypatch.setattr(exp, "client_of", lambda *_: client)
    done = CliRunner().invoke(exp.app, ["results", "ping-home", "-o", str(tmp_path)])
    assert done.exit_code == 0
    assert done.stdout == f"{tmp_path}\n"
    assert f"{tmp_path.name}: {NOTE}" in done.stderr

"""Recipes and outages in the report."""

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.execution.racing import race
from bentpipe.profiles.make import make_profile
from bentpipe.report.build import write_report
from bentpipe.report.content import parts
from bentpipe.report.place import Place
from bentpipe.report.provenance import blocks
from bentpipe.runs.store import find_runs

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


def test_the_recipe_is_a_table_and_not_json(tmp_path):
    path = make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=20.0)
    race([path], ["reno"], out=tmp_path, duration_s=5.0)
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert '{"' not in re.sub("<script.*?</script>", "", text, flags=re.DOTALL)
    assert "mac_jitter" not in text
    assert "waiting for the radio link's transmission grants" in text
    assert '<th scope="col">name</th>' in text
    assert "<dt>Runs</dt><dd>1, all valid</dd>" in text
    assert "The run and its data</h3>" in text
    race([path], ["reno"], out=tmp_path, duration_s=5.0, seeds=3)
    (part,) = parts(Place.in_folder(tmp_path), find_runs(tmp_path))
    assert "path of seed 0; seeds 1, 2: same geometry" in dict(part.sections[0].facts)["Drawn from the seed"]
    recipe = json.loads(path.metadata_json())["provenance"]["recipe"]
    shown = blocks(recipe)
    slots = next(block for block in shown if block.title == "schedule: slots")
    assert len(slots.rows) == len(recipe["schedule"]["slots"])
    assert slots.heads[:2] == ["start", "end"]
    assert all(len(row) == len(slots.heads) for row in slots.rows)
    gateways = next(block for block in shown if block.title == "ground: gateways")
    assert [row[0] for row in gateways.rows] == list(recipe["ground"]["gateways"])
    assert len(set(gateways.heads)) == len(gateways.heads)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
        lambda below: (
            st.lists(below, max_size=8)
            | st.dictionaries(st.sampled_from(["a_ns", "b_unix_ns", "c_km", "d", "e_per_s"]), below, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_every_recipe_is_shown(value):
    for block in blocks({"anything": value}):
        assert bool(block.facts) != bool(block.heads)
        assert all(isinstance(text, str) for pair in block.facts for text in pair)
        assert all(isinstance(cell, str) for row in block.rows for cell in row)


def test_a_permanent_outage_is_a_sentence_without_figures(tmp_path, monkeypatch):
    monkeypatch.setattr("bentpipe.execution.racing.check_service", lambda _: None)  # a race refuses such a path
    with pytest.warns(UserWarning, match="outage"):
        path = make_profile(
            "-30.0,-120.0", "sydney", start_unix_ns=START_UNIX_NS, duration_s=5.0, name="ocean", isl="never"
        )
    race([path], ["reno", "cubic+bbr"], out=tmp_path, duration_s=5.0)
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "ocean is an outage from the start of every run to its end, so there are no results" in text
    assert "<dt>Outages in a run</dt><dd>1, 5.0 s in all</dd>" in text
    assert "<img" not in text
    assert "<h3>Results</h3>" not in text
    assert "<script" not in text
    assert list((tmp_path / "figures").iterdir()) == []

"""The report of many Profiles: tables cover all, figures a few, and the page states it."""

import html
from dataclasses import replace
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.execution.racing import race
from bentpipe.profiles.presets import preset_profile
from bentpipe.report import build
from bentpipe.report.build import write_report
from bentpipe.report.content import parts
from bentpipe.report.place import Place
from bentpipe.runs.store import find_runs

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    paths = [preset_profile("dumbbell:rate=9mbit", 2.0, start_unix_ns=START_UNIX_NS, name=f"p{i}") for i in range(4)]
    race(paths, ["reno"], out=out, duration_s=2.0)
    return out


@given(st.integers(0, 500), st.integers(2, 40))
def test_drawn_profiles_are_evenly_spread(count, most):
    indices = build.spread(count, most)
    assert len(indices) == len(set(indices)) == min(count, most)
    assert indices == sorted(indices)
    if count:
        assert (indices[0], indices[-1]) == (0, count - 1)
    steps = [b - a for a, b in pairwise(indices)]
    assert not steps or max(steps) - min(steps) <= 1


def test_a_hundred_profiles_have_figures_of_a_few(raced):
    (part,) = parts(Place.in_folder(raced), find_runs(raced))
    block = part.sections[0].recipe
    sections = [replace(part.sections[0], title=f"p{i}", recipe=[block]) for i in range(100)]
    drawn = build.thin([replace(part, sections=sections[:50]), replace(part, sections=sections[50:])])
    assert len(drawn) == build.MOST_DRAWN
    assert sum(not section.thinned and bool(section.recipe) for section in sections) == build.MOST_DRAWN
    assert all("6 of 50 Profiles" in part.thinned for part, _ in drawn)
    few = build.thin([replace(part, sections=part.sections)])
    assert len(few) == 4
    assert not any(section.thinned for section in part.sections)


def test_the_page_states_omitted_figures_and_has_every_table(raced, monkeypatch):
    monkeypatch.setattr(build, "MOST_DRAWN", 2)
    page = html.unescape(write_report(raced).read_text(encoding="utf-8"))
    assert "Figures show 2 of 4 Profiles, so that the page stays small: p0, p3." in page
    assert page.count("Figures and the recipe of this path are left out") == 2
    assert page.count("<h3>Results</h3>") == 4
    assert page.count("<details open>") == 0
    assert page.count("<img") == 2 + 2 * 2
    assert set(pl.read_csv(raced / "results.csv")["profile"]) == {"p0", "p1", "p2", "p3"}

"""The study `satguard`: its file, the built-in page, and a small run of all of it."""

import dataclasses

import pytest

from bentpipe.apps.web.built_in import median_page
from bentpipe.apps.web.read import read_page
from bentpipe.errors import UserError
from bentpipe.experiments.recovery import parse_recovery
from bentpipe.studies import find_study
from bentpipe.studies.files import SatGuard
from bentpipe.studies.satguard_runs import SCHEMES, Plan
from bentpipe.studies.study import Request


def test_the_file_names_schemes_that_exist_and_sources():
    file = SatGuard.load()
    assert all(parse_recovery(variant).scheme == "satguard" for variant in file.ablation)
    assert all(published.source for published in file.published.values())
    assert {recovery for _, recovery in SCHEMES.values()} == {"none", "linkguardian", "tambur", "mpep", "satguard"}
    assert Plan(file, quick=True).seconds("call") < Plan(file, quick=False).seconds("call")


def test_the_built_in_page_has_the_published_size(tmp_path, monkeypatch):
    page = read_page("median")
    assert page == median_page()
    assert (len(page.objects), len(page.hosts), page.bytes // 1000) == (71, 13, 2652)
    assert all(each.after is None or each.after < i for i, each in enumerate(page.objects))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "median").write_text("{}")  # a file of this name is read
    with pytest.raises(UserError, match="log"):
        read_page("median")
    with pytest.raises(UserError, match="no such file"):
        read_page("mediann")


def test_a_small_run_has_every_row_and_statement(tmp_path, monkeypatch):
    file = SatGuard.load()
    small = file.replace(
        pairs_quick=("NYC-LON",),
        loads_quick=1,
        delay_quick_s=10.0,
        bulk_quick_s=10.0,
        call_quick_s=10.0,
        ablation=("satguard:order=0",),
    )
    monkeypatch.setattr(SatGuard, "load", classmethod(lambda _: small))
    shares = []
    result = find_study("satguard").run(Request(tmp_path, quick=True, on_progress=shares.append))
    ours = {row.quantity: row.ours for row in result.rows}
    # SYD-NYC is not among the pairs.
    missing = [name for name, value in ours.items() if value is None]
    assert missing == ["99th percentile of the one-way delay, SYD-NYC: SaTCP"]
    assert ours["one-way delay, median, mean: no recovery"] == pytest.approx(30, abs=10)
    assert ours["goodput, mean: SatGuard"] > 500
    assert 29 < ours["frames per second: SatGuard"] < 31
    assert 100 < ours["page load time, mean: SatGuard"] < 5000
    assert len(result.verdicts) == 24
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert set(result.figures) == {"figure-12", "figure-13", "figure-14", "figure-15"}
    assert dataclasses.asdict(result.rows[0])["published"] == 5.233

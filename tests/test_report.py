"""The report: self-contained, truthful, the same for the same Runs, and safe whatever its input says."""

import html
import json
import re
import shutil
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from bentpipe.errors import UserError
from bentpipe.profiles import preset_profile
from bentpipe.report import write_report
from bentpipe.runs import compare, find_runs, race, summarise, total_goodput_bps
from bentpipe.runs.text import interval, number

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
VOID = {"meta", "img", "br", "hr", "input", "link"}


class Page(HTMLParser):
    """Tags with their attributes, and whether they nest."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    paths = [
        preset_profile("dumbbell:rate=20mbit", 5.0, start_unix_ns=START_UNIX_NS, name="near"),
        preset_profile("dumbbell:rate=20mbit,rtt=200ms", 5.0, start_unix_ns=START_UNIX_NS, name="far"),
    ]
    race(paths, ["reno", "cubic", "bbr", "cubic+bbr"], out=out, duration_s=5.0, seeds=2)
    return out


@pytest.fixture(scope="module")
def page(raced):
    return write_report(raced).read_text(encoding="utf-8")


def test_the_page_needs_nothing_but_itself(page):
    for tag, attributes in Page(page).tags:
        assert tag not in ("script", "link", "iframe", "object")
        assert tag != "img" or attributes["src"].startswith("data:image/png;base64,")
        assert not re.match(r"[a-z]+:|//", attributes.get("href", ""))
    assert "http:" not in page
    assert "https:" not in page
    assert "@import" not in page


def test_every_link_leads_somewhere(page, raced):
    tags = Page(page).tags
    ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert len(links) > 16 * 4
    for link in links:
        if link.startswith("#"):
            assert link[1:] in ids
        else:
            assert (raced / unquote(link)).is_file(), link


def test_the_opening_says_what_the_runs_say(page, raced):
    text = html.unescape(page)
    runs = find_runs(raced)
    alone = [summary for summary in summarise(runs) if summary.profile == "far" and len(summary.flows) == 1]
    best = max(alone, key=lambda summary: summary.total_bps.mean)
    name = {"reno": "NewReno", "cubic": "CUBIC", "bbr": "BBR"}[best.entrant]
    assert f"Over far, {name} reached {number(best.total_bps.mean / 1e6)} Mbit/s" in text
    assert interval(best.total_bps, 1e-6) in text
    other = (
        "cubic"
        if best.entrant != "cubic"
        else max((s for s in alone if s is not best), key=lambda s: s.total_bps.mean).entrant
    )
    ratio = compare(runs, best.entrant, other, total_goodput_bps)["far"]
    assert f"{number(ratio.mean)} × " in text
    (shared,) = [summary for summary in summarise(runs) if summary.profile == "near" and len(summary.flows) == 2]
    largest = max(flow.share.mean for flow in shared.flows)
    assert f"took {largest:.0%}".replace("%", " %") in text


def test_the_table_holds_every_entrant_of_every_profile(page, raced):
    text = html.unescape(page)
    for summary in summarise(find_runs(raced)):
        for flow in summary.flows:
            assert f'<td class="n">{number(flow.goodput_bps.mean / 1e6)}' in text
    assert (raced / "results.csv").read_text(encoding="utf-8").count("\n") == 1 + 2 * 2 * (3 + 2)


def test_figures_are_there_as_files(page, raced):
    names = {p.name for p in (raced / "figures").iterdir()}
    assert names == {
        "race-down-overview.png",
        "race-down-destinations.png",
        *(f"race-down-{path}-{what}.png" for path in ("near", "far") for what in ("timeline", "cdf", "sharing")),
    }
    for name in names:
        assert (raced / "figures" / name).read_bytes().startswith(b"\x89PNG")
        assert f"figures/{name}" in page


def test_the_same_runs_give_the_same_page(page, raced, tmp_path):
    again = tmp_path / raced.name
    shutil.copytree(raced, again, ignore=shutil.ignore_patterns("figures", "report.html"))
    text = write_report(again).read_text(encoding="utf-8")
    assert text.replace(str(again), str(raced)) == page


def test_the_commands_to_repeat_it_are_those_that_were_given(page):
    text = html.unescape(page)
    wanted = (
        "bentpipe race profiles/far.parquet profiles/near.parquet --cc reno,cubic,bbr,cubic+bbr "
        "--direction down --duration 5 --seeds 2 -o again"
    )
    assert wanted in text


def test_nothing_from_a_file_becomes_markup(raced, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(raced, out)
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    for file in out.glob("race-down/*/*/*/run.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        profile = record["profiles"][0]
        profile["label"] += evil
        profile["provenance"]["description"] = evil
        profile["provenance"]["recipe"] = {evil: evil}
        record["versions"]["bentpipe"] = evil
        record["content_hash"] = evil
        record["world"] = evil
        file.write_text(json.dumps(record), encoding="utf-8")
    text = write_report(out).read_text(encoding="utf-8")
    page = Page(text)
    assert evil not in text
    assert "script" not in {tag for tag, _ in page.tags}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.open == []


def test_runs_that_are_not_valid_are_shown_and_left_out_of_the_figures(raced, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(raced, out)
    for file in out.glob("race-down/*/*/*/run.json"):
        record = json.loads(file.read_text(encoding="utf-8"))
        if record["seed"] == 1:
            record |= {"valid": False, "why_invalid": "the clock ran late"}
            file.write_text(json.dumps(record), encoding="utf-8")
    text = html.unescape(write_report(out).read_text(encoding="utf-8"))
    assert "16, of which 8 not valid" in text
    assert text.count("<strong>no</strong>: the clock ran late") == 8
    assert "(n = 1)" in text


def test_a_damaged_table_is_one_line_and_no_page(raced, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(raced, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    next(out.glob("race-down/*/*/*/links.parquet")).write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"links\.parquet: its SHA-256"):
        write_report(out)
    assert not (out / "report.html").exists()


def test_where_nothing_got_through_it_is_said(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,loss=1", 5.0, start_unix_ns=START_UNIX_NS, name="void")
    race([path], ["reno", "cubic+bbr"], out=tmp_path, duration_s=5.0)
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "Over void nothing got through" in text


def test_flows_of_one_controller_and_both_directions_stand_apart(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit", 5.0, start_unix_ns=START_UNIX_NS, name="bell")
    race([path], ["bbr+bbr"], out=tmp_path, duration_s=5.0, direction="down")
    race([path], ["bbr+bbr"], out=tmp_path, duration_s=5.0, direction="up")
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert text.count("Sharing bell, 2 flows of BBR got ") == 2
    assert "<strong>Download: server to terminal.</strong>" in text
    assert "<strong>Upload: terminal to server.</strong>" in text

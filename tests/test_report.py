"""The report: self-contained, consistent with its Runs, reproducible, and safe for hostile input."""

import base64
import hashlib
import html
import json
import re
import shlex
import shutil
from dataclasses import replace
from urllib.parse import unquote

import polars as pl
import pytest
from report_page import Page

from bentpipe.errors import UserError
from bentpipe.execution.racing import race, run_experiment
from bentpipe.experiments.file import read_experiment
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report import program, prose
from bentpipe.report.build import write_report
from bentpipe.report.content import parts
from bentpipe.report.path import buffers, facts
from bentpipe.report.place import Place
from bentpipe.report.prose import opening
from bentpipe.report.render import shown
from bentpipe.report.selection import shown_seed
from bentpipe.runs.run_record import RunRecord
from bentpipe.runs.store import Run, find_runs
from bentpipe.runs.summary import compare_difference, summarise, total_goodput_bps
from bentpipe.runs.text import interval, number

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


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


def test_the_page_is_self_contained(page):
    for tag, attributes in Page(page).tags:
        assert tag not in ("link", "iframe", "object")
        assert tag != "img" or attributes["src"].startswith("data:image/png;base64,")
        assert tag != "script" or "src" not in attributes
        assert not re.match(r"[a-z]+:|//", attributes.get("href", ""))
    style = page[page.index("<style>") : page.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


def test_only_the_pages_own_script_may_run(page):
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1])
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.split("; ") == [
        "default-src 'none'",
        "img-src data:",
        "style-src 'unsafe-inline'",
        f"script-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert "Leon Sorokin" in script
    assert "Permission is hereby granted" in script


def test_every_link_has_a_target(page, raced):
    tags = Page(page).tags
    ids = {attributes["id"] for _, attributes in tags if "id" in attributes}
    links = [attributes["href"] for tag, attributes in tags if tag == "a"]
    assert len(links) > 16 * 4
    for link in links:
        if link.startswith("#"):
            assert link[1:] in ids
        else:
            assert (raced / unquote(link)).is_file(), link


def test_the_opening_agrees_with_the_runs(page, raced):
    text = html.unescape(page)
    runs = find_runs(raced)
    alone = {s.scheme: s for s in summarise(runs) if s.profile == "far" and len(s.flows) == 1}
    best = max(alone.values(), key=lambda summary: summary.total_bps.mean)
    names = {"reno": "NewReno", "cubic": "CUBIC", "bbr": "BBR"}
    opening_text = re.search(r"(?:Over far|On average), (.*?) carried the (?:most|same)[,:] ([\d.]+) Mbit/s", text)
    assert names[best.scheme] in opening_text[1]
    assert opening_text[2] == number(best.total_bps.mean / 1e6)
    (shared,) = [summary for summary in summarise(runs) if summary.profile == "near" and len(summary.flows) == 2]
    largest = max(flow.share.mean for flow in shared.flows)
    assert f"had {100 * largest:.0f} % of it on average over the runs" in text


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (
            [40e6, 50e6, 45e6],
            [4e6, 5e6, 6e6],
            "CUBIC carried 5.00 Mbit/s, so BBR carried 9.0 times as much; seed",
        ),
        ([10.2e6, 10.3e6, 10.4e6], [10e6, 10.1e6, 10.2e6], "so BBR carried 2.0 % more"),
        ([10e6, 11e6, 12e6], [0, 0, 0], "CUBIC carried nothing."),
    ],
)
def test_means_ratio_and_difference_use_one_estimator(raced, ours, theirs, sentence):
    """Arithmetic means throughout: ratio and difference follow from the printed means."""
    runs = [
        fake_run(raced, scheme, seed, bps)
        for scheme, rates in (("bbr", ours), ("cubic", theirs))
        for seed, bps in enumerate(rates)
    ]
    summaries = summarise(runs)
    text = " ".join(opening("far", summaries, runs))
    assert text.startswith(f"Over far, BBR carried the most: {number(sum(ours) / 3e6)} Mbit/s (mean of 3 runs; 95 % ")
    assert f"interval {interval(summaries[0].total_bps, 1e-6)})" in text
    assert sentence in text
    difference = compare_difference(runs, "bbr", "cubic", total_goodput_bps)["far"]
    assert difference.mean == pytest.approx(sum(ours) / 3 - sum(theirs) / 3)


def test_insignificance_is_stated_before_a_winner(raced):
    rates = {"bbr": [40e6, 4e6, 46e6], "cubic": [4e6, 35e6, 6e6], "reno": [1e6, 1.1e6, 1.2e6]}
    runs = [fake_run(raced, name, seed, bps) for name, values in rates.items() for seed, bps in enumerate(values)]
    first, second, third, *_ = opening("far", summarise(runs), runs)
    assert first.startswith("Over far, BBR, CUBIC and NewReno do not differ significantly: seed by seed, ")
    assert first.endswith("the 95 % interval of each difference includes zero, so the order may be chance.")
    assert second.startswith("On average, BBR carried the most: 30.0 Mbit/s (mean of 3 runs")
    assert third.startswith("CUBIC carried 15.0 Mbit/s, so BBR carried 2.0 times as much (difference −")
    first, _, third, *_ = opening("far", summarise(runs[:6]), runs[:6])
    difference = compare_difference(runs, "bbr", "cubic", total_goodput_bps)["far"]
    assert f"the difference, −{number(-difference.low / 1e6)} to {number(difference.high / 1e6)} Mbit/s, incl" in first
    assert third == "CUBIC carried 15.0 Mbit/s, so BBR carried 2.0 times as much."


def test_a_comparison_is_over_the_seeds_that_both_ran(raced):
    rates = {"bbr": [40e6, 41e6, 42e6, 90e6], "cubic": [4e6, 5e6, 6e6]}
    runs = [fake_run(raced, name, seed, bps) for name, values in rates.items() for seed, bps in enumerate(values)]
    text = " ".join(opening("far", summarise(runs), runs))
    assert (
        "Over the 3 seeds that both ran, CUBIC carried 5.00 Mbit/s, BBR 41.0 Mbit/s, so BBR carried 8.2 times" in text
    )


def test_schemes_with_equal_digits_share_the_first_place(raced):
    runs = [fake_run(raced, name, 0, bps) for name, bps in (("bbr", 96.51e6), ("cubic", 96.49e6), ("reno", 90e6))]
    first, second, *_ = opening("far", summarise(runs), runs)
    assert first == "Over far, BBR and CUBIC carried the most, 96.5 Mbit/s each."
    assert second == "NewReno carried 90.0 Mbit/s, so BBR carried 7.2 % more."
    assert opening("far", summarise(runs[:2]), runs[:2]) == [
        "Over far, BBR and CUBIC carried the same, 96.5 Mbit/s each."
    ]
    (alone,) = opening("far", summarise(runs[2:]), runs[2:])
    assert alone == "Over far, NewReno carried 90.0 Mbit/s (one run)."


def fake_run(raced, scheme, seed, bps):
    """Return a Run over ``far`` with the given goodput."""
    run = next(run for run in find_runs(raced) if (run.label, run.scheme) == ("far", scheme))
    record = run.record.to_dict()
    record["seed"] = seed
    record["summary"]["flows"][0]["goodput_bps"] = bps
    return Run(run.path, RunRecord.check(record, "run.json"))


def test_buffer_limits_are_named_by_their_settings(page):
    text = html.unescape(page)
    assert "Send buffer: tcp_wmem[2] of the sender, wmem_max_bytes in an Experiment's [hosts]: 4194304" in text


def test_a_kernels_sndbuf_refill_is_not_attributed_to_cwnd(page, raced):
    assert '<th scope="col" class="n">cwnd<small>congestion window or pacing, % of the time</small></th>' in page
    assert "sndbuf_limited" not in page
    (run, *_) = find_runs(raced)
    (part,) = parts(Place.in_folder(raced), [Run(run.path, run.record.replace(world="emulated"))])
    assert part.sections[0].cwnd_column.name == "cwnd, or sndbuf refill"
    assert "neither of the others" in part.sections[0].cwnd_column.unit
    assert "tcpi_sndbuf_limited" in part.sections[0].buffers


def test_buffers_are_those_of_each_flows_own_ends(raced):
    (run, *_) = find_runs(raced)
    record = run.record.to_dict()
    record["experiment"]["hosts"] = {"terminal": {"wmem_max_bytes": 1111, "rmem_max_bytes": 2222}, "server": {}}
    for flow in record["experiment"]["flows"]:
        flow |= {"sender": "server", "receiver": "terminal"}
    sentence = buffers([Run(run.path, RunRecord.check(record, "run.json"))])
    assert "1111" not in sentence
    assert "[hosts]: 4194304 bytes (Linux's default). " in sentence
    assert sentence.endswith("rmem_max_bytes: 2222 bytes.")
    record["experiment"]["flows"][0] |= {"sender": "terminal", "receiver": None}
    record["experiment"]["flows"].append({"controller": "cubic", "sender": None, "receiver": "server"})
    assert "[hosts]: 1111 bytes or 4194304 bytes" in buffers([Run(run.path, RunRecord.check(record, "run.json"))])


def test_limiting_factors_and_drops_cover_only_counted_runs(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,loss=1%", 5.0, start_unix_ns=START_UNIX_NS, name="lossy")
    runs = race([path], ["cubic"], out=tmp_path, duration_s=5.0, seeds=3).runs
    one_valid = [runs[0], *(Run(run.path, run.record.replace(valid=False)) for run in runs[1:])]
    (part,) = parts(Place.in_folder(tmp_path), one_valid)
    (alone,) = parts(Place.in_folder(tmp_path), runs[:1])
    (every,) = parts(Place.in_folder(tmp_path), runs)
    assert part.sections[0].losses == alone.sections[0].losses != every.sections[0].losses
    assert part.sections[0].limits == alone.sections[0].limits != every.sections[0].limits


def test_drops_cover_every_direction_of_data(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,queue=20kB", 5.0, start_unix_ns=START_UNIX_NS, name="shallow")
    write_profile(path, tmp_path / "p.parquet")
    (tmp_path / "e.toml").write_text(
        'name = "both"\nduration_s = 5\n[[profiles]]\nrole = "path"\nfile = "p.parquet"\n'
        '[[flows]]\ncontroller = "cubic"\ndirection = "down"\n[[flows]]\ncontroller = "reno"\ndirection = "up"\n',
        encoding="utf-8",
    )
    (run,) = run_experiment(read_experiment(tmp_path / "e.toml"), [path], out=tmp_path / "out").runs
    links = run.links().filter(pl.col("flow") < 0)
    drops = links.group_by("hop", "direction").agg(pl.col("drops_queue").max())
    assert set(drops.filter(pl.col("drops_queue") > 0)["direction"]) == {"up", "down"}
    (part,) = parts(Place.in_folder(tmp_path / "out"), [run])
    assert part.sections[0].losses[0].tail_drop == drops["drops_queue"].sum()
    assert {name for name, _ in part.sections[0].facts} >= {
        "Handovers in a run",
        "Reconfigurations without handover",
        "Loss episodes in a run (down)",
        "Loss episodes in a run (up)",
    }


def test_events_are_not_counted_over_several_profiles(raced):
    (run, *_) = find_runs(raced)
    record = run.record.model_copy(update={"profiles": run.record.profiles * 2})
    (fact,) = facts([Run(run.path, record)])
    assert fact[1] == "not known: counted only for Runs over one Profile"


def test_start_up_has_extremes_in_place_of_intervals(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit,loss=1%", 5.0, start_unix_ns=START_UNIX_NS, name="lossy")
    runs = race([path], ["cubic"], out=tmp_path, duration_s=5.0, seeds=3).runs
    (part,) = parts(Place.in_folder(tmp_path), runs)
    (row,) = part.sections[0].start_up
    counts = [run.flows[0]["startup"]["retransmits"] for run in runs]
    assert shown(row.cells[2]) == (number(sum(counts) / 3), f"{number(min(counts))}–{number(max(counts))}")


def test_the_table_holds_every_scheme_of_every_profile(page, raced):
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
        *(f"race-down-{path}-{kind}.png" for path in ("near", "far") for kind in ("timeline", "cdf", "sharing")),
    }
    for name in names:
        assert (raced / "figures" / name).read_bytes().startswith(b"\x89PNG")
        assert f"figures/{name}" in page


def test_the_same_runs_give_the_same_page(page, raced, tmp_path):
    again = tmp_path / raced.name
    shutil.copytree(raced, again, ignore=shutil.ignore_patterns("figures", "report.html"))
    text = write_report(again).read_text(encoding="utf-8")
    assert text.replace(str(again), str(raced)) == page


def test_a_finished_race_is_not_called_unfinished(page):
    assert "Unfinished" not in page


def test_an_unfinished_race_is_marked(raced, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(raced, out)
    for run in find_runs(out):
        if (run.label, run.scheme, run.seed) not in (("far", "reno", 0), ("far", "cubic", 0)):
            shutil.rmtree(run.path)
    text = html.unescape(write_report(out).read_text(encoding="utf-8"))
    assert "<strong>Unfinished: 2 of 16 Runs are stored." in text
    assert "<dt>Runs</dt><dd>2 of 16, all valid</dd>" in text
    (out / "race.json").unlink()
    text = html.unescape(write_report(out).read_text(encoding="utf-8"))
    assert "Unfinished" not in text


def test_every_seed_is_listed_and_the_median_one_drawn(raced):
    rates = {"bbr": [40e6, 4e6, 46e6], "cubic": [4e6, 5e6, 0]}
    runs = [fake_run(raced, name, seed, bps) for name, values in rates.items() for seed, bps in enumerate(values)]
    assert shown_seed(runs) == (0, "seed 0 (of 3, the median by the goodput of all schemes together)")
    assert shown_seed(runs[:3])[0] == 0
    assert shown_seed([runs[1], runs[2], runs[5]]) == (2, "seed 2")
    (part,) = parts(Place.in_folder(raced), runs)
    section = part.sections[0]
    assert section.seeds.schemes == ("cubic", "bbr")
    rows = [(row.seed, *row.goodput_bps) for row in section.seeds.rows]
    assert rows == [(0, (4e6,), (40e6,)), (1, (5e6,), (4e6,)), (2, (0.0,), (46e6,))]
    assert ("Drawn from the seed", "nothing: every run has the path in the file") in section.facts


def test_runs_of_several_builds_are_reported(page, raced, tmp_path):
    assert "builds of bentpipe" not in page
    out = tmp_path / "out"
    shutil.copytree(raced, out)
    run = find_runs(out)[0]
    versions = {**run.record.versions, "build": "another"}
    (run.path / "run.json").write_text(json.dumps(run.record.replace(versions=versions).to_dict()), encoding="utf-8")
    text = write_report(out).read_text(encoding="utf-8")
    assert "These Runs come from 2 builds of bentpipe (" in text


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
        file.write_text(json.dumps(record), encoding="utf-8")
    text = write_report(out).read_text(encoding="utf-8")
    page = Page(text)
    assert evil not in text
    assert {attributes.get("type") for tag, attributes in page.tags if tag == "script"} == {"application/json", None}
    assert [tag for tag, attributes in page.tags if tag == "script" and not attributes] == ["script"]
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
    assert "<small>of 2</small>" in text


def test_a_damaged_table_is_one_line_and_no_page(raced, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(raced, out, ignore=shutil.ignore_patterns("figures", "report.html"))
    for file in out.glob("race-down/*/*/far.cubic.seed*/links.parquet"):
        file.write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"links\.parquet: its SHA-256"):
        write_report(out)
    assert not (out / "report.html").exists()


def test_a_path_that_loses_everything_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("bentpipe.execution.racing.check_service", lambda _: None)  # a race refuses such a path
    path = preset_profile("dumbbell:rate=20mbit,loss=1", 5.0, start_unix_ns=START_UNIX_NS, name="void")
    race([path], ["reno", "cubic+bbr"], out=tmp_path, duration_s=5.0)
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert "Over void no data arrived" in text


def test_flows_of_one_controller_in_both_directions_are_separate(tmp_path):
    path = preset_profile("dumbbell:rate=20mbit", 5.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    race([path], ["bbr+bbr"], out=tmp_path, duration_s=5.0, direction="down")
    race([path], ["bbr+bbr"], out=tmp_path, duration_s=5.0, direction="up")
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    assert text.count("Sharing dumbbell, 2 flows of BBR carried ") == 2
    assert "<strong>Download: server to terminal.</strong>" in text
    assert "<strong>Upload: terminal to server.</strong>" in text


def test_schemes_limited_by_buffers_are_reported():
    assert prose.buffered({"cubic": [0.0, 19.0], "cubic+bbr": [0.0, 90.0]}) == []
    (sentence,) = prose.buffered({"cubic": [3.0, 91.2], "bbr": [54.0, 0.0], "reno": [0.0, 0.0]})
    assert sentence.startswith(
        "Buffers at the hosts (rwnd, sndbuf), and not cwnd, limited CUBIC (91 % of the time) and BBR (54 % of the time)"
    )
    (sentence,) = prose.buffered({"hybla": [0.0, 20.1]})
    assert "limited Hybla (20 % of the time)" in sentence


def test_a_program_without_a_flow_is_described_by_its_output(raced):
    first = find_runs(raced)[0]

    def run(flows, **record):
        return replace(first, record=first.record.replace(summary={"flows": flows, "packets": 18}, **record))

    ping = {
        "command": ["ping", "-c", "9", "my server"],
        "server": None,
        "server_log": None,
        "at_end": "loop",
        "mtu": 1500,
        "gateway_controller": None,
        "internet": "public",
        "queues": [],
        "listen_within_s": 10.0,
    }
    target = {"name": "server", "sent_packets": 9, "received_packets": 8, "rtt_median_ms": 29.9, "rtt_p95_ms": 37.6}
    (sentence,) = program.sentences("far", [run([], program=ping, program_output={"flows": [target]})])
    assert sentence == (
        "Over far, ping -c 9 'my server' reports: server: 8 of 9 packets answered, median RTT 29.9 ms, "
        "95th percentile 37.6 ms."
    )
    (sentence,) = program.sentences("far", [run([], program=ping, program_output={"tool": None})])
    assert sentence == "ping -c 9 'my server' over far had no TCP flow; 18 packets left the path."
    assert program.sentences("far", find_runs(raced)) == []
    out = raced
    again = program.repeat(run([], program={**ping, "server": "irtt server"}), out)
    assert again[:3] == ["bentpipe", "run", str(out / "profiles" / "far.parquet")]
    assert again[3:] == ["--server", "irtt server", "-o", "again", "--", "ping", "-c", "9", "my server"]
    assert program.repeat(run([], program=ping), out)[3:] == ["-o", "again", "--", *ping["command"]]
    assert program.repeat(run([], program=ping), out / "elsewhere") == []
    options = {
        "at_end": "stop",
        "mtu": 1280,
        "gateway_controller": "bbr",
        "internet": "none",
        "queues": ["codel", "up=red"],
    }
    how = program.repeat(run([], program={**ping, **options, "listen_within_s": 30.0}), out)
    assert (
        shlex.join(how[3:-7])
        == "--at-end stop --mtu 1280 --gateway-cc bbr --no-internet --aqm codel --aqm up=red --listen-within 30"
    )

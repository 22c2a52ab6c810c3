"""Races on the kernel: invalid Runs are repeated, excluded and reported.

No kernel is needed: the simulator replaces the emulation, and each test sets whether its Runs are valid.
"""

import html
import json
import platform
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import CliRunner

from bentpipe import _native
from bentpipe.cli.main import app
from bentpipe.execution import captures, kernel
from bentpipe.execution.emulation.check import Lateness
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.spec import CAPTURES, EmulationError
from bentpipe.execution.racing import race
from bentpipe.execution.sinks.folder import KernelWarning
from bentpipe.plots.distributions import plot_cdfs, plot_destinations
from bentpipe.plots.overview import plot_overview
from bentpipe.plots.timeline import plot_timeline
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report import world
from bentpipe.report.build import write_report
from bentpipe.report.content import parts
from bentpipe.report.place import Place
from bentpipe.report.render import shown
from bentpipe.runs import store
from bentpipe.runs.run_record import RunRecord
from bentpipe.runs.store import Run, find_runs
from bentpipe.runs.summary import left_out
from bentpipe.runs.text import NONE

LATE = "1 % of the packets were over 1.96 ms late (bound 1 ms): the machine is too busy or too slow for this path"
KILLED = "the emulation ended before its end"


class StandIn:
    """Gives Runs with `reasons` for not being valid, one after the other; then valid ones."""

    def __init__(self):
        self.reasons, self.calls, self.late = [], [], None

    def run(self, experiment, path, on_progress, capture=None, on_rows=None):
        self.calls.append(
            ("+".join(flow.controller for flow in experiment.flows), experiment.seed, path.content_hash())
        )
        data = _native.simulate(experiment.to_json(), [path], lambda _: None)
        why = self.reasons.pop(0) if self.reasons else None
        summary = json.loads(data.summary_json()) | {"valid": why is None, "why_invalid": why}
        summary["emulator"] = {"relay": {"lateness_p99_ms": 1.96 if why else 0.21, "lateness_p999_ms": 3.0}}
        return SimpleNamespace(
            samples=data.samples,
            links=data.links,
            events=data.events,
            applications=data.applications,
            content_hash=data.content_hash,
            summary_json=lambda: json.dumps(summary),
            why_invalid=why,
            done=None if why == KILLED else {},
        )


@pytest.fixture
def emulator(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setattr(kernel, "check", lambda work: None)
    monkeypatch.setattr(kernel, "run_on_kernel", stand_in.run)
    monkeypatch.setattr(kernel, "too_late", lambda: stand_in.late)
    return stand_in


@pytest.fixture
def dumbbell():
    return preset_profile("dumbbell:rate=10mbit", 6.0, start_unix_ns=0, name="dumbbell")


def on_kernel(dumbbell, out, schemes=("reno", "cubic"), seeds=1, **more):
    return race([dumbbell], schemes, out=out, on_kernel=True, duration_s=4.0, seeds=seeds, **more)


def command(dumbbell, out, *more):
    file = out.parent / "dumbbell.parquet"
    write_profile(dumbbell, file)
    arguments = ["race", file, "--cc", "reno,cubic", "--on-kernel", "--duration", 4, "-o", out, *more]
    return CliRunner().invoke(app, list(map(str, arguments)))


def page(out):
    return html.unescape(write_report(out).read_text(encoding="utf-8"))


def spoil(out, *places):
    """Make Runs (scheme, seed) not valid on disk."""
    for run in find_runs(out):
        if (run.scheme, run.seed) in places:
            record = run.record.replace(valid=False, why_invalid=LATE).to_dict()
            (run.path / "run.json").write_text(json.dumps(record), encoding="utf-8")


def labels(figure):
    return [entry.get_text() for legend in figure.legends for entry in legend.get_texts()]


def test_an_invalid_run_is_repeated_over_the_same_path(dumbbell, tmp_path, emulator):
    emulator.reasons = [LATE, LATE]
    with pytest.warns(KernelWarning) as warnings:
        result = on_kernel(dumbbell, tmp_path)
    assert [str(each.message) for each in warnings] == [
        f"reno, seed 0, on dumbbell: not valid, run again ({attempt} of 3): {LATE}" for attempt in (2, 3)
    ]
    assert all(run.record.valid for run in result.runs)
    assert [call[0] for call in emulator.calls] == ["reno"] * 3 + ["cubic"]
    assert len(set(emulator.calls)) == 2


def test_on_a_late_machine_one_run_is_tried_three_times_and_the_others_once(dumbbell, tmp_path, emulator):
    emulator.reasons = [LATE] * 5
    with pytest.warns(KernelWarning):
        result = on_kernel(dumbbell, tmp_path, seeds=4)
    assert [run.record.valid for run in result.runs] == [False] * 3 + [True] * 5
    assert len(emulator.calls) == 3 + 1 + 1 + 5
    emulator.reasons, emulator.calls = [LATE], []
    with pytest.warns(KernelWarning, match="3 Runs in .* are not valid and are run again"):
        again = on_kernel(dumbbell, tmp_path, seeds=4, careful=False)
    assert again.resumed == 5
    assert [call[:2] for call in emulator.calls] == [("reno", 0), ("cubic", 0), ("reno", 1)]
    assert [run.record.valid for run in again.runs] == [False] + [True] * 7


def test_an_emulation_that_is_killed_again_and_again_ends_the_race(dumbbell, tmp_path, emulator):
    emulator.reasons = [None] + [KILLED] * 3
    done = command(dumbbell, tmp_path / "out")
    assert done.exit_code == 1
    assert f"cubic, seed 0, on dumbbell: {KILLED}; 1 of 2 Runs are stored in " in done.stderr
    assert "Traceback" not in done.stderr
    assert command(dumbbell, tmp_path / "out").exit_code == 0
    emulator.reasons = [KILLED]
    with pytest.raises(EmulationError):
        on_kernel(dumbbell, tmp_path / "other", careful=False)


def test_a_late_machine_is_reported_before_the_race(dumbbell, tmp_path, emulator, monkeypatch):
    emulator.late = "this machine is too late now"
    assert "warning: this machine is too late now\n" in command(dumbbell, tmp_path / "out").stderr
    assert len(emulator.calls) == 2
    assert "too late" not in command(dumbbell, tmp_path / "out").stderr, "there is nothing left to run"
    monkeypatch.undo()
    for late_ms, hopeless in ((None, False), (0.99, False), (2.5, True)):
        monkeypatch.setattr(kernel, "try_lateness", lambda trial, ms=late_ms: Lateness(ms, 1000, "99 %", "1 %"))
        assert ("over 2.5 ms late (bound 1 ms)" in (kernel.too_late() or "")) == hopeless


def test_runs_that_are_not_valid_are_exit_code_1_and_named_in_the_table(dumbbell, tmp_path, emulator):
    out = tmp_path / "out"
    emulator.reasons = [LATE] * 4
    done = command(dumbbell, out)
    assert done.exit_code == 1
    assert f"warning: 2 of 2 Runs excluded as invalid; the first: {LATE}\n" in done.stderr
    assert "hint: the same command repeats only those" in done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith(("reno", "cubic"))]
    assert [row[:3] + row[-3:] for row in rows] == [
        [name, "not", "valid", "0", "of", "1"] for name in ("reno", "cubic")
    ]
    emulator.reasons = [LATE] * 3
    again = command(dumbbell, out, "--json")
    assert again.exit_code == 1
    assert [run["valid"] for run in json.loads(again.stdout)["runs"]] == [False, True]
    assert "1 of 2 Runs excluded" in again.stderr
    assert command(dumbbell, out).exit_code == 0


def test_a_page_without_valid_runs_shows_them_marked(dumbbell, tmp_path, emulator):
    emulator.reasons = [LATE] * 8
    with pytest.warns(KernelWarning):
        on_kernel(dumbbell, tmp_path, ["reno", "cubic", "reno+cubic"])
    text = page(tmp_path)
    alert = (
        "None of the 3 Runs over dumbbell is valid. Tables and figures are marked so and are no results. "
        f"Why: {LATE}. The same"
    )
    assert alert in text.split("</header>")[0]
    assert "first end other work on this machine" in text
    assert "carried the most" not in text
    assert "<h3>Results (not valid)</h3>" in text
    assert "<dt>Runs</dt><dd>3, none valid</dd>" in text
    captions = text.split("<figcaption>")[1:]
    assert len(captions) == 5
    assert all(caption.startswith("Runs that are not valid. ") for caption in captions)
    assert not any(run.record.valid for run in find_runs(tmp_path))


def test_excluded_schemes_are_in_lead_tables_and_legends(dumbbell, tmp_path, emulator):
    on_kernel(dumbbell, tmp_path, ["reno", "cubic", "bbr"], seeds=2)
    spoil(tmp_path, ("cubic", 0), ("cubic", 1), ("bbr", 1))
    runs = find_runs(tmp_path)
    assert [(each.scheme, each.invalid, each.runs, each.whole) for each in left_out(runs)] == [
        ("bbr", 1, 2, False),
        ("cubic", 2, 2, True),
    ]
    text = page(tmp_path)
    lead = text.split("</header>")[0]
    assert f"all 2 Runs of CUBIC and 1 of 2 Runs of BBR are left out as not valid. Why: {LATE}." in lead
    assert "NewReno carried" in lead
    assert "CUBIC carried" not in lead
    (section,) = parts(Place.in_folder(tmp_path), runs)[0].sections
    for table in (section.rows, section.start_up):
        (row,) = [row for row in table if row.scheme == "cubic"]
        assert not row.counts
        assert {shown(cell)[0] for cell in row.cells[:-1]} == {NONE}
        assert shown(row.cells[-1]) == ("0", "of 2")
    assert [line.cwnd for line in section.limits if line.scheme == "cubic"] == [None]
    assert [line.tail_drop for line in section.losses if line.scheme == "cubic"] == [None]
    valid = [run for run in runs if run.record.valid]
    overview = plot_overview(valid, left=left_out(runs)).axes[0]
    assert [tick.get_text() for tick in overview.get_yticklabels()] == ["bbr", "reno", "cubic"]
    assert [label.get_text() for label in overview.texts] == ["no valid Run"]
    for figure in (
        plot_timeline([run for run in valid if run.seed == 0], absent=["cubic"]),
        plot_cdfs(valid, absent=["cubic"]),
        plot_destinations(valid, absent=["cubic"]),
    ):
        assert "CUBIC: not valid" in labels(figure)


def test_the_report_names_kernel_and_lateness(dumbbell, tmp_path, emulator):
    on_kernel(dumbbell, tmp_path / "real")
    (run, *_) = runs = find_runs(tmp_path / "real")
    assert run.record.versions["kernel"] == f"{platform.system()} {platform.release()}"
    result = dict(world.facts(runs))
    assert result["TCP"] == f"the kernel's own: {platform.system()} {platform.release()} ({platform.machine()})"
    assert result["1 % of packets late by more than"] == "0.21 ms (bound 1 ms)"
    assert "Processor time stolen by the host" not in result
    record = run.record.to_dict()
    record["summary"]["emulator"]["stolen_share"] = 0.043
    stolen = dict(world.facts([Run(run.path, RunRecord.check(record, "run.json")), *runs]))
    assert stolen["Processor time stolen by the host"] == "4.30 %"
    record["summary"]["emulator"]["relay"] = None
    del record["versions"]["kernel"]
    killed = dict(world.facts([Run(run.path, RunRecord.check(record, "run.json"))]))
    assert killed["TCP"] == "the kernel's own: which kernel is not recorded"
    simulated = race([dumbbell], ["reno"], out=tmp_path / "simulated", duration_s=4.0).runs
    assert dict(world.facts(simulated)).keys() == {"World", "TCP", "RTT figures are of"}
    assert simulated[0].record.versions.keys() == {"bentpipe", "build"}
    emulator, simulator = (each[0].record.versions["build"] for each in (runs, simulated))
    assert emulator == _native.__emulator__ != simulator, "a change of the simulator leaves the kernel's Runs good"
    assert f"on {platform.system()} {platform.release()}" in page(tmp_path / "real")


def test_rtts_of_a_kernel_are_drawn_from_the_smoothed_rtt(dumbbell, tmp_path, emulator, monkeypatch):
    runs = race([dumbbell], ["reno"], out=tmp_path, duration_s=4.0).runs
    assert [axis.get_title(loc="left") for axis in plot_cdfs(runs).axes][2] == "RTT"
    samples = Run.samples
    monkeypatch.setattr(Run, "samples", lambda run: samples(run).with_columns(rtt_latest_ms=pl.lit(None, pl.Float64)))
    panel = plot_cdfs(runs).axes[2]
    assert panel.get_title(loc="left") == "Smoothed RTT"
    (line,) = panel.get_lines()
    assert len(line.get_xdata()) > 10


def test_an_invalid_run_is_not_reused(dumbbell, tmp_path, emulator, monkeypatch):
    """After Ctrl-C too it counts as unfinished."""
    emulator.reasons = [LATE] * 3
    write, calls = store.write_run, []

    def struck(folder, record, tables: dict[str, pl.DataFrame]):
        calls.append(folder)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(folder, record, tables)

    monkeypatch.setattr(store, "write_run", struck)
    done = command(dumbbell, tmp_path / "out")
    assert done.exit_code == 130
    assert "interrupted: 0 of 2 Runs are stored" in done.stderr


def test_a_capture_that_filled_the_disk_makes_room_for_its_run(tmp_path):
    whole, cut_off = ({"relay": {}, "capture": {"failed": failed}} for failed in (None, "No space left on device"))
    for name in CAPTURES:
        (tmp_path / name).write_bytes(b"packets")
    captures.make_room(tmp_path, EmulationResult(done=whole))
    assert {file.name for file in tmp_path.iterdir()} == set(CAPTURES)
    captures.make_room(tmp_path, EmulationResult(done=cut_off))
    assert not list(tmp_path.iterdir())
    assert "No space left on device" in EmulationResult(done=cut_off).why_incomplete

"""What is refused instead of being a fault: edited records, odd names, links in a circle, absurd numbers, cut files."""

import json
import os
import subprocess
import sys
import warnings

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.analysis.files import scan_file
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.job import race_jobs
from bentpipe.execution.plan import MOST_RUNS
from bentpipe.execution.racing import race
from bentpipe.files import atomic_write
from bentpipe.measurements.probing.recording import held
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.runs.imports import import_files, read_file
from bentpipe.orbits import routes
from bentpipe.plots.profile import plot_profile
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.origin import slots
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.show import as_rows, summarise
from bentpipe.profiles.table import profile_from_frame, profile_to_frame
from bentpipe.report import content
from bentpipe.report.place import Place
from bentpipe.report.repeat import repeat_commands
from bentpipe.report.selection import sorted_runs
from bentpipe.runs.record import results_table
from bentpipe.runs.store import find_runs
from bentpipe.runs.summary import left_out
from bentpipe.runs.summary import summarise as summarise_runs

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z
ODD = [None, True, -1, 1e300, 2**63, 10**400, "x", [], {}, [None], {"x": None}, float("nan")]
PINGS = b"unix_s,rtt_ms\n1700000000,30\n1700000001,31\n1700000002,30\n"


def command(*arguments, **how):
    words = [sys.executable, "-m", "bentpipe", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, **how)


def one_line(done, code=2):
    assert done.returncode == code, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert "fault in bentpipe" not in done.stderr
    return line


def edited(data, record):
    """The same with one value, anywhere in it, replaced by an odd one."""
    at = record = json.loads(json.dumps(record))
    while True:
        key = data.draw(st.sampled_from(list(at) if isinstance(at, dict) else list(range(len(at)))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.integers(0, 9)) == 0:
            break
        at = at[key]
    at[key] = data.draw(st.sampled_from(ODD))
    return record


@pytest.fixture(scope="module")
def computed():
    return make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=20.0)


@given(st.data())
def test_an_edited_provenance_is_refused_or_shown(computed, data):
    metadata = json.loads(computed.metadata_json())
    metadata["provenance"] = edited(data, metadata["provenance"])
    try:
        profile = profile_from_frame(profile_to_frame(computed), json.dumps(metadata))
        as_rows(summarise(profile))
        slots(json.loads(profile.metadata_json()))
    except BentpipeError as error:
        message = str(error)
        assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("origin", "gateway_min_elevation_deg"), "x"),
        (("origin", "satellites", "constellation", "shells"), None),
        (("schedule", "min_elevation_deg"), []),
        (("schedule", "slots", 0, "serving", "elevation_deg"), "x"),
        (("schedule", "slots", 0, "start_ns"), "x"),
    ],
)
def test_provenances_that_were_faults_are_refused(computed, place, value):
    metadata = json.loads(computed.metadata_json())
    at = metadata["provenance"]["recipe"]
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    profile = profile_from_frame(profile_to_frame(computed), json.dumps(metadata))
    with pytest.raises(UserError):
        (as_rows(summarise(profile)), slots(json.loads(profile.metadata_json())), plot_profile(profile))


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    path = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    race([path], ["cubic", "reno"], out=out, duration_s=2.0)
    return out


@given(st.data())
def test_an_edited_run_json_is_left_out_or_reported(raced, data):
    run = next(run for run in find_runs(raced) if run.scheme == "cubic")
    file = run.path / "run.json"
    kept = file.read_bytes()
    file.write_text(json.dumps(edited(data, run.record.to_dict())), encoding="utf-8")
    try:
        with warnings.catch_warnings(action="ignore"):
            runs = sorted_runs(find_runs(raced))
            results_table(runs)
            left_out(runs)
            summarise_runs(runs)
            content.parts(Place.in_folder(raced), runs)
            repeat_commands(Place.in_folder(raced), runs)
    except BentpipeError as error:
        message = str(error)
        assert len(message.splitlines()) == 1
    finally:
        file.write_bytes(kept)


@given(st.data())
def test_an_edited_probe_json_is_refused_or_read(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("recording")
    target = {"name": "a", "address": "::1", "port": 0}
    spec = {"method": "ping", "targets": [target], "every_ns": 10**9, "for_ns": None}
    record = {"format": 1, "site": "here", "spec": spec, "synchronised": False, "part": 0}
    (folder / "probe.json").write_text(json.dumps(edited(data, record)), encoding="utf-8")
    try:
        with held(folder) as requested:
            assert requested.part >= -1
    except UserError as error:
        message = str(error)
        assert len(message.splitlines()) == 1


def test_links_in_a_circle_are_refused_or_passed_over(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "ping.csv").write_bytes(PINGS)
    (logs / "circle").symlink_to("circle")
    (logs / "nowhere").symlink_to("not-there")
    (logs / "up").symlink_to("..")
    imported = import_files([logs], tmp_path / "out")
    assert imported.run.probes.height == 3
    assert sorted(path.name for path, _ in imported.skipped) == ["circle", "nowhere"]
    with pytest.raises(UserError, match="cannot be read: too many levels of symbolic links"):
        import_files([logs / "circle"], tmp_path / "other")
    with pytest.raises(UserError, match="does not exist"), atomic_write(logs / "circle" / "file"):
        pass
    profile = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=START_UNIX_NS)
    write_profile(profile, tmp_path / "P.parquet")
    assert "does not exist" in one_line(
        command("profile", "plot", tmp_path / "P.parquet", "-o", logs / "circle" / "x.png")
    )
    write_profile(profile, logs / "circle")  # takes the place of the link
    assert read_profile(logs / "circle").content_hash() == profile.content_hash()


@pytest.mark.parametrize("name", ["a[b]", "x*", "y?{1,2}", "[!a]", "~", "$x", "%41"])
def test_names_are_no_patterns(tmp_path, name):
    folder = tmp_path / name
    folder.mkdir()
    table = pl.DataFrame({"unix_ns": [10**18 + i * 10**9 for i in range(20)], "rtt_ms": 30.0})
    file = folder / f"{name}.parquet"
    with file.open("wb") as out:
        table.write_parquet(out)
    assert scan_file(file).collect().height == 20
    assert read_file(file).measurement.tables["probes"].height == 20
    run = import_files([file], folder / "out").run
    assert run.checked_scan("probes").collect().height == 20
    assert run.scan("probes").collect().height == 20
    profile = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=START_UNIX_NS, name=name)
    race([profile], ["reno"], out=folder / "race", duration_s=2.0)
    assert find_runs(folder / "race")[0].samples().height


@pytest.mark.parametrize("cut_bytes", [0, 3, 5000])
def test_a_table_that_is_cut_while_it_is_read_is_read_or_refused(tmp_path, cut_bytes):
    rows = 200_000
    table = pl.DataFrame(
        {"unix_ns": pl.int_range(0, rows, eager=True) * 10**7 + 10**18, "rtt_ms": pl.int_range(0, rows, eager=True) / 7}
    )
    file = tmp_path / "pings.parquet"
    table.write_parquet(file, row_group_size=10_000)
    opened = scan_file(file)
    os.truncate(file, cut_bytes)
    assert opened.collect().equals(table)
    with pytest.raises(UserError, match="does not read as Parquet"):
        scan_file(file)


@pytest.mark.parametrize("seeds", [MOST_RUNS + 1, 10**30, 0, -1])
def test_absurd_numbers_of_seeds_are_refused(tmp_path, seeds):
    path = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=START_UNIX_NS)
    with pytest.raises(UserError, match=rf"seeds: {seeds}; expected at (most|least)"):
        race([path], ["reno", "cubic"], out=tmp_path / "out", duration_s=2.0, seeds=seeds)
    with pytest.raises(UserError, match=rf"seeds: {seeds}; expected at (most|least)"):
        race_jobs([path], ["reno"], duration_s=2.0, seeds=seeds)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("step", [1e-300, 5e-324, 1e-9, 1e300, float("nan"), float("inf"), 0.0, -1.0])
def test_absurd_steps_are_one_short_line(step):
    with pytest.raises(UserError) as error:
        routes.route("louvain", "london", start_unix_ns=START_UNIX_NS, duration_s=10.0, step_s=step)
    assert len(str(error.value)) < 100


@pytest.mark.parametrize("every_s", [1e-300, 1e300, float("nan"), 0.0, -1.0])
def test_absurd_times_between_probes_are_refused(tmp_path, every_s):
    (tmp_path / "ping.txt").write_text("PING 1.1.1.1 (1.1.1.1) 56(84) bytes of data.\n", encoding="utf-8")
    with pytest.raises(UserError, match="every: "):
        read_file(tmp_path / "ping.txt", hints=ReadHints(every_s))

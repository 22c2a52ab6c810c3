"""Runs on disk: written atomically, with damage reported."""

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import StoreError, UserError
from bentpipe.execution.racing import race
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.record import race_row
from bentpipe.runs.store import (
    BEFORE,
    PARTIAL,
    TABLES,
    DamagedRunWarning,
    basic_utc,
    find_runs,
    read_run,
    safe_name,
    write_run,
)
from bentpipe.runs.summary import summarise
from bentpipe.runs.work import identity

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    out = tmp_path_factory.mktemp("raced")
    path = preset_profile("dumbbell:rate=10mbit", 3.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    return race([path], ["cubic"], out=out, duration_s=3.0).runs[0]


@pytest.fixture
def run(raced, tmp_path):
    """A Run of one's own, to damage."""
    place = tmp_path / raced.path.relative_to(raced.path.parents[3])
    shutil.copytree(raced.path, place)
    return read_run(place)


def test_a_run_lies_where_the_hierarchy_says(raced):
    assert raced.path.parts[-4:] == ("race-down", "simulated", "20260510T090000Z", "dumbbell.cubic.seed0")
    assert sorted(p.name for p in raced.path.iterdir()) == [
        "events.parquet",
        "links.parquet",
        "run.json",
        "samples.parquet",
    ]
    assert [p.name for p in raced.path.parent.iterdir()] == [raced.path.name]


def test_a_run_read_back_is_the_run_that_was_written(run, raced):
    assert run.record == raced.record
    for name in TABLES:
        assert getattr(run, name)().equals(pl.read_parquet(run.path / f"{name}.parquet"))
    samples = run.samples()
    assert samples.columns[:4] == ["t_s", "flow", "direction", "controller"]
    assert samples["controller"].unique().to_list() == ["cubic"]
    assert not samples.select(pl.selectors.float().is_nan().any()).row(0).count(True)


def test_unknown_values_are_null_for_other_readers(run):
    assert (
        run.samples()["pacing_bps"].null_count() == run.samples().height
        or run.samples()["pacing_bps"].is_finite().any()
    )


@pytest.mark.parametrize("name", TABLES)
def test_a_flipped_bit_in_a_table_is_reported(run, name):
    file = run.path / f"{name}.parquet"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(UserError, match=r"SHA-256 is not the one in run\.json"):
        getattr(run, name)()


def test_a_missing_table_is_reported(run):
    (run.path / "links.parquet").unlink()
    with pytest.raises(UserError, match=r"links\.parquet"):
        run.links()


def test_a_newer_format_is_distinguished_from_damage(run):
    (run.path / "run.json").write_text(
        json.dumps({**run.record.to_dict(), "format": 99, "surprise": 1}), encoding="utf-8"
    )
    with pytest.raises(UserError, match="newer than 3"):
        read_run(run.path)


@pytest.mark.parametrize("older", [1, 2])
def test_an_older_format_is_refused_with_a_remedy(run, older):
    (run.path / "run.json").write_text(json.dumps({**run.record.to_dict(), "format": older}), encoding="utf-8")
    with pytest.raises(UserError, match=f"format {older} is of an older bentpipe; expected 3; try running it again"):
        read_run(run.path)


@given(st.data())
def test_a_damaged_run_json_gives_one_line_or_a_run(run, data):
    text = json.dumps(run.record.to_dict())
    start = data.draw(st.integers(0, len(text)))
    cut = data.draw(st.integers(0, 60))
    file = run.path / "run.json"
    file.write_text(
        text[:start] + data.draw(st.text(max_size=8)) + text[start + cut :], encoding="utf-8", errors="replace"
    )
    _reads_or_says(run.path)


@given(st.data())
def test_a_field_of_another_type_gives_one_line_or_a_run(run, data):
    record = json.loads(json.dumps(run.record.to_dict()))
    at = record
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(at[key], (dict, list)) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(st.sampled_from([None, True, -1, 0.5, "x", [], {}, [None], {"x": None}]))
    (run.path / "run.json").write_text(json.dumps(record), encoding="utf-8")
    _reads_or_says(run.path)


def _reads_or_says(folder):
    try:
        run = read_run(folder)
    except UserError as error:
        message = str(error)
    else:
        message = "run.json"
        assert len(summarise([run])) == run.record.valid  # readers of Runs must accept it
        json.dumps(race_row(run))
        hashes = [profile.base_hash for profile in run.record.profiles]
        assert identity(run.record.experiment, hashes, {"bentpipe": "0"})["versions"]["bentpipe"] == "0"
    assert "run.json" in message
    assert len(message.splitlines()) == 1


def test_a_damaged_run_is_left_out_with_a_warning(run, tmp_path):
    other = run.path.with_name("other")
    shutil.copytree(run.path, other)
    (other / "run.json").write_bytes(b"{")
    with pytest.warns(DamagedRunWarning, match="left out: .*run.json: not JSON"):
        assert [result.path for result in find_runs(tmp_path)] == [run.path]


def test_a_folder_without_runs_is_reported(tmp_path):
    with pytest.raises(UserError, match="no such folder"):
        find_runs(tmp_path / "nowhere")
    with pytest.raises(UserError, match="no Run in it"):
        find_runs(tmp_path)


def test_a_partial_run_is_ignored(run):
    half = run.path.with_name(f"{PARTIAL}x")
    shutil.copytree(run.path, half)
    assert [result.path for result in find_runs(run.path.parents[3])] == [run.path]


def test_a_failed_write_leaves_the_earlier_run_unchanged(run):
    # A limit on the size of files stands in for a full disk: the kernel refuses the write in the middle of the file.
    script = textwrap.dedent("""
        import resource, signal, sys
        from pathlib import Path
        from bentpipe.runs import StoreError, read_run
        from bentpipe.runs.store import write_run
        run = read_run(Path(sys.argv[1]))
        tables = {name: getattr(run, name)() for name in ("samples", "links", "events")}
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))
        for folder in (run.path, run.path.with_name("another")):
            try:
                write_run(folder, run.record, tables)
            except StoreError as error:
                print(error)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script, str(run.path)], capture_output=True, text=True, check=True, env={**os.environ}
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all("cannot write it: File too large" in line for line in lines)
    assert [p.name for p in run.path.parent.iterdir()] == [run.path.name]
    assert read_run(run.path).samples().height > 0


def test_a_read_only_folder_is_one_line(run, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="Not a directory"):
        write_run(blocked / "a" / "b", run.record, {name: getattr(run, name)() for name in TABLES})


def test_a_run_can_be_replaced_in_one_step(run):
    tables = {name: getattr(run, name)() for name in TABLES}
    write_run(run.path, run.record.replace(seed=5), tables)
    assert read_run(run.path).seed == 5
    assert sorted(p.name for p in run.path.iterdir()) == [
        "events.parquet",
        "links.parquet",
        "run.json",
        "samples.parquet",
    ]
    assert [p.name for p in run.path.parent.iterdir()] == [run.path.name]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_run_that_cannot_be_moved_in_leaves_the_earlier_one(run, monkeypatch, error):
    tables = {name: getattr(run, name)() for name in TABLES}
    rename = Path.rename

    def refused(self, target):
        if self.name.startswith(PARTIAL) and not self.name.startswith(BEFORE):
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises((StoreError, KeyboardInterrupt)):
        write_run(run.path, run.record.replace(seed=5), tables)
    assert read_run(run.path).record == run.record
    assert [p.name for p in run.path.parent.iterdir()] == [run.path.name]


def test_times_and_names_make_valid_folders():
    assert basic_utc(START_UNIX_NS) == "20260510T090000Z"
    assert basic_utc(START_UNIX_NS + 250_000_000) == "20260510T090000.250Z"
    assert safe_name("../../etc/passwd") == "-..-etc-passwd"
    assert safe_name("a b/c") == "a-b-c"
    assert safe_name("...") == "unnamed"


@given(st.text(max_size=300))
def test_no_name_leaves_its_folder(text):
    name = safe_name(text)
    assert name
    assert "/" not in name
    assert "\0" not in name
    assert name not in (".", "..")
    assert len(name) <= 120

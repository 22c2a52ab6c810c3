"""Measured Runs on disk: read back as written, counted exactly, and never replaced."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.errors import StoreError, UserError
from bentpipe.measurements.readers.measurement import PROBES
from bentpipe.measurements.runs.counts import count_probes
from bentpipe.measurements.runs.store import Source, find_measured, read_measured, write_measured
from bentpipe.measurements.runs.tables import TABLES
from bentpipe.runs.store import find_runs

START = 1_778_403_600_123_456_789  # 2026-05-10T09:00:00.123456789Z
SOURCE = Source(name="ping.log", format="ping", bytes=100, sha256="0" * 64)


def probes(times_s, rtt_ms, **more):
    """A table of probes; `times_s` [s] after `START`."""
    rows = {
        "unix_ns": [START + round(t * 1e9) for t in times_s],
        "site": ["home"] * len(times_s),
        "target": ["pop"] * len(times_s),
        "kind": ["icmp"] * len(times_s),
        "rtt_ms": rtt_ms,
        **more,
    }
    return pl.DataFrame(rows, schema_overrides={"rtt_ms": pl.Float64})


def test_a_written_run_is_read_back(tmp_path):
    run = write_measured(
        tmp_path / "out", {"probes": probes([0.0, 0.2, 0.1], [30.0, None, 31.0])}, [SOURCE], site="home"
    )
    assert run.path == tmp_path / "out" / "home" / "20260510T090000Z"
    assert sorted(file.name for file in run.path.iterdir()) == ["probes.parquet", "run.json"]
    for place in (run.path, tmp_path / "out"):
        again = read_measured(place)
        assert again.record == run.record
        assert again.path == run.path
        assert again.tables == ["probes"]
        assert again.probes.schema == pl.Schema(PROBES)
        assert again.probes["rtt_ms"].to_list() == [30.0, 31.0, None]  # sorted by time
        assert again.scan("probes").collect().equals(again.probes)
    assert (again.hops, again.samples, again.links, again.dish) == (None, None, None, {})
    record = json.loads((run.path / "run.json").read_text())
    assert record["world"] == "measured"
    assert record["valid"] is True
    assert record["start_unix_ns"] == START
    assert record["sources"][0]["sha256"] == "0" * 64
    assert (record["summary"]["probes"], record["summary"]["lost"]) == (3, 1)


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_its_columns(tmp_path, name):
    columns = TABLES[name]
    when = next((column for column in columns if column.endswith("unix_ns")), None)
    row = dict.fromkeys(columns) | ({when: START} if when else {})
    table = pl.DataFrame([row], schema=dict(columns))
    run = write_measured(tmp_path, {name: table}, [SOURCE])
    result = run.dish[name.removeprefix("dish_")] if name.startswith("dish_") else getattr(run, name)
    assert result.schema == pl.Schema(dict(columns))
    assert run.start_unix_ns == (START if when else 0)


def test_counts_describe_the_table_and_repair_nothing():
    times = [0.0, 0.1, 0.1, 0.2, 0.3, 1.3, 1.4]
    flags = {
        "duplicate": [False, False, True, False, False, False, False],
        "out_of_order": [False, False, False, True, False, False, False],
    }
    table = probes(times, [10.0, 20.0, 25.0, None, 30.0, 40.0, None], **flags)
    counts = count_probes(table.with_columns(pl.lit(None, pl.Int64).alias("seq")))
    assert (counts["probes"], counts["lost"], counts["duplicates"], counts["out_of_order"]) == (6, 2, 1, 1)
    assert (counts["gaps"], counts["longest_gap_s"]) == (1, pytest.approx(1.0))
    assert counts["silence_s"] == pytest.approx(1.0)
    # Interpolated, as an analysis of the same probes has them.
    assert counts["rtt_ms"] == pytest.approx({"min": 10.0, "median": 25.0, "p95": 38.5, "p99": 39.7, "max": 40.0})


def test_series_are_counted_apart():
    one = probes([0.0, 0.1, 0.2], [1.0, 1.0, 1.0], duplicate=[False] * 3, out_of_order=[False] * 3)
    two = one.with_columns(pl.lit("far").alias("target"), pl.col("unix_ns") + 100 * 10**9)
    counts = count_probes(pl.concat([one, two]))
    assert (counts["gaps"], counts["probes"]) == (0, 6)


def test_a_measurement_is_never_written_over(tmp_path):
    table = {"probes": probes([0.0, 0.1], [30.0, 31.0])}
    first = write_measured(tmp_path, table, [SOURCE], site="a/b")
    with pytest.raises(UserError, match="has the same measurement already"):
        write_measured(tmp_path, table, [SOURCE], site="a/b")
    other = write_measured(tmp_path, table, [Source(name="other.log", format="ping")], site="a/b")
    assert first.path.name + "~2" == other.path.name
    assert first.path.parent.name == "a-b"
    assert len(find_measured(tmp_path)) == 2
    with pytest.raises(UserError, match="has 2 measured Runs"):
        read_measured(tmp_path)


def test_invalid_tables_are_refused(tmp_path):
    table = probes([0.0], [30.0])
    for tables, message in (
        ({}, "nothing was measured"),
        ({"probes": table.clear()}, "nothing was measured"),
        ({"pings": table}, "no table 'pings'"),
        ({"probes": table.with_columns(colour=pl.lit(1))}, "'colour'"),
        ({"probes": table.with_columns(rtt_ms=pl.lit("long"))}, "probes: "),
    ):
        with pytest.raises(UserError, match=message) as caught:
            write_measured(tmp_path / "out", tables, [SOURCE])
        assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_damage_is_reported(tmp_path):
    run = write_measured(tmp_path, {"probes": probes([0.0], [30.0])}, [SOURCE])
    (run.path / "probes.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r"probes\.parquet: its SHA-256 is not the one in run\.json"):
        _ = read_measured(tmp_path).probes
    record = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(UserError, match="newer"):
        read_measured(tmp_path)


def test_readers_of_races_skip_measured_runs(tmp_path):
    # Four levels below, where races look.
    write_measured(tmp_path / "a" / "b", {"probes": probes([0.0], [30.0])}, [SOURCE], site="home")
    with pytest.raises(UserError, match="no Run in it"):
        find_runs(tmp_path)
    with pytest.raises(UserError, match="holds measured Runs only"):
        find_runs(tmp_path / "a" / "b")


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StoreError, match="the disk is full"):
        write_measured(tmp_path, {"probes": probes([0.0], [30.0])}, [SOURCE])
    monkeypatch.undo()
    assert not list(tmp_path.rglob("*.json")) + list(tmp_path.rglob(".partial*"))


@settings(max_examples=60)
@given(
    text=st.one_of(
        st.binary(max_size=200), st.sampled_from([b"{}", b'{"format":1}', b'{"format":1,"world":"measured"}'])
    )
)
def test_any_run_json_is_read_or_refused_in_a_line(tmp_path_factory, text):
    folder = tmp_path_factory.mktemp("run")
    (folder / "run.json").write_bytes(text)
    with pytest.raises(UserError) as caught:
        read_measured(folder)
    assert "\n" not in str(caught.value)

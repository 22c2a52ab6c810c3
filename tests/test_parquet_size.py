"""Small files that unpack to much are refused before they are unpacked."""

import contextlib
import gzip
import hashlib
import io
import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe import parquet_size as sizes
from bentpipe.analysis.files import scan_file
from bentpipe.damage import MEASURED_BOUND, check_size
from bentpipe.errors import UserError
from bentpipe.measurements.runs.imports import read_file
from bentpipe.measurements.serving.inputs import read_maps
from bentpipe.parquet_size import parquet_size
from bentpipe.profiles import parquet as profile_parquet
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.table import profile_to_frame
from bentpipe.runs import store

MANY = 10_500_000


def packed(table, **options):
    buffer = io.BytesIO()
    table.write_parquet(buffer, **options)
    return buffer.getvalue()


def size_of(data):
    return parquet_size(lambda place, count: data[place : place + count], len(data))


def many(**columns):
    return pl.DataFrame({name: pl.repeat(value, MANY, eager=True) for name, value in columns.items()})


@pytest.mark.parametrize("options", [{}, {"compression": "uncompressed"}, {"row_group_size": 500, "statistics": False}])
def test_the_size_is_that_of_the_table(options):
    rows = 3000
    table = pl.DataFrame(
        {
            "t": pl.int_range(0, rows, eager=True),
            "name": ["a", None, "longer"] * (rows // 3),
            "flag": [True, None, False] * (rows // 3),
            "list": [[1, 2], [], [3, 4, 5, 6]] * (rows // 3),
        }
    )
    size = size_of(packed(table, **options))
    assert size.rows == rows
    assert size.values == 7 * rows // 3  # an empty list is a value
    assert 8 * rows < size.unpacked_bytes < 40 * rows


def test_a_wide_table_of_equal_values_is_refused():
    wide = packed(pl.DataFrame({f"c{k}": pl.repeat("same", 600_000, eager=True) for k in range(80)}))
    assert len(wide) < 200_000
    with pytest.raises(ValueError, match="48000000 values in all columns"):
        check_size(wide, MEASURED_BOUND)


def test_column_chunks_that_are_together_larger_than_the_file_are_refused(monkeypatch):
    """They overlap, so that the headers of the same pages would be read once for each of them."""
    data = packed(pl.DataFrame({f"c{k}": range(200) for k in range(4)}))
    number, chunks = sizes._int, []

    def overlapping(struct, field):
        if field == sizes._PACKED_BYTES and struct not in chunks:
            chunks.append(struct)
            return number(struct, field) if len(chunks) == 1 else len(data)
        return number(struct, field)

    monkeypatch.setattr(sizes, "_int", overlapping)
    with pytest.raises(ValueError, match="its columns are larger than the file"):
        size_of(data)


SMALL = packed(pl.DataFrame({"t": range(50), "name": ["x", "yy"] * 25, "list": [[1], [2, 3]] * 25}))


@given(st.data())
def test_damaged_bytes_have_a_size_or_an_error(data):
    damaged = bytearray(SMALL[: data.draw(st.integers(0, len(SMALL)))] if data.draw(st.booleans()) else SMALL)
    for _ in range(data.draw(st.integers(0, 4)) if damaged else 0):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError, IndexError):
        assert size_of(bytes(damaged)).rows >= 0


def signed(profile, table, path):
    """A Profile's file with another table, its checksum made anew."""
    metadata = {profile_parquet.PROFILE_KEY: profile.metadata_json(), profile_parquet.HASH_KEY: profile.content_hash()}
    data = packed(table, metadata=metadata)
    split = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:split] + hashlib.sha256(data).digest() + data[split:])


def test_a_profile_of_too_many_rows_is_refused(tmp_path):
    profile = preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0)
    row = profile_to_frame(profile).row(0, named=True)
    signed(profile, many(**row), tmp_path / "P.parquet")
    with pytest.raises(UserError, match=rf"P\.parquet: .*{MANY} rows in a file of \d+ bytes; expected at most 4000000"):
        read_profile(tmp_path / "P.parquet")


def test_a_profile_that_could_not_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(profile_parquet, "BOUND", profile_parquet.Bound(3, 0.0))
    with pytest.raises(UserError, match="too long to be read again: 4 rows in a file"):
        write_profile(preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=0), tmp_path / "P.parquet")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("read", [read_file, scan_file])
def test_pings_of_too_many_rows_are_refused(tmp_path, read):
    file = tmp_path / "pings.parquet"
    file.write_bytes(packed(many(unix_ns=10**18, rtt_ms=30.0)))
    with pytest.raises(UserError, match=rf"does not read as Parquet \({MANY} rows in a file of \d+ bytes"):
        read(file)


def test_lists_of_too_many_values_are_refused(tmp_path):
    """Few rows of long lists, each of equal values."""
    values = MEASURED_BOUND.values // 100
    table = pl.DataFrame({"unix_ns": [10**18], "rtt_ms": [30.0], "more": [[0] * values]})
    file = tmp_path / "pings.parquet"
    file.write_bytes(packed(pl.concat([table] * 11)))
    with pytest.raises(UserError, match=rf"{11 * values} values in a column in a file of \d+ bytes"):
        read_file(file)


def test_maps_may_have_more_values_than_rows(tmp_path):
    """A second of LEOViz's maps has 15,129 values."""
    table = pl.DataFrame(
        {"timestamp": pl.int_range(0, 800, eager=True) * 1.0, "obstruction_map": [[1] * 15_129] * 800, "frame_type": 1}
    )
    file = tmp_path / "obstruction_map-x.parquet"
    file.write_bytes(packed(table))
    assert MEASURED_BOUND.rows < 800 * 15_129
    assert read_maps(file)


def test_a_table_of_a_run_with_an_edited_run_json_is_refused(tmp_path):
    data = packed(many(t_s=0.0))
    (tmp_path / "samples.parquet").write_bytes(data)
    files = {"samples.parquet": hashlib.sha256(data).hexdigest()}
    with pytest.raises(UserError, match=rf"samples\.parquet: does not read \({MANY} rows .*run it again"):
        store.read_table(tmp_path, files, "samples", "run it again")


def test_gzip_behind_a_heading_of_ping_is_bounded(tmp_path):
    line = b"64 bytes from 1.1.1.1: icmp_seq=1 ttl=64 time=1 ms\n"
    file = tmp_path / "ping.txt.gz"
    with gzip.open(file, "wb", compresslevel=9) as out:
        out.write(b"PING 1.1.1.1 (1.1.1.1) 56(84) bytes of data.\n")
        for _ in range(65):
            out.write(line * ((1 << 20) // len(line)))
    with pytest.raises(UserError, match="unpacks to more than 67108864 bytes; expected at most that"):
        read_file(file)


def test_gzip_of_json_is_bounded(tmp_path):
    file = tmp_path / "iperf3.json.gz"
    head = json.dumps({"start": {"version": "iperf 3.16"}})[:-1].encode()
    file.write_bytes(gzip.compress(head + b" " * (65 << 20)))
    with pytest.raises(UserError, match="unpacks to more than 67108864 bytes"):
        read_file(file, format_name="iperf3")

"""Files changed by shells and editors: concatenated tests, byte-order marks, a spreadsheet's separator line."""

import json

import polars as pl
import pytest
from reader_texts import ATLAS, CSV, MTR, TEXTS

from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.readers.tools import read as read_output
from bentpipe.measurements.runs.imports import read_file

IRTT, IPERF3, STREAM = (TEXTS[name][0] for name in ("irtt", "iperf3", "iperf3 stream"))
FAILED = json.dumps({"start": {"version": "iperf 3.16"}, "intervals": [], "end": {}, "error": "refused"}).encode()


def read(tmp_path, text):
    path = tmp_path / "file"
    path.write_bytes(text)
    return read_file(path, hints=ReadHints(every_s=1.0)).measurement


@pytest.mark.parametrize("name", [name for name, (_, of) in TEXTS.items() if of not in ("dish-sqlite", "parquet")])
def test_a_byte_order_mark_is_skipped(tmp_path, name):
    text = TEXTS[name][0]
    plain, marked = read(tmp_path, text), read(tmp_path, b"\xef\xbb\xbf" + text)
    assert marked.notes == plain.notes
    assert all(marked.tables[table].equals(plain.tables[table]) for table in plain.tables)


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_text_is_refused_by_name(tmp_path, coding):
    mark = {"utf-16": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}[coding]
    with pytest.raises(UserError, match="is UTF-16 text; expected UTF-8"):
        read(tmp_path, mark + CSV.decode().encode(coding))


@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n\n"])
@pytest.mark.parametrize("name", ["iperf3", "iperf3 stream"])
def test_concatenated_iperf3_tests_are_separated(tmp_path, name, between):
    text = TEXTS[name][0]
    once = read(tmp_path, text).tables["samples"]
    joint = b"\n" if name.endswith("stream") else between
    twice = read(tmp_path, text.rstrip() + joint + text).tables["samples"]
    assert twice.filter(pl.col("test") == 0).equals(once)
    assert twice.filter(pl.col("test") == 1).drop("test").equals(once.drop("test"))


def test_an_iperf3_test_that_failed_among_others_is_named(tmp_path):
    measured = read(tmp_path, IPERF3 + FAILED + IPERF3)
    assert measured.tables["samples"]["test"].unique().sort().to_list() == [0, 2]
    assert "test 2 failed and is left out: 'refused'" in measured.notes
    with pytest.raises(UserError, match="none of its 2 tests has an interval"):
        read(tmp_path, FAILED.replace(b'"start"', b'"start":{"connected":[]},"a"') + FAILED)


def test_an_iperf3_test_that_could_not_connect_is_separate(tmp_path):
    """A stream of one that failed has no `start`."""
    failed = b'{"event":"error","data":"unable to connect"}\n{"event":"end","data":{}}\n'
    once = read(tmp_path, STREAM)
    measured = read(tmp_path, STREAM.rstrip() + b"\n" + failed + STREAM)
    assert measured.tables["samples"]["test"].unique().sort().to_list() == [0, 2]
    assert "test 2 failed and is left out: 'unable to connect'" in measured.notes
    assert not any(note.startswith("test 1: iperf3 reported") for note in measured.notes)
    assert measured.tables["samples"].filter(pl.col("test") == 0).equals(once.tables["samples"])


def test_concatenated_irtt_tests_are_read(tmp_path):
    once = read(tmp_path, IRTT)
    later = json.loads(IRTT)
    for trip in later["round_trips"]:
        sent = trip["timestamps"]["client"]["send"]
        sent["wall"] += 60 * 10**9
    measured = read(tmp_path, IRTT + json.dumps(later).encode())
    probes = once.tables["probes"]
    assert measured.tables["probes"].height == 2 * probes.height
    assert measured.tables["probes"]["unix_ns"][probes.height :].to_list() == (probes["unix_ns"] + 60 * 10**9).to_list()
    assert measured.clock_jumps == once.clock_jumps
    assert read(tmp_path, json.dumps(later).encode() + IRTT).clock_jumps == once.clock_jumps + 1


@pytest.mark.parametrize("text", [IPERF3, STREAM, IRTT])
def test_a_programs_output_is_one_test(text):
    tool = "irtt" if text is IRTT else "iperf3"
    with pytest.raises(UserError, match="holds 2 tests; expected one"):
        read_output(tool, text.rstrip() + b"\n" + text, "standard output")


def test_concatenated_mtr_reports_are_separate_traceroutes(tmp_path):
    once, twice = read(tmp_path, MTR).tables["hops"], read(tmp_path, MTR + MTR).tables["hops"]
    assert twice["unix_ns"].unique().sort().to_list() == [0, 10**9]
    assert twice[: once.height].equals(once)


@pytest.mark.parametrize("between", [b"", b"\n"])
def test_atlas_results_are_read_in_any_grouping(tmp_path, between):
    results = json.loads(ATLAS)
    texts = [json.dumps(result, indent=1).encode() for result in results]
    whole = read(tmp_path, ATLAS).tables
    for text in (between.join(texts), between.join([ATLAS[:0], *(b"[" + text + b"]" for text in texts)])):
        measured = read(tmp_path, text).tables
        assert all(measured[name].equals(whole[name]) for name in whole)


def test_atlas_results_without_a_type_are_recognised_by_content(tmp_path):
    results = json.loads(ATLAS)
    whole = read(tmp_path, ATLAS).tables
    for result in results:
        if result.pop("type") == "ping":
            result |= {"sent": 3, "rcvd": 2}
    measured = read(tmp_path, json.dumps(results).encode()).tables
    assert all(measured[name].equals(whole[name]) for name in whole)


@pytest.mark.parametrize("hint", [b"sep=,\r\n", b"SEP=,\n"])
def test_a_spreadsheets_separator_declaration_is_not_a_row(tmp_path, hint):
    assert read(tmp_path, hint + CSV).tables["probes"].equals(read(tmp_path, CSV).tables["probes"])


def test_invalid_json_is_named_by_its_line(tmp_path):
    with pytest.raises(UserError, match=r"file:\d+: is not JSON"):
        read(tmp_path, IRTT + b"\n" + IRTT[:-20])
    with pytest.raises(UserError, match=r"is not UTF-8 text \(byte 0xff\)"):
        read(tmp_path, IRTT.replace(b"}", b"\xff}", 1))

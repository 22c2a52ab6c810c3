"""Every reader on arbitrary bytes: tables that a measured Run accepts, or a one-line error."""

import math
import random
import re
from pathlib import Path

import polars as pl
import pytest
from fuzzing import ABSURD, READ_HINTS, comes_back, folder_comes_back, harmless, other_ways
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_texts import TEXTS

from bentpipe.measurements.readers.measurement import Measurement
from bentpipe.measurements.runs.imports import FORMATS, Part, assemble_tables, read_file, recognise
from bentpipe.measurements.runs.store import Source


@st.composite
def mutated(draw, text):
    """`text` with some bytes cut out, put in twice, replaced or truncated: near enough to get past the first look."""
    data = bytearray(text)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.integers(0, 40)))
        noise = st.one_of(
            st.binary(max_size=12),
            st.sampled_from([*ABSURD, bytes(data[at:to])]),
        )
        data[at:to] = draw(noise)
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


@pytest.mark.parametrize("name", TEXTS)
def test_the_texts_are_good(name: str, tmp_path: Path) -> None:
    text, expected = TEXTS[name]
    assert recognise(text, name) == expected
    (tmp_path / "good").write_bytes(text)
    measured = read_file(tmp_path / "good", hints=READ_HINTS)
    assert measured.measurement.tables
    assemble_tables([measured], "home")


def test_every_format_has_a_text() -> None:
    assert {expected for _, expected in TEXTS.values()} == set(FORMATS)


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=60)
@given(data=st.data())
def test_any_file_is_read_or_refused(name: str, tmp_path: Path, data: st.DataObject) -> None:
    text, expected = TEXTS[name]
    path = tmp_path / "noise"
    path.write_bytes(data.draw(st.one_of(st.binary(max_size=300), mutated(text), mutated(text))))
    harmless(path, data.draw(st.sampled_from([None, expected])))


@pytest.mark.parametrize("name", TEXTS)
@settings(max_examples=15)
@given(data=st.data())
def test_block_sizes_and_slow_parsers_agree(name: str, data: st.DataObject) -> None:
    text, expected = TEXTS[name]
    other_ways(data.draw(mutated(text)), expected)


@pytest.mark.parametrize("seed", range(12))
def test_generated_measurements_are_read_back(seed: int) -> None:
    comes_back(random.Random(seed))


@pytest.mark.parametrize("seed", range(12))
def test_generated_folders_of_several_tools_are_read_back(seed: int) -> None:
    folder_comes_back(random.Random(seed))


@pytest.mark.parametrize("expected", FORMATS)
@pytest.mark.parametrize("name", TEXTS)
def test_a_file_read_as_another_format_is_refused_or_read(name: str, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(TEXTS[name][0])
    harmless(path, expected)


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_cut_anywhere_is_refused_or_read(name: str, tmp_path: Path) -> None:
    text, expected = TEXTS[name]
    path = tmp_path / "cut"
    for end in range(0, len(text), max(1, len(text) // 60)):
        path.write_bytes(text[:end])
        harmless(path, expected)


def test_non_finite_values_never_get_into_a_table() -> None:
    measured = Measurement({"links": pl.DataFrame({"t_s": [1.0], "delay_ms": [math.nan]})})
    table = assemble_tables([Part(Source(name="x", format="y"), measured)], "home")["links"]
    assert table["delay_ms"].to_list() == [None]


def test_a_long_heading_is_shown_by_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "long.csv").write_bytes(b"unix_s;rate" + b"[" * 3000 + b"\n1795199963;1\n1795199964;1\n")
    assert isinstance(harmless(tmp_path / "long.csv", "csv"), str)


@pytest.mark.parametrize("name", [name for name, (text, _) in TEXTS.items() if text.lstrip().startswith((b"{", b"["))])
def test_half_of_a_surrogate_pair_is_refused_or_passed_over(name: str, tmp_path: Path) -> None:
    text, expected = TEXTS[name]
    strings = list(re.finditer(rb'"[^"\n]*"', text))
    # Every name and value of a small text, and as many of a large one.
    for result in strings[:: max(1, len(strings) // 60)]:
        for new in (rb'"\ud800"', b'"' + result.group()[1:-1] + rb'\udc00"'):
            (tmp_path / "half").write_bytes(text[: result.start()] + new + text[result.end() :])
            outcome = harmless(tmp_path / "half", expected)
            assert not isinstance(outcome, str) or outcome.isprintable()

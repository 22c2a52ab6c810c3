"""The studies' TOML files: every one has a record, and a wrong value is one line with place and expectation."""

from pathlib import Path

import pytest

import bentpipe
from bentpipe.errors import UserError
from bentpipe.scenarios.tables import packaged_text
from bentpipe.studies import STUDIES
from bentpipe.studies.files import FILES, LeoField
from bentpipe.studies.t3p_files import T3pLatency

FOLDER = Path(bentpipe.__file__).parent / "scenarios" / "studies"


def test_every_file_has_a_record_and_every_study_a_file():
    assert {file.stem for file in FOLDER.glob("*.toml")} == FILES.keys()
    assert set(STUDIES) <= FILES.keys()


@pytest.mark.parametrize("name", FILES)
def test_a_packaged_file_is_valid(name):
    assert FILES[name].load()


@pytest.mark.parametrize(
    ("kind", "old", "new", "message"),
    [
        (LeoField, "duration_s = 60", "duration_s = 6", "leo-field.toml: duration_s is 6; expected a number from 20"),
        (LeoField, "duration_s = 60", "", "leo-field.toml: key 'duration_s' is missing; expected a number"),
        (
            LeoField,
            "left_out = []",
            "left_out = []\nleft_outs = []",
            "unknown key 'left_outs'; did you mean 'left_out'",
        ),
        (LeoField, '"kanazawa tokyo', '"kanazawa', "leo-field.toml: paths"),
        (LeoField, "[published.queue]", "[published.Queue]", "name 'Queue'; expected lower-case letters"),
        (LeoField, "value = 0.95", 'value = "0.95"', "published.goodput: value is '0.95'; expected a number"),
        (LeoField, 'relation = ">"', 'relation = ">="', "relation is '>='; expected '=' or '>' or '<'"),
        (T3pLatency, 'first = "2023-06-12T00:00:00Z"', 'first = "noon"', "windows.first: 'noon' is not a time"),
        (T3pLatency, "hours = [3, 11, 19]", "hours = [3, 24]", r"windows: hours\[1\] is 24; expected a whole number"),
    ],
)
def test_a_wrong_value_is_one_line_with_its_place(kind, old, new, message):
    text = packaged_text(kind.FILE)
    assert old in text
    with pytest.raises(UserError, match=message) as caught:
        kind.from_toml(text.replace(old, new, 1), kind.FILE)
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).startswith(kind.FILE)

"""Records: a mistake in data is one line with its place, and errors carry their parts."""

import pickle
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from bentpipe.errors import UserError
from bentpipe.records import Items, Name, Record, Text


class Dish(Record):
    """A dish."""

    name: Text
    tilt_deg: Annotated[float, Field(ge=-90, le=90)]
    antennas: int = 1
    mount: Literal["roof", "pole"] = "roof"


class Fleet(Record):
    """Dishes."""

    dishes: Annotated[Items[Dish], Field(min_length=1)]
    by_site: dict[Name, Dish] = Field(default_factory=dict)


GOOD = {"name": "a", "tilt_deg": 20}


@pytest.mark.parametrize(
    ("data", "message", "code"),
    [
        (3, "f: 3; expected a table", "invalid"),
        ({}, "f: key 'dishes' is missing; expected a list of tables", "missing_key"),
        ({"dishes": []}, "f: dishes is []; expected at least one entry", "invalid"),
        ({"dishes": [GOOD, 4]}, "f: dishes[1] is 4; expected a table", "invalid"),
        (
            {"dishes": [{**GOOD, "tilt": 1}]},
            "f: dishes[0]: unknown key 'tilt'; did you mean 'tilt_deg'?",
            "unknown_key",
        ),
        (
            {"dishes": [{**GOOD, "tilt_deg": 91}]},
            "f: dishes[0]: tilt_deg is 91; expected a number from -90 to 90",
            "invalid",
        ),
        ({"dishes": [{**GOOD, "tilt_deg": True}]}, "f: dishes[0]: tilt_deg is True; expected a number from", "invalid"),
        ({"dishes": [{**GOOD, "antennas": 1.5}]}, "f: dishes[0]: antennas is 1.5; expected a whole number", "invalid"),
        ({"dishes": [{**GOOD, "name": "\n"}]}, "f: dishes[0]: name is '\\n'; expected one line of text", "invalid"),
        ({"dishes": [{**GOOD, "mount": "car"}]}, "f: dishes[0]: mount is 'car'; expected 'roof' or 'pole'", "invalid"),
        (
            {"dishes": [GOOD], "by_site": {"A b": GOOD}},
            "f: by_site: name 'A b'; expected lower-case letters",
            "invalid",
        ),
        ({"dishes": [GOOD], "by_site": {"x": {}}}, "f: by_site.x: key 'name' is missing", "missing_key"),
    ],
)
def test_a_mistake_in_data_is_named_with_its_place(data, message, code):
    with pytest.raises(UserError) as caught:
        Fleet.check(data, "f")
    assert str(caught.value).startswith(message)
    assert caught.value.code == code


def test_a_mistake_in_python_is_named_with_its_record():
    with pytest.raises(UserError, match=r"^Dish: tilt_deg is 'x'; expected a number from -90 to 90$"):
        Dish(name="a", tilt_deg="x")  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"^Fleet: dishes\[0\]: key 'tilt_deg' is missing"):
        Fleet(dishes=[{"name": "a"}])  # type: ignore[arg-type]


def test_a_replaced_field_is_checked():
    dish = Dish(name="a", tilt_deg=1)
    assert dish.replace(antennas=2) == Dish(name="a", tilt_deg=1, antennas=2)
    with pytest.raises(UserError, match="antennas is 'two'"):
        dish.replace(antennas="two")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["dishes", "by_site", "name", "tilt_deg", "antennas", "mount", "x"])


@given(st.dictionaries(KEYS, JSON | st.lists(st.dictionaries(KEYS, JSON, max_size=4), max_size=2), max_size=3))
def test_any_data_gives_a_record_or_one_line(data):
    caught = None
    try:
        Fleet.check(data, "f")
    except UserError as error:
        caught = error
    if caught is not None:
        assert len(str(caught).splitlines()) == 1
        assert str(caught) == f"{caught.where}: {caught.found}" + f"; expected {caught.expected}" * bool(
            caught.expected
        )


def test_an_error_is_built_from_its_parts_and_keeps_them_in_another_process():
    error = UserError("91", where="site", expected="-90 to 90", hint="a place of `bentpipe sites`", code="range")
    assert str(error) == "site: 91; expected -90 to 90; try a place of `bentpipe sites`"
    same = pickle.loads(pickle.dumps(error))
    parts = ("where", "found", "expected", "hint", "code")
    assert [getattr(same, part) for part in parts] == [getattr(error, part) for part in parts]
    assert str(same) == str(error)
    assert str(error.within("e.toml: flows[0]")) == f"e.toml: flows[0]: {error}"

"""Tunables as a controller's program stores them, and back."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe import _native
from bentpipe.kernel.tunables import changed, is_of_another_version, option_words, stored_words, values_of

ENTRIES = {each["name"]: each for each in _native.controllers()}
STORED_BYTES = len(stored_words(0, option_words("hybla", {})))


def numbers(tunable):
    if tunable["choices"]:
        return st.sampled_from(tunable["choices"])
    if tunable["allowed"].startswith(("0 or 1", "a whole number")):
        return st.integers(int(tunable["min"]), int(tunable["max"])).map(float)
    low, high = tunable["min"], tunable["max"]
    return st.floats(low, high).map(lambda value: min(max(round(value, 3), low), high))


@pytest.mark.parametrize("name", sorted(ENTRIES))
def test_defaults_come_back_and_nothing_differs_from_them(name):
    values = values_of(name, stored_words(7, option_words(name, {})))
    assert values == {each["name"]: each["default"] for each in ENTRIES[name]["tunables"]}
    assert changed(name, values) == {}


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(["bbr2", "bbr3-leo", "hybla", "leocc", "satcp"]))
def test_what_a_user_wrote_comes_back(data, name):
    tunables = data.draw(
        st.lists(st.sampled_from(ENTRIES[name]["tunables"]), max_size=4, unique_by=lambda t: t["name"])
    )
    written = {each["name"]: data.draw(numbers(each)) for each in tunables}
    values = values_of(name, stored_words(1, option_words(name, written)))
    for each, value in written.items():
        assert values[each] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9, abs=1e-9))
    defaults = {each["name"]: each["default"] for each in tunables}
    assert set(changed(name, values)) <= {each for each in written if written[each] != defaults[each]}


@settings(max_examples=200, deadline=None)
@given(stored=st.one_of(st.binary(max_size=600), st.binary(min_size=STORED_BYTES, max_size=STORED_BYTES)))
def test_words_of_another_program_are_none(stored):
    assert values_of("bbr3-leo", stored) is None


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=65, max_size=65), keeps_layout=st.booleans())
def test_any_words_with_their_sum_are_values_or_none(words, keeps_layout):
    layout = struct.unpack("<66Q", option_words("hybla", {}))[-1]
    last = layout if keeps_layout else layout ^ 1
    values = values_of("hybla", stored_words(3, struct.pack("<66Q", *words, last)))
    assert values is None or set(values) == {"rtt0_ms", "counts"}
    choices = ENTRIES["hybla"]["tunables"][1]["choices"]
    assert (values is not None) == (keeps_layout and words[3] < len(choices))


@settings(max_examples=200, deadline=None)
@given(words=st.lists(st.integers(0, 2**64 - 1), min_size=65, max_size=65), layout=st.integers(0, 2**64 - 1))
def test_words_with_their_sum_and_another_layout_are_of_another_version(words, layout):
    own = option_words("hybla", {})
    (own_layout,) = struct.unpack("<Q", own[-8:])
    other = stored_words(3, struct.pack("<66Q", *words, layout))
    assert is_of_another_version(other, own) is (layout != own_layout)
    assert not is_of_another_version(stored_words(3, struct.pack("<66Q", *words, own_layout)), own)
    assert not is_of_another_version(other[:-1] + bytes([other[-1] ^ 1]), own)  # damaged: `set` writes it anew

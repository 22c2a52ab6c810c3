"""The part of the processors' time that a hypervisor gave to others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.emulation.processors import ProcessorTime


def test_the_share_is_of_all_time():
    before = ProcessorTime.parse("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    later = ProcessorTime.parse("cpu  20 0 20 140 0 0 0 20 5 0\n")
    assert (before.stolen, before.total) == (10, 100)
    assert before.stolen_share_until(later) == pytest.approx(0.1)
    assert before.stolen_share_until(before) is None


@given(st.text())
def test_other_text_says_nothing_or_counts(text):
    found = ProcessorTime.parse(text)
    assert found is None or 0 <= found.stolen <= found.total

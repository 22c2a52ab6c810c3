"""Helpers of the tests of scenarios."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.scenarios.sites import load_sites

points = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


def at(name: str) -> tuple[float, float]:
    place = load_sites()[name]
    return place.lat_deg, place.lon_deg


def result_or_message(call, text):
    """What `call` returns, or its error's message; any other exception fails the test."""
    try:
        return call(text)
    except UserError as error:
        return str(error)


def assert_one_line(error: pytest.ExceptionInfo[UserError]) -> None:
    message = str(error.value)
    assert len(message.splitlines()) == 1
    assert 10 < len(message) < 600

"""Capacities for measured Profiles."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ping_tables import even

from bentpipe.errors import UserError
from bentpipe.profiles.measured.capacity import read_capacity
from bentpipe.profiles.measured.make import FromPings, profile_from_pings
from bentpipe.profiles.path import PathView


def test_capacity_as_a_rate_for_either_direction():
    wanted = FromPings(capacities=[read_capacity("down=100mbit"), read_capacity("15mbit")])
    made = profile_from_pings(even(), wanted)
    view = PathView(made.profile)
    assert any("holds 1000 packets: an assumption, not measured" in note for note in made.notes)
    assert not any("not measured" in note for note in profile_from_pings(even()).notes)
    assert view.capacity("down").value.tolist() == [100e6]
    assert view.capacity("up").value.tolist() == [15e6]


def test_a_trace_without_a_clock_repeats(tmp_path):
    trace = tmp_path / "bw.txt"
    trace.write_text("".join(f"{ms}\n" for ms in range(1, 1001)))  # 12 Mbit/s for a second
    made = profile_from_pings(even(), FromPings(capacities=[read_capacity(str(trace))]))
    view = PathView(made.profile)
    assert view.capacity("down").mean() == pytest.approx(12e6)
    assert np.isinf(view.capacity("up").value).all()
    assert any("assumed to repeat" in note for note in made.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fast", "'fast' is neither a file nor a rate such as 100mbit"),
        ("left=1mbit", "'left=1mbit': expected up or down before ="),
        ("100", "'100' is neither a file nor a rate"),
    ],
)
def test_invalid_capacities_are_refused(text, message):
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        read_capacity(text)


@settings(max_examples=60)
@given(data=st.binary(max_size=200), head=st.sampled_from([b"", b"{", b"PAR1", b"12\n"]))
def test_any_bytes_as_a_capacity(tmp_path, data, head):
    file = tmp_path / "noise"
    file.write_bytes(head + data)
    line = ""
    try:
        read_capacity(str(file))
    except UserError as error:
        line = str(error)
    assert "\n" not in line

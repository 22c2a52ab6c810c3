"""Sudden ends, a few of those that `bentpipe validate emulator-faults` makes."""

import random

import pytest
from emulation import dumbbell_file

from bentpipe.validation.emulator.faults import VICTIMS, kill_once


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_kill_at_any_time_leaves_nothing(victim, tmp_path):
    """`bentpipe validate emulator-faults` does this a hundred times each."""
    file = dumbbell_file(tmp_path)
    for attempt in range(3):
        after_s = random.Random(f"{victim} {attempt}").uniform(0.0, 0.8)
        killed = kill_once(victim, file, after_s, tmp_path, busy=attempt == 1)
        assert killed.hit
        assert not killed.left
        assert "Traceback" not in killed.output


def test_a_kill_before_the_emulation_starts_is_no_hit(tmp_path):
    """The command's first moments are not what the hundred kills of it are to meet."""
    file = dumbbell_file(tmp_path)
    killed = kill_once("parent", file, 0.0, tmp_path, starting=True)
    assert not killed.hit
    assert not killed.left

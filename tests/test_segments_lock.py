"""The lock of a folder that is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bentpipe.errors import UserError
from bentpipe.segments import holding


def copies_of(file):
    """Return copies of this process's descriptors of a file, as a process that is just being started has them."""
    numbers = [int(one.name) for one in Path("/proc/self/fd").iterdir() if os.path.realpath(one) == str(file)]
    return [os.dup(number) for number in numbers]


def test_a_lock_is_free_after_its_block_even_if_a_starting_process_still_has_it(tmp_path):
    with holding(tmp_path, "is in use"):
        inherited = copies_of((tmp_path / ".lock").resolve())
        with pytest.raises(UserError, match="is in use"), holding(tmp_path, "is in use"):
            pass
    try:
        assert inherited
        with holding(tmp_path, "is in use"):
            pass
    finally:
        for number in inherited:
            os.close(number)

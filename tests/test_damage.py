"""Damaged tables: one line of bentpipe, and no output of Polars."""

import os
import random
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.exceptions import PanicException

from bentpipe.damage import decoded_scan, guarded
from bentpipe.errors import UserError


def refused(reason):
    return UserError(f"x.parquet: does not read ({reason})")


def panics():
    """As Polars does it: a message on descriptor 2 from a thread of Rust's, then an exception that is none."""
    os.write(2, b"thread panicked\nstack backtrace:\n")
    raise PanicException("called `Result::unwrap()`")


def test_a_panic_is_one_line_and_prints_nothing(capfd):
    with pytest.raises(UserError, match=r"x\.parquet: does not read \(Polars cannot decode it"):
        guarded(panics, refused)
    assert capfd.readouterr().err == ""


def test_other_output_is_printed_afterwards(capfd):
    assert guarded(lambda: os.write(2, b"a warning\n"), refused) == 10
    with pytest.raises(UserError, match="no such"):
        guarded(lambda: print("before", file=sys.stderr, flush=True) or {}["no such"], refused)
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "a warning\nbefore\nafter\n"


def test_user_errors_and_interruptions_pass_unchanged():
    def interrupted():
        raise KeyboardInterrupt

    def says():
        raise UserError("its own words")

    with pytest.raises(KeyboardInterrupt):
        guarded(interrupted, refused)
    with pytest.raises(UserError, match=r"^its own words$"):
        guarded(says, refused)


def test_a_process_without_a_descriptor_2():
    kept = os.dup(2)
    os.close(2)
    try:
        assert guarded(lambda: 7, refused) == 7
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def test_without_a_free_descriptor_nothing_is_reported_as_damaged(monkeypatch, capfd):
    def none_left(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", none_left)
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert guarded(lambda: 7, refused) == 7
    with pytest.raises(UserError, match="cannot decode it"):
        guarded(panics, refused)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert "thread panicked" in capfd.readouterr().err


def test_a_damaged_page_is_detected_before_use(tmp_path, capfd):
    """Whatever bytes are hit: a table that can be collected, or one line; of hundreds some panic."""
    table = pl.DataFrame(
        {"unix_ns": np.arange(40) * 10**9, "rtt_ms": [None if k % 7 == 0 else k / 8 for k in range(40)]}
    )
    path = tmp_path / "x.parquet"
    table.write_parquet(path, compression="uncompressed")
    whole, random_, outcomes = path.read_bytes(), random.Random(1), set()
    lines = []
    for _ in range(400):
        damaged = bytearray(whole)
        at = random_.randrange(4, len(whole) - 8)
        damaged[at] = random_.randrange(256)
        path.write_bytes(damaged)
        try:
            decoded_scan(lambda: pl.scan_parquet(path), refused, ["unix_ns", "rtt_ms", "seq"]).select(
                "unix_ns", "rtt_ms"
            ).collect()
        except UserError as error:
            outcomes.add("panic" if "cannot decode it" in str(error) else "refused")
            lines.append(str(error))
        except pl.exceptions.ColumnNotFoundError:
            outcomes.add("another column")  # its name was hit
        else:
            outcomes.add("read")
    assert {"panic", "refused", "read"} <= outcomes
    assert not any("\n" in line for line in lines)
    assert capfd.readouterr().err == ""

"""What processors and processes did, as `/proc` counts it."""

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.execution.emulation import processors
from bentpipe.execution.emulation.proc import PROC, cpu_time_s, stat_fields
from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.validation.emulator.calm import Ticks


def test_the_share_is_of_all_time():
    before = ProcessorTime.parse("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
    later = ProcessorTime.parse("cpu  20 0 20 140 0 0 0 20 5 0\n")
    assert (before.stolen, before.total) == (10, 100)
    assert before.stolen_share_until(later) == pytest.approx(0.1)
    assert before.stolen_share_until(before) is None


@given(st.text())
def test_other_text_says_nothing_or_counts(text):
    result = ProcessorTime.parse(text)
    assert result is None or 0 <= result.stolen <= result.total


def test_a_name_may_have_brackets_and_spaces(tmp_path):
    (tmp_path / "stat").write_text("12 (a) R 1 (b) S 7 " + " ".join(map(str, range(9, 30))))
    assert stat_fields(tmp_path)[:3] == ["S", "7", "9"]
    ticks = 18 + 19  # fields 14 and 15
    assert cpu_time_s(tmp_path) == ticks / os.sysconf("SC_CLK_TCK")


def test_the_time_of_a_process_is_what_the_system_says():
    if not PROC.exists():
        pytest.skip("no /proc")
    hz = os.sysconf("SC_CLK_TCK")
    before = cpu_time_s(Path("/proc/self"))
    times = os.times()
    after = cpu_time_s(Path("/proc/self"))
    # In ticks, since sums of seconds are rounded.
    assert round(before * hz) <= round(times.user * hz) + round(times.system * hz) <= round(after * hz) + 2


def test_a_kernel_without_steal_time_gives_no_share(tmp_path, monkeypatch):
    ticks = Ticks()
    monkeypatch.setattr(processors, "STAT", tmp_path / "none")
    assert math.isnan(ticks.stolen())
    assert math.isnan(ticks.busy())


def test_stolen_time_is_not_processor_load(tmp_path, monkeypatch):
    monkeypatch.setattr(processors, "STAT", tmp_path / "stat")
    (tmp_path / "stat").write_text("cpu 10 0 10 70 0 0 0 10\n")
    ticks = Ticks()
    (tmp_path / "stat").write_text("cpu 30 0 20 130 0 0 0 20\n")
    assert (ticks.stolen(), ticks.busy()) == (pytest.approx(0.1), pytest.approx(0.3))

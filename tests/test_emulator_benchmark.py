"""The comparison with rattan: rounds that count."""

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parent.parent / "benchmarks" / "emulator.py"


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("emulator_benchmark", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def rounds(benchmark, *ours):
    """Rounds of (ours [Gbit/s], whether valid); the peer has 1, 2, … Gbit/s."""
    return [
        (
            benchmark.Measured(gbps * 1e9, 5.0, None if valid else "late"),
            benchmark.Measured(i * 1e9, 10.0),
        )
        for i, (gbps, valid) in enumerate(ours, start=1)
    ]


def test_an_invalid_round_counts_for_neither(benchmark):
    line, figures = benchmark.result(rounds(benchmark, (2, True), (90, False), (6, True), (4, True), (80, False)))
    assert figures == {"emulator_vs_rattan": pytest.approx(4 / 3), "emulator_valid_rounds": 3.0}
    assert "median of 3 of 5 rounds, 2 not valid and left out: ours 4.00 Gbit/s" in line
    assert "3.00 Gbit/s, 10.0 µs" in line


def test_without_a_valid_round_there_is_no_ratio(benchmark):
    line, figures = benchmark.result(rounds(benchmark, (2, False)))
    assert figures == {"emulator_valid_rounds": 0.0}
    assert "none of 1 rounds of ours was valid" in line

"""The measurement of delay beside a load: it counts only if the load was there."""

import numpy as np
import pytest
from disturbance import first_valid
from emulation import require_emulation

from bentpipe.execution.emulation.lateness import BOUND_MS
from bentpipe.validation.emulator import delays, traffic


@pytest.fixture
def short(monkeypatch):
    require_emulation()
    monkeypatch.setattr(delays, "LOADED_S", 1)


@pytest.mark.usefixtures("short")
def test_a_delay_without_its_load_does_not_count(monkeypatch):
    real = traffic.prober
    monkeypatch.setattr(traffic, "prober", lambda *words: ["false"] if words[0] == "flood" else real(*words))
    measured = delays.under_udp()
    assert "of a load of 200 Mbit/s 0.0 arrived (± 2 %)" in measured.why_not
    assert "beside 0 Mbit/s" in measured.rows[0].quantity


@pytest.mark.usefixtures("short")
def test_the_load_is_measured_at_the_receiver(monkeypatch):
    """Of a tenth as much, so that a busy machine can, too."""
    monkeypatch.setattr(delays, "LOAD_BPS", 20e6)
    monkeypatch.setattr(delays, "LOAD_ERROR", 0.2)
    measured = delays.under_udp()
    assert "of a load" not in (measured.why_not or "")


@pytest.mark.usefixtures("emulation")
def test_kernel_timestamps_confirm_a_valid_runs_delays():
    """By the kernel's stamps at both ends, which know nothing of what the relay says of itself."""

    def probed():
        probe = traffic.probe(delays.constant_path(), 1000, 1e-3)
        if probe.known.any():
            assert np.min(probe.delay_us) >= 19_990.0, "early is never right"  # as floats such times are 256 ns apart
        return probe, probe.why_thin or probe.emulated.why_invalid

    if isinstance(probe := first_valid(probed), str):
        pytest.skip(probe)  # that none came early holds all the same
    late_us = probe.delay_us - 20_000.0
    assert np.median(late_us) <= 1e3 * BOUND_MS / 2
    assert np.quantile(late_us, 0.9) <= 1e3 * 2 * BOUND_MS  # in and out, each within the bound

"""The measurement of delay beside a load: it counts only if the load was there."""

import pytest
from emulation import require_emulation

from bentpipe.validation.emulator import delays, traffic


@pytest.fixture
def short(monkeypatch):
    require_emulation()
    monkeypatch.setattr(delays, "LOADED_S", 1)


@pytest.mark.usefixtures("short")
def test_without_its_load_a_delay_does_not_count(monkeypatch):
    real = traffic.prober
    monkeypatch.setattr(traffic, "prober", lambda *words: ["false"] if words[0] == "flood" else real(*words))
    measured = delays.under_udp()
    assert "of a load of 200 Mbit/s 0.0 arrived (± 2 %)" in measured.why_not
    assert "beside 0 Mbit/s" in measured.rows[0].what


@pytest.mark.usefixtures("short")
def test_the_load_is_what_arrives(monkeypatch):
    """Of a tenth as much, so that a busy machine can, too."""
    monkeypatch.setattr(delays, "LOAD_BPS", 20e6)
    monkeypatch.setattr(delays, "LOAD_ERROR", 0.2)
    measured = delays.under_udp()
    assert "of a load" not in (measured.why_not or "")

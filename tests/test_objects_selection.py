"""Selections of a Measurement, and the site that `bentpipe.read` names."""

import pytest
from reader_texts import half_a_minute_of_pings

import bentpipe as bp


@pytest.fixture
def ping(tmp_path):
    file = tmp_path / "ping.txt"
    file.write_text(half_a_minute_of_pings(), encoding="ascii")
    return file


def test_a_series_of_several_is_selected(tmp_path, ping):
    other = tmp_path / "other.txt"
    other.write_text(half_a_minute_of_pings().replace("192.0.2.1", "192.0.2.2"), encoding="ascii")
    both = bp.read(ping, other)
    assert both.latency()["target"].to_list() == ["192.0.2.1", "192.0.2.2"]
    with pytest.raises(bp.UserError):
        both.handovers()
    one = both.select(target="192.0.2.2")
    assert one.handovers().probes == 60
    assert set(one.to_polars()["target"]) == {"192.0.2.2"}
    assert one.profile().name.endswith("192.0.2.2")
    with pytest.raises(bp.UserError, match=r"^target: 'x'; expected one of 192\.0\.2\.1, 192\.0\.2\.2$"):
        both.select(target="x")


def test_the_site_of_a_measurement_is_that_of_its_analyses(ping):
    measured = bp.read(ping, site="louvain")
    assert measured.latency()["site"].to_list() == ["louvain"]
    assert measured.select(site="louvain").latency().height == 1
    assert measured.profile().name == "louvain → 192.0.2.1"
    with pytest.raises(bp.UserError, match=r"^site: 'here'; expected one of louvain$"):
        measured.select(site="here")


def test_a_selection_of_a_stored_measurement_is_checked_at_the_call(tmp_path, ping):
    stored = bp.read(bp.read(ping, site="louvain").write(tmp_path / "runs"))
    assert stored.select(site="louvain", kind="icmp").latency().height == 1
    for key in ("site", "target", "kind"):
        with pytest.raises(bp.UserError, match=f"^{key}: 'zz'; expected one of "):
            stored.select(**{key: "zz"})

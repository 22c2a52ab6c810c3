"""The study `outages`: Profiles with an outage, when a flow is back, and verdicts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.profiles.outage import with_outage
from bentpipe.profiles.presets import preset_profile
from bentpipe.studies import outages
from bentpipe.studies.files import Outages
from bentpipe.studies.flows import Track
from bentpipe.studies.study import Request


def test_an_outage_that_loses_packets_has_no_route_and_one_that_holds_them_has():
    whole = preset_profile("fibre", 60.0)
    routes = {
        packets: [
            (route["at_ns"] / 1e9, len(route["hops"]))
            for route in json.loads(with_outage(whole, 20, 5, packets).metadata_json())["routes"]
        ]
        for packets in ("lost", "held")
    }
    assert routes == {"lost": [(0, 1), (20, 0), (25, 1)], "held": [(0, 1)]}


@pytest.mark.parametrize(("start_s", "length_s"), [(0, 5), (20, 0), (58, 5)])
def test_an_outage_outside_the_profile_is_refused_in_one_line(start_s, length_s):
    with pytest.raises(UserError, match="an end before 60 s"):
        with_outage(preset_profile("fibre", 60.0), start_s, length_s)


def test_an_outage_that_begins_without_a_path_is_refused():
    twice = with_outage(preset_profile("fibre", 60.0), 20, 10)
    with pytest.raises(UserError, match="no path at 22 s"):
        with_outage(twice, 22, 5)


def track(rate_bps):
    t_s = np.arange(1, len(rate_bps) + 1) * 0.1
    return Track(t_s, np.array(rate_bps, float), *(np.zeros(len(t_s)) for _ in range(4)))


def test_a_flow_is_back_at_the_start_of_its_first_good_window():
    file = Outages.load()
    whole = track([100.0] * 400)
    late = track([100.0] * 100 + [0.0] * 52 + [100.0] * 248)
    # The path is back after 15 s. A window of 1 s from 15.1 s on has nine samples of ten.
    assert outages.back_after_s(late, whole, 15.0, file) == pytest.approx(0.1)
    never = track([100.0] * 100 + [0.0] * 300)
    assert outages.back_after_s(never, whole, 15.0, file) == file.after_s


def test_the_study_compares_cases_and_judges_those_that_probe(tmp_path, monkeypatch):
    file = Outages.load()
    cases = [case for case in file.cases if case.name in ("bbr3", "bbr3-leo")]
    small = file.replace(begins_s=30, paths_quick=1, lengths_quick_s=[3], held_lengths_s=[], after_s=5, cases=cases)
    monkeypatch.setattr(outages.Outages, "load", lambda: small)
    result = outages.STUDY.run(Request(tmp_path, quick=True))
    rows = {row.quantity: row.ours for row in result.rows}
    limits = [quantity for quantity in rows if quantity.endswith("is back, in RTOs of an idle path: bbr3-leo")]
    assert len(limits) == 1
    assert rows[limits[0]] > 0
    rows = {quantity: value for quantity, value in rows.items() if "path's return" not in quantity}
    assert set(rows) == {f"{name}: {figure}" for name in ("bbr3", "bbr3-leo") for figure in ("median", "longest")}
    assert rows["bbr3-leo: longest"] <= 2
    assert [verdict.statement.partition(":")[0] for verdict in result.verdicts] == ["bbr3-leo"] * 2

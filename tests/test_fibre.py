"""Delays over fibre."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from scenario_helpers import assert_one_line, at, points

from bentpipe.errors import UserError
from bentpipe.scenarios.fibre import fibre_one_way_ms, great_circle_km, load_fibre, parse_fibre
from bentpipe.scenarios.ground import (
    pop_by_code,
)
from bentpipe.scenarios.tables import packaged_text


@pytest.mark.parametrize(
    ("a", "b", "rtt_ms"),
    [
        # Means that IBM Cloud published for 18 October to 16 November 2025; these pairs are in our table from Azure.
        ("london", "sydney", 260.0),
        ("frankfurt", "sydney", 250.5),
        ("tokyo", "sydney", 117.5),
        ("tokyo", "london", 235.5),
        ("tokyo", "frankfurt", 224.0),
        ("sao-paulo", "london", 185.0),
        ("sao-paulo", "sydney", 324.0),
        ("sao-paulo", "tokyo", 282.0),
        ("sao-paulo", "toronto", 128.0),
        ("toronto", "frankfurt", 93.0),
        ("ashburn", "london", 75.5),
        ("london", "frankfurt", 13.0),
    ],
)
def test_fibre_delays_match_an_independent_source(a, b, rtt_ms):
    # Two clouds take different cables: within 15 % (the worst pair, Toronto to Frankfurt, differs by 14 %).
    assert 2 * fibre_one_way_ms(at(a), at(b)).one_way_ms == pytest.approx(rtt_ms, rel=0.15, abs=5)


@pytest.mark.parametrize(
    ("server", "rtt_ms"), [("sydney", 16), ("london", 241), ("tokyo", 114), ("mumbai", 158), ("sao-paulo", 317)]
)
def test_rtts_from_the_melbourne_pop_match_the_docs(server, rtt_ms):
    pop = pop_by_code("MEL")
    assert round(2 * fibre_one_way_ms((pop.lat_deg, pop.lon_deg), at(server)).one_way_ms) == rtt_ms


def test_melbourne_to_sao_paulo_is_not_the_great_circle():
    melbourne = pop_by_code("MEL")
    delay = fibre_one_way_ms((melbourne.lat_deg, melbourne.lon_deg), at("sao-paulo"))
    light_ms = great_circle_km((melbourne.lat_deg, melbourne.lon_deg), at("sao-paulo")) / load_fibre().speed_km_per_ms
    assert delay.basis == "table"
    assert delay.one_way_ms / light_ms == pytest.approx(2.4, abs=0.05)


@pytest.mark.parametrize(
    ("a", "b", "basis"),
    [
        ("melbourne", "london", "table"),
        ("reykjavik", "london", "table"),
        ("sydney", "los-angeles", "cable"),
        ("perth", "singapore", "cable"),
        ("new-york", "seattle", "great-circle"),
        ("lagos", "london", "great-circle"),
        ("melbourne", "brisbane", "great-circle"),
        ("osnabrueck", "frankfurt", "great-circle"),
    ],
)
def test_basis_names_the_weakest_part(a, b, basis):
    assert fibre_one_way_ms(at(a), at(b)).basis == basis


@given(points, points)
def test_detail_and_basis_agree(a, b):
    delay = fibre_one_way_ms(a, b)
    assert ("great circle" in delay.detail) == (delay.basis == "great-circle"), delay


def test_a_measured_pair_gives_half_its_rtt():
    fibre = load_fibre()
    for a, b in combinations(fibre.cities, 2):
        link = fibre.links[a].get(b)
        if link is not None and link.basis == "table" and great_circle_km(fibre.cities[a], fibre.cities[b]) > 300:
            assert fibre_one_way_ms(fibre.cities[a], fibre.cities[b]).one_way_ms == link.one_way_ms


def test_a_city_with_only_a_cable_uses_the_cable():
    # Sydney to Santiago: Southern Cross NEXT and Curie, 13500 + 10500 km and 120 km of land stretched by 2.1.
    delay = fibre_one_way_ms(at("sydney"), at("santiago"))
    assert delay.one_way_ms == pytest.approx((13500 + 10500 + 120 * 2.1) / 199.86, abs=0.1)
    assert "southern-cross-next" in delay.detail
    assert "curie" in delay.detail


@given(points, points)
def test_fibre_is_symmetric_and_never_faster_than_light_in_fibre(a, b):
    there, back = fibre_one_way_ms(a, b), fibre_one_way_ms(b, a)
    assert there.one_way_ms == pytest.approx(back.one_way_ms, rel=1e-9, abs=1e-9)
    assert there.basis == back.basis
    assert there.one_way_ms >= great_circle_km(a, b) / load_fibre().speed_km_per_ms - 1e-6


@given(points)
def test_zero_distance_has_zero_delay(a):
    assert fibre_one_way_ms(a, a).one_way_ms == 0


def test_great_circle_of_a_quarter_of_the_globe():
    assert great_circle_km((0, 0), (0, 90)) == pytest.approx(6371.0088 * math.pi / 2)
    assert great_circle_km((90, 0), (-90, 77)) == pytest.approx(6371.0088 * math.pi)


def test_a_link_faster_than_light_is_refused():
    text = packaged_text("fibre.toml").replace("rtt_ms = [16]", "rtt_ms = [2]")
    with pytest.raises(UserError, match="light in fibre needs") as error:
        parse_fibre(text, "mine.toml")
    assert_one_line(error)

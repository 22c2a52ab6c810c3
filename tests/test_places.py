"""Places by name, coordinates or text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario_helpers import assert_one_line, result_or_message

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.scenarios.places import as_place, parse_place
from bentpipe.scenarios.sites import load_iata_codes, load_sites


def test_a_place_is_a_name_or_coordinates():
    assert parse_place("Melbourne") == load_sites()["melbourne"]
    place = parse_place(" -22.90, -43.17 ")
    assert (place.name, place.lat_deg, place.lon_deg, place.alt_m) == ("22.9S43.17W", -22.90, -43.17, 0.0)
    assert parse_place("40.44,-79.99").name == "40.44N79.99W"
    assert parse_place("10,350,-12.5").name == "10N10W-12.5m"
    assert parse_place("10,350,-12.5").lon_deg == -10
    assert parse_place("10,-180").lon_deg == 180


def test_a_place_may_have_hemispheres_or_be_an_iata_code():
    for text in ("38.72N,9.14W", "38.72n, 9.14w", "38.72N 9.14W", "38.72N9.14W"):
        assert parse_place(text) == parse_place("38.72,-9.14")
    assert parse_place("22.9S,43.17E,10m") == parse_place("-22.9,43.17,10")
    assert parse_place(parse_place("-22.9,-43.17,100").name) == parse_place("-22.9,-43.17,100")
    assert parse_place("MAD") == parse_place("mad") == load_sites()["madrid"]
    assert set(load_iata_codes().values()) <= load_sites().keys()
    for wrong in ("91N,0E", "9W,38N", "1.2.3N,4E", "XYZ"):
        with pytest.raises(UserError) as error:
            parse_place(wrong)
        assert_one_line(error)


@given(
    st.decimals(-90, 90, places=4),
    st.decimals(-180, 360, places=4),
    st.none() | st.decimals(-500, 9000, places=1),
)
def test_coordinates_are_parsed_exactly(lat, lon, alt):
    place = parse_place(f"{lat:f},{lon:f}" if alt is None else f"{lat:f},{lon:f},{alt:f}")
    assert place.lat_deg == float(lat)
    assert -180 < place.lon_deg <= 180
    assert math.isclose(math.remainder(place.lon_deg - float(lon), 360), 0, abs_tol=1e-9)
    assert place.alt_m == float(alt or 0)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "91,0",
            "-90.01,0",
            "0,360.1",
            "0,-181",
            "0,0,9001",
            "0,0,-501",
            "1",
            "1,2,3,4",
            "1,",
            ",",
            "nan,0",
            "inf,0",
        ),
        *("1e1,0", "1_0,0", "0x1,0", "١,0", "10 20", "--1,0", "melbourne,sydney", "\n", "a\nb,1", "x" * 10_000),
    ],
)
def test_invalid_places_are_refused(text):
    with pytest.raises(UserError) as error:
        parse_place(text)
    assert_one_line(error)


@given(st.text() | st.text("0123456789.,+-e ", max_size=20))
def test_any_text_gives_a_place_or_a_one_line_error(text):
    place = result_or_message(parse_place, text)
    if isinstance(place, str):
        assert len(place.splitlines()) == 1
    else:
        assert -90 <= place.lat_deg <= 90
        assert -180 < place.lon_deg <= 180


def test_a_place_may_be_a_name_a_text_a_tuple_or_itself():
    melbourne = load_sites()["melbourne"]
    assert as_place("Melbourne") == as_place(melbourne) == melbourne
    assert as_place((-37.85, 145.11)) == as_place("-37.85,145.11") == as_place([-37.85, 145.11])
    assert as_place((40.44, 280, 100)) == as_place("40.44,280,100")


@given(st.lists(st.one_of(st.floats(), st.integers(), st.text(), st.none(), st.booleans()), max_size=4).map(tuple))
def test_values_that_are_no_place_are_refused_in_one_line(values):
    outcome = result_or_message(as_place, values)
    if isinstance(outcome, str):
        assert len(outcome.splitlines()) == 1
    else:
        assert -90 <= outcome.lat_deg <= 90
        assert -180 < outcome.lon_deg <= 180


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((91.0, 0.0), "place '(91.0, 0.0)': latitude is 91.0; expected -90 to 90 degrees"),
        ((0.0, math.nan), "longitude is nan"),
        (3, "place 3: expected a site name"),
        (("a", "b"), "place ('a', 'b'): expected a site name"),
    ],
)
def test_an_invalid_place_names_the_reason(place, message):
    with pytest.raises(UserError) as caught:
        as_place(place)
    assert_one_line(caught)
    assert message in str(caught.value)


def test_an_unknown_three_letter_code_is_named_as_one():
    with pytest.raises(UserError) as caught:
        as_place("XQZ")
    assert_one_line(caught)
    assert "place 'XQZ': the IATA code of no known site" in str(caught.value)


def test_the_catalogue_of_sites_has_their_codes():
    (tokyo,) = [site for site in bp.sites() if site["name"] == "tokyo"]
    assert tokyo["iata"] == ["TYO", "HND", "NRT"]

"""Computed Profiles over inter-satellite links: where they are used, their hops, delays and order of packets."""

import json
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.orbits.tracks import read_track
from bentpipe.profiles.make import OutageWarning, PolarServiceWarning, UnpublishedRouteWarning, make_profile
from bentpipe.profiles.origin import slots
from bentpipe.profiles.pings import ping
from bentpipe.profiles.show import as_rows, summarise
from bentpipe.scenarios.sites import load_sites
from bentpipe.times import parse_utc

#: At the edge of a slot.
START = parse_utc("2026-05-10T09:00:12Z")
LIGHT_KM_S = 299_792.458


def metadata(profile: Any) -> dict[str, Any]:
    return json.loads(profile.metadata_json())


def made(site: Any, to: str = "london", **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (UnpublishedRouteWarning, PolarServiceWarning))
        return make_profile(site, to, **{"start_unix_ns": START, "duration_s": 45.0, "loss": "idle"} | options)


@pytest.mark.parametrize("site", ["melbourne", "louvain", "seattle", "lagos"])
def test_a_place_in_reach_of_gateways_has_the_same_path_with_and_without_lasers(site: str) -> None:
    assert made(site, isl="auto").content_hash() == made(site, isl="never").content_hash() == made(site).content_hash()


@pytest.mark.parametrize(
    "place", ["cape-town", "singapore", "nairobi", "mumbai", "30,-40", "0,-150", "-50,80", "-59.5,0", "mcmurdo"]
)
def test_every_place_below_sixty_degrees_has_a_path(place: str) -> None:
    profile = made(place)
    assert summarise(profile)["no_path_s"] == 0.0
    assert any(slot["relays"] for slot in slots(metadata(profile)))
    assert np.isfinite(profile.delay_ms("up", np.arange(0.0, 45.0, 0.5))).all()


def test_without_lasers_such_a_place_is_an_outage() -> None:
    with pytest.warns(OutageWarning, match="no satellite in view of a gateway serves it for 45 of 45 s"):
        assert summarise(made("cape-town", isl="never"))["no_path_s"] == 45.0


def test_no_named_site_below_sixty_degrees_is_an_outage() -> None:
    from bentpipe.profiles.coverage import coverage

    places = [place for place in load_sites().values() if abs(place.lat_deg) < 60]
    shares = [cover.share_with_lasers for cover in coverage(places)]
    assert min(shares) == 1.0


def test_every_laser_is_a_hop_and_the_delay_is_the_sum_of_the_legs() -> None:
    offset = {"delay": {"site_offset_ms": 0.0}}
    profile = made("cape-town", "lagos", parameters=offset)
    recipe = metadata(profile)["provenance"]["recipe"]
    names = [hop["name"] for hop in metadata(profile)["hops"]]
    for slot in recipe["schedule"]["slots"]:
        route = [route for route in metadata(profile)["routes"] if route["at_ns"] <= slot["start_ns"]][-1]
        serving = slot["serving"]
        chain = [serving["norad_id"], *(relay["norad_id"] for relay in serving["relays"])]
        expected = [
            f"sat:{chain[0]}",
            *(f"isl:{a}-{b}" for a, b in pairwise(chain)),
            f"feeder:{chain[-1]}",
            f"gateway:{serving['gateway']}",
            f"pop:{recipe['ground']['gateways'][serving['gateway']]['pop']}",
        ]
        assert [names[hop].partition("@")[0] for hop in route["hops"]] == expected
        space_km = serving["user_leg_km"][0] + serving["gateway_leg_km"][0]
        space_km += sum(relay["link_km"][0] for relay in serving["relays"])
        leg = recipe["ground"]["gateways"][serving["gateway"]]
        legs_ms = space_km / LIGHT_KM_S * 1e3 + (leg["gateway_pop_ns"] + leg["pop_server_ns"]) / 1e6
        # The grant schedule may hold a packet back; the delay of the hops alone must be that of the legs.
        delay_ms = sum(_delay_ms(profile, hop, slot["start_ns"] / 1e9) for hop in route["hops"])
        assert delay_ms == pytest.approx(legs_ms, abs=1e-4)


def _delay_ms(profile: Any, hop: int, at_s: float) -> float:
    """Return the down delay of a hop at a time: the downlink has no queueing in its delay series."""
    from bentpipe.profiles.path import PathView

    points = PathView(profile).points(hop, "down", "delay_s")
    return float(np.interp(at_s, points.t_s, points.value)) * 1e3


def test_packets_keep_their_order_over_changes_of_the_chain() -> None:
    profile = made("cape-town", "lagos", duration_s=120.0)
    assert summarise(profile)["handovers"] >= 4
    sent_s = np.arange(0.0, 119.0, 0.0005)
    arrived_s = sent_s + ping(profile, sent_s) / 1e3
    assert np.diff(arrived_s[np.isfinite(arrived_s)]).min() > -1e-9


def test_the_same_arguments_give_the_same_path_and_a_reseeded_one_keeps_its_lasers() -> None:
    profile = made("30,-40")
    assert profile.content_hash() == made("30,-40").content_hash()
    again = profile.reseed(5)
    assert [slot["relays"] for slot in slots(metadata(again))] == [slot["relays"] for slot in slots(metadata(profile))]
    assert again.reseed(0).content_hash() == profile.content_hash()


def test_always_leaves_space_near_the_server() -> None:
    bent, lasers = made("new-york", "london"), made("new-york", "london", isl="always")
    assert metadata(lasers)["provenance"]["recipe"]["schedule"]["policy"] == "least-delay"
    facts = dict(as_rows(summarise(lasers))[0])
    assert facts["lasers"].startswith("always: in 3 of 3 slots")
    assert facts["PoP"].startswith("LON")
    floor_ms = [np.nanmin(p.delay_ms("down", np.arange(0.0, 44.0, 0.1))) for p in (bent, lasers)]
    assert floor_ms[1] < floor_ms[0] - 8, "light in vacuum beats fibre across the Atlantic"


def test_impossible_requests_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="isl: 'sometimes'; expected auto, never, always"):
        made("cape-town", isl="sometimes")
    with pytest.raises(
        UserError, match="isl always: the satellites have no links; expected satellites with lasers, or isl never"
    ):
        made("cape-town", isl="always", constellation="oneweb")
    with pytest.raises(UserError, match="site and track are given; expected a site or a track"):
        made("cape-town", track=tmp_path / "t.csv")
    with pytest.raises(UserError, match="no site; expected a site or a track"):
        made(None)


def elements_of_the_first_shell(folder: Path, designator: str) -> Path:
    from test_profiles_make import elements_file

    path = elements_file(folder)
    path.write_text(path.read_text().replace("2026-001A", designator))
    return path


def test_elements_have_the_lasers_of_their_launches(tmp_path: Path) -> None:
    """The shell as elements has the paths of the built-in shell."""
    path = elements_of_the_first_shell(tmp_path, "2026-001A")
    own, built_in = made("cape-town", elements=path), made("cape-town", constellation="starlink-s1")
    chains = [[(slot["norad_id"], slot["relays"]) for slot in slots(metadata(each))] for each in (own, built_in)]
    assert chains[0] == chains[1]
    assert all(relays for _, relays in chains[0])


def test_satellites_launched_without_lasers_have_none(tmp_path: Path) -> None:
    path = elements_of_the_first_shell(tmp_path, "2020-001A")
    with pytest.raises(UserError, match="isl auto: the satellites have no links"):
        made("cape-town", elements=path, isl="auto")
    with pytest.warns(OutageWarning):
        assert summarise(made("cape-town", elements=path))["no_path_s"] == 45.0


def test_high_latitudes_say_that_they_rest_on_polar_shells() -> None:
    with pytest.warns(PolarServiceWarning, match=r"mcmurdo: at this latitude the path rests on polar shells \(560-97"):
        make_profile("mcmurdo", "-43.53,172.64", start_unix_ns=START, duration_s=3.0)


def track_file(folder: Path, *lines: str, header: str = "time,lat,lon") -> Path:
    path = folder / "ship.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def test_a_ship_has_a_path_and_moves(tmp_path: Path) -> None:
    path = track_file(tmp_path, "2026-05-10T09:00:12Z,30,-40", "", "2026-05-10T10:00:12Z,30,-39.6")
    profile = make_profile(None, "london", track=path, duration_s=45.0)
    assert (profile.name, profile.start_unix_ns) == ("ship-london", START)
    schedule = metadata(profile)["provenance"]["recipe"]["schedule"]
    assert [point["lon_deg"] for point in schedule["track"]] == [-40.0, -39.6]
    assert ("terminal", "on a track of 2 points; the place above is that of its start") in as_rows(summarise(profile))[
        0
    ]
    still = made("30,-40")
    first, last = (
        [
            each["provenance"]["recipe"]["schedule"]["slots"][slot]["serving"]["user_leg_km"][place]
            for each in map(metadata, (profile, still))
        ]
        for slot, place in ((0, 0), (2, -1))
    )
    assert summarise(still)["geometry"]["track_points"] == 0
    assert first[0] == first[1]
    assert 0.01 < abs(last[0] - last[1]) < 0.6, "half a kilometre in 45 s"
    assert profile.reseed(1).reseed(0).content_hash() == profile.content_hash()


@pytest.mark.parametrize(
    ("lines", "header", "error"),
    [
        (
            ["2026-05-10T09:00:12Z,30,-40"],
            "time,lat,lon",
            "ship.csv: point 1: the track ends; expected at least two points",
        ),
        (["2026-05-10T09:00:12Z,30"], "time,lat,lon", "ship.csv:2: 2 columns; expected 3"),
        (["noon,30,-40"], "time,lat,lon", "ship.csv:2: time: 'noon' is not a time"),
        (["2026-05-10T09:00:12Z,95,-40"], "time,lat,lon", "ship.csv:2: lat is '95'; expected a number from -90 to 90"),
        (["2026-05-10T09:00:12Z,nan,-40"], "time,lat,lon", "lat is 'nan'; expected a number from -90 to 90"),
        (
            ["2026-05-10T09:00:12Z,30,-40"],
            "t,lat,lon",
            "ship.csv:1: the first line is 't,lat,lon'; expected time,lat,lon",
        ),
        ([], "", "ship.csv:1: the first line is ''"),
        (
            ["2026-05-10T09:00:12Z,30,-40", "2026-05-10T09:00:12Z,30,-40"],
            "time,lat,lon",
            "ship.csv: point 2: its time is 0 s after the point before; expected times that increase",
        ),
        (
            ["2026-05-10T09:00:12Z,30,-40", "2026-05-10T09:00:42Z,31,-40"],
            "time,lat,lon",
            "point 2: 3706 m/s from the point before; expected at most 400 m/s",
        ),
    ],
)
def test_a_bad_track_is_refused_in_one_line(tmp_path: Path, lines: list[str], header: str, error: str) -> None:
    with pytest.raises(UserError) as refused:
        read_track(track_file(tmp_path, *lines, header=header))
    assert error in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_track_must_cover_the_profile(tmp_path: Path) -> None:
    path = track_file(tmp_path, "2026-05-10T09:00:12Z,30,-40", "2026-05-10T09:00:42Z,30,-40")
    with pytest.raises(UserError, match="track: ends 15 s before the Profile ends"):
        make_profile(None, "london", track=path, duration_s=45.0)
    with pytest.raises(UserError, match="no such file"):
        make_profile(None, "london", track=tmp_path / "none.csv")


@given(
    st.one_of(
        st.binary(max_size=300), st.text('timelaon,.-0123456789TZ:\n\r" ', max_size=300).map(lambda t: t.encode())
    )
)
def test_any_bytes_are_a_track_or_refused_in_one_line(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("track") / "t.csv"
    for content in (data, b"time,lat,lon\n" + data):
        path.write_bytes(content)
        refusal = ""
        try:
            track = read_track(path)
            assert -90 <= track.place_at(track.start_unix_ns).lat_deg <= 90
        except UserError as error:
            refusal = str(error)
        assert "\n" not in refusal

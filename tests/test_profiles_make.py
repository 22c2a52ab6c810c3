"""Computed Profiles: reproducible, with warnings about outages and old elements."""

import hashlib
import json
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.orbits import elements, sky
from bentpipe.profiles.access import loss_process
from bentpipe.profiles.coverage import SLOT_NS, SLOT_PHASE_NS, SLOTS, coverage
from bentpipe.profiles.make import BorrowedModelWarning, OutageWarning, UnpublishedRouteWarning, make_profile
from bentpipe.profiles.origin import geometry, loss_name, slots
from bentpipe.profiles.pings import ping
from bentpipe.profiles.show import as_rows, summarise
from bentpipe.scenarios.ground import load_gateways
from bentpipe.scenarios.sites import Place, load_sites
from bentpipe.times import format_utc, parse_utc

START = parse_utc("2026-05-10T09:00:00Z")


def elements_file(folder: Path, epoch_unix_ns: int = START) -> Path:
    """Shell 1 of Starlink as OMM JSON."""
    columns = elements.load_satellites(None, "starlink-s1", epoch_unix_ns).elements()
    entries = [
        {
            "OBJECT_NAME": columns["name"][i],
            "OBJECT_ID": "2026-001A",
            "EPOCH": format_utc(int(columns["epoch_unix_ns"][i])).removesuffix("Z"),
            "MEAN_MOTION": columns["mean_motion_rev_day"][i],
            "ECCENTRICITY": columns["eccentricity"][i],
            "INCLINATION": columns["inclination_deg"][i],
            "RA_OF_ASC_NODE": columns["raan_deg"][i],
            "ARG_OF_PERICENTER": columns["arg_perigee_deg"][i],
            "MEAN_ANOMALY": columns["mean_anomaly_deg"][i],
            "EPHEMERIS_TYPE": 0,
            "CLASSIFICATION_TYPE": "U",
            "NORAD_CAT_ID": int(columns["norad_id"][i]),
            "ELEMENT_SET_NO": 999,
            "REV_AT_EPOCH": 1,
            "BSTAR": columns["bstar_per_er"][i],
            "MEAN_MOTION_DOT": 0,
            "MEAN_MOTION_DDOT": 0,
        }
        for i in range(len(columns["name"]))
    ]
    path = folder / "shell.json"
    path.write_text(json.dumps(entries))
    return path


def test_a_computed_path_is_reproducible() -> None:
    progress: list[float] = []
    first = make_profile("melbourne", "sydney", duration_s=40.0, seed=3, on_progress=progress.append)
    assert first.content_hash() == make_profile("melbourne", "sydney", duration_s=40.0, seed=3).content_hash()
    assert first.content_hash() != make_profile("melbourne", "sydney", duration_s=40.0, seed=4).content_hash()
    assert progress == sorted(progress)
    assert progress[-1] == 1.0
    summary = summarise(first)
    assert summary["start"] == "2026-05-10T09:00:00Z"
    assert summary["provenance"]["kind"] == "computed"
    assert summary["provenance"]["seed"] == 3
    assert summary["no_path_s"] == 0
    # 550 km up and down twice is 7 ms of light at the very least; Sydney is 12 ms of fibre from Melbourne.
    assert 15 < summary["rtt_ms"]["min"] < summary["rtt_ms"]["median"] < 80


def test_a_terminal_keeps_its_pop_whichever_gateway_serves_it() -> None:
    """Louvain's satellites come down in Germany and in England, and PoPs are next to both."""
    made = make_profile("louvain", "london", start_unix_ns=START, duration_s=600.0)
    names = [str(hop["name"]) for hop in summarise(made)["hops"]]
    gateways = {name.split(":")[1][-2:] for name in names if name.startswith("gateway:")}
    assert {"DE", "GB"} <= gateways
    assert [name for name in names if name.startswith("pop:")] == ["pop:FRA"]


def test_an_idle_path_loses_less_than_a_loaded_one() -> None:
    """Single parameters go before those of the loss process."""
    loaded, same, idle, own = (
        json.loads(make_profile("melbourne", "sydney", duration_s=15.0, **arguments).metadata_json())["provenance"][
            "recipe"
        ]["params"]["loss"]
        for arguments in (
            {},
            {"loss": "busy"},
            {"loss": "idle"},
            {"loss": "idle", "parameters": {"loss": {"up": {"episodes_per_s": 3.0}}}},
        )
    )
    assert loaded == same == loss_process("busy")
    assert idle == loss_process("idle")
    assert idle["up"]["episodes_per_s"] < loaded["up"]["episodes_per_s"] / 20
    assert own == idle | {"up": {"episodes_per_s": 3.0}}


def test_delay_over_seeds_is_that_of_measured_sessions() -> None:
    """Victoria to Seattle: measured sessions have medians of 25 to 28 ms, p95 of 44 to 73, no slot median above 90."""
    made = make_profile("48.46,-123.31", "47.61,-122.34", duration_s=300.0)
    t_s = np.arange(0.0, 299.0, 0.1)
    quantiles, slots = [], []
    for seed in range(16):
        rtt_ms = ping(made.reseed(seed), t_s, seed=seed)
        quantiles.append(np.nanpercentile(rtt_ms, [50, 95]))
        slots += [float(np.nanmedian(rtt_ms[(t_s >= k) & (t_s < k + 15)])) for k in range(12, 285, 15)]
    median_ms, p95_ms = np.median(quantiles, axis=0)
    assert 24 < median_ms < 31
    assert 40 < p95_ms < 70
    assert np.mean(np.array(slots) > 70) < 0.03


def test_fibre_delay_grows_with_server_distance() -> None:
    near, far = (summarise(make_profile("melbourne", to, duration_s=20.0)) for to in ("sydney", "london"))
    assert far["rtt_ms"]["min"] - near["rtt_ms"]["min"] > 150


def test_reseeding_changes_the_profile_and_keeps_its_schedule() -> None:
    profile = make_profile("melbourne", "sydney", duration_s=30.0, seed=1)
    again = profile.reseed(2)
    assert again.seed == 2
    assert [hop["name"] for hop in summarise(again)["hops"]] == [hop["name"] for hop in summarise(profile)["hops"]]
    assert again.content_hash() != profile.content_hash()


@pytest.mark.parametrize("place", ["90,0", "-90,0", "0,-150"])
def test_time_without_a_serving_satellite_is_an_outage_with_a_warning(place: str) -> None:
    with pytest.warns(OutageWarning, match=r"serves it for 20 of 20 s"):
        profile = make_profile(place, "london", duration_s=20.0, isl="never")
    assert summarise(profile)["no_path_s"] == 20.0


def own_gateways(folder: Path) -> Path:
    path = folder / "own.toml"
    path.write_text(
        'source = "assumed"\npop_rule = "nearest-by-fibre"\nmin_elevation_deg = 30\ngateways = [\n'
        '{ name = "Nairobi", country = "KE", lat_deg = -1.29, lon_deg = 36.82, bands = ["Ka"], antennas = [8] },\n'
        '{ name = "Perth", country = "AU", lat_deg = -31.9, lon_deg = 115.9, bands = ["Ka"], antennas = [8] }]\n'
    )
    return path


def test_a_user_gateway_list_gives_a_site_service(tmp_path: Path) -> None:
    with pytest.warns(OutageWarning, match=r"20 of 20 s: an outage; `bentpipe sites` shows coverage"):
        make_profile("nairobi", "nairobi", duration_s=20.0, isl="never")
    path = own_gateways(tmp_path)
    made = make_profile("nairobi", "nairobi", duration_s=20.0, gateways=path)
    # Drawn again, the Profile still says which list it was made with.
    for profile in (made, made.reseed(5)):
        summary = summarise(profile)
        assert summary["no_path_s"] == 0
        assert summary["geometry"]["rules"]["gateway_min_elevation_deg"] == 30
        assert summary["geometry"]["gateway_list"] == {
            "file": "own.toml",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "source": "assumed",
            "listed": 2,
            "in_reach": [{"name": "Nairobi KE", "lat_deg": -1.29, "lon_deg": 36.82}],
        }
        assert "1 of its 2 in reach" in dict(as_rows(summary)[0])["gateway list"]


def test_the_packaged_list_leaves_a_recipe_as_it_was() -> None:
    profile = make_profile("melbourne", "sydney", duration_s=20.0)
    assert "gateways" not in json.loads(profile.metadata_json())["provenance"]["recipe"]["origin"]
    assert summarise(profile)["geometry"]["gateway_list"] is None


def test_coverage_is_the_share_of_slots_in_which_the_scheduler_has_a_candidate() -> None:
    """Around Reykjavik, Lima and Hong Kong some slots have a candidate and some have none."""
    places = [load_sites()[name] for name in ("reykjavik", "lima", "hong-kong", "nairobi", "louvain")]
    covered = coverage(places)
    assert [one.gateways > 0 for one in covered] == [True, True, True, False, True]
    assert (covered[3].share, covered[4].share) == (0.0, 1.0)
    assert 0 < covered[1].share < 0.2 < covered[0].share < covered[2].share < 1
    day = parse_utc("2026-05-10T00:00:00Z")
    satellites = elements.load_satellites(None, None, day)
    for place, one in zip(places[:3], covered[:3], strict=True):
        served = 0
        for k in range(SLOTS):
            text = sky.schedule(
                satellites,
                place,
                [(g.label, Place(g.label, g.lat_deg, g.lon_deg), 0.0) for g in load_gateways().gateways],
                start_unix_ns=day + SLOT_PHASE_NS + k * 900 * 10**9,
                duration_ns=SLOT_NS,
            )
            served += any(slot["candidates"] for slot in json.loads(text)["slots"])
        assert served / SLOTS == one.share


def test_elements_need_a_start_and_warn_of_their_age(tmp_path: Path) -> None:
    path = elements_file(tmp_path)
    with pytest.raises(UserError, match="start: none given; expected a time"):
        make_profile("melbourne", "sydney", elements=path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", elements.StaleElementsWarning)
        warnings.simplefilter("ignore", OutageWarning)
        make_profile("melbourne", "sydney", elements=path, start_unix_ns=START, duration_s=20.0)
    month = 30 * 86_400 * 10**9
    with pytest.warns(elements.StaleElementsWarning, match=r"the elements are 30\.\d days"):
        make_profile("melbourne", "sydney", elements=path, start_unix_ns=START + month, duration_s=20.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"duration_s": 0.0}, "duration: 0 s"),
        ({"duration_s": -1.0}, "duration: -1 s"),
        ({"seed": -1}, "seed: -1"),
        ({"seed": 2**64}, "seed"),
        ({"policy": "best"}, "policy: 'best' is unknown"),
        ({"loss": "idel"}, "unknown loss environment 'idel'; did you mean 'idle'"),
        ({"constellation": "starlink-s2"}, "starlink-s1"),
        ({"elements": "none.tle", "start_unix_ns": START}, "none.tle: no such file"),
        ({"elements": "none.tle", "constellation": "geo", "start_unix_ns": START}, "expected one of them"),
        ({"parameters": {"no_such_parameter": 1}}, "no_such_parameter"),
    ],
)
def test_invalid_arguments_raise_user_errors(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make_profile("melbourne", "sydney", **arguments)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_coordinates_are_accepted_as_places() -> None:
    profile = make_profile(Place("home", -37.8, 145.0), Place("office", -33.9, 151.2), duration_s=15.0, name="mine")
    assert profile.name == "mine"


def test_another_operators_orbits_give_a_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make_profile("melbourne", "sydney", duration_s=20, constellation="oneweb")
    messages = [str(w.message) for w in caught if issubclass(w.category, BorrowedModelWarning)]
    assert messages
    assert messages[0].startswith("oneweb gives the orbits")
    assert "geo" not in messages[0]


def test_the_provenance_names_the_element_file(tmp_path: Path) -> None:
    path = elements_file(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutageWarning)
        made = make_profile("melbourne", "sydney", elements=path, start_unix_ns=START, duration_s=20.0, seed=4)
    # Reseeding keeps the schedule and its description.
    for profile in (made, made.reseed(5)):
        summary = summarise(profile)["geometry"]
        assert summary["satellites"] == {
            "kind": "elements",
            "file": "shell.json",
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "satellites": 1584,
            "superseded": 0,
            "first_epoch": "2026-05-10T00:00:00Z",
            "last_epoch": "2026-05-10T00:00:00Z",
        }
        assert summary["rules"]["schedule_seed"] == 4
        facts = dict(as_rows(summarise(profile))[0])
        assert "1584 of shell.json (SHA-256 " in facts["satellites"]


def test_the_element_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hash is that of the bytes the satellites came from, even if the file changes meanwhile."""
    path = elements_file(tmp_path)
    wanted = hashlib.sha256(path.read_bytes()).hexdigest()
    read = Path.read_bytes

    def read_and_spoil(self: Path) -> bytes:
        data = read(self)
        if self == path:
            self.write_bytes(b"")
        return data

    monkeypatch.setattr(Path, "read_bytes", read_and_spoil)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutageWarning)
        made = make_profile("melbourne", "sydney", elements=path, start_unix_ns=START, duration_s=2.0)
    assert summarise(made)["geometry"]["satellites"]["sha256"] == wanted


def test_the_provenance_of_a_geostationary_path_has_the_epoch_it_flew_from() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make_profile(
            "sydney", "sydney", constellation="geo", start_unix_ns=parse_utc("2027-05-10T09:00:00Z"), duration_s=20.0
        )
    assert summarise(made)["geometry"]["satellites"]["epoch"] == "2027-05-10T00:00:00Z"


def test_an_unreadable_provenance_is_one_line() -> None:
    made = make_profile("melbourne", "sydney", duration_s=15.0)
    for hurt in (
        {"schedule": 1},
        {"schedule": {"slots": [{}]}},
        {"schedule": {"slots": None, "policy": []}, "params": []},
    ):
        metadata = json.loads(made.metadata_json())
        metadata["provenance"]["recipe"] = hurt
        for read in (geometry, slots, loss_name):
            with pytest.raises(UserError, match="the provenance does not read"):
                read(metadata)


def test_handovers_interruptions_outages_and_losses_are_counted_apart() -> None:
    profile = make_profile("melbourne", "sydney", duration_s=300.0)
    summary = summarise(profile)
    routes = json.loads(profile.metadata_json())["routes"]
    assert summary["handovers"] == len(routes) - 1 > 0
    assert summary["handovers"] + summary["reconfigurations"] == 20
    assert summary["outages"] == 0
    assert summary["down"]["loss_episodes"] > 20


def test_an_outage_is_counted_wherever_it_lies() -> None:
    with pytest.warns(OutageWarning):
        everywhere = summarise(make_profile("90,0", "london", duration_s=20.0, isl="never"))
    assert (everywhere["outages"], everywhere["handovers"], everywhere["reconfigurations"]) == (1, 0, 0)
    # Shell 1 alone leaves Svalbard's south without a satellite for most slots, at the start and the end too.
    with pytest.warns(OutageWarning):
        profile = make_profile("57.4,20", "london", duration_s=600.0, constellation="starlink-s1")
    served = [slot["norad_id"] is not None for slot in slots(json.loads(profile.metadata_json()))]
    runs = sum(before and not now for before, now in pairwise([True, *served]))
    summary = summarise(profile)
    assert summary["outages"] == runs > 1
    assert summary["handovers"] <= sum(a and b for a, b in pairwise(served))


def test_an_unpublished_route_gives_a_warning_and_a_published_one_does_not():
    with pytest.warns(UnpublishedRouteWarning, match=r"no published route from the PoP MEL to brisbane: .*km x"):
        make_profile("melbourne", "brisbane", start_unix_ns=START, duration_s=2.0)
    for published in ("london", "melbourne"):
        make_profile("melbourne", published, start_unix_ns=START, duration_s=2.0)  # warnings are errors here

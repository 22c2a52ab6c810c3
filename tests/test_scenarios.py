"""Scenario files match their sources, and their parsers refuse invalid input with one line."""

from __future__ import annotations

import hashlib
import math
import tomllib
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scenario_helpers import assert_one_line, at, result_or_message

from bentpipe.errors import BentpipeError, UserError
from bentpipe.experiments.traffic import traffic_share
from bentpipe.profiles.access import default_parameters
from bentpipe.scenarios.fibre import great_circle_km, parse_fibre
from bentpipe.scenarios.ground import (
    load_gateways,
    load_pops,
    nearest_pop,
    parse_gateways,
    parse_pops,
    pop_by_code,
    read_gateways,
)
from bentpipe.scenarios.lasers import LasersFile
from bentpipe.scenarios.load_tests import parse_load_tests
from bentpipe.scenarios.losses import parse_losses
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.presets import parse_preset, parse_presets
from bentpipe.scenarios.services import load_services, parse_services
from bentpipe.scenarios.shells import load_constellation, parse_constellation
from bentpipe.scenarios.sites import load_sites, parse_sites
from bentpipe.scenarios.tables import packaged_names, packaged_text
from bentpipe.scenarios.traffic import find_traffic, parse_traffic

FILES = [
    "sites.toml",
    "lasers.toml",
    "load_tests.toml",
    "loss.toml",
    "pops.toml",
    "fibre.toml",
    "presets.toml",
    "services.toml",
    "traffic.toml",
]

FILES += [f"gateways/{name}.toml" for name in packaged_names("gateways")]

FILES += [f"constellations/{name}.toml" for name in packaged_names("constellations")]

READERS = {
    "sites.toml": lambda text: parse_sites(text, "f"),
    "lasers.toml": lambda text: LasersFile.from_toml(text, "f"),
    "pops.toml": lambda text: parse_pops(text, "f"),
    "fibre.toml": lambda text: parse_fibre(text, "f"),
    "presets.toml": lambda text: parse_presets(text, "f"),
    "services.toml": lambda text: parse_services(text, "f"),
    "traffic.toml": lambda text: parse_traffic(text, "f"),
    "load_tests.toml": lambda text: parse_load_tests(text, "f"),
    "loss.toml": lambda text: parse_losses(text, "f"),
    "gateways/starlink.toml": lambda text: parse_gateways(text, "f"),
    "constellations/starlink-gen1.toml": lambda text: parse_constellation(text, "x", "f"),
    "constellations/geo.toml": lambda text: parse_constellation(text, "x", "f"),
}


def test_every_packaged_file_is_read_by_a_test():
    names = [p.name for p in resources.files("bentpipe.scenarios").iterdir() if p.name.endswith(".toml")]
    assert sorted(names) == sorted(f for f in FILES if "/" not in f)


@pytest.mark.parametrize("path", FILES)
def test_every_file_states_its_sources(path):
    data = tomllib.loads(packaged_text(path))
    if path in ("load_tests.toml", "loss.toml", "presets.toml", "services.toml", "traffic.toml"):
        assert all(entry["source"] for entry in data[path.removesuffix(".toml")].values())
    elif path == "fibre.toml":
        assert set(data["sources"]) >= {block["source"] for block in data["measured"]}
    else:
        assert data["source"]


def test_the_example_of_the_docs_prints_its_output(capsys):
    page = (Path(__file__).parents[1] / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    exec(code, {})
    assert "# " + capsys.readouterr().out.strip() == code.strip().splitlines()[-1]


def test_gateways_cover_common_measurement_sites():
    # A satellite at 550 km seen at 25 degrees by both ends lets them be 1880 km apart at most; stay well inside.
    for site in ("melbourne", "seattle", "victoria", "louvain", "osnabrueck", "brisbane", "kanazawa", "madrid"):
        nearest_km = min(great_circle_km(at(site), (g.lat_deg, g.lon_deg)) for g in load_gateways().gateways)
        assert nearest_km < 600, site


def test_gateway_labels_are_unique_and_bands_have_their_antennas():
    gateways = load_gateways().gateways
    assert len(gateways) > 200
    assert len({g.label for g in gateways}) == len(gateways)
    assert all(len(g.bands) == len(g.antennas) for g in gateways)


OWN_GATEWAYS = """
source = "assumed"
pop_rule = "nearest-by-fibre"
min_elevation_deg = 25.0
gateways = [{ name = "Nairobi", country = "KE", lat_deg = -1.29, lon_deg = 36.82, bands = ["Ka"], antennas = [8] }]
"""


def test_a_user_gateway_list_is_read_with_its_hash(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text(OWN_GATEWAYS, encoding="utf-8-sig")
    gateways = read_gateways(path)
    assert [gateway.label for gateway in gateways.gateways] == ["Nairobi KE"]
    assert (gateways.file, gateways.sha256) == ("own.toml", hashlib.sha256(path.read_bytes()).hexdigest())
    assert load_gateways().file is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lat_deg = -1.29", "lat_deg = -91", "gateways[0]: lat_deg is -91; expected a number from -90 to 90"),
        ("lat_deg = -1.29", "lat_deg = nan", "gateways[0]: lat_deg is nan; expected a number from -90 to 90"),
        ("lat_deg", "latitude", "gateways[0]: key 'lat_deg' is missing"),
        ('bands = ["Ka"]', 'bands = ["Ku"]', "gateways[0]: bands ['Ku'] with antennas [8]"),
        ("antennas = [8] }", "antennas = [8], height = 3 }", "gateways[0]: unknown key 'height'"),
        ('"nearest-by-fibre"', '"mine"', "pop_rule is 'mine'; expected 'nearest-by-fibre'"),
        ('source = "assumed"', "", "key 'source' is missing"),
        ("gateways = [", "gateways = 3 #", "gateways is 3; expected a list of tables"),
        ("source", "[", "not valid TOML"),
        ("source", "\udcff", "own.toml:2: is not UTF-8 text"),
        ("source", "#" * (1 << 20), "is too large"),
    ],
)
def test_an_invalid_gateway_list_is_refused_in_one_line(tmp_path, old, new, message):
    path = tmp_path / "own.toml"
    path.write_bytes(OWN_GATEWAYS.replace(old, new, 1).encode("utf-8", "surrogateescape"))
    with pytest.raises(UserError) as caught:
        read_gateways(path)
    assert_one_line(caught)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)


def test_published_pops_of_sites_exist():
    for site in load_sites().values():
        assert site.pop is None or pop_by_code(site.pop).code == site.pop


@pytest.mark.parametrize(
    ("site", "pop"), [("melbourne", "MEL"), ("victoria", "SEA"), ("seattle", "SEA"), ("tokyo", "TYO"), ("perth", "PER")]
)
def test_the_nearest_pop_is_in_the_same_region(site, pop):
    assert nearest_pop(*at(site)).code == pop


def test_every_gateway_has_a_nearest_pop():
    for gateway in load_gateways().gateways:
        assert nearest_pop(gateway.lat_deg, gateway.lon_deg).code in load_pops()


def test_unknown_names_suggest_the_nearest():
    for call, wrong, hint in (
        (load_constellation, "starlink-s2", "starlink-s1"),
        (load_gateways, "starlnk", "starlink"),
        (parse_place, "melborne", "melbourne"),
        (parse_preset, "dumbell", "dumbbell"),
        (parse_preset, "dumbbell:qeue=1bdp", "queue"),
    ):
        with pytest.raises(UserError, match=f"did you mean '{hint}'") as error:
            call(wrong)
        assert_one_line(error)


def test_user_errors_are_value_errors_and_bentpipe_errors():
    assert issubclass(UserError, ValueError)
    assert issubclass(UserError, BentpipeError)


def test_services_have_the_places_of_their_sources():
    services = load_services()
    cities = [name for name in services if name.startswith("leo-") and name not in ("leo-2022", "leo-2024", "leo-bcn1")]
    assert {services[name].server.name for name in cities} == {"sydney", "tokyo", "mumbai", "london", "sao-paulo"}
    assert {(services[name].terminal.name, services[name].terminal.pop) for name in cities} == {("melbourne", "SYD")}
    assert services["leo-2022"].constellation == "starlink-s1"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('site = "canberra"', 'site = "canbera"', "did you mean 'canberra'"),
        ('pop = "SYD"', 'pop = "SYX"', "unknown PoP"),
        ('constellation = "starlink-s1"', 'constellation = "starlink-s2"', "did you mean 'starlink-s1'"),
        ('to = "brisbane"', 'until = "brisbane"', "'to' is missing"),
    ],
)
def test_an_invalid_service_is_named(old, new, message):
    with pytest.raises(UserError, match=r"^f: services\.leo-2022: ") as error:
        parse_services(packaged_text("services.toml").replace(old, new, 1), "f")
    assert message in str(error.value)
    assert_one_line(error)


def test_traffic_is_found_by_name_and_its_sizes_are_in_order():
    assert traffic_share(find_traffic("peak")) > traffic_share(find_traffic("off-peak")) == 0.10
    with pytest.raises(UserError, match="did you mean 'peak'"):
        find_traffic("pek")
    text = packaged_text("traffic.toml").replace("least_bytes = 50_000", "least_bytes = 500_000_000", 1)
    with pytest.raises(UserError, match=r"^f: traffic\.peak: most_bytes"):
        parse_traffic(text, "f")


def test_peak_traffic_is_the_daily_capacity_difference(monkeypatch):
    def with_load(amplitude, power):
        table = default_parameters()
        table["load"]["daily_log_amplitude"], table["capacity"]["load_power"] = amplitude, power
        monkeypatch.setattr("bentpipe.experiments.traffic.default_parameters", lambda: table)
        return traffic_share(find_traffic("peak"))

    now = default_parameters()
    amplitude, power = now["load"]["daily_log_amplitude"], now["capacity"]["load_power"]
    quiet, busy = math.exp(amplitude * power), math.exp(-amplitude * power)  # capacity over a median hour's
    share = traffic_share(find_traffic("peak"))
    assert share == pytest.approx(1 - busy / quiet, abs=1e-4)
    page = (Path(__file__).parents[1] / "docs" / "reference" / "scenarios.md").read_text(encoding="utf-8")
    assert f"({100 * share:.0f} % of the path with A = {amplitude:g} and κ = {power:g})" in page
    assert with_load(math.log(2) / 2, 1.0) == 0.5
    assert with_load(math.log(2) / 2, 2.0) == 0.75


JUNK = ["", "nan", "-1", "1e999", '""', '"\\n"', "[]", "{}", "true", "9" * 5000, "= =", "[[", "\x00", "1979-13-40", "'"]


@settings(max_examples=300)
@given(st.data())
def test_a_damaged_file_is_read_or_refused_with_one_line(data):
    path = data.draw(st.sampled_from(sorted(READERS)))
    text = packaged_text(path)
    start = data.draw(st.integers(0, len(text)))
    end = min(len(text), start + data.draw(st.integers(0, 30)))
    middle = data.draw(st.sampled_from(JUNK) | st.text(max_size=5))
    answer = result_or_message(READERS[path], text[:start] + middle + text[end:])
    if isinstance(answer, str):
        assert len(answer.splitlines()) == 1
        assert answer.startswith("f")


@settings(max_examples=300)
@given(st.data())
def test_a_wrong_value_is_refused_with_its_location(data):
    path = data.draw(st.sampled_from(sorted(READERS)))
    lines = packaged_text(path).splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    key, equals, _ = lines[number].partition(" = ")
    assume(equals and "#" not in key and '"' not in key and "{" not in key)
    lines[number] = f"{key} = {data.draw(st.sampled_from(['[[1979-05-27]]', '1979-05-27', '{ x = 1979-05-27 }']))}"
    with pytest.raises(UserError) as error:
        READERS[path]("\n".join(lines))
    assert_one_line(error)


def test_a_misspelt_key_is_an_error_and_not_a_default():
    text = packaged_text("constellations/starlink-s1.toml").replace("gso_exclusion_deg", "gso_exclusion_dge")
    with pytest.raises(UserError, match="did you mean 'gso_exclusion_deg'"):
        parse_constellation(text, "mine", "mine.toml")

"""Networks of a constellation: made, written, read, shown and raced."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from emulation import bentpipe
from hypothesis import given, settings
from hypothesis import strategies as st

import bentpipe as bp
from bentpipe.errors import UserError
from bentpipe.profiles.networks.make import Pair, make_network, parse_pairs
from bentpipe.profiles.networks.show import route_at, route_nodes, summarise
from bentpipe.profiles.parquet import read_either, read_network, read_profile, write_network, write_profile
from bentpipe.report.network_map import write_map
from bentpipe.scenarios.fibre import great_circle_km
from bentpipe.times import parse_utc

START = parse_utc("2026-05-10T09:00:12Z")
LIGHT_KM_MS = 299.792458


def made(pairs: str = "SYD-NYC,LON-JNB", duration_s: float = 30.0, **options):
    return make_network(parse_pairs(pairs), **{"start_unix_ns": START, "duration_s": duration_s} | options)


@pytest.fixture(scope="module")
def network():
    return made(loss="satguard", seed=3)


def test_a_path_is_not_faster_than_light_along_the_ground(network):
    for pair, path in zip(parse_pairs("SYD-NYC,LON-JNB"), network.profiles(), strict=True):
        (_, a), (_, b) = pair.terminal, pair.station
        least_ms = great_circle_km((a.lat_deg, a.lon_deg), (b.lat_deg, b.lon_deg)) / LIGHT_KM_MS
        delay_ms = path.delay_ms("up", np.array([1.0, 20.0]))
        assert (delay_ms > least_ms).all()
        assert (delay_ms < 2.5 * least_ms).all()


def test_places_of_several_pairs_are_one_node():
    metadata = json.loads(made("SYD-NYC,LON-NYC,NYC-JNB").metadata_json())
    assert [node for node in metadata["nodes"] if node.endswith(":NYC")] == ["terminal:NYC", "gateway:NYC"]
    users = [{hop["link"] for hop in path["hops"]} for path in metadata["paths"]]
    shared = users[0] & users[1]
    assert any(metadata["hops"][link]["name"].endswith("-NYC") for link in shared)


def test_only_links_in_use_are_stored(network):
    metadata = json.loads(network.metadata_json())
    used = {hop["link"] for path in metadata["paths"] for hop in path["hops"]}
    assert used == set(range(len(metadata["hops"])))
    assert len(used) < 200  # of 3,168 between satellites


def test_a_written_network_is_read_equal(tmp_path, network):
    file = tmp_path / "N.parquet"
    write_network(network, file)
    assert read_network(file).content_hash() == network.content_hash() == read_either(file).content_hash()
    assert set(pl.read_parquet(file).columns) == {"t_s", "hop", "direction", "kind", "value", "valid"}


def test_profiles_and_networks_are_not_mistaken_for_each_other(tmp_path, network):
    file, other = tmp_path / "N.parquet", tmp_path / "P.parquet"
    write_network(network, file)
    write_profile(network.profiles()[0], other)
    with pytest.raises(UserError, match=r"N\.parquet: holds a Network; expected a Profile; .*network path"):
        read_profile(file)
    with pytest.raises(UserError, match=r"P\.parquet: holds a Profile; expected a Network"):
        read_network(other)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused_in_one_line(tmp_path_factory, network, data):
    folder = tmp_path_factory.mktemp("damaged")
    file = folder / "N.parquet"
    write_network(network, file)
    content = bytearray(file.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    file.write_bytes(bytes(content))
    with pytest.raises(UserError) as error:
        read_network(file)
    assert "\n" not in str(error.value)


def test_the_same_arguments_give_the_same_network_and_a_seed_other_losses(network):
    assert made(loss="satguard", seed=3).content_hash() == network.content_hash()
    other = made(loss="satguard", seed=4)
    assert other.content_hash() != network.content_hash()
    assert network.reseed(4).content_hash() == other.content_hash()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pairs": "SYD"}, "two places"),
        ({"pairs": "SYD-QQQ"}, "'QQQ'"),
        ({"pairs": "SYD-SYD"}, "is one place"),
        ({"pairs": "SYD-NYC,SYD-NYC"}, "SYD-NYC is given twice"),
        ({"policy": "far"}, "policy: 'far'"),
        ({"loss": "all"}, "unknown loss environment"),
        ({"capacity_bps": {"isl": 1}}, "1e3 to 1e13 bit/s"),
        ({"gap_s": 9.0}, "0 to 5 s"),
        ({"queue_s": 0.0}, "queue: 0 s; expected above 0 s"),
        ({"isl_loss": 1.5}, "a probability from 0 to 1"),
        ({"constellation": "iridium"}, "iridium"),
        ({"duration_s": 0.0}, "duration"),
        ({"seed": -1}, "seed"),
        ({"pairs": "mcmurdo-london"}, "mcmurdo-london has no route at any time"),
    ],
)
def test_impossible_requests_are_refused_in_one_line(options, message):
    with pytest.raises(UserError, match=message) as error:
        made(**options)
    assert "\n" not in str(error.value)


def test_a_name_with_hyphens_is_found_in_a_pair():
    (pair,) = parse_pairs("cape-town-los-angeles")
    assert isinstance(pair, Pair)
    assert (pair.terminal[0], pair.station[0]) == ("cape-town", "los-angeles")


def test_the_summary_describes_the_routes(network):
    shown = summarise(network, 20.0)
    metadata = json.loads(network.metadata_json())
    for path, row in zip(metadata["paths"], shown["paths"], strict=True):
        route = route_at(path, 20.0)
        nodes = [metadata["nodes"][node] for node in route_nodes(path, metadata["hops"], route)]
        assert nodes[0].startswith("terminal:")
        assert nodes[-1].startswith("gateway:")
        assert (row["links"], row["from_satellite"]) == (len(route), nodes[1].removeprefix("sat:"))
        assert row["rtt_ms"] > 50
    with pytest.raises(UserError, match="at: 31 s; expected 0 to 30 s"):
        summarise(network, 31.0)


def race(tmp_path, *arguments):
    done = bentpipe("race", tmp_path / "N.parquet", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["runs"]


def test_a_race_has_one_flow_for_each_path_and_is_repeatable(tmp_path, network):
    write_network(network, tmp_path / "N.parquet")
    options = ("--cc", "cubic", "--duration", "4", "--phase", "0", "-o", tmp_path / "out")
    (run,) = race(tmp_path, *options)
    assert len(run["flows"]) == 2
    again = bentpipe("race", "--repeat", tmp_path / "out", "-o", tmp_path / "again", "--json")
    assert json.loads(again.stdout)["runs"][0]["content_hash"] == run["content_hash"]
    table = bentpipe("race", tmp_path / "N.parquet", *options)
    assert "SYD-NYC: cubic" in table.stdout
    assert "1 of 1 Runs were stored already" in table.stderr
    seeds = race(tmp_path, *options, "--seeds", "2")
    assert seeds[0]["content_hash"] == run["content_hash"] != seeds[1]["content_hash"]


def test_a_race_over_a_network_has_recovery_and_no_kernel(tmp_path, network):
    write_network(network, tmp_path / "N.parquet")
    options = ("--cc", "cubic", "--duration", "4", "--phase", "0", "-o", tmp_path / "out")
    runs = race(tmp_path, *options, "--recovery", "none,satguard")
    assert [run["recovery"] for run in runs] == ["none", "satguard"]
    assert all(flow["owd_p99_ms"] > 40 for run in runs for flow in run["flows"])
    for option in (["--on-kernel"], ["--aqm", "fq_codel"], ["--test", "rrul"]):
        done = bentpipe("race", tmp_path / "N.parquet", *options, *option)
        assert done.returncode == 2
        assert "given with the Network" in done.stderr


def test_flows_of_two_paths_share_the_links_that_they_have_in_common():
    shared = bp.Network.make("SYD-NYC,LON-NYC", duration=8, gsl_bps=20_000_000, isl_bps=10**9)
    assert len(shared) == 2
    run = bp.Experiment(shared, schemes=["cubic"], duration=8, phase=0).simulate()[0]
    alone = bp.Experiment(shared["LON-NYC"], schemes=["cubic"], duration=8, phase=0).simulate()[0]
    total = run.summary()["goodput_bps"].sum()
    assert total < 20e6 < 1.6 * alone.summary()["goodput_bps"].sum()


def test_a_network_is_raced_with_flows_of_choice(tmp_path):
    network = bp.Network.make("SYD-NYC,LON-JNB", duration=6)
    flows = [bp.Flow("bbr", path="LON-JNB"), bp.Flow("cubic", path="SYD-NYC")]
    run = bp.Experiment(network, flows=flows, duration=6).simulate()[0]
    assert run.summary()["path"].to_list() == ["LON-JNB", "SYD-NYC"]
    with pytest.raises(UserError, match="expected Profiles"):
        bp.Experiment(network, schemes=["bbr2"]).tune({"loss_thresh": [0.02]}, out=tmp_path / "t")
    with pytest.raises(UserError, match="its paths share their links already"):
        network.share("x", as_="y")


def test_the_commands_make_show_and_take_a_path(tmp_path):
    file = tmp_path / "N.parquet"
    made = bentpipe("network", "make", "--pairs", "SYD-NYC,LON-JNB", "--duration", "15", "-o", file, "--json")
    assert made.returncode == 0, made.stderr
    assert [path["name"] for path in json.loads(made.stdout)["paths"]] == ["SYD-NYC", "LON-JNB"]
    shown = bentpipe("network", "show", file, "--at", "10")
    assert "LON-JNB" in shown.stdout
    one = bentpipe("network", "path", file, "LON-JNB", "-o", tmp_path / "P.parquet")
    assert one.returncode == 0, one.stderr
    assert read_profile(tmp_path / "P.parquet").name == "LON-JNB"
    unknown = bentpipe("network", "path", file, "LON-JNC", "-o", tmp_path / "Q.parquet")
    assert unknown.returncode == 2
    assert "unknown path 'LON-JNC'" in unknown.stderr
    bad = bentpipe("network", "make", "--pairs", "LON-JNB", "--capacity", "isl=1gbit,up=2gbit", "-o", file)
    assert bad.returncode == 2
    assert "--capacity: 'up=2gbit'; expected isl=RATE,gsl=RATE" in bad.stderr
    assert Path(file).exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--gap", "nan"], "'--gap': 'nan' is not a duration; expected a finite number of seconds"),
        (["--queue", "inf"], "'--queue': 'inf' is not a duration"),
        (["--duration", "1e300"], "--duration: 1e+300 s is too long"),
        (["--gap", "20"], "--gap: 20 s; expected 0 to 5 s"),
        (["--isl-loss", "nan"], "--isl-loss: nan; expected a probability from 0 to 1"),
        (["--isl-loss", "1.5"], "--isl-loss: 1.5; expected a probability from 0 to 1"),
        (["--pairs", "SYD-QQQ"], "--pairs: 'SYD-QQQ': 'QQQ' is no known place; expected two places"),
        (["--pairs", "38.72/-9.14-0/x"], "--pairs: '38.72/-9.14-0/x'; expected two places"),
        (["--pairs", "0/0-0/0"], "--pairs: '0/0-0/0' is one place; expected two places"),
    ],
)
def test_an_impossible_value_names_its_option(tmp_path, arguments, problem):
    pairs = [] if "--pairs" in arguments else ["--pairs", "SYD-NYC"]
    bad = bentpipe("network", "make", *pairs, "--duration", "15", *arguments, "-o", tmp_path / "N.parquet")
    assert bad.returncode == 2
    assert problem in bad.stderr
    assert not list(tmp_path.iterdir())


def test_pairs_take_coordinates():
    first, second = parse_pairs("-33.9/-18.4-38.7N/9.1W,0/-20/300-MIA")
    assert (first.terminal[1].lat_deg, first.terminal[1].lon_deg) == (-33.9, -18.4)
    assert [first.terminal[0], first.station[0], second.station[0]] == ["33.9S18.4W", "38.7N9.1W", "MIA"]
    assert second.terminal[1].alt_m == 300


def with_metadata(network, change):
    """Return the network with changed metadata, as a foreign file may have it."""
    from bentpipe.profiles.table import network_from_frame, profile_to_frame

    metadata = json.loads(network.metadata_json())
    change(metadata)
    return network_from_frame(profile_to_frame(network), json.dumps(metadata))


def test_the_map_shows_satellites_places_and_paths_and_loads_nothing(tmp_path, network):
    page = tmp_path / "map.html"
    write_map(network, page, 20.0)
    html = page.read_text(encoding="utf-8")
    for text in ("LON-JNB", ">SYD<", "isl:", "default-src 'none'"):
        assert text in html
    assert html.count('class="satellite') == 1584
    assert not any(part in html for part in ("<script", "http:", "https:", "src="))
    with pytest.raises(UserError, match="at: 99 s; expected 0 to 30 s"):
        write_map(network, page, 99.0)
    with pytest.raises(UserError, match="the Network is of a built-in constellation"):
        write_map(network, page, elements=tmp_path / "x.tle")


def test_names_from_a_file_are_escaped_in_the_map(tmp_path, network):
    def change(metadata):
        metadata["name"] = "<script>alert(1)</script>"
        metadata["paths"][0]["name"] = "<b>SYD</b>"

    write_map(with_metadata(network, change), tmp_path / "map.html")
    html = (tmp_path / "map.html").read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;b&gt;SYD" in html


@pytest.mark.parametrize("recipe", [None, {}, {"settings": 1}, {"settings": {"places": [], "origin": {}}}])
def test_a_map_of_a_foreign_recipe_is_refused_in_one_line(tmp_path, network, recipe):
    foreign = with_metadata(network, lambda metadata: metadata["provenance"].update(recipe=recipe))
    with pytest.raises(UserError, match="the recipe of the Network does not fit its nodes") as error:
        write_map(foreign, tmp_path / "map.html")
    assert "\n" not in str(error.value)


def test_the_map_of_a_network_of_elements_needs_their_file(tmp_path):
    from test_profiles_make import elements_file

    tle, page = elements_file(tmp_path), tmp_path / "map.html"
    name = tle.name
    network = made("LON-NYC", 15.0, elements=tle)
    with pytest.raises(UserError, match=f"was made from {name}; expected that file"):
        write_map(network, page)
    write_map(network, page, elements=tle)
    tle.write_text(tle.read_text().replace("2026-001A", "2026-001B"))
    with pytest.raises(UserError, match="is another file than that of the Network"):
        write_map(network, page, elements=tle)

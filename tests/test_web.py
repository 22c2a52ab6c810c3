"""Web pages: read from HAR files, and loaded over a simulated path."""

import json
from pathlib import Path

import polars as pl
import pytest
from emulation import bentpipe
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import require_data

import bentpipe as bp
from bentpipe.apps.web.har import read_har
from bentpipe.errors import UserError
from bentpipe.execution.pages import load_page
from bentpipe.experiments.apps import parse_app
from bentpipe.profiles import preset_profile
from bentpipe.runs.store import find_runs


def entry(url, begin_ms, took_ms=50, size=10_000, mime="text/html", **more):
    return {
        "startedDateTime": f"2026-05-10T09:00:{begin_ms // 1000:02}.{begin_ms % 1000:03}Z",
        "time": took_ms,
        "request": {"url": url, "headersSize": 350, "bodySize": 0},
        "response": {"status": 200, "bodySize": size, "headersSize": 250, "content": {"mimeType": mime, "size": size}},
        **more,
    }


def har(folder, entries, name="page.har", **log):
    file = Path(folder) / name
    file.write_text(json.dumps({"log": {"entries": entries, **log}}), encoding="utf-8")
    return file


@pytest.fixture
def page(tmp_path):
    """A document, a script of another host that it leads to, an image that the script leads to, and a style sheet."""
    return har(
        tmp_path,
        [
            entry("https://a.example/", 0, 100, 30_000),
            entry("https://b.example/app.js", 150, 60, 80_000, "text/javascript", _initiator="https://a.example/"),
            entry(
                "https://a.example/i.png", 260, 40, 50_000, "image/png", _initiator={"url": "https://b.example/app.js"}
            ),
            entry("https://a.example/s.css", 120, 30, 9_000, "text/css"),
        ],
    )


def test_a_page_has_hosts_sizes_dependencies_and_computation(page):
    read = read_har(page)
    assert (read.name, read.hosts, read.depth) == ("page", ("a.example", "b.example"), 3)
    by_name = {each.url.rpartition("/")[2]: each for each in read.objects}
    assert (by_name[""].after, by_name[""].response_bytes, by_name[""].request_bytes) == (None, 30_250, 350)
    assert (by_name["s.css"].after, by_name["s.css"].compute_ns) == (0, 20_000_000)
    assert (by_name["app.js"].after, by_name["app.js"].compute_ns) == (0, 50_000_000)
    assert read.objects[by_name["i.png"].after].url.endswith("app.js")


def test_a_redirect_leads_to_its_target(tmp_path):
    first = entry("http://a.example/", 0, 40, 0)
    first["response"] |= {"status": 301, "redirectURL": "https://a.example/"}
    read = read_har(har(tmp_path, [first, entry("https://a.example/", 45)]))
    assert [each.after for each in read.objects] == [None, 0]


def test_what_is_not_fetched_is_left_out_and_only_the_first_page_is_read(tmp_path):
    entries = [
        entry("https://a.example/", 0, pageref="1"),
        entry("data:image/png;base64,AAAA", 5, pageref="1"),
        {**entry("https://a.example/gone", 9, pageref="1"), "response": {"status": 0}},
        entry("https://other.example/", 900, pageref="2"),
    ]
    read = read_har(har(tmp_path, entries, pages=[{"id": "1"}, {"id": "2"}]))
    assert (len(read.objects), read.left_out, read.hosts) == (1, 2, ("a.example",))


def test_objects_without_a_size_are_counted(tmp_path):
    entries = [entry("https://a.example/", 0), entry("https://a.example/x", 50), entry("https://a.example/y", 60)]
    entries[1]["response"].update(bodySize=-1, content={"mimeType": "image/png"})
    entries[2]["response"].update(bodySize=-1, content={"size": 0})
    file = har(tmp_path, entries)
    assert read_har(file).unsized == 1
    assert "note: the file has no size of 1 of 3 objects" in bentpipe("web", "show", file).stderr
    assert json.loads(bentpipe("web", "show", file, "--json").stdout)["unsized"] == 1


def test_initiators_in_a_loop_end_at_the_earlier_entry(tmp_path):
    a = entry("https://a.example/a", 0, _initiator="https://a.example/b")
    b = entry("https://a.example/b", 10, _initiator="https://a.example/a")
    assert [each.after for each in read_har(har(tmp_path, [b, a])).objects] == [None, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda e: e.update(time=1e300), r"entries\[0\]\.time: '1e\+300'; expected a number of at most"),
        (lambda e: e.update(startedDateTime="yesterday"), r"startedDateTime.*yesterday"),
        (lambda e: e.pop("startedDateTime"), "startedDateTime: is missing"),
        (lambda e: e["response"].update(bodySize=1e30), "a size: '1e"),
        (lambda e: e.update(response=[]), r"entries\[0\]\.response: holds a list"),
        (lambda e: e["request"].update(url="https://[a"), "expected an address"),
        (lambda e: e["request"].update(url="data:,"), "no entry that was fetched over HTTP"),
    ],
)
def test_an_absurd_entry_is_refused_in_one_line(tmp_path, change, message):
    one = entry("https://a.example/", 0)
    change(one)
    with pytest.raises(UserError, match=message) as error:
        read_har(har(tmp_path, [one]))
    assert "\n" not in str(error.value)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_file_is_a_page_or_refused_in_one_line(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("fuzz")
    file = har(folder, [entry("https://a.example/", 0), entry("https://b.example/x.js", 60, mime="text/javascript")])
    content = bytearray(file.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    file.write_bytes(bytes(content))
    problem = ""
    try:
        assert read_har(file).objects
    except UserError as error:
        problem = str(error)
    assert "\n" not in problem


@pytest.mark.parametrize("name", ["aftonbladet.se", "www.nytimes.com", "chrome_h2_www.nghttp2.org", "mytoys.de"])
def test_published_pages_are_read(name):
    read = read_har(require_data("web_hars") / f"{name}.har")
    assert len(read.objects) > 5
    assert read.bytes > 50_000
    assert all(each.after is None or each.after < i for i, each in enumerate(read.objects))


def test_page_load_times_follow_from_round_trips_and_computation(page):
    """RTT 100 ms at 1 Gbit/s. HTTP/2: TCP, TLS and the document 300 ms; the script of a new host 350, its image 210.

    HTTP/3 needs an RTT less for each of the two hosts, but it paces what it sends.
    """
    path = preset_profile("dumbbell:rate=1gbit,rtt=100ms,queue=100ms", 30.0)
    times = {
        http: [each.plt_ms for each in load_page(page, [path], ["cubic"], http=http, loads=3, phase_s=0.0)]
        for http in ("1", "2", "3")
    }
    for each in times.values():
        assert len(each) == 3
        assert max(each) - min(each) < 1
    # Each large response takes some RTTs of slow start more.
    assert 860 < times["2"][0] < 1360
    assert 60 < times["2"][0] - times["3"][0] < 350
    assert times["1"][0] == pytest.approx(times["2"][0], rel=0.3)
    longer = load_page(page, [preset_profile("dumbbell:rate=1gbit,rtt=200ms,queue=100ms", 30.0)], ["cubic"], loads=1)
    assert longer[0].plt_ms > 1.6 * times["2"][0]


def test_the_indices_of_a_load_are_means_of_its_arrivals(page):
    path = preset_profile("dumbbell:rate=20mbit,rtt=60ms,queue=100ms", 20.0)
    loads = load_page(page, [path], ["cubic"], loads=3, phase_s=0.0)
    app = f"web:{page},http=2,n=3"
    items = bp.Experiment(bp.Profile(path), schemes=["cubic"], app=app, phase=0).simulate()[0].applications()
    pages = items.filter(pl.col("kind") == "page")
    for number, each in enumerate(loads):
        first = pages["id"][number]
        own = items.filter((pl.col("kind") == "object") & pl.col("id").is_between(first + 1, first + 4))
        at_ms = ((own["completed_s"] - pages["start_s"][number]) * 1e3).to_numpy()
        assert each.object_index_ms == pytest.approx(at_ms.mean())
        assert each.byte_index_ms == pytest.approx((at_ms * own["bytes"].to_numpy()).sum() / own["bytes"].sum())
        assert 180 < each.byte_index_ms < each.plt_ms == pytest.approx(at_ms.max())


def test_the_same_loads_have_the_same_times(page):
    path = bp.Profile.make(site="louvain", to="london", duration=30, seed=1).native
    first, second = (load_page(page, [path], ["bbr"], loads=4, recovery="none,satguard") for _ in range(2))
    assert first == second
    assert {(each.cc, each.scheme) for each in first} == {("bbr", "none"), ("bbr", "satguard")}
    assert {each.scheme for each in load_page(page, [path], ["bbr"], loads=1)} == {"none"}


def test_loads_begin_at_the_start_of_every_path_with_every_seed(page, tmp_path):
    paths = [bp.Profile.make(site="louvain", to="london", duration=s, name=f"for-{s}").native for s in (20, 50)]
    load_page(page, paths, ["cubic"], loads=1, seeds=2, out=tmp_path / "out")
    assert [run.offset_s for run in find_runs(tmp_path / "out")] == [0] * 4


def test_a_page_loads_over_every_path_of_a_network(page):
    network = bp.Network.make("LON-NYC,SYD-NYC", duration=20)
    loads = load_page(page, [network.native], ["cubic"], loads=2)
    means = {path: [each.plt_ms for each in loads if each.path == path] for path in network}
    assert min(means["SYD-NYC"]) > max(means["LON-NYC"])


def test_the_commands_load_and_show_a_page(page, tmp_path):
    path = tmp_path / "P.parquet"
    bp.Profile.preset("dumbbell:rate=50mbit,rtt=30ms", duration=20).write(path)
    done = bentpipe("web", "load", page, path, "--loads", 3, "--json")
    assert done.returncode == 0, done.stderr
    loads = json.loads(done.stdout)["loads"]
    keys = {"page", "scheme", "plt_ms", "speed_index_ms", "fcp_ms", "http", "world"}
    assert len(loads) == 3
    assert {(each["scheme"], each["cc"], each["speed_index_ms"]) for each in loads} == {("none", "cubic", None)}
    assert all(keys <= each.keys() for each in loads)
    later = bentpipe("web", "load", page, path, "--loads", 2, "--phase", 5, "--json")
    assert [each["load"] for each in json.loads(later.stdout)["loads"]] == [0, 1]
    assert "page load time [ms]" in bentpipe("web", "load", page, path, "--loads", 2).stdout
    shown = json.loads(bentpipe("web", "show", page, "--json").stdout)
    assert (shown["objects"], shown["depth"]) == (4, 3)
    raced = bentpipe("race", path, "--app", f"web:{page},http=1,n=2", "--cc", "cubic", "-o", tmp_path / "out", "--json")
    assert raced.returncode == 0, raced.stderr
    for arguments, message in (
        (["web", "load", tmp_path / "none.har", path], "none.har"),
        (["web", "load", page, path, "--http", "4"], "--http: '4'; expected 1, 2 or 3"),
        (["web", "load", page, path, "--phase", "20"], "--phase: 20 s; expected 0 to less than 20 s"),
        (["web", "load", page, path, "--phase=-1"], "--phase: -1 s; expected 0 to less than 20 s"),
        (["race", path, "--app", "paced:nan", "-o", tmp_path / "x"], "--app: 'nan' is not a number with a unit"),
        (["web", "load", page, path, "--pause", "nan"], "--pause: 'nan' is not a duration"),
        (
            ["web", "load", page, path, "--phase", "19.9"],
            "was complete over paths of 20 s; expected Profiles that are long enough",
        ),
        (["web", "load", path, path], "JSON"),
    ):
        done = bentpipe(*arguments)
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr


def test_a_page_of_an_experiment_is_checked(page):
    app = parse_app(f"web:{page}")
    looped = app.to_dict()
    looped["web"]["objects"][0]["after"] = 2
    profile = bp.Profile.preset("dumbbell", duration=5)
    from bentpipe import _native
    from bentpipe.experiments.experiment import NS_PER_S, Flow, ProfileRef
    from bentpipe.experiments.experiment import Experiment as Record

    reference = ProfileRef(role="path", name="d", hash="00")
    record = Record(name="e", duration_ns=5 * NS_PER_S, profiles=[reference], flows=[Flow(controller="cubic", app=app)])
    with pytest.raises(UserError, match="no object after itself"):
        _native.simulate(
            json.dumps({**record.to_dict(), "flows": [{**record.to_dict()["flows"][0], "app": looped}]}),
            [profile.native],
        )


def test_http_3_is_simulated_and_its_losses_are_in_the_tables(page, tmp_path):
    path = tmp_path / "P.parquet"
    bp.Profile.preset("dumbbell:rate=50mbit,rtt=30ms,loss=0.02", duration=30).write(path)
    done = bentpipe("web", "load", page, path, "--http", 3, "--loads", 8, "--json")
    assert done.returncode == 0, done.stderr
    loads = json.loads(done.stdout)["loads"]
    assert [each["load"] for each in loads] == list(range(8))
    assert {each["http"] for each in loads} == {"3"}
    app = f"web:{page},http=3,n=8"
    run = bp.Experiment(bp.Profile.read(path), schemes=["cubic"], app=app).simulate()[0]
    assert (run.applications()["kind"] == "object").sum() == 8 * 4
    assert run.samples()["losses"].max() > 5
    assert "recovery_entered" in set(run.events()["kind"])
    refused = bentpipe("race", path, "--on-kernel", "--app", app, "--cc", "cubic", "-o", tmp_path / "out")
    assert refused.returncode == 2
    assert "HTTP/3; expected none, only the simulator has it" in refused.stderr

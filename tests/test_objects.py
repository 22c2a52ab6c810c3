"""The Python objects: arguments, results in memory and on disk, errors."""

import dataclasses
import datetime
import html
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from object_profiles import DUMBBELL, dumbbell
from reader_texts import TRACEROUTE, half_a_minute_of_pings

import bentpipe as bp
from bentpipe.execution.racing import race


@pytest.fixture(scope="module")
def lossy():
    """Two schemes and a shared path, two seeds that differ."""
    path = bp.Profile.preset(f"{DUMBBELL},loss=1%", duration=4, name="lossy")
    return bp.Experiment(path, schemes=["cubic", "bbr", "cubic+bbr"], seeds=2).simulate()


@pytest.fixture
def ping(tmp_path):
    file = tmp_path / "ping.txt"
    file.write_text(half_a_minute_of_pings(), encoding="ascii")
    return file


def test_a_profile_of_coordinates_written_and_read_is_the_same(tmp_path):
    path = bp.Profile.make(site=(50.67, 4.62), to="london", start="2026-05-10T09:00Z", duration="15s", seed=3)
    assert path.start == datetime.datetime(2026, 5, 10, 9, tzinfo=datetime.UTC)
    assert path.write(tmp_path / "P.parquet") == [tmp_path / "P.parquet"]
    again = bp.Profile.read(tmp_path / "P.parquet")
    assert again == path
    assert again.content_hash == path.content_hash
    assert again.with_seed(4) != path
    assert path.slots().height == path.summary()["geometry"]["slots"] if "slots" in path.summary()["geometry"] else 2
    assert set(path.to_polars()["direction"]) == {"up", "down"}


def test_a_profile_goes_through_another_tools_format_and_back(tmp_path):
    path = bp.Profile.preset("dumbbell:rate=12mbit,rtt=40ms", duration=2)
    with pytest.warns(UserWarning, match="."):
        files = path.write(tmp_path / "trace", format="mahimahi")
    back = bp.Profile.read(*sorted(files, reverse=True), format="mahimahi", delay="20ms")
    assert back.summary()["rtt_ms"]["median"] == 40.0
    assert back.duration_s == 2.0
    with pytest.raises(bp.UserError, match="unknown format"):
        bp.Profile.read("x", format="mahi")


def test_results_in_memory_are_those_on_disk(tmp_path, monkeypatch, lossy):
    monkeypatch.chdir(tmp_path)
    path = bp.Profile.preset(f"{DUMBBELL},loss=1%", duration=4, name="lossy")
    stored = race([path.native], ["cubic", "bbr", "cubic+bbr"], out=tmp_path / "out", seeds=2)
    assert [run.content_hash for run in lossy] == [run.record.content_hash for run in stored.runs]
    read = bp.RunSet.read("out").filter(scheme="bbr")
    assert read["bbr", 1].samples().equals(lossy["bbr", 1].samples())
    assert read.summary().equals(lossy["bbr"].summary())
    assert read["bbr", 1].profile == lossy["bbr", 1].profile
    assert read[0].folder is not None
    assert lossy[0].folder is None
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]  # a simulation in memory leaves no file


def test_simulating_into_a_folder_reuses_its_runs(tmp_path):
    experiment = bp.Experiment(dumbbell(), schemes=["cubic"])
    first = experiment.simulate(out=tmp_path)[0]
    before = (first.folder / "run.json").stat().st_mtime_ns
    assert experiment.simulate(out=tmp_path)[0].content_hash == first.content_hash
    assert (first.folder / "run.json").stat().st_mtime_ns == before
    assert bp.Run.read(first.folder).content_hash == first.content_hash


def test_runs_in_memory_can_be_stored_once(tmp_path, lossy):
    assert lossy.write(tmp_path / "kept") == tmp_path / "kept"
    read = bp.RunSet.read(tmp_path / "kept")
    assert sorted(run.content_hash for run in read) == sorted(run.content_hash for run in lossy)
    assert read["cubic", 1].profile == lossy["cubic", 1].profile
    with pytest.raises(bp.UserError, match="holds a Run already"):
        lossy.write(tmp_path / "kept")
    with pytest.raises(bp.UserError, match="on disk already"):
        read.write(tmp_path / "other")


def test_runs_or_profiles_with_one_place_are_refused_before_anything_is_written(tmp_path):
    path, out = dumbbell(duration=2), tmp_path / "out"
    tail, fair = (bp.Experiment(path, schemes=["cubic"], queue=queue).simulate() for queue in ((), "fq_codel"))
    with pytest.raises(bp.UserError, match=r"cubic\.seed0: the place of two of the Runs; expected one"):
        bp.RunSet([*tail, *fair]).write(out)
    slower = bp.Profile.preset("dumbbell:rate=5mbit", duration=2, name="dumbbell")
    other = bp.Experiment(slower, schemes=["bbr"]).simulate()
    with pytest.raises(bp.UserError, match=r"dumbbell\.parquet: the place of two Profiles of the Runs; expected one"):
        bp.RunSet([*tail, *other]).write(out)
    assert not out.exists()
    bbr = bp.Experiment(path, schemes=["bbr"]).simulate()
    assert bp.RunSet([*tail, *bbr]).write(out) == out
    assert bp.RunSet.read(out).schemes == ["bbr", "cubic"]


def test_a_run_is_chosen_by_scheme_and_seed(lossy):
    assert len(lossy) == 6
    assert [run.scheme for run in lossy["bbr"]] == ["bbr", "bbr"]
    assert lossy["bbr", 1].seed == 1
    assert lossy["lossy", "bbr", 1] is lossy["bbr", 1]
    assert [run.seed for run in lossy[:2]] == [lossy[0].seed, lossy[1].seed]
    assert lossy[-1] is list(lossy)[-1]
    assert lossy.filter(lambda run: run.seed == 1, scheme="cubic").seeds == [1]
    for key, message in (
        ("bbrr", "no such scheme; did you mean 'bbr'"),
        (("bbr", 7), "no such Run; its seeds are 0, 1"),
        (99, "there are 6 Runs"),
        (1.5, "expected a scheme"),
        (("bbr",), "expected a scheme"),
    ):
        with pytest.raises(bp.UserError, match=re.escape(message)):
            lossy[key]
    two = bp.Experiment([dumbbell(), dumbbell(duration=5, name="other")], schemes=["cubic"]).simulate()
    with pytest.raises(bp.UserError, match="2 Runs over dumbbell, other; expected one"):
        two["cubic", 0]
    assert two["other", "cubic", 0].label == "other"
    named = bp.Profile.preset(DUMBBELL, duration=2)
    assert len(bp.Experiment(named, schemes=["cubic"]).simulate().filter(profile=named)) == 1
    assert two[dumbbell(), "cubic", 0].label == "dumbbell"


def test_a_profile_selects_its_own_runs_among_profiles_of_one_name():
    slow, fast = (bp.Profile.preset(f"dumbbell:rate={rate}mbit", duration=2, name="home") for rate in (5, 20))
    race = bp.Experiment([slow, fast], schemes=["cubic"])
    runs = race.simulate()
    assert runs.labels == ["home", "home~2"]
    for path, label in ((slow, "home"), (fast, "home~2")):
        assert runs.filter(profile=path).labels == [label]
        assert runs[path, "cubic", 0].profile == path
        assert runs[label, "cubic", 0].profile == path
    assert runs.plot.goodput(profile=fast).axes[0].get_ylim()[1] > runs.plot.goodput(profile=slow).axes[0].get_ylim()[1]
    pair = bp.Comparison(runs, race.simulate())
    assert pair.plot(profile=fast).axes[0].get_ylim()[1] > pair.plot(profile=slow).axes[0].get_ylim()[1]
    other = dumbbell(name="home")
    assert len(runs.filter(profile=other)) == 0
    for plot in (runs.plot.goodput, pair.plot):
        with pytest.raises(bp.UserError, match=r"profile: <Profile .*; expected one of home, home~2"):
            plot(profile=other)
        with pytest.raises(bp.UserError, match="profile: 'homr'; did you mean 'home'"):
            plot(profile="homr")


def test_the_summary_has_means_with_confidence_intervals(lossy):
    summary = lossy.summary()
    assert summary["scheme"].to_list() == ["cubic", "bbr", "cubic+bbr", "cubic+bbr"]
    bbr = summary.row(1, named=True)
    rates = [run.summary()["goodput_bps"][0] for run in lossy["bbr"]]
    assert bbr["goodput_bps"] == pytest.approx(sum(rates) / 2)
    # Student's t of two values: 12.706 standard errors.
    half = 12.7062 * abs(rates[0] - rates[1]) / 2
    assert bbr["goodput_high_bps"] == pytest.approx(bbr["goodput_bps"] + half)
    assert bbr["n"] == 2
    assert bp.RunSet([]).summary().schema == summary.schema
    one = bp.Experiment(dumbbell(), schemes=["cubic"]).simulate().summary()
    assert one["goodput_low_bps"].null_count() == 1


def test_unlike_runs_of_one_name_are_not_averaged():
    path = dumbbell(duration=2)
    settings = ({}, {"queue": "fq_codel"}, {"duration": 1})
    sets = [bp.Experiment(path, schemes=["cubic"], seeds=2, **each).simulate() for each in settings]
    as_emulated = [
        bp.Run(dataclasses.replace(run.stored, record=run.record.replace(world="emulated"))) for run in sets[0]
    ]
    mixed = bp.RunSet([run for each in (*sets, as_emulated) for run in each])
    summary = mixed.summary()
    assert summary["runs"].to_list() == [2, 2, 2, 2]
    assert summary["world"].to_list() == [*["simulated"] * 3, "emulated"]
    assert summary["experiment"].to_list() == [
        "race-down · simulated, 2 s, the Profile's queues",
        "race-down · simulated, 2 s, fq_codel",
        "race-down · simulated, 1 s, the Profile's queues",
        "race-down · emulated, 2 s, the Profile's queues",
    ]
    for row, each in enumerate(sets):
        assert summary.drop("experiment").row(row) == each.summary().drop("experiment").row(0)
    page = html.unescape(mixed._repr_html_())
    for name in summary["experiment"]:
        assert name in page
    rows = [text.get_text() for text in mixed.plot.overview().axes[0].get_yticklabels()]
    assert rows == [f"cubic, {name.partition(' · ')[2]}" for name in summary["experiment"]]
    for plot in (mixed.plot.cdfs, mixed.plot.destinations, mixed.plot.timeline):
        with pytest.raises(bp.UserError, match="cubic over dumbbell is of two Experiments"):
            plot()
    assert {text.get_text() for text in sets[0].plot.overview().axes[0].get_yticklabels()} == {"cubic"}
    phases = [bp.Experiment(path, schemes=["cubic"], duration=1, phase=phase).simulate() for phase in (0, 1)]
    for twice in (bp.RunSet([*sets[0], *sets[0]]), bp.RunSet([*phases[0], *phases[1]])):
        with pytest.raises(bp.UserError, match="cubic over dumbbell: two Runs have seed 0; expected one Run for each"):
            twice.summary()
        assert "two Runs have seed 0" in twice._repr_html_()


def test_flows_over_a_shared_hop_meet_in_one_queue():
    home, office = dumbbell(name="home"), dumbbell(name="office")
    flows = [bp.Flow("cubic", path="home"), bp.Flow("cubic", path="office")]
    apart = bp.Experiment(bp.Network({"home": home, "office": office}), flows=flows).simulate()[0]
    network = bp.Network({"home": home, "office": office}).share(home.hops[0], as_="cell")
    assert network.to_polars()["shared"].to_list() == ["cell", "cell"]
    together = bp.Experiment(network, flows=flows).simulate()[0]
    assert apart.summary()["goodput_bps"].sum() > 18e6
    assert 9e6 < together.summary()["goodput_bps"].sum() < 10e6


def test_flows_have_their_own_direction_size_and_time():
    flows = [
        bp.Flow("cubic", app="transfers:100kb,n=1", start="500ms"),
        bp.Flow("bbr", direction="up", app="paced:480kbit"),
    ]
    run = bp.Experiment(dumbbell(), flows=flows, warmup=1, name="call").simulate()[0]
    assert run.experiment == "call"
    assert run.warmup_s == 1.0
    download, call = run.record.to_dict()["experiment"]["flows"]
    assert (download["app"]["transfers"]["sizes_bytes"], download["start_ns"]) == ([100_000], 500_000_000)
    assert call["direction"] == "up"
    assert run.summary()["completed_s"][0] > 0
    assert set(run.applications()["kind"]) == {"transfer", "message"}


def test_an_experiment_file_runs_in_memory(tmp_path):
    dumbbell().write(tmp_path / "P.parquet")
    (tmp_path / "call.toml").write_text(
        'name = "call"\nduration_s = 2\n[[profiles]]\nrole = "access"\nfile = "P.parquet"\n'
        '[[flows]]\ncontroller = "cubic"\n',
        encoding="utf-8",
    )
    runs = bp.Experiment.read(tmp_path / "call.toml", seeds=2).simulate()
    assert [(run.experiment, run.seed, run.duration_s) for run in runs] == [("call", 0, 2.0), ("call", 1, 2.0)]


def test_a_comparison_pairs_runs_over_the_same_path(lossy):
    same = lossy.compare(lossy)
    assert same.to_polars()["goodput_ratio"].to_list() == [1.0, 1.0, 1.0]
    assert same.names == ("A", "B")
    assert bp.Comparison(lossy, lossy, names=("before", "after")).names == ("before", "after")
    other = bp.Experiment(dumbbell(), schemes=["cubic"]).simulate()
    with pytest.raises(bp.UserError, match="their Profiles differ"):
        lossy.compare(other)


def test_a_report_of_runs_in_memory_is_one_page_without_links_to_files(tmp_path, lossy):
    page = lossy["cubic"].report(tmp_path / "out" / "report.html")
    text = page.read_text(encoding="utf-8")
    assert "lossy" in text
    assert all((page.parent / link).is_file() for link in re.findall(r'href="([^"]*)"', text))
    assert "samples.parquet" not in text
    assert (tmp_path / "out" / "results.csv").read_text().count("\n") == 1 + 2
    cubic = lossy["cubic"]
    assert cubic.compare(cubic).report(tmp_path / "c.html").stat().st_size > 10_000
    with pytest.raises(bp.UserError, match=r"expected a file that ends in \.html"):
        lossy.report(tmp_path / "out")


def test_a_report_beside_the_runs_links_to_them_from_anywhere(tmp_path):
    runs = bp.Experiment(dumbbell(), schemes=["cubic"]).simulate(out=tmp_path / "race")
    text = runs.report(tmp_path / "pages" / "report.html").read_text(encoding="utf-8")
    (link,) = re.findall(r'href="([^"]*run\.json)"', text)
    assert (tmp_path / "pages" / link).is_file()
    assert "bentpipe race" in text


FIGURES = {"timeline": 5, "goodput": 3, "overview": 1, "cdfs": 3, "destinations": 4}


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_of_runs_takes_axes_and_returns_its_figure(name, lossy):
    from matplotlib.figure import Figure

    mine = Figure()
    axes = mine.subplots(FIGURES[name], squeeze=False).ravel()
    assert getattr(lossy.plot, name)(ax=axes) is mine
    assert any(axis.has_data() for axis in axes)
    assert isinstance(getattr(lossy.plot, name)(), Figure)


def test_a_measurement_has_a_figure_per_analysis(ping, tmp_path):
    from matplotlib.figure import Figure

    measured = bp.read(ping)
    for name, panels in (("latency", 1), ("handovers", 2), ("spikes", 2)):
        mine = Figure()
        axes = mine.subplots(panels, squeeze=False).ravel()
        assert getattr(measured.plot, name)(ax=axes) is mine
    assert isinstance(measured.plot.loss(), Figure)


def test_figures_refuse_what_the_runs_do_not_have(lossy):
    both = bp.RunSet([*lossy, *bp.Experiment(dumbbell(), schemes=["cubic"]).simulate()])
    with pytest.raises(bp.UserError, match="profile: none given; expected one of lossy, dumbbell"):
        both.plot.timeline()
    assert both.plot.timeline(profile="dumbbell")
    with pytest.raises(bp.UserError, match="seed: 9; expected one of 0, 1"):
        lossy.plot.timeline(seed=9)
    with pytest.raises(bp.UserError, match=r"every Run has several flows.*try plot\.goodput"):
        lossy["cubic+bbr"].plot.timeline()
    with pytest.raises(bp.UserError, match="no valid Run"):
        bp.RunSet([]).plot.overview()


def test_a_log_is_analysed_in_memory_and_stored_as_a_run(ping, tmp_path):
    measured = bp.read(ping, site="home")
    assert measured.to_polars().height == 60
    assert measured.latency()["median_ms"][0] == pytest.approx(42.95)
    assert measured.loss().lost == 0
    assert measured.spikes().spikes.height == 0
    folder = measured.write(tmp_path / "out")
    stored = bp.read(folder)
    assert stored.to_polars()["site"][0] == "home"
    assert stored.latency()["median_ms"].to_list() == measured.latency()["median_ms"].to_list()
    assert bp.read(tmp_path / "out").tables == ["probes"]
    with pytest.raises(bp.UserError, match="has the same measurement already"):
        measured.write(tmp_path / "out")
    with pytest.raises(bp.UserError, match="stored already"):
        stored.write(tmp_path / "other")


def test_a_measurement_says_which_analyses_it_allows(tmp_path):
    (tmp_path / "trace.txt").write_bytes(TRACEROUTE)
    measured = bp.read(tmp_path / "trace.txt")
    assert measured.tables == ["hops"]
    assert measured.path().traces.height == 1
    with pytest.raises(bp.UserError, match="no probes; possible analyses: path"):
        measured.handovers()
    with pytest.raises(bp.UserError, match="table: 'probes'; expected hops"):
        measured.to_polars("probes")


def test_a_profile_of_a_measurement_is_that_of_its_log(ping):
    measured = bp.read(ping).profile(capacity="down=100mbit", queue="100ms")
    assert measured == bp.Profile.measured(ping, capacity="down=100mbit", queue="100ms")
    assert measured.notes
    assert measured.agreement()["ping"].to_list() == ["measured", "simulated"]
    with pytest.raises(bp.UserError, match="silent: 'quiet'; expected gap or lost"):
        bp.Profile.measured(ping, silent="quiet")


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


HOSTILE = "<script>alert(1)</script>&\"'$x$"


def test_html_is_whole_escaped_and_has_a_table_and_a_figure(tmp_path):
    path = dumbbell(name=HOSTILE)
    runs = bp.Experiment(path, schemes=["cubic"]).simulate()
    log = tmp_path / "<b>.txt"
    log.write_text(half_a_minute_of_pings(), encoding="ascii")
    objects = [path, runs, runs[0], bp.Experiment(path, "cubic"), bp.Network({HOSTILE: path}), runs.compare(runs)]
    for each in [*objects, bp.read(log), bp.Experiment(path, flows=[bp.Flow("cubic")])]:
        html, tags = each._repr_html_(), Tags()
        tags.feed(html)
        tags.close()
        assert tags.open == [], type(each)
        assert {"table", "img"} <= set(tags.seen), type(each)
        assert not {"script", "b0"} & set(tags.seen)
        assert len(html) < 200_000
        assert len(repr(each)) < 300
        assert len(repr(each).splitlines()) == 1


def test_a_notebook_shows_an_invalid_run_without_a_figure(lossy):
    run = lossy["bbr", 0]
    assert "<img" in run._repr_html_()
    record = run.record.replace(valid=False, why_invalid="the machine was too busy")
    page = bp.Run(dataclasses.replace(run.stored, record=record))._repr_html_()
    assert "no: the machine was too busy" in page
    assert "<img" not in page


def test_the_text_of_an_object_stays_short_with_many_runs():
    path = dumbbell(duration=1)
    runs = bp.Experiment(path, schemes=["cubic", "bbr", "reno"], seeds=20).simulate()
    assert len(runs) == 60
    assert len(repr(runs)) < 200
    assert runs._repr_html_().count("<tr>") < 20


def test_pandas_needs_no_pyarrow(monkeypatch, ping, lossy):
    pandas = pytest.importorskip("pandas")
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for each in (dumbbell(), lossy, lossy[0], lossy.compare(lossy), bp.read(ping), bp.Network({"a": dumbbell()})):
        frame = each.to_pandas()
        assert isinstance(frame, pandas.DataFrame)
        assert len(frame) == each.to_polars().height
        assert list(frame.columns) == each.to_polars().columns
    samples = lossy[0].to_pandas("samples")
    assert samples["goodput_bytes"].iloc[-1] == lossy[0].samples()["goodput_bytes"][-1]


def test_pandas_missing_is_one_line(monkeypatch, lossy):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(bp.UserError, match=r"to_pandas needs pandas: pip install 'bentpipe\[pandas\]'"):
        lossy[0].to_pandas()
    with pytest.raises(bp.UserError, match="table: 'sample'; did you mean 'samples'"):
        lossy[0].to_pandas("sample")


def test_progress_is_a_share_that_grows():
    shares = []
    bp.Experiment(dumbbell(), schemes=["cubic", "bbr"]).simulate(on_progress=shares.append)
    assert shares == sorted(shares)
    assert shares[0] >= 0
    assert shares[-1] == 1.0
    with pytest.raises(bp.UserError, match="on_progress: 5; expected a function"):
        bp.Experiment(dumbbell(), schemes=["cubic"]).simulate(on_progress=5)


def test_a_grid_of_tunables_is_tuned(tmp_path):
    tuned = bp.Experiment(dumbbell(), schemes=["bbr2"]).tune({"loss_thresh": [0.02, 0.08]}, out=tmp_path)
    assert [cell.point for cell in tuned.cells] == [("0.02",), ("0.08",)]


def test_polars_is_what_every_table_is(lossy, ping):
    for table in (lossy.summary(), lossy.to_polars(), lossy[0].links(), lossy[0].events(), bp.read(ping).latency_cdf()):
        assert isinstance(table, pl.DataFrame)

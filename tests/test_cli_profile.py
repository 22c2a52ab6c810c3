"""`bentpipe profile`: make, show, plot, convert; and users' mistakes."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.profiles.parquet import read_profile
from bentpipe.profiles.presets import preset_profile

RUN = CliRunner()


def run(*arguments: object, code: int = 0) -> str:
    """What the command prints; a mistake's one line for other exit codes."""
    result = RUN.invoke(app, ["profile", *map(str, arguments)])
    assert result.exit_code == code, result.output
    if code == 0:
        return result.stdout
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if not line.startswith("hint: ")]
    assert len(lines) == 1, result.stderr
    return lines[0].removeprefix("error: ")


@pytest.fixture
def dumbbell(tmp_path: Path) -> Path:
    path = tmp_path / "D.parquet"
    run("make", "--preset", "dumbbell:rate=100mbit,rtt=40ms,queue=1bdp", "--duration", 60, "-o", path)
    return path


def test_a_preset_is_the_librarys(dumbbell: Path) -> None:
    expected = preset_profile("dumbbell:rate=100mbit,rtt=40ms,queue=1bdp", 60.0)
    assert read_profile(dumbbell).content_hash() == expected.content_hash()


def test_show_prints_the_summary(dumbbell: Path) -> None:
    summary = json.loads(run("show", dumbbell, "--json"))
    assert set(summary) == {
        "name",
        "start",
        "duration_s",
        "basis",
        "hash",
        "provenance",
        "geometry",
        "loss_process",
        "hops",
        "handovers",
        "reconfigurations",
        "outages",
        "no_path_s",
        "rtt_ms",
        "up",
        "down",
    }
    up = ("delay_ms", "capacity_bps", "closed_s", "loss_mean", "loss_episodes", "valid_fraction", "queues")
    assert set(summary["up"]) == set(up)
    assert summary["up"]["closed_s"] == 0.0
    assert summary["start"] == "2026-05-10T09:00:00Z"
    assert (summary["geometry"], summary["handovers"], summary["reconfigurations"], summary["outages"]) == (
        None,
        0,
        0,
        0,
    )
    text = run("show", dumbbell)
    assert "dumbbell:rate=100mbit" in text
    assert "RTT [ms]" in text


def test_make_prints_the_summary_as_json(tmp_path: Path) -> None:
    path = tmp_path / "g.parquet"
    made = json.loads(
        run("make", "--preset", "geo", "--duration", 5, "--start", "2026-01-01T01:00+01:00", "--json", "-o", path)
    )
    assert made == json.loads(run("show", path, "--json"))
    assert made["start"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--preset", "dumbell"], "dumbbell"),
        (["--preset", "dumbbell:rate=fast"], "rate"),
        (["--preset", "dumbbell", "--duration", "0"], "duration: 0 s; expected more than 0"),
        (["--preset", "dumbbell", "--duration", "-5"], "duration: -5 s"),
        (["--preset", "dumbbell", "--start", "soon"], "--start: 'soon' is not a time"),
        (["--preset", "dumbbell", "--site", "melbourne"], "--site cannot be given with it"),
        (["--site", "melbourne"], "--site and --to are needed"),
        ([], "--site and --to are needed"),
        (["--site", "melborne", "--to", "london"], "melbourne"),
        (["--site", "99,0", "--to", "london"], "latitude"),
        (["--site", "40.44", "-79.99", "--to", "london"], "expected --site 40.44,-79.99"),
        (["--site", "melbourne", "--to", "48.86", "2.35"], "expected --to 48.86,2.35"),
        (
            ["--site", "melbourne", "--to", "london", "--constellation", "starlink"],
            "known: starlink-s1, starlink-gen1, ",
        ),
        (["--site", "melbourne", "--to", "london", "--seed", "-1"], "--seed"),
    ],
)
def test_an_impossible_profile_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    assert message in run("make", *arguments, "-o", tmp_path / "x.parquet", code=2)
    assert list(tmp_path.iterdir()) == []


def test_show_separates_closed_times_from_the_capacity_while_open(tmp_path: Path) -> None:
    path = tmp_path / "P.parquet"
    run("make", "--site", "louvain", "--to", "london", "--duration", "60s", "-o", path)
    summary, shown = json.loads(run("show", path, "--json")), run("show", path)
    for direction in ("up", "down"):
        side = summary[direction]
        assert 0 < side["closed_s"] < 5
        assert side["capacity_bps"]["min"] > 1e6
        assert re.search(rf"^{direction} .* closed for {side['closed_s']:.3g} s \(no path, or", shown, re.MULTILINE)
        assert f"{direction} capacity while open [Mbit/s]" in shown


def test_a_path_that_is_always_closed_has_no_capacity(tmp_path: Path) -> None:
    path = tmp_path / "P.parquet"
    run("make", "--site", "nairobi", "--to", "london", "--isl", "never", "--duration", 15, "-o", path)
    down = json.loads(run("show", path, "--json"))["down"]
    assert (down["closed_s"], down["capacity_bps"]) == (15.0, None)
    assert re.search(r"down capacity \(never open\) \[Mbit/s\]\W+–", run("show", path))


@pytest.mark.parametrize("process", [None, "busy", "idle"])
def test_make_and_show_name_the_loss_process(tmp_path: Path, process: str | None) -> None:
    path = tmp_path / "P.parquet"
    given = [] if process is None else ["--loss", process]
    made = RUN.invoke(
        app,
        ["profile", "make", "--site", "melbourne", "--to", "sydney", "--duration", "15", *given, "-o", str(path)],
    )
    assert ("no --loss given: loss is busy" in made.stderr) == (process is None)
    assert json.loads(run("show", path, "--json"))["loss_process"] == (process or "busy")
    assert re.search(rf"^loss +{process or 'busy'} \(a path that", run("show", path), re.MULTILINE)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "does not exist" in run("make", "--preset", "geo", "-o", tmp_path / "no" / "x.parquet", code=2)
    assert "no such file" in run("show", tmp_path / "x.parquet", code=2)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_plot_is_a_figure_and_the_same_every_time(dumbbell: Path, tmp_path: Path, ending: str) -> None:
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    assert run("plot", dumbbell, "-o", first).strip() == str(first)
    run("plot", dumbbell, "-o", second)
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 2000


def test_a_plot_goes_beside_its_profile(dumbbell: Path) -> None:
    run("plot", dumbbell)
    assert dumbbell.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    assert ".png, .svg or .pdf" in run("plot", dumbbell, "-o", "a.gif", code=2)


@pytest.mark.parametrize("name", ["csv", "hypatia", "mahimahi", "netem"])
def test_convert_there_and_back(dumbbell: Path, tmp_path: Path, name: str) -> None:
    files = run("convert", dumbbell, "--to", name, "-o", tmp_path / "out").split()
    back = tmp_path / "back.parquet"
    run("convert", *files, "--from", name, "--delay", "20ms", "-o", back)
    shown = json.loads(run("show", back, "--json"))
    assert shown["rtt_ms"]["median"] == pytest.approx(40.0)
    if name != "hypatia":
        assert shown["down"]["capacity_bps"]["median"] == pytest.approx(100e6, rel=0.01)


def test_default_names_are_beside_the_file(dumbbell: Path) -> None:
    assert run("convert", dumbbell, "--to", "csv").strip() == str(dumbbell.with_suffix(".csv"))
    assert run("convert", dumbbell, "--to", "mahimahi").split() == [
        str(dumbbell.with_suffix(e)) for e in (".up", ".down")
    ]


WRITTEN = "csv, hypatia, leoreplayer, mahimahi, netem, starrynet"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--to FORMAT and --from FORMAT"),
        (["--to", "csv", "--from", "csv"], "--to FORMAT and --from FORMAT"),
        (["--to", "mahimahy"], f"did you mean 'mahimahi'? (known: {WRITTEN})"),
        (["--to", "iperf3"], f"can be read but not written; formats that can: {WRITTEN}"),
        (
            ["--to", "parquet"],
            "is Parquet already, and every command takes it as it is; formats to write: csv, hypatia",
        ),
        (
            ["--from", "Parquet"],
            "is Parquet already, and every command takes it as it is; formats to read: csv, hypatia",
        ),
        (["--from", "dish"], "format"),
        (["--to", "netem", "--step", "0s"], "--step"),
        (["--from", "mahimahi", "--delay", "fast"], "--delay"),
        (["--from", "mahimahi", "--direction", "left"], "--direction"),
        (["--from", "mahimahi", "--delay", "20ms", "--queue", "1bdp"], "x"),
    ],
)
def test_an_impossible_conversion_is_one_line(dumbbell: Path, arguments: list[str], message: str) -> None:
    assert message in run("convert", dumbbell, *arguments, code=2)


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("computed") / "C.parquet"
    run("make", "--site", "melbourne", "--to", "london", "--duration", 60, "--seed", 3, "-o", path)
    return path


def test_show_prints_the_inputs_of_a_computed_path(computed: Path) -> None:
    geometry = json.loads(run("show", computed, "--json"))["geometry"]
    satellites = geometry["satellites"]
    assert (satellites["kind"], satellites["name"], satellites["satellites"]) == (
        "constellation",
        "starlink-gen1",
        4408,
    )
    assert satellites["epoch"] == "2026-05-10T00:00:00Z"
    assert [shell["altitude_km"] for shell in satellites["shells"]] == [550, 540, 570, 560, 560]
    assert {shell["phasing_basis"] for shell in satellites["shells"]} == {"chosen"}
    assert geometry["rules"] == {
        "policy": "starlink-like",
        "schedule_seed": 3,
        "min_elevation_deg": 25.0,
        "gateway_min_elevation_deg": 25.0,
        "gso_exclusion_deg": 18.0,
        "slot_s": 15.0,
        "slot_phase_s": 12.0,
    }
    assert sum(gateway["slots"] for gateway in geometry["gateways"]) == 5
    (pop,) = geometry["pops"]
    assert (pop["name"], pop["to"], pop["basis"], pop["slots"]) == ("MEL", "london", "table", 5)
    assert "melbourne - london" in pop["detail"]
    text = run("show", computed)
    for fragment in (
        "4408 of starlink-gen1",
        "starlink-like, seed 3, from 25° up",
        "550 km 53°",
        "(phasing chosen here, as the filing has none)",
        "scheduling   starlink-like",
        "(table: melbourne - london",
        "3 in use at once, ",
    ):
        assert fragment in text
    assert "{" not in text
    assert max(map(len, text.splitlines())) < 230


def test_a_great_circle_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "M.parquet"
    run("make", "--site", "melbourne", "--to", "melbourne", "--duration", 2, "-o", path)
    text = run("show", path)
    assert "ms (great circle " in text
    assert "great-circle: great circle" not in text


def test_an_assumed_start_and_equal_places_are_noted(tmp_path: Path) -> None:
    path = str(tmp_path / "M.parquet")
    at = ["profile", "make", "--site", "melbourne", "--duration", "2", "-o", path, "--to"]
    silent = RUN.invoke(app, [*at, "sydney", "--start", "2026-05-10T09:00:00Z"]).stderr
    assert "--start" not in silent
    assert "one place" not in silent
    notes = RUN.invoke(app, [*at, "melbourne"]).stderr
    assert "no --start given: the Profile begins at 2026-05-10T09:00:00Z" in notes
    assert "--site and --to are one place" in notes


def test_mahimahi_notes_the_medians_of_show_and_keeps_its_name(computed: Path, tmp_path: Path) -> None:
    medians = [json.loads(run("show", computed, "--json"))[side]["delay_ms"]["median"] for side in ("up", "down")]
    result = RUN.invoke(app, ["profile", "convert", str(computed), "--to", "mahimahi", "-o", str(tmp_path / "lyon")])
    assert f"are {medians[0]:.2f} ms up and {medians[1]:.2f} ms down" in result.stderr
    back = tmp_path / "back.parquet"
    run("convert", *result.stdout.split(), "--from", "mahimahi", "--delay", "20ms", "-o", back)
    assert json.loads(run("show", back, "--json"))["name"] == "lyon"


def test_show_lists_slots_on_request(computed: Path) -> None:
    rows = json.loads(run("show", computed, "--slots", "--json"))["slots"]
    assert [row["start"][-9:] for row in rows] == ["09:00:00Z", "09:00:12Z", "09:00:27Z", "09:00:42Z", "09:00:57Z"]
    assert {row["pop"] for row in rows} == {"MEL"}
    served = json.loads(run("show", computed, "--json"))["hops"]
    assert {f"sat:{row['norad_id']}" for row in rows} == {h["name"] for h in served if h["name"].startswith("sat:")}
    text = run("show", computed, "--slots")
    assert all(row["satellite"] in text for row in rows)
    assert "slots" not in json.loads(run("show", computed, "--json"))


def test_places_by_coordinates_make_a_plain_name(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    run("make", "--site", "40.44,-79.99", "--to", "frankfurt", "--duration", 2, "-o", path)
    assert read_profile(path).name == "40.44N79.99W-frankfurt"


def test_mahimahi_notes_both_delays(computed: Path, tmp_path: Path) -> None:
    result = RUN.invoke(app, ["profile", "convert", str(computed), "--to", "mahimahi", "-o", str(tmp_path / "t")])
    assert re.search(r"one-way delays are \d+\.\d\d ms up and \d+\.\d\d ms down", result.stderr)

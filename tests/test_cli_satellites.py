"""`bentpipe sky` and `bentpipe route`: machine-readable output, and users' mistakes."""

import csv
import io
import json

import pytest
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.orbits import elements, sky
from bentpipe.scenarios.places import parse_place
from bentpipe.times import parse_utc

RUN = CliRunner()
START = "2026-05-10T09:00:00Z"
ENDS = ["--from", "59.93,30.36", "--to", "-22.90,-43.17"]


def run(*arguments: object, code: int = 0) -> str:
    result = RUN.invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    if code == 0:
        return result.stdout
    lines = [line for line in result.stderr.splitlines() if not line.startswith("hint: ")]
    assert len(lines) == 1, result.stderr
    return lines[0].removeprefix("error: ")


def test_sky_lists_the_satellites_above() -> None:
    rows = json.loads(run("sky", "--site", "melbourne", "--at", START, "--json"))
    assert rows
    for row in rows:
        assert set(row) == {"norad_id", "name", "azimuth_deg", "elevation_deg", "range_km", "sunlit"}
        assert isinstance(row["norad_id"], int)
        assert isinstance(row["sunlit"], bool)
        assert 0 <= row["azimuth_deg"] < 360
        assert 25 <= row["elevation_deg"] <= 90
        assert row["range_km"] > 500
    heights = [row["elevation_deg"] for row in rows]
    assert heights == sorted(heights, reverse=True)
    satellites = elements.load_satellites(None, None, parse_utc(START))
    assert rows == sky.sky(satellites, parse_place("melbourne"), parse_utc(START))


def test_a_lower_mask_shows_more() -> None:
    at = ("sky", "--site", "melbourne", "--at", START, "--constellation", "starlink-s1", "--json")
    assert len(json.loads(run(*at, "--min-elevation", 5))) > len(json.loads(run(*at))) > 0
    assert rows_of(run(*at[:-1])) == len(json.loads(run(*at)))


def rows_of(text: str) -> int:
    """Rows of a table in a pipe: every line but the heading."""
    return len([line for line in text.splitlines() if line.strip()]) - 1


def test_route_csv_and_json_agree() -> None:
    at = ("route", "--constellation", "starlink-s1", *ENDS, "--start", START, "--duration", 3, "--step", 0.5)
    text = run(*at, "--csv")
    assert text.startswith("t_s,rtt_ms,hops,satellites\n0,")
    from_csv = list(csv.DictReader(io.StringIO(text)))
    from_json = json.loads(run(*at, "--json"))
    assert [row["t_s"] for row in from_csv] == ["0", "0.5", "1", "1.5", "2", "2.5"]
    for a, b in zip(from_csv, from_json, strict=True):
        assert set(b) == {"t_s", "rtt_ms", "hops", "satellites"}
        assert len(a["rtt_ms"].partition(".")[2]) == 6
        assert float(a["rtt_ms"]) == b["rtt_ms"]
        assert [int(number) for number in a["satellites"].split(" ")] == b["satellites"]
        assert int(a["hops"]) == b["hops"] == len(b["satellites"]) + 1
    assert 100 < from_json[0]["rtt_ms"] < 200
    assert rows_of(run(*at)) == 6


def test_an_unreachable_end_is_an_empty_cell() -> None:
    """Shell 1 reaches 53 degrees and a little: from the pole it is never above 25 degrees."""
    at = (
        "route",
        "--constellation",
        "starlink-s1",
        "--from",
        "90,0",
        "--to",
        "melbourne",
        "--start",
        START,
        "--duration",
        1,
    )
    assert run(*at, "--csv") == "t_s,rtt_ms,hops,satellites\n0,,0,\n"
    assert json.loads(run(*at, "--json")) == [{"t_s": 0.0, "rtt_ms": None, "hops": 0, "satellites": []}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sky", "--site", "melbourne", "--at", "noon"], "--at: 'noon' is not a time"),
        (["sky", "--site", "nowhere", "--at", START], "nowhere"),
        (["sky", "--site", "melbourne", "--at", START, "--elements", "none.tle"], "none.tle: no such file"),
        (["sky", "--site", "melbourne", "--at", START, "--min-elevation", "91"], "91"),
        (
            ["sky", "--site", "melbourne", "--at", START, "--constellation", "starlink"],
            "known: starlink-s1, starlink-gen1, ",
        ),
        (["sky", "--at", START], "--site"),
        (["route", *ENDS, "--start", START, "--duration", "0"], "duration: 0 s"),
        (["route", *ENDS, "--start", START, "--duration", "-1"], "duration: -1 s"),
        (["route", *ENDS, "--start", START, "--step", "0"], "step: 0 s"),
        (["route", *ENDS, "--start", START, "--isl", "ring"], "isl: 'ring'"),
        (["route", *ENDS, "--start", START, "--isl", "grid:7x7"], "grid:7x7"),
        (["route", *ENDS, "--start", START, "--json", "--csv"], "--json and --csv"),
        (["route", *ENDS, "--elements", "none.tle"], "--start"),
        (["sky", "--site", "40.44 -79.99", "--at", START], "expected 40.44,-79.99"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], message: str) -> None:
    assert message in run(*arguments, code=2)


def test_an_assumed_start_of_routes_is_noted() -> None:
    given = RUN.invoke(app, ["route", *ENDS, "--duration", "1", "--csv", "--start", START])
    default = RUN.invoke(app, ["route", *ENDS, "--duration", "1", "--csv"])
    assert default.stdout == given.stdout != ""
    assert default.stderr == "note: no --start given: routes begin at 2026-05-10T09:00:00Z\n"
    assert given.stderr == ""

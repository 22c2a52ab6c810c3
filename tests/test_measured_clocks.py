"""Wall clocks of the tables of a measured Run, and selection of simultaneous measurements."""

import json

import polars as pl
import pytest
from reader_texts import START_S, STATUS, TEXTS, TRACEROUTE
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.measurements.profile import profile_from
from bentpipe.measurements.runs.analysis_input import load_table
from bentpipe.measurements.runs.imports import import_files
from bentpipe.measurements.runs.store import read_measured
from bentpipe.measurements.serving.inputs import read_maps, read_pings
from bentpipe.profiles.build import Points
from bentpipe.profiles.measured.capacity import Capacity, read_capacity
from bentpipe.profiles.measured.make import FromPings, profile_from_pings
from bentpipe.profiles.path import PathView
from bentpipe.times import format_utc

NS = 10**9
SECONDS = 40
MAP = json.dumps(
    {
        "dishGetObstructionMap": {
            "numRows": 3,
            "numCols": 3,
            "snr": [-1, 0, 1, -1, -1, 0.5, -1, 1, -1],
            "maxThetaDeg": 80,
            "mapReferenceFrame": "FRAME_EARTH",
        }
    }
).encode()
run = CliRunner().invoke


def pings(begin_s=START_S, every_s=0.2):
    rows = [f"{begin_s + n * every_s:.3f},{30 + n % 7}\n" for n in range(round(SECONDS / every_s))]
    return ("unix_s,rtt_ms\n" + "".join(rows)).encode()


def folder(tmp_path, **files):
    (tmp_path / "in").mkdir()
    for name, data in files.items():
        (tmp_path / "in" / name.replace("_", ".")).write_bytes(data)
    return import_files([tmp_path / "in"], tmp_path / "out").run


def as_before(made):
    """Rewrite the Run in the form of older versions, whose sources have no tables."""
    file = made.path / "run.json"
    record = json.loads(file.read_text())
    for source in record["sources"]:
        del source["tables"]
    file.write_text(json.dumps(record))
    return read_measured(made.path)


def test_a_source_without_a_clock_gets_none_from_others(tmp_path):
    made = folder(tmp_path, ping_csv=pings(), trace_txt=TRACEROUTE, cap_txt=TEXTS["mahimahi"][0])
    tables = {source.name: list(source.tables) for source in made.record.sources}
    assert tables == {"ping.csv": ["probes"], "trace.txt": ["hops"], "cap.txt": ["links"]}
    assert made.start_unix_ns == START_S * NS
    assert "19700101" not in made.path.name
    assert load_table(made.path, "probes").clock_known
    assert not load_table(made.path, "hops").clock_known
    assert not any("traceroutes are put" in note for note in load_table(made.path, "probes").notes)
    assert read_pings(made.path).start_unix_ns == START_S * NS
    assert not any("wall clock" in note for note in profile_from(made.path).notes)
    # Runs of older versions without tables of sources are read, with the same checks.
    before = as_before(made)
    assert not before.clock_known("probes")
    assert not load_table(made.path, "probes").clock_known
    assert any("not those of a wall clock" in note for note in profile_from(made.path).notes)
    with pytest.raises(UserError, match="wall clock"):
        read_pings(made.path)
    with pytest.raises(UserError, match="has the same measurement already"):
        import_files([tmp_path / "in"], tmp_path / "out")


def test_a_run_without_any_clock_begins_in_1970(tmp_path):
    made = folder(tmp_path, trace_txt=TRACEROUTE, cap_txt=TEXTS["mahimahi"][0])
    assert made.start_unix_ns == 0


def test_pings_without_a_clock_beside_others_with_one(tmp_path):
    ping = b"PING a (192.0.2.1) 56(84) bytes of data.\n" + b"".join(
        b"64 bytes from 192.0.2.1: icmp_seq=%d ttl=57 time=40.0 ms\n" % n for n in range(1, 21)
    )
    ping += b"\n--- a ping statistics ---\n20 packets transmitted, 20 received, 0% packet loss, time 19000ms\n"
    made = folder(tmp_path, ping_log=ping, rates_csv=TEXTS["rates"][0])
    assert not made.clock_known("probes")
    assert made.clock_known("samples")
    assert load_table(made.path, "throughput").clock_known
    result = run(
        app, ["read", str(tmp_path / "in" / "ping.log"), str(tmp_path / "in" / "rates.csv"), "-o", str(tmp_path / "b")]
    )
    assert "1970-01-01T00:00:00Z" in result.output  # of the probes, independent of other tables


def test_a_terminals_answers_without_times_beside_pings(tmp_path):
    made = folder(tmp_path, ping_csv=pings(), map_json=MAP, status_json=STATUS)
    assert read_pings(made.path).start_unix_ns == START_S * NS
    with pytest.raises(UserError, match="wall clock"):
        read_maps(made.path)
    assert made.dish["maps"].select("frame", "max_theta_deg").row(0) == ("FRAME_EARTH", 80.0)
    assert made.dish["maps"].select("pixel", "quality").row(0) == ([1, 2, 5, 7], [0.0, 1.0, 0.5, 1.0])


# --- capacity


def at(made, *times_s):
    """The capacity down [Mbit/s] at times of the Profile; None: not known."""
    view = PathView(made.profile)
    values, valid = view.capacity("down"), view.valid("down")
    results = []
    for second in times_s:
        value = values.value[values.t_s <= second][-1]
        results.append(value / 1e6 if valid.value[valid.t_s <= second][-1] > 0 else None)
    return results


def captured(begin_s, mbps, source):
    """The rate down that was measured for 5 s."""
    return Capacity(None, Points.of([0.0], [mbps * 1e6]), 5.0, round(begin_s * NS), source)


def table():
    return pl.DataFrame(
        {"unix_ns": [(START_S + n) * NS for n in range(SECONDS)], "rtt_ms": [30.0 + n % 7 for n in range(SECONDS)]}
    )


def made_with(*capacities, **more):
    return profile_from_pings(table(), FromPings(capacities=capacities, **more))


def test_capacity_is_taken_from_simultaneous_tests():
    other_day, first, second = (
        captured(begin, mbps, name)
        for begin, mbps, name in (
            (START_S - 86_400, 1, "a.json"),
            (START_S + 5, 20, "b.json"),
            (START_S + 25, 40, "c.json"),
        )
    )
    made = made_with(other_day, second, first)
    assert at(made, 2.0, 6.5, 15.0, 26.5, 35.0) == [None, 20, None, 40, None]
    assert "capacity down: c.json, b.json" in made.notes
    assert "capacity down: 1 other(s) ignored: not known to overlap the pings" in made.notes
    recipe = json.loads(made.profile.metadata_json())["provenance"]["recipe"]
    assert recipe["capacity"] == ["c.json", "b.json"]
    # At one time the first counts.
    both = made_with(captured(START_S + 5, 1, "x"), captured(START_S + 7, 2, "y"))
    assert at(both, 6.0, 9.5, 11.0, 13.0) == [1, 1, 2, None]


def test_the_first_rate_is_used():
    made = made_with(read_capacity("down=100mbit"), captured(START_S + 5, 20, "b.json"))
    assert at(made, 2.0, 6.5) == [100, 100]


def test_pings_without_a_clock_have_no_simultaneous_tests():
    for known in (True, False):
        made = made_with(captured(START_S + 5, 20, "b"), clock_known=known)
        assert at(made, 2.0, 6.5) == ([None, 20] if known else [20, 20])
        assert any("measured at the time of the pings" in note for note in made.notes) == known


def test_simultaneous_tests_are_preferred_to_those_of_another_day(tmp_path):
    def rates(begin_s, mbps):
        rows = "".join(f"{when(begin_s + n)},{when(begin_s + n + 1)},{mbps}\n" for n in range(5))
        return f"timestamp_start,timestamp_end,download_mbps\n{rows}".encode()

    def when(second):
        return format_utc(second * NS)

    made = folder(tmp_path, a_csv=rates(START_S - 86_400, 5), b_csv=rates(START_S + 10, 50), ping_csv=pings())
    assert at(profile_from(made.path), 2.0, 11.5, 30.0) == [None, 50, None]
    counting = b"t_s,rtt_ms\n" + b"".join(b"%d.5,%d\n" % (n, 30 + n % 7) for n in range(SECONDS))
    (tmp_path / "in" / "ping.csv").write_bytes(counting)
    no_clock = profile_from(import_files([tmp_path / "in"], tmp_path / "other").run.path)
    assert at(no_clock, 2.0, 11.5, 30.0) == [5, 5, 5]
    assert "capacity down: 1 other(s) ignored" in no_clock.notes

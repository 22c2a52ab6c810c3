"""Ambiguous input: restarted sequence numbers, two targets in a log, files of one name, units."""

import json
import sqlite3
from datetime import datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reader_texts import DISH_CSV, START_S, STATUS, TEXTS, TRACEROUTE, parquet_bytes

from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.readers.restarts import restarts
from bentpipe.measurements.runs.analysis_input import open_measured
from bentpipe.measurements.runs.imports import import_files, read_file
from bentpipe.measurements.runs.tables import filled
from bentpipe.profiles.measured.capacity import capacities_from_tables

NS = 10**9
HEADING = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n"


def read(tmp_path, text, hints=None, name="file"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(path, hints=hints).measurement


def reply(number, sent_s, rtt_ms=40.0, host="192.0.2.1"):
    at = START_S + sent_s + rtt_ms / 1e3
    return f"[{at:.6f}] 64 bytes from {host}: icmp_seq={number} ttl=57 time={rtt_ms} ms\n"


def fping(number, sent_s, rtt_ms=40.0):
    return f"[{START_S + sent_s + rtt_ms / 1e3:.5f}] 192.0.2.1 : [{number}], 64 bytes, {rtt_ms} ms (40 avg, 0% loss)\n"


def row(number, sent_s, rtt_ms=40.0):
    return f"{START_S + sent_s:.6f},{number},{rtt_ms}\n"


PRINTS = {"ping": ("", reply, 1), "fping": ("", fping, 0), "csv": ("unix_s,seq,rtt_ms\n", row, 1)}


def counts(probes):
    return (
        probes.filter(~pl.col("duplicate")).height,
        probes["rtt_ms"].null_count(),
        int(probes["duplicate"].sum()),
    )


@pytest.mark.parametrize("tool", PRINTS)
@pytest.mark.parametrize(
    ("runs", "pause_s"),
    [((100,) * 5, 50.0), ((300, 300), 70.0), ((100, 200), 300.0), ((10,) * 20, 1.0), ((1,) * 9, 1.0)],
)
def test_restarted_numbers_are_a_new_series(tmp_path, tool, runs, pause_s):
    head, line, first = PRINTS[tool]
    text, begin_s = head, 0.0
    for many in runs:
        text += "".join(line(first + i, begin_s + i * 0.1, 40.0 + i % 5) for i in range(many))
        begin_s += many * 0.1 + pause_s
    measured = read(tmp_path, text)
    assert counts(measured.tables["probes"]) == (sum(runs), 0, 0)
    assert any(note.startswith("sequence numbers restart") for note in measured.notes)


def test_a_probe_in_two_series_is_counted_once(tmp_path):
    # The clock was set back by three years for one line; then the last probe is printed again.
    jumped = [(1, 0.0), (2, 1.0), (4, 3.0), (4, -9e7), (4, 3.0)]
    measured = read(tmp_path, PRINTS["csv"][0] + "".join(row(number, sent_s) for number, sent_s in jumped))
    probes = measured.tables["probes"]
    assert counts(probes) == (4, 1, 2)
    of_four = probes.filter(~pl.col("duplicate"), pl.col("seq") == 4)
    assert not of_four["unix_ns"].is_duplicated().any()


def test_an_outage_and_a_restart_are_distinguished_by_time(tmp_path):
    sent = [*range(65_000, 65_600), *range(115_600, 115_700)]
    whole = read(tmp_path, "".join(reply(n % 65_536, n / 100) for n in sent)).tables["probes"]
    assert counts(whole) == (50_700, 50_000, 0)
    # The time is too short for 25,537 more: a prober that began again.
    again = [(40_000 + n, n / 100) for n in range(600)] + [(n, 16 + n / 100) for n in range(1, 301)]
    assert counts(read(tmp_path, "".join(reply(*one) for one in again)).tables["probes"]) == (900, 0, 0)


def test_a_clock_set_back_before_a_restart_is_a_jump(tmp_path):
    measured = read(
        tmp_path, "".join(reply(i + 1, i) for i in range(50)) + "".join(reply(i + 1, i - 9e3) for i in range(50))
    )
    assert (counts(measured.tables["probes"]), measured.clock_jumps) == ((100, 0, 0), 1)


def test_a_run_without_a_reply_is_lost(tmp_path):
    def silent(n, sent_s):
        return f"[{START_S + sent_s + 0.5:.5f}] 192.0.2.1 : [{n}], timed out (NaN avg, 100% loss)\n"

    text = "".join((silent if k == 1 else fping)(n, k * 60 + n / 10) for k in range(3) for n in range(100))
    assert counts(read(tmp_path, text).tables["probes"]) == (300, 100, 0)


def test_late_and_duplicate_replies_begin_no_series(tmp_path):
    order = [1, 2, 3, 5, 4, 6, 1, 7, 9, 8, 8, 10]
    rtts = {4: 190.0, 8: 180.0}
    text = "".join(reply(n, n / 10, rtts.get(n, 40.0)) for n in order[:6])
    text += reply(1, 0.1, 560.0).replace(" ms\n", " ms (DUP!)\n")
    text += "".join(reply(n, n / 10, rtts.get(n, 40.0)) for n in order[7:])
    measured = read(tmp_path, text)
    assert counts(measured.tables["probes"]) == (10, 0, 2)
    assert not any("numbers restart" in note for note in measured.notes)


@settings(max_examples=80)
@given(st.data())
def test_restarts_are_detected_at_their_lines(data):
    """Runs of a prober with losses, late replies and duplicates: exactly the first line of each begins a series."""
    every_ns = data.draw(st.sampled_from([10**7, 10**8, 10**9]))
    seq, sent, rtt, begins, at = [], [], [], [], 1_700_000_000 * NS
    for _ in range(data.draw(st.integers(1, 5))):
        many = data.draw(st.integers(3, 40))
        draw = np.random.default_rng(data.draw(st.integers(0, 99)))
        delay = 20 + draw.uniform(0, 1.4, many) * every_ns / 1e6
        kept = [n for n in range(many) if n < 2 or draw.random() > 0.1]
        lines = [(at + n * every_ns, delay[n], n + 1) for n in kept]
        lines += [(at + n * every_ns, delay[n] + 5, n + 1) for n in kept if draw.random() < 0.05]
        lines.sort(key=lambda line: line[0] + line[1] * 1e6)
        begins.append(len(seq))
        seq += [line[2] for line in lines]
        sent += [line[0] for line in lines]
        rtt += [line[1] for line in lines]
        at = int(max(t + r * 1e6 for t, r, _ in lines)) + data.draw(st.integers(5 * 10**7, 10**12))
    starts = restarts(np.array(seq), np.array(sent, np.int64), np.array(rtt), wraps=True, exact=True, every_s=None)
    assert starts == begins[1:]


def test_two_targets_in_a_log_are_two_series(tmp_path):
    lines = [(reply(i + 1, i / 10), reply(i + 1, i / 10 + 0.05, 90.0, "b.example (203.0.113.9)")) for i in range(300)]
    measured = read(tmp_path, "".join(a + b for a, b in lines))
    for target, rtt_ms in (("192.0.2.1", 40.0), ("203.0.113.9", 90.0)):
        probes = measured.tables["probes"].filter(target=target)
        assert (*counts(probes), probes["rtt_ms"].unique().to_list()) == (300, 0, 0, [rtt_ms])
    # Two that print into one file, with their headings; the shorter ends first.
    ends = "\n--- {} ping statistics ---\n{n} packets transmitted, {n} received, 0% packet loss, time 9ms\n"
    text = HEADING + "PING b.example (203.0.113.9) 56(84) bytes of data.\n"
    text += "".join(a + (b if place < 200 else "") for place, (a, b) in enumerate(lines))
    text += ends.format("b.example", n=200) + ends.format("192.0.2.1", n=300)
    probes = read(tmp_path, text).tables["probes"]
    assert {t: counts(probes.filter(target=t)) for t in ("192.0.2.1", "b.example")} == {
        "192.0.2.1": (300, 0, 0),
        "b.example": (200, 0, 0),
    }
    # Whoever replies to one heading stays in its series.
    other = read(tmp_path, HEADING + lines[0][0] + lines[1][0].replace("192.0.2.1", "192.0.2.7")).tables["probes"]
    assert other["target"].unique().to_list() == ["192.0.2.1"]


def rates(bps, streams=1, **more):
    """JSON of iperf3 with ten intervals; streams begin them up to 2 ms apart."""
    intervals = [
        {
            "streams": [
                {
                    "socket": 5 + s,
                    "start": i * 0.1 + s * 7e-4,
                    "end": (i + 1) * 0.1 + s * 7e-4,
                    "seconds": 0.1,
                    "bytes": 1000,
                    "bits_per_second": bps,
                    "omitted": False,
                    "sender": False,
                }
                for s in range(streams)
            ]
        }
        for i in range(10)
    ]
    start = {
        "connected": [],
        "version": "iperf 3.16",
        "timestamp": {"timesecs": START_S},
        "connecting_to": {"host": "192.0.2.1"},
        "test_start": {"protocol": "TCP", "reverse": 1},
    }
    return {"start": start, "intervals": intervals, "end": {}} | more


def test_files_with_the_same_name_are_separate_sources(tmp_path):
    for day, bps in (("day1", 1e8), ("day2", 2e7)):
        (tmp_path / "in" / day).mkdir(parents=True)
        (tmp_path / "in" / day / "test.json").write_text(json.dumps(rates(bps)))
        (tmp_path / "in" / day / "ping.csv").write_text(f"unix_s,rtt_ms\n{START_S},{bps / 1e6}\n{START_S + 1},9\n")
    run = import_files([tmp_path / "in"], tmp_path / "out").run
    names = [source.name for source in run.record.sources]
    assert names == ["day1/ping.csv", "day1/test.json", "day2/ping.csv", "day2/test.json"]
    assert run.probes["target"].unique().sort().to_list() == ["day1/ping.csv", "day2/ping.csv"]
    assert run.samples.group_by("source", "test").len().sort("source").rows() == [
        ("day1/test.json", 0, 10),
        ("day2/test.json", 1, 10),
    ]
    tests = open_measured(tmp_path / "out", "throughput").collect()
    assert sorted(tests["throughput_bps"].to_list()) == [2e7, 1e8]
    assert len(capacities_from_tables(run.samples, None)) == 2
    # Named one by one, and once more, which counts once.
    files = [tmp_path / "in" / day / "test.json" for day in ("day1", "day2", "day1")]
    one = import_files(files, tmp_path / "one").run
    assert [source.name for source in one.record.sources] == ["day1/test.json", "day2/test.json"]


def test_streams_of_a_test_are_added_though_they_begin_apart(tmp_path):
    measured = read(tmp_path, json.dumps(rates(25e6, streams=4))).tables["samples"]
    (one,) = capacities_from_tables(filled("samples", measured).with_columns(source=pl.lit("x")), None)
    assert one.down is not None
    assert one.down.value[one.down.valid].tolist() == pytest.approx([1e8] * 10)


def test_a_test_that_failed_has_no_rate(tmp_path):
    path = tmp_path / "tests.csv"
    path.write_text("unix_s,download_mbps\n" + "".join(f"{START_S + i},{'' if i % 2 else 100}\n" for i in range(4)))
    assert open_measured(path, "throughput").collect()["throughput_bps"].to_list() == [1e8, None, 1e8, None]


@pytest.mark.parametrize(
    ("name", "bps"),
    [
        ("download_mbps", 1e6),
        ("download_Mbps", 1e6),
        ("Download (Mbit/s)", 1e6),
        ("download_Mibps", 2**20),
        ("download_MBps", 8e6),
        ("Download (MBps)", 8e6),
        ("Download (MB/s)", 8e6),
        ("download kB/s", 8e3),
        ("download B/s", 8.0),
        ("download MiB/s", 8 * 2**20),
        ("downMBytes/s", 8e6),
        ("downlinkThroughputBps", 1.0),
        ("throughput_bytes_per_s", 8.0),
    ],
)
def test_bytes_and_bits_are_distinguished(tmp_path, name, bps):
    measured = read(tmp_path, f"unix_s,{name}\n{START_S},100\n{START_S + 1},110\n").tables["samples"]
    assert measured["goodput_bps"].to_list() == pytest.approx([100 * bps, 110 * bps])


def test_an_ambiguous_unit_is_refused(tmp_path):
    with pytest.raises(UserError, match="'DOWNLOAD_MBPS' has no unit; try `units`, as download_mbps"):
        read(tmp_path, f"unix_s,DOWNLOAD_MBPS\n{START_S},100\n")


@pytest.mark.parametrize(
    ("heading", "message"),
    [
        ("timestamp,ping_avg", "'ping_avg' has no unit; try `units`, as rtt_ms"),
        ("timestamp,download", "'download' has no unit; try `units`, as download_mbps"),
        ("Timestamp,Y,X", "pixels of a terminal's obstruction map.* `bentpipe serving`"),
    ],
)
def test_an_unusable_table_is_refused_with_a_remedy(tmp_path, heading, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, f"{heading}\n{','.join('5' for _ in heading.split(','))}\n")


@pytest.mark.parametrize(("yes", "no"), [("Y", "n"), ("1.0", "0.0"), ("True", "FALSE"), ("t", "f"), ("1", "0")])
def test_the_column_lost_accepts_words(tmp_path, yes, no):
    text = "unix_s,rtt_ms,lost\n" + "".join(f"{START_S + i},40,{no if i % 4 else yes}\n" for i in range(8))
    assert read(tmp_path, text).tables["probes"]["rtt_ms"].null_count() == 2


@pytest.mark.parametrize("word", ["maybe", "", "2", "ok"])
def test_the_column_lost_refuses_other_words(tmp_path, word):
    with pytest.raises(UserError, match=f":3: '{word}'; expected 1 or 0"):
        read(tmp_path, f"unix_s,rtt_ms,lost\n{START_S},40,0\n{START_S + 1},40,{word}\n")


def test_files_without_timestamps_are_put_in_sequence(tmp_path):
    (tmp_path / "in").mkdir()
    for name in ("a.txt", "b.txt", "c.txt"):
        (tmp_path / "in" / name).write_bytes(TRACEROUTE)
    mtr = json.loads(TEXTS["mtr"][0])
    (tmp_path / "in" / "d.json").write_text(json.dumps(mtr))
    imported = import_files([tmp_path / "in"], tmp_path / "out", hints=ReadHints(start_unix_ns=START_S * NS))
    hops = imported.run.hops
    assert hops["unix_ns"].unique().sort().to_list() == [(START_S + n) * NS for n in range(4)]
    assert any("after the preceding file" in note for note in imported.parts[1].source.notes)
    (tmp_path / "polls").mkdir()
    for n in range(3):
        (tmp_path / "polls" / f"status-{n}.json").write_bytes(STATUS)
    polls = import_files([tmp_path / "polls"], tmp_path / "polled").run
    assert polls.dish["samples"]["t_unix_ns"].to_list() == [0, NS, 2 * NS]


def test_a_hop_has_its_own_number(tmp_path):
    mtr = json.loads(TEXTS["mtr"][0])
    del mtr["report"]["hubs"][0]
    mtr["report"]["hubs"][0]["count"] = "2"  # as older versions have it
    assert read(tmp_path, json.dumps(mtr)).tables["hops"]["ttl"].to_list() == [2, 3]


def test_names_of_newer_firmware_are_kept(tmp_path):
    status = {
        "outage": {"cause": "NEW_CAUSE", "startTimestampNs": "1399245304801994822", "durationNs": "5"},
        "popPingLatencyMs": 26.5,
        "disablementCode": "BRAND_NEW",
        "mobilityClass": "FLYING",
    }
    table = read(tmp_path, json.dumps({"dishGetStatus": status})).tables["dish_samples"]
    assert table.select("state", "disablement_code", "mobility_class").row(0) == ("NEW_CAUSE", "BRAND_NEW", "FLYING")
    outages = [{"cause": cause, "startTimestampNs": "1399245304801994822"} for cause in ("NEW_CAUSE", "OBSTRUCTED")]
    history = {"current": "2", "popPingDropRate": [0, 1], "popPingLatencyMs": [31.5, 0], "outages": outages}
    events = read(tmp_path, json.dumps({"dishGetHistory": history})).tables["dish_events"]
    assert events["cause"].to_list() == ["NEW_CAUSE", "OBSTRUCTED"]


def test_unobserved_sky_is_not_obstructed(tmp_path):
    measured = read(tmp_path, TEXTS["Parquet of maps"][0])
    assert measured.tables["dish_maps"].select("pixel", "quality").row(0) == ([1, 3], [1.0, 1.0])
    assert "not observed" in measured.notes[0]


def test_maps_are_decoded_in_batches(tmp_path, monkeypatch):
    draw = np.random.default_rng(5)
    maps = [draw.choice([0.0, -1.0, 0.5, 1.0], 25).tolist() for _ in range(7)]
    maps[2], maps[4][3] = [0.0] * 25, float("nan")  # nothing is known; no number
    rows = {"timestamp": [float(START_S + n) for n in range(7)], "obstruction_map": maps, "frame_type": [1] * 7}
    for at_once in (2, 256):
        monkeypatch.setattr("bentpipe.measurements.dish.dumps.tables._BATCH", at_once)
        measured = read(tmp_path, parquet_bytes(rows)).tables["dish_maps"]
        assert measured["pixel"].to_list() == [[n for n, q in enumerate(one) if q > 0] for one in maps]
        assert measured["quality"].to_list() == [[q for q in one if q > 0] for one in maps]
        assert measured["t_unix_ns"].to_list() == [(START_S + n) * NS for n in range(7)]
    rows["obstruction_map"] = [["clear"] * 25] * 7
    with pytest.raises(UserError, match="obstruction_map: "):
        read(tmp_path, parquet_bytes(rows))


#: Tables as pandas and polars write them, by the table they become: their column of times, and the others.
PARQUETS = {
    "dish_samples": ("timestamp", {"pop_ping_latency_ms": [26.5, 27.5]}),
    "dish_maps": ("timestamp", {"obstruction_map": [[0.0, 1.0, 0.0, 1.0]] * 2, "frame_type": [1, 1]}),
    "probes": ("unix_ns", {"rtt_ms": [26.5, 27.5]}),
}


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/Vancouver"])
@pytest.mark.parametrize("table", PARQUETS)
def test_instants_in_parquet(tmp_path, table, zone, unit):
    name, columns = PARQUETS[table]
    times = pl.Series(name, [START_S * NS, START_S * NS + NS // 2]).cast(pl.Datetime("ns", "UTC"))
    times = times.dt.replace_time_zone(None) if zone is None else times.dt.convert_time_zone(zone)
    rows = pl.DataFrame({name: times.dt.cast_time_unit(unit), **columns})
    measured = read(tmp_path, parquet_bytes(rows))
    when = "unix_ns" if table == "probes" else "t_unix_ns"
    assert measured.tables[table][when].to_list() == [START_S * NS, START_S * NS + NS // 2]
    assert ("its times have no zone: taken for UTC" in measured.notes) == (zone is None)


@pytest.mark.parametrize("table", PARQUETS)
@pytest.mark.parametrize("kind", [pl.Date, pl.Time, pl.Duration("us")])
def test_invalid_instants_in_parquet_are_refused(tmp_path, table, kind):
    name, columns = PARQUETS[table]
    rows = pl.DataFrame({name: pl.Series([0, 1]).cast(kind), **columns})
    with pytest.raises(UserError, match=f"{name} is of type .*; expected a time"):
        read(tmp_path, parquet_bytes(rows))


@pytest.mark.parametrize("year", [1, 1969, 2400, 9999])
def test_instants_beyond_64_bit_nanoseconds_are_refused(tmp_path, year):
    rows = pl.DataFrame({"timestamp": [datetime(year, 1, 1)], "pop_ping_latency_ms": [26.5]})  # noqa: DTZ001
    with pytest.raises(UserError, match=r"row 1: timestamp is .*; expected a time"):
        read(tmp_path, parquet_bytes(rows))


def test_the_same_measurement_is_not_stored_twice(tmp_path):
    (tmp_path / "ping.log").write_text(HEADING + reply(1, 0) + reply(2, 1))
    arguments = [tmp_path], tmp_path
    assert import_files(*arguments).run.summary["probes"] == 2
    with pytest.raises(UserError, match="has the same measurement already"):
        import_files(*arguments)
    below = import_files([tmp_path], tmp_path / "out", site="x")
    assert len(below.parts) == 1
    assert len(import_files([tmp_path], tmp_path / "out", site="y").parts) == 1


@pytest.mark.parametrize(
    ("text", "table", "rows"),
    [
        ("unix_s,rtt_ms\n" + "".join(f"{START_S + i},41.5\n" for i in range(9)), "probes", 8),
        ("unix_s,rtt_ms,host\n" + "".join(f"{START_S + i},41.5,h\n" for i in range(9)), "probes", 8),
        ("unix_s,down_mbps\n" + "".join(f"{START_S + i},41.5\n" for i in range(9)), "samples", 8),
        ("".join(f"{14.5 + i % 2}\n" for i in range(9)), "links", 8),
        ("".join(f"{i}\n" for i in range(100, 1200)), "links", 12),
        (DISH_CSV.decode().replace(",0,False", ",0,False"), "dish_samples", 1),
    ],
)
def test_truncated_last_lines_are_left_out(tmp_path, text, table, rows):
    measured = read(tmp_path, text[:-2])
    assert measured.tables[table].height == rows
    assert any("is truncated (nothing ends it); left out" in note for note in measured.notes)


@pytest.mark.parametrize(
    ("heading", "times", "message"),
    [
        (
            "timestamp",
            [START_S * 1000, START_S * 1000 + 1, START_S],
            ":4: '1795199963'; expected a time of 2000 to 2100 in ms",
        ),
        ("unix_ms", [START_S * 1000, START_S], ":3: '1795199963'; expected a time of 2000"),
        ("time_ms", [START_S * 1000, START_S], ":3: '1795199963'; expected a time of 2000"),
        ("t_ms", [5, START_S * 1000], ":3: '1795199963000'; expected a time of 2000"),
        ("unix_ms", [START_S, START_S + 1], r"by its magnitude it is in s; try `units`"),
    ],
)
@pytest.mark.parametrize("more", ["", ",host"])
def test_times_are_all_of_one_kind(tmp_path, heading, times, message, more):
    rows = "".join(f"{at},40{',h' if more else ''}\n" for at in times)
    with pytest.raises(UserError, match=message):
        read(tmp_path, f"{heading},rtt_ms{more}\n{rows}")


def test_unsent_packets_are_not_losses(tmp_path):
    ping = {"type": "ping", "prb_id": 1, "msm_id": 2, "timestamp": START_S, "dst_addr": "192.0.2.1", "result": []}
    ping["result"] = [{"error": "sendto failed: Network is unreachable"}, {"rtt": 40.0}, {"x": "*"}]
    measured = read(tmp_path, json.dumps([ping]))
    assert measured.tables["probes"]["rtt_ms"].to_list() == [40.0, None]
    assert any(note.startswith("1 packets were never sent") for note in measured.notes)


def test_impossible_values_of_iperf3_are_null(tmp_path):
    def changed(change, at=3):
        document = rates(1e6)
        document["intervals"][at]["streams"][0].update(change)
        return json.dumps(document)

    for change, column in (({"lost_packets": -1}, "lost_packets"), ({"jitter_ms": 6.1e8}, "jitter_ms")):
        measured = read(tmp_path, changed(change))
        assert measured.tables["samples"].height == 10
        assert any(f"{column} of 1 interval(s)" in note for note in measured.notes)
    late = rates(1e6)
    for interval in late["intervals"][:2]:
        interval["streams"][0]["omitted"] = True
    late["start"]["test_start"]["omit"] = 0.2
    for interval in late["intervals"][2:]:
        for key in ("start", "end"):
            interval["streams"][0][key] -= 0.204
    late["intervals"][2]["streams"][0]["start"] = 0.0
    assert read(tmp_path, json.dumps(late)).tables["samples"]["omitted"].sum() == 2
    old = rates(1e6)
    for interval in old["intervals"]:
        del interval["streams"][0]["sender"]
    measured = read(tmp_path, json.dumps(old))
    assert measured.tables["samples"]["direction"].unique().to_list() == ["down"]
    assert any("an old version" in note for note in measured.notes)


def test_duplicates_of_a_table_are_no_probes(tmp_path):
    rows = {"unix_ns": [1, 2, 2], "rtt_ms": [1.0, 2.0, 9.0], "duplicate": [False, False, True]}
    pl.DataFrame(rows).write_parquet(tmp_path / "probes.parquet")
    assert open_measured(tmp_path / "probes.parquet", "probes").collect()["rtt_ms"].to_list() == [1.0, 2.0]


def test_download_durations_are_ignored_and_delays_may_be_negative(tmp_path):
    measured = read(tmp_path, f"unix_s,rtt_ms,download_s\n{START_S},40,12.5\n")
    assert "down_ms" not in measured.tables["probes"].columns
    assert "columns ignored: download_s" in measured.notes
    table = read(tmp_path, f"unix_s,rtt_ms,up_ms,down_ms\n{START_S},40,-1,41\n{START_S + 1},-1,-1,-1\n").tables[
        "probes"
    ]
    assert table.select("up_ms", "down_ms").rows() == [(-1.0, 41.0), (None, None)]


def test_a_database_in_use_is_refused_with_a_remedy(tmp_path):
    path = tmp_path / "dish.sqlite"
    base = sqlite3.connect(path)
    base.execute("PRAGMA journal_mode = wal")
    base.execute("CREATE TABLE status (time INTEGER, pop_ping_latency_ms REAL)")
    base.execute(f"INSERT INTO status VALUES ({START_S}, 26.5)")
    base.commit()
    with pytest.raises(UserError, match=r"dish\.sqlite-wal \(WAL mode\); make a copy .*VACUUM INTO"):
        read_file(path)
    base.close()  # which writes all of it
    measured = read_file(path).measurement
    assert measured.tables["dish_samples"]["pop_ping_latency_ms"].to_list() == [26.5]
    assert "in WAL mode" in measured.notes[0]


def test_ping_in_another_language_is_refused_with_a_remedy(tmp_path):
    text = "PING 8.8.8.8 (8.8.8.8) 56(84) octets de données.\n64 octets de 8.8.8.8 : icmp_seq=1 ttl=117 temps=20.0 ms\n"
    for log in (text, HEADING + reply(1, 0).replace("time=40.0", "time=40,5")):
        with pytest.raises(UserError, match=r": .* is not a line of ping; expected it in English: LC_ALL=C ping"):
            read(tmp_path, log)
    with pytest.raises(UserError, match=r"is not a line of ping$"):
        read(tmp_path, HEADING + reply(1, 0).replace(" ms", " us"))

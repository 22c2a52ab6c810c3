"""Readers of files: every probe is read at its time, lost probes are counted, nothing is repaired."""

import gzip

import polars as pl
import pytest
from reader_texts import (
    ATLAS,
    CSV,
    EVENT_LOG,
    FPING,
    HISTORY,
    MACOS,
    MAPS,
    PING,
    RATES,
    SQLITE,
    START_S,
    STATUS,
    TEXTS,
    TRACEROUTE,
)
from shared_data import require_data

from bentpipe.analysis.path import path_segments
from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.runs.imports import assemble_tables, import_files, read_file
from bentpipe.times import parse_utc

NS = 10**9


def read(tmp_path, text, hints=None, name="file", **more):
    path = tmp_path / name
    path.write_bytes(text)
    return read_file(path, hints=hints, **more).measurement


def since(table):
    return [round(ns / 1e9 - START_S, 6) for ns in table["unix_ns"].to_list()]


def test_ping_has_a_row_for_each_probe_sent(tmp_path):
    measured = read(tmp_path, PING)
    table = measured.tables["probes"]
    rows = list(
        zip(table["seq"], since(table), table["rtt_ms"], table["duplicate"], table["out_of_order"], strict=True)
    )
    assert rows == [
        (1, -0.1, None, False, False),
        (2, 0.0, 40.0, False, False),
        (3, 0.1, 40.0, False, False),
        (3, 0.1, 41.0, True, False),
        (4, 0.2, None, False, False),
        (5, 0.3, 141.0, False, True),
        (6, 0.4, 40.0, False, False),
        (7, 0.5, None, False, False),
        (8, 0.6, None, False, False),
    ]
    assert (measured.clock, measured.clock_jumps, list(measured.notes)) == ("utc", 0, [])


def test_ping_without_timestamps_needs_an_interval(tmp_path):
    with pytest.raises(UserError, match=r"has no timestamps; try `every` with the probe interval"):
        read(tmp_path, MACOS)
    measured = read(tmp_path, MACOS, ReadHints(every_s=1.0))
    table = measured.tables["probes"]
    assert table["unix_ns"].to_list() == [0, NS, 2 * NS]
    assert table["rtt_ms"].to_list() == [12.345, None, 13.001]
    assert measured.clock == "relative"
    assert "begins in 1970" in measured.notes[0]
    whole = read(tmp_path, MACOS, ReadHints(every_s=1.0, start_unix_ns=START_S * NS))
    assert (since(whole.tables["probes"]), whole.clock) == ([0.0, 1.0, 2.0], "utc")
    # The total time gives the interval, with a note.
    plain = b"\n".join(line.partition(b"] ")[2] or line for line in PING.splitlines()) + b"\n"
    timed = read(tmp_path, plain)
    assert timed.tables["probes"]["unix_ns"].to_list()[:2] == [0, NS // 10]
    assert "evenly by 0.1 s, from the total time" in timed.notes[0]


def lines_of_ping(times_s, seqs, rtt_ms=10.0):
    return b"".join(
        f"[{START_S + t:.6f}] 64 bytes from 192.0.2.1: icmp_seq={n % 65536} ttl=64 time={rtt_ms} ms\n".encode()
        for t, n in zip(times_s, seqs, strict=True)
    )


def test_16_bit_numbers_are_unwrapped_over_long_outages(tmp_path):
    # 50,000 probes at 10 ms are lost: more than half of all numbers.
    seqs = [*range(65_000, 65_600), *range(115_600, 115_700)]
    measured = read(tmp_path, lines_of_ping([n / 100 for n in seqs], seqs))
    table = measured.tables["probes"]
    assert (table.height, table["rtt_ms"].null_count()) == (50_700, 50_000)
    assert not table["out_of_order"].any()
    assert table["unix_ns"].diff().drop_nulls().max() <= 10_001_000


def test_clock_jumps_are_counted_and_not_corrected(tmp_path):
    seqs = list(range(1, 301))
    times = [n / 10 + (3600 if n > 100 else 0) - (1800 if n > 200 else 0) for n in seqs]
    measured = read(tmp_path, lines_of_ping(times, seqs))
    assert measured.clock_jumps == 2
    table = measured.tables["probes"]
    assert (table.height, table["rtt_ms"].null_count()) == (300, 0)
    assert table["unix_ns"].is_sorted()


def test_several_targets_are_series_of_their_own(tmp_path):
    text = PING + PING.replace(b"192.0.2.1", b"192.0.2.9")
    table = read(tmp_path, text).tables["probes"]
    assert table.group_by("target").len().sort("target").rows() == [("192.0.2.1", 9), ("192.0.2.9", 9)]


def test_a_log_without_its_beginning_and_end_is_read(tmp_path):
    text = PING.split(b"\n", 2)[2][:300]
    measured = read(tmp_path, text)
    table = measured.tables["probes"]
    assert table["target"].unique().to_list() == ["192.0.2.1"]
    assert table["seq"].to_list()[0] == 3  # earlier probes are unknown
    assert any("is truncated; left out" in note for note in measured.notes)


def test_a_log_with_some_timestamps_missing_is_refused(tmp_path):
    with pytest.raises(UserError, match="expected all or none"):
        read(tmp_path, PING.replace(b"[1795199963.440000] ", b""))


def test_too_many_missing_probes_are_refused(tmp_path):
    with pytest.raises(UserError, match="are these numbers right"):
        read(tmp_path, PING.replace(b"icmp_seq=6", b"icmp_seq=99999999"))


def test_fping_by_host(tmp_path):
    measured = read(tmp_path, FPING)
    one = measured.tables["probes"].filter(target="192.0.2.1")
    assert (one["rtt_ms"].to_list(), one["duplicate"].to_list()) == (
        [40.0, None, 40.0, 41.0],
        [False, False, False, True],
    )
    other = measured.tables["probes"].filter(target="host.b")
    assert (other.height, other["rtt_ms"].null_count()) == (3, 2)  # by its own count
    for name in ("fping list", "fping JSON"):
        table = read(tmp_path, TEXTS[name][0], ReadHints(every_s=1.0)).tables["probes"].filter(target="192.0.2.1")
        assert table["rtt_ms"].to_list() == [40.1, None, 41.2]


def test_irtt_and_iperf3(tmp_path):
    table = read(tmp_path, TEXTS["irtt"][0]).tables["probes"]
    assert table["up_ms"].to_list() == [20.1, None, 20.1, None, None]
    assert table["kind"].unique().to_list() == ["udp"]
    for name in ("iperf3", "iperf3 stream"):
        samples = read(tmp_path, TEXTS[name][0]).tables["samples"]
        assert samples.group_by("flow", "direction").len().sort("flow").rows() == [(0, "up", 3), (1, "down", 3)]
        assert samples.filter(direction="up")["rtt_smoothed_ms"].to_list() == pytest.approx([40.177] * 3)
        assert samples["unix_ns"].min() == 1_795_199_948 * NS


def test_atlas_and_traceroutes_are_what_path_segments_reads(tmp_path):
    measured = read(tmp_path, ATLAS)
    probes = measured.tables["probes"]
    assert (probes["rtt_ms"].to_list(), probes["site"].unique().to_list()) == ([40.5, None, 41.5, 42.5], ["probe-7"])
    assert probes["duplicate"].to_list() == [False, False, False, True]
    assert "1 results of kind dns are left out" in measured.notes
    segments = path_segments(measured.tables["hops"])
    assert segments.traces["bent_pipe"].to_list() == [True]
    (tmp_path / "t").write_bytes(TRACEROUTE)
    hops = assemble_tables([read_file(tmp_path / "t")], "home")["hops"]
    assert hops.filter(ttl=2).select("address", "rtt_ms").rows() == [
        ("100.64.0.1", 28.2),
        ("10.1.1.1", 29.0),
        (None, None),
    ]
    assert path_segments(hops).traces["reached"].to_list() == [True]
    assert read(tmp_path, TEXTS["mtr"][0]).tables["hops"]["rtt_ms"].to_list() == [0.3, None, 40.0]


def test_tables_state_their_units(tmp_path):
    measured = read(tmp_path, CSV)
    table = measured.tables["probes"]
    start = 1_778_403_600
    assert [(ns / 1e9 - start) for ns in table["unix_ns"].to_list()] == [0.5, 1.5, 2.5, 3.5]  # the third was missing
    assert table["rtt_ms"].to_list() == [40.5, None, None, 41.5]
    samples = read(tmp_path, RATES).tables["samples"]
    assert samples.select("direction", "goodput_bps").rows() == [
        ("down", 100.5e6),
        ("up", 10e6),
        ("down", None),
        ("up", 12e6),
    ]
    given = read(tmp_path, b"1.5,40\n2.5,50\n", ReadHints(units=["t_s", "rtt_us"]), format_name="csv")
    assert given.tables["probes"]["rtt_ms"].to_list() == [0.04, 0.05]
    assert given.clock == "relative"


@pytest.mark.parametrize("name", ["", '""', "Unnamed: 0"])
@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_an_index_column_is_ignored(tmp_path, name, mark):
    """As `DataFrame.to_csv` of pandas and `write.csv` of R write one."""
    rows = [f"{n}{mark}{START_S + n}{mark}{'' if n == 2 else 40.5}{mark}{n + 1}" for n in range(4)]
    text = "\n".join([mark.join([name, "unix_s", "rtt_ms", "seq"]), *rows, ""])
    measured = read(tmp_path, text.encode())
    assert measured.tables["probes"]["rtt_ms"].to_list() == [40.5, 40.5, None, 40.5]
    assert since(measured.tables["probes"]) == [0, 1, 2, 3]
    assert any("columns ignored" in note for note in measured.notes)
    # An instant, whose rows are parsed differently.
    words = f"{name},timestamp,rtt_ms\n0,2026-05-10 09:00:00,40\n1,2026-05-10 09:00:01,lost\n"
    assert read(tmp_path, words.encode()).tables["probes"]["rtt_ms"].to_list() == [40.0, None]


@pytest.mark.parametrize("timeouts", [1, 2, 3])
@pytest.mark.parametrize("numbered", [True, False], ids=["each probe has a number", "only answered probes have"])
def test_timeouts_in_a_row_are_no_clock_jumps(tmp_path, timeouts, numbered):
    rows, at_s, seq = [], START_S, 0
    for row in range(60):
        lost = 20 <= row < 20 + timeouts
        seq += numbered or not lost
        rows.append(f"{at_s:.3f}\t{seq}\t{-1 if lost else 40.0}\n")
        at_s += 5.1 if lost else 0.2
    measured = read(tmp_path, "".join(rows).encode())
    assert measured.clock_jumps == 0
    # Without a timeout the same step is one.
    kept = [row for row in rows if not row.endswith("-1\n")]
    assert read(tmp_path, "".join(kept).encode()).clock_jumps == (0 if numbered else 1)


def test_reply_times_are_converted_to_send_times(tmp_path):
    replies = ReadHints(times="reply")
    # By their replies the second was first.
    measured = read(tmp_path, b"time_ms,seq,rtt_ms\n30,2,20\n50,1,50\n60,3,40\n", replies)
    table = measured.tables["probes"]
    assert table.select("seq", "unix_ns").rows() == [(1, 0), (2, 10_000_000), (3, 20_000_000)]
    assert table["out_of_order"].to_list() == [True, False, False]
    assert measured.clock_jumps == 0
    assert any("the RTTs are subtracted" in note for note in measured.notes)
    # Of a lost one nothing came: its time stays. Words send a table another way than plain numbers.
    for lost in ("-1", "lost"):
        text = f"unix_ms,rtt_ms\n{START_S}030,20\n{START_S}050,50\n{START_S}060,{lost}\n"
        measured = read(tmp_path, text.encode(), replies)
        assert since(measured.tables["probes"]) == [0.01, 0.0, 0.06]
        assert measured.clock_jumps == 0
    # Without a clock the first may have been sent before the start; nothing is before 1970.
    early = read(tmp_path, b"t_s,rtt_ms\n0,40\n1,50\n", replies).tables["probes"]
    assert early["unix_ns"].to_list() == [0, 990_000_000]
    pl.DataFrame({"unix_ns": [START_S * NS], "rtt_ms": [50.0]}).write_parquet(tmp_path / "p.parquet")
    parquet = read_file(tmp_path / "p.parquet", hints=replies).measurement
    assert since(parquet.tables["probes"]) == [-0.05]
    # The kind of timestamps of tools is known.
    assert read(tmp_path, PING, replies).tables["probes"].equals(read(tmp_path, PING).tables["probes"])


@pytest.mark.parametrize(
    ("text", "units", "message"),
    [
        (b"time_s,rtt\n1,2\n", None, "column 'rtt' has no unit; try `units`, as rtt_ms"),
        (b"time_s,colour\n1,2\n", None, "unknown format|no column is an RTT"),
        (b"a_s,rtt_ms\n1,2\n", None, "no column has times"),
        (b"time_s,rtt_ms\n1,2,3\n", None, r":2: 3 column\(s\); expected 2"),
        (b"time_s,rtt_ms\n1,fast\n", None, ":2: 'fast'; expected an RTT"),
        (b"time_s,rtt_ms\n1,-7\n", None, ":2: '-7'; expected an RTT"),
        (b"time_s,rtt_ms\nnoon,7\n", None, ":2: 'noon'; expected a time"),
        (b"timestamp,rtt_ms\n2026-13-01T00:00:00Z,7\n", None, ":2: '2026-13-01T00:00:00Z'; expected a time"),
        (b"0.5 1.2\n1.0 1.3\n", None, "unknown format"),
        (b"1,2\n", ["t_s"], "`units` names 1 columns, the table has 2"),
        (b"1,2\n", ["t_s", "rtt"], "'rtt' is no column with a unit"),
        (b"time_s,rtt_ms,latency_ms\n1,2,3\n", None, "two columns are rtt"),
    ],
)
def test_tables_without_units_or_with_bad_cells_are_refused(tmp_path, text, units, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path, text, ReadHints(units=units), format_name="csv" if units else None)


def test_dish_logs_of_other_tools_are_read(tmp_path):
    status = read(tmp_path, STATUS).tables["dish_samples"]
    assert status.select("device_id", "state", "pop_ping_latency_ms", "boresight_elevation_deg").row(0) == (
        "ut1",
        "CONNECTED",
        26.5,
        72.25,
    )
    history = read(tmp_path, HISTORY, ReadHints(start_unix_ns=START_S * NS))
    # The ring's oldest sample follows the newest; lost pings have no latency.
    assert history.tables["dish_samples"]["pop_ping_latency_ms"].to_list() == [None, 29.5, 30.5, 31.5]
    assert history.tables["dish_samples"]["counter"].to_list() == [1, 2, 3, 4]
    assert history.tables["dish_events"].select("cause", "duration_s").row(0) == ("OBSTRUCTED", 0.5)
    rows = read(tmp_path, TEXTS["CSV of a terminal"][0]).tables["dish_samples"]
    assert rows["currently_obstructed"].to_list() == [False, True]
    assert rows["pop_ping_latency_ms"].to_list() == [26.5, None]
    base = read(tmp_path, SQLITE).tables["dish_samples"]
    assert base.select("source", "counter").rows() == [("status", None), ("history", 9)]
    maps = read(tmp_path, MAPS).tables["dish_maps"]
    assert maps.select("rows", "columns", "frame", "whole").row(0) == (2, 2, "FRAME_UT", True)


def test_a_moving_terminal_keeps_its_track(tmp_path):
    (tmp_path / "track.csv").write_bytes(TEXTS["CSV of a moving terminal"][0])
    run = import_files([tmp_path / "track.csv"], tmp_path / "out").run
    track = run.dish["samples"].select("latitude_deg", "longitude_deg", "altitude_m")
    assert track.rows() == [(54.3239, 10.162, 45.5), (54.3241, -10.1624, None)]
    for good, bad, message in (
        (b"54.3241", b"91", r"row 2: latitude_deg is 91; expected -90 to 90"),
        (b"-10.1624", b"-181", r"row 2: longitude_deg is -181; expected -180 to 180"),
        (b"45.5", b"1e9", r"row 1: altitude_m is 1e\+09; expected -500 to 9000"),
        (b"45.5", b"high", r"row 1: altitude_m is 'high'"),
    ):
        with pytest.raises(UserError, match=message):
            read(tmp_path, TEXTS["CSV of a moving terminal"][0].replace(good, bad))


def test_locations_are_events_as_in_a_recording(tmp_path):
    measured = read(tmp_path, TEXTS["locations"][0]).tables["dish_events"]
    assert measured.select("t_unix_ns", "kind", "text").rows() == [
        (0, "location", "54.323900,10.162000,45.5"),
        (NS, "location", "-37.850000,145.110000,0.0"),
    ]
    with pytest.raises(UserError, match=r"answer 1: .* is not a location; expected latitude"):
        read(tmp_path, TEXTS["locations"][0].replace(b"54.3239", b"91"))
    with pytest.raises(UserError, match="is not a location"):
        read(tmp_path, TEXTS["locations"][0].replace(b"54.3239", b'"NaN"'))


def test_outages_of_the_event_log_are_read_once_with_a_note_on_others(tmp_path):
    measured = read(tmp_path, EVENT_LOG)
    events = measured.tables["dish_events"].sort("start_unix_ns")
    assert events.select("cause", "duration_s", "did_switch").rows() == [
        ("NO_DOWNLINK", 0.6, None),
        ("OBSTRUCTED", 0.5, False),
        ("BRAND_NEW", 0.6, None),
    ]
    assert events["start_unix_ns"][0] == 1715210000 * NS
    # The log's time is that of the newest answer, which the samples have no time of.
    assert measured.clock == "utc"
    assert measured.tables["dish_samples"]["t_unix_ns"].max() == 1715210300 * NS
    assert "dated by its event log" in measured.notes[0]
    assert "without a usable time left out: 1" in measured.notes[1]
    assert "left out: 1 EVENT_REASON_UT_ALERT_ETH_NO_LINK" in measured.notes[2]
    dated = read(tmp_path, EVENT_LOG, ReadHints(start_unix_ns=parse_utc("2024-05-08T00:00:00Z")))
    assert dated.tables["dish_samples"]["t_unix_ns"].min() == parse_utc("2024-05-08T00:00:00Z")


def test_gzip_is_unpacked_and_the_file_itself_is_hashed(tmp_path):
    path = tmp_path / "ping.log.gz"
    path.write_bytes(gzip.compress(PING))
    part = read_file(path)
    assert (part.source.bytes, part.source.format) == (path.stat().st_size, "ping")
    assert part.measurement.tables["probes"].height == 9
    path.write_bytes(gzip.compress(PING)[:-20])
    with pytest.raises(UserError, match=r"ping\.log\.gz: cannot be read"):
        read_file(path)


def test_a_folder_is_read_and_skipped_files_are_listed(tmp_path):
    folder = tmp_path / "in" / "deeper"
    folder.mkdir(parents=True)
    (folder / "ping.log").write_bytes(PING)
    (folder / "notes.md").write_bytes(b"# what I did\n")
    (folder / "empty").write_bytes(b"")
    (folder / ".hidden").write_bytes(b"x")
    seen = []
    imported = import_files([tmp_path / "in"], tmp_path / "out", site="home", on_progress=seen.append)
    assert [path.name for path, _ in imported.skipped] == ["empty", "notes.md"]
    assert imported.run.tables == ["probes"]
    assert imported.run.summary["lost"] == 4
    assert seen[-1] <= 1
    assert seen == sorted(seen)
    (folder / "ping.log").unlink()
    with pytest.raises(UserError, match="has no readable measurement"):
        import_files([tmp_path / "in"], tmp_path / "out2")


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    with pytest.raises(UserError, match="ping"):
        read(tmp_path, PING, format_name="pong")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("latency_victoria_10ms/bent_pipe_victoria_2_latency.csv", (13.5, 26.4, 78, 97, 224)),
        (
            "latency_seattle_250ms/no-isl-ping-gw-seattle-230911-170535-0.1s-60min.txt",
            (16.7, 42.8, 87, 118, 345),
        ),
        ("joint_victoria_20250529/ping-10ms-2025-05-29-23-20-13.txt", (15.8, 33.7, 110, 170, 439)),
    ],
)
def test_real_pings_have_the_figures_of_their_source(file, expected):
    probes = read_file(require_data(file)).measurement.tables["probes"]
    known = probes["rtt_ms"].drop_nulls()
    results = [known.min(), *(known.quantile(q) for q in (0.5, 0.95, 0.99)), known.max()]
    assert results == pytest.approx(expected, rel=0.006)


def test_real_files_have_the_figures_of_their_source(tmp_path):
    atlas = require_data("traceroute_ripe_atlas")
    assert read_file(atlas / "ripe_atlas_ping_15min_2023.json").measurement.tables["probes"][
        "rtt_ms"
    ].median() == pytest.approx(40.8, abs=0.05)
    hops = read_file(atlas / "ripe_atlas_traceroute_2023.json").measurement.tables["hops"]
    passed = hops.filter(address="100.64.0.1")["probe"].n_unique()
    assert (hops.select("probe", "target", "unix_ns").n_unique(), passed) == (24, 23)
    for way, median, p95 in (("isl", 35, 101), ("no-isl", 29, 80)):
        path = require_data("throughput_iperf3_downlink") / f"dl-{way}-iperf3-2m-2023-09-21-06-10-00.json"
        rates = read_file(path).measurement.tables["samples"]["goodput_bps"] / 1e6
        assert (rates.median(), rates.quantile(0.95)) == pytest.approx((median, p95), abs=0.6)
    links = read_file(require_data("throughput_leocc_example") / "bw_example.txt").measurement.tables["links"]
    assert links["capacity_bps"].median() / 1e6 == pytest.approx(48.6, abs=0.3)
    for path in sorted(require_data("delay_leocc").glob("delay_*.txt")):
        delays = read_file(path).measurement.tables["links"]["delay_ms"]
        assert 11 <= delays.median() <= 14
        assert 14 <= delays.quantile(0.99) <= 25
    road = read_file(require_data("throughput_osnabrueck_road") / "iperf.csv").measurement.tables["samples"]
    medians = dict(road.group_by("direction").agg(pl.col("goodput_bps").median() / 1e6).rows())
    assert medians == pytest.approx({"down": 286, "up": 16.9}, rel=0.002)
    history = read_file(require_data("dish_json") / "get_history.json").measurement.tables
    assert (history["dish_samples"].height, history["dish_events"].height) == (900, 683)
    assert history["dish_samples"]["pop_ping_drop_rate"].mean() == pytest.approx(0.11, abs=0.005)
    for path in sorted(require_data("dish_history_fjordlink_1hz").glob("*.gzip")):
        samples = read_file(path).measurement.tables["dish_samples"]
        assert samples.height == 3600
        assert 24 <= samples["pop_ping_latency_ms"].median() <= 34
        assert 54.3 < samples["latitude_deg"].min() <= samples["latitude_deg"].max() < 54.45
        assert samples.select("latitude_deg", "longitude_deg", "altitude_m").null_count().row(0) == (0, 0, 0)
    voyage = read_file(require_data("dish_1hz_fjordlink_40h") / "2025-02-13.parquet").measurement.tables["dish_samples"]
    assert voyage["latitude_deg"].max() - voyage["latitude_deg"].min() > 0.07
    joint = require_data("joint_victoria_20250529")
    maps = read_file(joint / "obstruction_map-2025-05-29-23-20-13.parquet").measurement
    assert maps.tables["dish_maps"].select("rows", "columns").unique().rows() == [(123, 123)]
    assert maps.tables["dish_maps"].height == 1411

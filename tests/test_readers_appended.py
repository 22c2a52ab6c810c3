"""Logs of several pings, successive or interleaved, and rare output of tools."""

import json

import numpy as np
import pytest
from reader_texts import START_S

from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.readers.restarts import restarts
from bentpipe.measurements.runs.imports import read_file

NS = 10**9
A, B = "192.0.2.1", "203.0.113.9"


def read(tmp_path, text, hints=None):
    path = tmp_path / "file"
    path.write_text(text)
    return read_file(path, hints=hints).measurement


def heading(host):
    return f"PING {host} ({host}) 56(84) bytes of data.\n"


def reply(host, number, rtt_ms, sent_s=None):
    stamp = "" if sent_s is None else f"[{START_S + sent_s + rtt_ms / 1e3:.6f}] "
    return f"{stamp}64 bytes from {host}: icmp_seq={number} ttl=57 time={rtt_ms} ms\n"


def silent(number, at_s):
    return f"[{START_S + at_s:.6f}] no answer yet for icmp_seq={number}\n"


def totals(host, sent, received):
    counted = f"{sent} packets transmitted, {received} received, 0% packet loss, time 1ms"
    return f"\n--- {host} ping statistics ---\n{counted}\n\n"


def counts(probes):
    return (probes.height, probes["rtt_ms"].null_count(), int(probes["duplicate"].sum()))


# --- without times


def untimed(host, many, rtt_ms):
    return heading(host) + "".join(reply(host, n + 1, rtt_ms) for n in range(many)) + totals(host, many, many)


@pytest.mark.parametrize("start_unix_ns", [None, START_S * NS])
def test_pings_without_timestamps_are_put_in_sequence(tmp_path, start_unix_ns):
    hints = ReadHints(every_s=1.0, start_unix_ns=start_unix_ns)
    text = untimed(A, 3, 40.0) + untimed(A, 3, 50.0) + untimed(B, 2, 60.0) + untimed(A, 2, 70.0)
    measured = read(tmp_path, text, hints)
    begin = start_unix_ns or 0
    of_a = measured.tables["probes"].filter(target=A).sort("unix_ns")
    assert of_a["unix_ns"].to_list() == [begin + second * NS for second in range(8)]
    assert of_a["rtt_ms"].to_list() == [40.0] * 3 + [50.0] * 3 + [70.0] * 2
    # Of another target nothing says that it was not at the same time.
    assert measured.tables["probes"].filter(target=B)["unix_ns"].to_list() == [begin, begin + NS]
    assert sum("are put one after the other" in note for note in measured.notes) == 1
    assert (measured.clock, measured.counted) == ("relative" if start_unix_ns is None else "utc", True)


def test_lists_of_fping_are_put_in_sequence(tmp_path):
    text = f"{A} : 40.1 - 41.2\n{B} : 90.0 91.0\n{A} : 42.1 43.2\n{A} : - -\n"
    vsums = [(A, [40.1, None, 41.2]), (B, [90.0, 91.0]), (A, [42.1, 43.2]), (A, [None, None])]
    as_json = "".join(json.dumps({"vSum": {"host": host, "values": values}}) + "\n" for host, values in vsums)
    for given in (text, as_json):
        measured = read(tmp_path, given, ReadHints(every_s=0.5))
        of_a = measured.tables["probes"].filter(target=A)
        assert of_a["rtt_ms"].to_list() == [40.1, None, 41.2, 42.1, 43.2]
        assert (of_a["unix_ns"] / NS).to_list() == [0.0, 0.5, 1.0, 2.0, 2.5]
        assert measured.tables["probes"].filter(target=B).height == 2
        assert f"no reply from '{A}' to 2 probe(s), and no timestamps: left out" in measured.notes
        assert sum("are put one after the other" in note for note in measured.notes) == 1


def test_a_silent_host_is_lost_probes_if_lines_have_times(tmp_path):
    lines = [f"[{START_S + n + 0.04:.5f}] {A} : [{n}], 64 bytes, 40.0 ms (40 avg, 0% loss)" for n in range(3)]
    lines += [f"[{START_S + n + 0.5:.5f}] {B} : [{n}], timed out (NaN avg, 100% loss)" for n in range(3)]
    probes = read(tmp_path, "\n".join([*lines, ""])).tables["probes"]
    assert [counts(probes.filter(target=host)) for host in (A, B)] == [(3, 0, 0), (3, 3, 0)]
    with pytest.raises(UserError, match="holds no reply"):
        read(tmp_path, "\n".join([*lines[3:], ""]))


def test_a_silent_host_in_several_runs_lost_all_probes(tmp_path):
    """As cron appends `fping -D -c 5` every minute: its numbers begin again."""
    text = ""
    for begin_s in (0, 60, 120):
        for n in range(5):
            at_s = START_S + begin_s + n
            text += f"[{at_s + 0.04:.5f}] {A} : [{n}], 64 bytes, 40.0 ms (40 avg, 0% loss)\n"
            text += f"[{at_s + 0.5:.5f}] {B} : [{n}], timed out (NaN avg, 100% loss)\n" * (2 if n == 3 else 1)
    probes = read(tmp_path, text).tables["probes"]
    assert [counts(probes.filter(target=host)) for host in (A, B)] == [(15, 0, 0), (15, 15, 0)]


# --- rounds of several pings at once


@pytest.mark.parametrize("timed", [True, False])
def test_a_reply_belongs_to_the_last_heading_with_its_address(tmp_path, timed):
    rounds = [(12, 12), (8, 10), (10, 7), (5, 5)]
    text, rtts = "", {A: [], B: []}
    for again, (many_a, many_b) in enumerate(rounds):
        text += heading(A) + heading(B)
        for n in range(max(many_a, many_b)):
            for host, many, late in ((A, many_a, 0.0), (B, many_b, 0.05)):
                if n < many:
                    rtts[host].append(40.0 + again + (host == B) * 100)
                    text += reply(host, n + 1, rtts[host][-1], again * 60 + n / 10 + late if timed else None)
        text += totals(B, many_b, many_b) + totals(A, many_a, many_a)
    probes = read(tmp_path, text, ReadHints(every_s=0.1)).tables["probes"]
    for host in (A, B):
        result = probes.filter(target=host).sort("unix_ns")
        assert counts(result) == (len(rtts[host]), 0, 0)
        assert result["rtt_ms"].to_list() == rtts[host]


def test_a_restarted_ping_does_not_take_replies_of_the_other(tmp_path):
    text = heading(A) + heading(B)
    text += "".join(reply(A, n + 1, 40.0, n / 10) + reply(B, n + 1, 90.0, n / 10 + 0.05) for n in range(10))
    text += heading(A)  # B continues
    text += "".join(reply(A, n + 1, 41.0, 5 + n / 10) + reply(B, n + 11, 90.0, 1.05 + n / 10) for n in range(10))
    probes = read(tmp_path, text).tables["probes"]
    assert [counts(probes.filter(target=host)) for host in (A, B)] == [(20, 0, 0), (20, 0, 0)]


def test_a_ping_without_a_reply_among_others(tmp_path):
    outage = heading(A) + "".join(silent(n + 1, 60 + n + 1) for n in range(5)) + totals(A, 5, 0)
    text = heading(A) + "".join(reply(A, n + 1, 40.0, n) for n in range(5)) + outage
    text += heading(A) + "".join(reply(A, n + 1, 40.0, 120 + n) for n in range(5))
    probes = read(tmp_path, text).tables["probes"].sort("unix_ns")
    assert counts(probes) == (15, 5, 0)
    assert probes["rtt_ms"].is_null().to_list() == [False] * 5 + [True] * 5 + [False] * 5
    # Without timestamps the time of that run is unknown.
    measured = read(
        tmp_path, untimed(A, 3, 40.0) + heading(A) + totals(A, 5, 0) + untimed(A, 3, 41.0), ReadHints(every_s=1.0)
    )
    assert counts(measured.tables["probes"]) == (6, 0, 0)
    assert f"no reply from '{A}', and no timestamps: left out" in measured.notes
    with pytest.raises(UserError, match="holds no reply"):
        read(tmp_path, (heading(A) + totals(A, 5, 0)) * 2)


# --- numbers that fall


def test_lines_of_no_answer_yet_begin_no_series(tmp_path):
    """`ping -D -O` at 10 ms says of each probe that it has no answer yet, before the answer comes, 50 ms later."""
    every_s, many = 0.01, 2000
    lines = [((n + 1) * every_s, silent(n + 1, (n + 1) * every_s)) for n in range(many)]
    lines += [(n * every_s + 0.05, reply(A, n + 1, 50.0, n * every_s)) for n in range(many) if n % 100]
    lines.sort(key=lambda line: line[0])
    measured = read(tmp_path, heading(A) + "".join(text for _, text in lines))
    assert counts(measured.tables["probes"]) == (many, many // 100, 0)
    assert not any("numbers restart" in note for note in measured.notes)


def test_marked_duplicates_begin_no_series_despite_clock_jumps(tmp_path):
    """The clock is 11 hours behind for a line, as after a wrong answer of a time server."""
    off_s = -40_000.0
    of_ping = [
        *(heading(A), reply(A, 2, 40.0, 0.0), reply(A, 3, 40.0, 0.1 + off_s)),
        *(reply(A, 3, 41.0, 0.1).replace(" ms\n", " ms (DUP!)\n"), reply(A, 6, 40.0, 0.4), reply(A, 5, 141.0, 0.3)),
        totals(A, 8, 4),
    ]
    of_fping = [
        f"[{START_S + at_s + rtt_ms / 1e3:.5f}] {A} : {which}, 64 bytes, {rtt_ms} ms (40.5 avg, 0% loss)\n"
        for which, at_s, rtt_ms in (
            ("[1]", 0.0, 40.0),
            ("[2]", 0.1 + off_s, 40.0),
            ("duplicate for [2]", 0.1, 41.0),
            ("[4]", 0.3, 40.0),
        )
    ]
    for lines, counted in ((of_ping, (9, 4, 1)), (of_fping, (6, 2, 1))):
        measured = read(tmp_path, "".join(lines))
        assert counts(measured.tables["probes"]) == counted
        assert measured.clock_jumps == 1
        assert not any("numbers restart" in note for note in measured.notes)


def test_a_late_reply_begins_no_series_after_the_clock_was_set_back(tmp_path):
    """The first reply has a time six years ahead; later replies are not before the start of the series."""
    ahead_s = 200_000_000.0
    sent = [(2, 0.0 + ahead_s, 40.0), (3, 0.1, 40.0), (4, 0.2, 40.0), (6, 0.4, 40.0), (5, 0.3, 141.0)]
    lines = [reply(A, number, rtt_ms, at_s) for number, at_s, rtt_ms in sent]
    measured = read(tmp_path, "".join([heading(A), *lines, totals(A, 8, 5)]))
    assert counts(measured.tables["probes"]) == (8, 3, 0)
    assert measured.clock_jumps == 1
    assert not any("numbers restart" in note for note in measured.notes)


def looked_at(lines, monkeypatch, **more):
    """Return the result of `restarts`, and the number of lines that it examined one by one."""
    seq, sent_s, rtt_ms = (np.array(column) for column in zip(*lines, strict=True))
    sent_ns = (1_700_000_000 * NS + np.round(sent_s * 1e9)).astype(np.int64)
    seen = []
    monkeypatch.setattr("bentpipe.measurements.readers.restarts._wrapped", lambda *about: seen.append(about) or False)
    return restarts(seq.astype(np.int64), sent_ns, rtt_ms, wraps=True, exact=True, every_s=None, **more), len(seen)


def test_late_replies_are_handled_without_a_python_loop(monkeypatch):
    many, behind = 5000, 5
    lines = [one for n in range(behind, many) for one in ((n, n / 100, np.nan), (n - behind, (n - behind) / 100, 50.0))]
    assert looked_at(lines, monkeypatch) == ([], 0)
    # A clock that is set back by an hour in the midst does not change that.
    back = [(n, at if place < many else at - 3600, rtt) for place, (n, at, rtt) in enumerate(lines)]
    result, steps = looked_at(back, monkeypatch)
    assert result == []
    assert steps < 20


def test_a_series_does_not_continue_after_an_hour(tmp_path):
    """The second run of three probes lost the middle ones: 1, 2, 3, then 1 and 4 an hour later."""
    sent = [(1, 0), (2, 1), (3, 2), (1, 3600), (4, 3603)]
    measured = read(tmp_path, "".join(reply(A, number, 40.0, at_s) for number, at_s in sent))
    probes = measured.tables["probes"]
    assert counts(probes) == (7, 2, 0)
    assert any("numbers restart once" in note for note in measured.notes)
    # A reply that is late belongs where it was.
    late = [(3, 0), (4, 1), (5, 2), (2, -1), (6, 3)]
    text = "".join(reply(A, number, 40.0 if number != 2 else 3500.0, at_s) for number, at_s in late)
    assert counts(read(tmp_path, text).tables["probes"]) == (5, 0, 0)


# --- rare output of tools


@pytest.mark.parametrize(
    "line",
    [
        "10 packets transmitted, 10 packets received, 2 duplicates, 0% packet loss",
        "10 packets transmitted, 10 received, +2 duplicates, 9.1e-05% packet loss, time 9000ms",
        "10 packets transmitted, 10 packets received, +2 duplicates, 0.0% packet loss",
    ],
)
def test_totals_of_every_ping(tmp_path, line):
    text = heading(A) + "".join(reply(A, n + 1, 40.0, n) for n in range(9)) + f"\n--- {A} ping statistics ---\n{line}\n"
    assert counts(read(tmp_path, text).tables["probes"]) == (10, 1, 0)


def test_fping_prints_returns_if_there_are_more_than_probes(tmp_path):
    text = "".join(f"[{START_S + n + 0.04:.5f}] {A} : [{n}], 64 bytes, 40.0 ms (40 avg, 0% loss)\n" for n in range(5))
    text += f"[{START_S + 4.05:.5f}] {A} : duplicate for [4], 64 bytes, 50.0 ms\n"
    text += f"\n{A} : xmt/rcv/%return = 6/7/116%, min/avg/max = 40.0/41.0/50.0\n"
    assert counts(read(tmp_path, text).tables["probes"]) == (7, 1, 1)


def event(kind, number, stamp, **more):
    about = {"host": A, "seq": number, **more}
    return json.dumps({kind: about if stamp is None else {"timestamp": stamp, **about}}) + "\n"


def test_times_in_json_of_fping(tmp_path):
    text = "".join(
        event("timeout", n, f"{START_S + n + 0.5:.5f}")
        if n == 2
        else event("resp", n, f"{START_S + n + 0.04:.5f}", size=64, rtt=40.0)
        for n in range(5)
    )
    measured = read(tmp_path, text)
    probes = measured.tables["probes"]
    assert (counts(probes), measured.clock, measured.counted) == ((5, 1, 0), "utc", False)
    assert probes["unix_ns"].to_list() == [(START_S + n) * NS for n in range(5)]
    none = "".join(event("resp", n, None, size=64, rtt=40.0) for n in range(5))
    assert read(tmp_path, none, ReadHints(every_s=1.0)).clock == "relative"


@pytest.mark.parametrize(
    "stamp", ["Sat Nov 22 16:25:51 2026", "2026-11-22T16:25:51+0000", 1795199963.5, "1795199963", "9300000000.0", ""]
)
def test_other_times_in_json_of_fping_are_refused(tmp_path, stamp):
    with pytest.raises(UserError, match=r"file:1: a time of .*; expected seconds since 1970"):
        read(tmp_path, event("resp", 0, stamp, size=64, rtt=40.0))


def test_times_of_fping_that_nanoseconds_do_not_hold_are_refused(tmp_path):
    lines = [f"[{at}.04000] {A} : [0], 64 bytes, 40.0 ms (40 avg, 0% loss)\n" for at in (START_S, 9_300_000_000)]
    with pytest.raises(UserError, match=r"file:2: .* is not a line of fping"):
        read(tmp_path, "".join(lines))


MACOS = """traceroute to example.org (192.0.2.1), 64 hops max, 40 byte packets
 1  router (192.168.1.1)  1.2 ms  1.1 ms  1.0 ms
 2  * 72.14.205.211 (72.14.205.211)  10.0 ms
    edge.example (72.14.205.213)  11.0 ms
 3  192.0.2.1 (192.0.2.1)  40.0 ms
    192.0.2.7 (192.0.2.7)  41.0 ms  42.0 ms
"""


def test_another_address_of_a_hop_has_a_line_of_its_own(tmp_path):
    hops = read(tmp_path, MACOS).tables["hops"]
    assert hops.filter(ttl=2).select("address", "rtt_ms").rows() == [
        (None, None),
        ("72.14.205.211", 10.0),
        ("72.14.205.213", 11.0),
    ]
    assert hops.filter(ttl=3)["address"].to_list() == ["192.0.2.1", "192.0.2.7", "192.0.2.7"]
    lines = MACOS.split("\n")
    for text, message in (
        ("\n".join([lines[0], lines[3], *lines[1:]]), "file:2: .* is not a line of traceroute"),
        ("\n".join([*lines[:3], "    edge.example", *lines[4:]]), "file:4: .* has neither an RTT"),
        ("\n".join([*lines[:3], "    11.0 ms", *lines[4:]]), "file:4: .*expected an address before it"),
    ):
        with pytest.raises(UserError, match=message):
            read(tmp_path, text)


# --- tables


def test_clock_jumps_without_sequence_numbers_are_counted_per_series(tmp_path):
    rows = [f"{START_S + at:.3f},40,{host}\n" for host in ("a", "b", "c") for at in range(5)]
    assert read(tmp_path, "unix_s,rtt_ms,host\n" + "".join(rows)).clock_jumps == 0
    back = [0.0, 1.0, 0.995, 2.0, 1.0, 3.0]  # 5 ms are none
    for more, name in (("", ""), (",h", ",host")):
        text = f"unix_s,rtt_ms{name}\n" + "".join(f"{START_S + at:.3f},40{more}\n" for at in back)
        assert read(tmp_path, text).clock_jumps == 1


@pytest.mark.parametrize("more", ["", ",h"])
@pytest.mark.parametrize("stamp", ["1748560814.25x", "1748560814x", "1748560814.", "1748560814.2.5", "1748560814 25"])
def test_a_truncated_time_is_refused(tmp_path, more, stamp):
    text = f"timestamp,rtt_ms{',host' if more else ''}\n1748560813.25,40{more}\n{stamp},41{more}\n"
    with pytest.raises(UserError, match=r":3: '1748560814.*'; expected a time"):
        read(tmp_path, text)


def test_a_fraction_may_be_long(tmp_path):
    text = "timestamp,rtt_ms,host\n1748560813.25,40,h\n1748560814.12500000000000000001,41,h\n"
    assert read(tmp_path, text).tables["probes"]["unix_ns"].to_list() == [1748560813_250000000, 1748560814_125000000]

"""Converters: formats of other tools are written and read; errors are one line that names the place."""

import gzip
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from shared_data import require_data

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.files import read_unpacked
from bentpipe.profiles.convert import FORMATS, read_as, write_as
from bentpipe.profiles.convert.reading import ReadOptions
from bentpipe.profiles.convert.writing import WriteOptions
from bentpipe.profiles.measured.make import profile_from_pings
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.show import summarise
from bentpipe.profiles.table import profile_to_frame

DELAY = ReadOptions(delay_s=0.02)


def put(tmp_path: Path, text: str, name: str = "file") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def delays(profile: Profile, direction: str = "up") -> list[tuple[float, float, bool]]:
    points = PathView(profile).points(0, "up" if direction == "up" else "down", "delay_s")
    assert points is not None
    return list(zip(points.t_s.tolist(), points.value.tolist(), points.valid.tolist(), strict=True))


# --- packed files
# -------------------------------------------------------------------------------------------------------------------


def test_a_damaged_gzip_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b"x" * 1000)[:-12])
    with pytest.raises(UserError, match="gzip file is truncated"):
        read_unpacked(path)
    packed = bytearray(gzip.compress(b"x" * 1000))
    packed[-8] ^= 1
    path.write_bytes(packed)
    with pytest.raises(UserError, match="is damaged"):
        read_unpacked(path)


def test_a_gzip_bomb_is_refused_before_it_fills_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    assert path.stat().st_size < 10_000
    with pytest.raises(UserError, match="unpacks to more than 10000 bytes"):
        read_unpacked(path, 10_000)


@pytest.mark.parametrize("name", ["ping", "rtt", "irtt"])
def test_rtt_logs_are_not_converted(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="bentpipe profile from FILE"):
        read_as(name, [put(tmp_path, "")])


def test_long_fields_are_shown_by_their_beginning(tmp_path: Path) -> None:
    long = "9" * 100_000
    texts = {
        "mahimahi": f"1\n{long}\n",
        "hypatia": f"{long},x\n",
        "leoreplayer": f"12\n{long}\n",
        "iperf3": json.dumps({"error": long}),
        "netem": f"#!/bin/sh\n# {long}\n",
        "csv": f"t_s,hop,direction,kind,value,valid\n{long},{long},{long},{long},{long},{long}\n",
    }
    folders = {"starrynet"}
    assert set(texts) == {name for name, entry in FORMATS.items() if entry.read is not None} - folders
    for name, text in texts.items():
        path = tmp_path / f"{name}.txt"
        path.write_text(text)
        with pytest.raises(UserError) as caught:
            read_as(name, [path], ReadOptions(delay_s=0.02))
        assert len(str(caught.value)) < 500 + len(str(path)), name


# --- iperf3
# -----------------------------------------------------------------------------------------------------------------


def iperf3(
    intervals: list[tuple[float, float, float]], *, reverse: int = 1, rtt_us: int | None = None
) -> dict[str, object]:
    more = {"socket": 5, "sender": not reverse, "omitted": False, "bytes": 1} | (
        {} if rtt_us is None else {"rtt": rtt_us}
    )
    return {
        "start": {
            "version": "iperf 3.12",
            "timestamp": {"timesecs": 1_700_000_000},
            "test_start": {"protocol": "TCP", "reverse": reverse},
        },
        "intervals": [
            {"streams": [{"start": a, "end": b, "bits_per_second": bps, **more}], "sum": {}} for a, b, bps in intervals
        ],
    }


def test_iperf3_throughput_becomes_capacity_and_pauses_stay_gaps(tmp_path: Path) -> None:
    text = json.dumps(iperf3([(0, 1.0001, 1e6), (1.0002, 2, 2e6), (3, 4, 3e6)]))
    converted = read_as("iperf3", [put(tmp_path, text)], DELAY)
    points = PathView(converted.profile).points(0, "down", "capacity_bps")
    assert points is not None
    assert points.value.tolist() == [1e6, 2e6, 2e6, 3e6]
    assert points.valid.tolist() == [True, True, False, True]
    assert PathView(converted.profile).points(0, "up", "capacity_bps") is None
    assert converted.profile.duration_s == 4.0
    assert "1 gap(s) between intervals" in converted.notes


def test_iperf3_delay_is_half_of_the_rtts_in_the_file(tmp_path: Path) -> None:
    text = json.dumps(iperf3([(0, 1, 1e6), (1, 2, 2e6)], reverse=0, rtt_us=30_000))
    profile = read_as("iperf3", [put(tmp_path, text)]).profile
    assert summarise(profile)["rtt_ms"]["median"] == pytest.approx(30.0)
    assert summarise(profile)["up"]["capacity_bps"]["max"] == 2e6
    with pytest.raises(UserError, match=r"has no RTTs; expected a one-way delay \(`delay`\), as 20ms"):
        read_as("iperf3", [put(tmp_path, json.dumps(iperf3([(0, 1, 1e6)])))])


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"error": "unable to connect"}, "the test failed: 'unable to connect'"),
        (iperf3([]), "no interval"),
        (iperf3([(0, 1, -1)]), "intervals[0].streams[0].bits_per_second: -1 is out of range"),
        (iperf3([(0, 1, 1), (0.5, 1.5, 1)]), "intervals[1].streams[0]: from 0.5 to 1.5"),
        (iperf3([(1, 1, 1)]), "intervals[0].streams[0]: from 1 to 1"),
        ({"start": 5, "intervals": []}, "start"),
    ],
)
def test_bad_iperf3_json_is_named(tmp_path: Path, document: object, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_as("iperf3", [put(tmp_path, json.dumps(document))], DELAY)
    assert message in str(caught.value)


# --- mahimahi
# ---------------------------------------------------------------------------------------------------------------


def test_a_trace_of_12_mbit_has_one_packet_per_millisecond(tmp_path: Path) -> None:
    """The README of mahimahi's traces: 12 Mbit/s is a file that holds just 1."""
    written = write_as("mahimahi", preset_profile("dumbbell:rate=12mbit", 0.005), tmp_path / "t")
    assert [path.name for path in written.files] == ["t.up", "t.down"]
    assert written.files[0].read_text() == "1\n2\n3\n4\n5\n"
    one = read_as("mahimahi", [put(tmp_path, "1\n")], DELAY).profile
    assert summarise(one)["down"]["capacity_bps"]["median"] == 12e6
    assert summarise(one)["up"]["capacity_bps"] is None


def test_a_mahimahi_round_conserves_packets(tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    times = np.sort(draw.integers(0, 5000, 4000))
    times[-1] = 5000
    trace = put(tmp_path, "\n".join(map(str, times)) + "\n")
    profile = read_as("mahimahi", [trace, trace], DELAY).profile
    assert profile.duration_s == 5.0
    back = write_as("mahimahi", profile, tmp_path / "b").files[1].read_text().split()
    assert abs(len(back) - 4000) <= 1
    # Within a bin of 100 ms the packets are spread evenly: no packet moves by more.
    assert max(abs(int(a) - int(b)) for a, b in zip(back, times[: len(back)], strict=False)) <= 100


def test_the_shorter_of_two_traces_ends_in_a_gap(tmp_path: Path) -> None:
    profile = read_as("mahimahi", [put(tmp_path, "1000\n", "u"), put(tmp_path, "2000\n", "d")], DELAY).profile
    assert summarise(profile)["up"]["valid_fraction"] == 0.5
    assert summarise(profile)["down"]["valid_fraction"] == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n3\n2\n", ":3: 2 ms comes after 3 ms"),
        ("1\nx\n", ":2: 'x'"),
        ("1.5\n", ":1: '1.5'"),
        ("0\n", "holds no time"),
        ("9" * 12, "ends at"),
    ],
)
def test_bad_traces_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_as("mahimahi", [put(tmp_path, text)], DELAY)
    assert message in str(caught.value)


def test_notes_list_what_a_trace_cannot_hold(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="expected a one-way delay"):
        read_as("mahimahi", [put(tmp_path, "1\n")])
    pings = pl.DataFrame({"unix_ns": np.arange(20) * 10**9, "rtt_ms": np.full(20, 1.0)})
    free = profile_from_pings(pings).profile
    with pytest.raises(UserError, match="neither direction has a capacity limit"):
        write_as("mahimahi", free, tmp_path / "t")
    with pytest.raises(UserError, match="less than one packet"):
        write_as("mahimahi", preset_profile("dumbbell:rate=1kbit", 1.0), tmp_path / "t")


# --- csv
# --------------------------------------------------------------------------------------------------------------------


def test_csv_restores_the_profile_and_other_libraries_read_it(tmp_path: Path) -> None:
    profile = preset_profile("geo", 20.0)
    path = write_as("csv", profile, tmp_path / "p.csv").files[0]
    assert read_as("csv", [path]).profile.content_hash() == profile.content_hash()
    assert pl.read_csv(path, comment_prefix="#").equals(profile_to_frame(profile))


def test_a_table_without_metadata_is_a_path(tmp_path: Path) -> None:
    text = "t_s,hop,direction,kind,value\n" + "".join(
        f"{t},{hop},{direction},delay_s,0.01\n"
        for hop in ("access", "fibre")
        for direction in ("up", "down")
        for t in (0, 5)
    )
    converted = read_as("csv", [put(tmp_path, text)])
    assert summarise(converted.profile)["rtt_ms"]["median"] == pytest.approx(40.0)
    assert converted.profile.duration_s == 5.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a CSV table"),
        ("a,b\n1,2\n", ":1: has no column t_s"),
        ("t_s,hop,direction,kind,value\n", "has no row"),
        ("t_s,hop,direction,kind,value\n0,a,up,delay_s,x\n", ":2: value is 'x'; expected a number"),
        (
            "t_s,hop,direction,kind,value,valid\n0,a,up,delay_s,1,perhaps\n",
            ":2: valid is 'perhaps'; expected true or false",
        ),
        ("t_s,hop,direction,kind,value\n5,a,sideways,delay_s,1\n", "direction 'sideways' is unknown"),
        ("t_s,hop,direction,kind,value\n0,a,up,delay_s,1\n", "the last t_s: 0 s"),
        ("t_s,hop,direction,kind,value\n5,a,up,delay_s,1\n", "a/down/delay_s: no row"),
        ("# bentpipe-profile {}\nt_s,hop,direction,kind,value\n5,a,up,delay_s,1\n", "is unknown"),
    ],
)
def test_bad_csv_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_as("csv", [put(tmp_path, text)])
    assert message in str(caught.value)


# --- netem
# ------------------------------------------------------------------------------------------------------------------


def test_netem_scripts_read_back(tmp_path: Path) -> None:
    profile = preset_profile("dumbbell:rate=50mbit,rtt=30ms,queue=100packets", 12.0)
    written = write_as("netem", profile, tmp_path / "p", WriteOptions(step_s=0.5))
    text = written.files[0].read_text()
    # 100 packets wait, and 50 Mbit/s x 15 ms are 63 packets on their way, which netem's limit counts as well.
    assert "\n0 15ms 0% 50000000bit 163\n12 15ms 0% 50000000bit 163\nSCHEDULE\n" in text
    back = summarise(read_as("netem", list(reversed(written.files))).profile)
    assert back["rtt_ms"]["median"] == 30.0
    assert back["up"]["capacity_bps"]["min"] == 50e6
    assert back["start"] == summarise(profile)["start"]


def test_netem_loses_every_packet_without_a_path(tmp_path: Path) -> None:
    trace = put(tmp_path, "\n".join(map(str, [*range(1, 1001), *range(2000, 3001)])) + "\n")
    profile = read_as("mahimahi", [trace, trace], DELAY).profile
    text = write_as("netem", profile, tmp_path / "p").files[1].read_text()
    assert "\n1 20ms 100% unlimited 1000\n" in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: "tc qdisc add dev eth0 root netem delay 10ms\n", ":2: is not a script of"),
        (lambda text: text.replace("netem 1 ", "netem 2 "), "install a newer bentpipe"),
        (lambda text: text.replace("SCHEDULE\n", "", 2), "SCHEDULE is missing or cut short"),
        (lambda text: text.replace("0 20ms", "0 20s"), ": '0 20s 0%"),
        (lambda text: text.replace(" 0% ", " 101% "), "a loss of 101 %"),
        (lambda text: text.replace("duration_s=2 start=2026-05-10", "duration_s=2 start=2026-05-32"), ":2: start"),
    ],
)
def test_other_netem_scripts_are_refused(tmp_path: Path, change, message: str) -> None:
    text = write_as("netem", preset_profile("dumbbell", 2.0), tmp_path / "p").files[0].read_text()
    with pytest.raises(UserError) as caught:
        read_as("netem", [put(tmp_path, change(text))])
    assert message in str(caught.value)


# --- Hypatia
# ----------------------------------------------------------------------------------------------------------------


def test_hypatia_rtts_survive_writing_and_reading(tmp_path: Path) -> None:
    path = write_as("hypatia", preset_profile("dumbbell:rtt=40ms", 1.0), tmp_path / "h").files[0]
    assert path.read_text().splitlines()[:2] == ["0,40000000.0000000000", "100000000,40000000.0000000000"]
    path.write_text("0,0\n100000000,40000000\n200000000,0\n300000000,0\n")
    converted = read_as("hypatia", [path])
    assert [(t, v, ok) for t, v, ok in delays(converted.profile)] == [
        (0.0, 0.02, False),
        (0.1, 0.02, True),
        (0.2, 0.02, False),
        (0.3, 0.02, False),
    ]
    assert converted.notes == ["3 of 4 steps without a path: gaps in the Profile"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0\n", ":1: "),
        ("0,1\n0,1\n", ":2: 0 ns comes after 0 ns"),
        ("0,0\n", "no RTT above zero"),
        ("0,1e300\n", "out of range"),
        ("", "no RTT"),
    ],
)
def test_bad_hypatia_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError) as caught:
        read_as("hypatia", [put(tmp_path, text)])
    assert message in str(caught.value)


# --- all of them
# ------------------------------------------------------------------------------------------------------------


def test_unknown_formats_and_unsupported_directions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="mahimahi"):
        read_as("mahimahy", [tmp_path])
    with pytest.raises(UserError, match="can be read but not written"):
        write_as("iperf3", preset_profile("geo", 1.0), tmp_path / "x")


@pytest.mark.parametrize("name", [name for name, entry in FORMATS.items() if entry.read is not None])
def test_missing_and_binary_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_as(name, [tmp_path / "none"], DELAY)
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)) * 4)
    with pytest.raises(UserError) as caught:
        read_as(name, [noise], DELAY)
    assert str(noise) in str(caught.value)


def test_real_measurements_match_their_published_values() -> None:
    """Figures of the data's own summary; quantiles there are over probes, ours over time."""
    leocc = read_as("mahimahi", [require_data("throughput_leocc_example/bw_example.txt")], DELAY)
    down = summarise(leocc.profile)["down"]
    capacity = down["capacity_bps"]
    assert [capacity[q] / 1e6 for q in ("median", "p95", "p99", "max")] == pytest.approx(
        [48.6, 66.5, 74, 78.5], abs=0.3
    )
    assert down["closed_s"] > 0  # the published minimum is 0; bentpipe's is of the time in which the path is open
    assert capacity["min"] > 0
    for name, median in (("no-isl", 29), ("isl", 35)):
        path = require_data("throughput_iperf3_downlink") / f"dl-{name}-iperf3-2m-2023-09-21-06-10-00.json"
        summary = summarise(read_as("iperf3", [path], DELAY).profile)["down"]["capacity_bps"]
        assert summary["median"] / 1e6 == pytest.approx(median, abs=0.6)


@pytest.mark.skipif(any(shutil.which(tool) is None for tool in ("bash", "awk")), reason="needs bash and awk")
def test_a_netem_script_passes_its_schedule_to_tc(tmp_path: Path) -> None:
    """With a `tc` that only writes down what it is told."""
    trace = put(tmp_path, "\n".join(map(str, [*range(1, 101), *range(102, 301, 2)])) + "\n")
    profile = read_as("mahimahi", [trace, trace], DELAY).profile
    script = write_as("netem", profile, tmp_path / "p").files[0]
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "tc").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/told\n')
    (tools / "tc").chmod(0o755)
    environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
    subprocess.run(["bash", script, "eth7"], check=True, env=environment, timeout=30)
    assert (tmp_path / "told").read_text().splitlines() == [
        "qdisc replace dev eth7 root netem",
        "qdisc change dev eth7 root netem delay 20ms loss 0% limit 1020 rate 12000000bit",
        "qdisc change dev eth7 root netem delay 20ms loss 0% limit 1010 rate 6000000bit",
        "qdisc del dev eth7 root",
    ]
    no_device = subprocess.run(["bash", script], check=False, env=environment, capture_output=True, text=True)
    assert no_device.returncode != 0
    assert "usage" in no_device.stderr


# --- gaps
# -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def with_a_gap(tmp_path: Path) -> Profile:
    """Ten seconds, of which three are not known."""
    rows = [
        f"{t_s},path,{direction},{kind},{value},{known}"
        for direction in ("up", "down")
        for kind, value in (("delay_s", 0.02), ("capacity_bps", 1e7))
        for t_s, known in ((0, "true"), (4, "false"), (7, "true"), (10, "true"))
    ]
    text = "\n".join(["t_s,hop,direction,kind,value,valid", *rows]) + "\n"
    return read_as("csv", [put(tmp_path, text)]).profile


@pytest.mark.parametrize("name", ["csv", "hypatia", "starrynet"])
def test_gaps_survive_conversion(tmp_path: Path, with_a_gap: Profile, name: str) -> None:
    assert PathView(with_a_gap).valid("up").mean() == pytest.approx(0.7)
    written = write_as(name, with_a_gap, tmp_path / "out")
    back = PathView(read_as(name, written.files).profile)
    assert back.valid("up").mean() == pytest.approx(0.7, abs=0.011)
    assert back.valid("down").mean() == pytest.approx(0.7, abs=0.011)
    if name != "csv":
        assert "30 of 100 steps are in gaps of the Profile: no path there" in written.notes


@pytest.mark.parametrize("name", ["leoreplayer", "netem", "mahimahi"])
def test_formats_without_gaps_note_the_filled_time(tmp_path: Path, with_a_gap: Profile, name: str) -> None:
    written = write_as(name, with_a_gap, tmp_path / "out")
    assert [
        note for note in written.notes if note.startswith("the delay is unknown for 3.000 of 10.000 s of the Profile")
    ]
    assert len(set(written.notes)) == len(written.notes)
    whole = write_as(name, preset_profile("dumbbell:rate=12mbit", 10.0), tmp_path / "whole")
    assert not [note for note in whole.notes if "gaps" in note]

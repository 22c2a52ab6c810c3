"""Fuzzing of the readers with damaged files: `make fuzz`, and in small `test_readers_fuzz.py`.

A file may be refused in one line, or read; never a crash, a hang, or another answer than the same reader gives on
another way to the same bytes: packed, in small pieces, every line the careful way. Made-up measurements, of which the
truth is known, must come back as they are.

    python tests/fuzzing.py --seconds 600 [--reader ping] [--seed 1]
"""

import argparse
import gzip
import io
import json
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import polars as pl
from pytest import approx  # noqa: PT013 - used outside of tests, too
from reader_texts import TEXTS

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.measurements.readers.blocks import blocks
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.runs.analysis_input import load_table, open_measured
from bentpipe.measurements.runs.imports import FORMATS, assemble_tables, import_files, read_file
from bentpipe.profiles.measured.capacity import capacities_from_tables

READ_HINTS = ReadHints(every_s=1.0)
ABSURD = (
    *(b"-1", b"1e400", b"NaN", b"inf", b"[" * 3000, b"9" * 40, b"null", b"{}", b'"', b"\n", b",", b"\x00", b"\r\n"),
    *(b"-9999999999", b"1795199963.5", b"65535", b"999999999", b" ", b"0", b"0.0", b"1e3", b"\xff", "µ".encode()),
)
#: A file of some kilobytes takes milliseconds; a reader that takes longer than this [s] hangs.
HANG_S = 30
SMALL_BLOCK = 97


def damaged(random_: random.Random, text: bytes) -> bytes:
    """`text` with some bytes cut out, put in twice, replaced or cut off: near enough to get past the first look."""
    data = bytearray(text)
    for _ in range(random_.randint(1, 4)):
        at = random_.randint(0, len(data))
        to = min(len(data), at + random_.choice((0, 1, 2, random_.randint(0, 40))))
        kind = random_.randrange(4)
        if kind == 0:
            data[at:to] = random_.randbytes(random_.randint(0, 12))
        elif kind == 1:
            data[at:to] = random_.choice(ABSURD)
        elif kind == 2:
            data[at:at] = data[at:to] * random_.randint(1, 3)
        else:  # a digit becomes another
            digits = [place for place, byte in enumerate(data) if 48 <= byte < 58]
            if digits:
                data[random_.choice(digits)] = random_.randint(48, 57)
    if random_.random() < 0.25:
        del data[random_.randint(0, len(data)) :]
    return bytes(data)


def outcome(read):
    """The tables that `read` gives, or the line that refuses; anything else is raised."""
    try:
        return read()
    except UserError as error:
        line = str(error)
        assert "\n" not in line, line
        assert len(line) < 1000, line
        return line


def harmless(path: Path, format_name: str | None):
    """Read a file as `bentpipe read` does; the result must be an error or consistent tables."""

    def read():
        part = read_file(path, format_name=format_name, hints=READ_HINTS)
        return part.source.format, assemble_tables([part], "home")

    found = outcome(read)
    if isinstance(found, str):
        return found
    name_of_format, tables = found
    assert tables
    for name, table in tables.items():
        for column in table.select(pl.selectors.float()):
            assert column.drop_nulls().is_finite().all() or name == "dish_samples", (name, column)
        if name == "probes":
            rtt_ms = table["rtt_ms"].drop_nulls()
            assert table["unix_ns"].null_count() == 0
            assert (rtt_ms >= 0).all()
            assert (rtt_ms <= 60_000).all() or name_of_format == "parquet"
            first = table.filter(~pl.col("duplicate").fill_null(value=False)).drop_nulls("seq")
            # A number may come again where a prober began again, but not at the same time.
            assert not first.select("site", "target", "kind", "seq", "unix_ns").is_duplicated().any() or (
                name_of_format in ("parquet", "ripe-atlas", "irtt")
            ), "two probes with one number"
    return tables


def same(one, other, where: str) -> None:
    """Both refuse, or both give the same tables."""
    assert isinstance(one, str) == isinstance(other, str), (where, one, other)
    if isinstance(one, str):
        return
    assert one.keys() == other.keys(), where
    for name, table in one.items():
        assert table.equals(other[name]), (where, table, other[name])


def careful():
    """All lines to the careful reader: the native half reads none."""

    def no_replies(block: bytes, first: int):
        lines, text = _all_lines(block, first)
        none = np.zeros(0)
        return none.astype(np.uint32), none.astype(np.int64), none.astype(np.uint32), none, (lines, text)

    def no_rows(block: bytes, first: int, separator: str, kinds: list[str]):
        del separator
        none = [
            np.zeros(0, np.float64 if kind in ("rtt", "number") else np.int64) for kind in kinds if kind != "passed"
        ]
        return np.zeros(0, np.uint32), none, _all_lines(block, first)

    return {"ping_replies": no_replies, "table_rows": no_rows}


def _all_lines(block: bytes, first: int):
    whole = block.removesuffix(b"\n")
    return np.arange(first, first + whole.count(b"\n") + 1, dtype=np.uint32), whole + b"\n"


def other_ways(data: bytes, format_name: str) -> None:
    """The same bytes in small pieces, and every line the careful way."""
    entry = FORMATS[format_name]
    if entry.measure_blocks is None:
        return

    def tables(size: int):
        found = entry.measure_blocks(blocks(io.BytesIO(data), size), "file", READ_HINTS)
        return dict(found.tables)

    whole = outcome(lambda: tables(2 << 20))
    # The columns of a table with words are derived from its first block only.
    same(whole, outcome(lambda: tables(max(SMALL_BLOCK, data.find(b"\n", 200) + 1))), "in small pieces")
    slow = careful()
    kept = {name: getattr(_native, name) for name in slow}
    try:
        for name, stand_in in slow.items():
            setattr(_native, name, stand_in)
        same(whole, outcome(lambda: tables(2 << 20)), "the careful way")
    finally:
        for name, native in kept.items():
            setattr(_native, name, native)


def packed(path: Path, format_name: str | None, found) -> None:
    """Packed, the same file says the same."""
    zipped = path.with_suffix(".gz")
    zipped.write_bytes(gzip.compress(path.read_bytes(), 1))
    again = harmless(zipped, format_name)
    if not isinstance(found, str) and not isinstance(again, str):
        # Without names of its own a series is called as its file.
        again = {n: _named(t, zipped.name, path.name) for n, t in again.items()}
    same(found, again, "packed")


def _named(table: pl.DataFrame, old: str, new: str) -> pl.DataFrame:
    names = [name for name in ("target", "source") if name in table.columns and table[name].dtype == pl.String]
    return table.with_columns(pl.col(names).replace(old, new)) if names else table


def made_up(random_: random.Random) -> tuple[pl.DataFrame, dict[str, bytes]]:
    """Probes, and how some tools print them: with lost ones, numbers that wrap, and every line ending."""
    count = random_.randint(2, 300)
    first = random_.choice((1, 1, 65_500))
    every_us = random_.choice((10_000, 200_000, 1_000_000))
    start_us = random_.randint(1_400_000_000, 1_900_000_000) * 10**6 + random_.randrange(10**6)
    lost = {n for n in range(1, count - 1) if random_.random() < random_.choice((0.0, 0.1))}
    trips_us = [random_.randint(1, 90) * 100 if n not in lost else None for n in range(count)]
    sent_us = [start_us + n * every_us for n in range(count)]
    truth = pl.DataFrame(
        {"rtt_ms": [None if trip is None else trip / 1e3 for trip in trips_us], "unix_us": sent_us},
        schema={"rtt_ms": pl.Float64, "unix_us": pl.Int64},
    )
    end = random_.choice(("\n", "\r\n"))
    lines = ["PING pop (192.0.2.1) 56(84) bytes of data."] if first == 1 else []
    rows = ["unix_us,what,rtt_ms,seq"]
    for n, (sent, trip) in enumerate(zip(sent_us, trips_us, strict=True)):
        if trip is not None:
            at = sent + trip
            lines.append(
                f"[{at // 10**6}.{at % 10**6:06d}] 64 bytes from 192.0.2.1: icmp_seq={(first + n) % 65536} "
                f"ttl=57 time={trip / 1e3:.1f} ms"
            )
        elif random_.random() < 0.5:
            lines.append(f"[{sent // 10**6}.{sent % 10**6:06d}] no answer yet for icmp_seq={(first + n) % 65536}")
        value = random_.choice(("-1", "", "lost", "NaN")) if trip is None else f"{trip / 1e3}"
        rows.append(f"{sent},x,{value},{first + n}")
    texts = {"ping": (end.join(lines) + end).encode(), "csv": (end.join(rows) + end).encode()}
    return truth, texts


Probes = list[tuple[int, float | None]]

#: Statistics of ping: probes sent and received, and the total time [ms], in the forms of iputils, BSD and busybox.
TOTALS = (
    "{sent} packets transmitted, {received} received, 3% packet loss, time {ms}ms",
    "{sent} packets transmitted, {received} received, 9.1e-05% packet loss, time {ms}ms",
    "{sent} packets transmitted, {received} packets received, 2.5% packet loss",
    "{sent} packets transmitted, {received} packets received, 2 duplicates, 3% packet loss",
)


def totals(random_: random.Random, name: str, probes: Probes, *, timed: bool) -> str:
    """Return ping's statistics; without timestamps they must have the total time."""
    line = random_.choice(TOTALS if timed else TOTALS[:2])
    received = sum(rtt_ms is not None for _, rtt_ms in probes)
    ms = (probes[-1][0] - probes[0][0]) // 1000
    return f"\n--- {name} ping statistics ---\n{line.format(sent=len(probes), received=received, ms=ms)}\n"


def behind(runs: list[Probes]) -> Probes:
    """Where runs without times come to lie: from 1970 on, each a second behind the one before."""
    found: Probes = []
    for probes in runs:
        shift = (found[-1][0] + 10**6 if found else 0) - probes[0][0]
        found += [(sent_us + shift, rtt_ms) for sent_us, rtt_ms in probes]
    return found


def fping_of(random_: random.Random, host: str, number: int, at: str, rtt_ms: float | None, *, as_json: bool) -> str:
    """A line of fping; empty: it says nothing of a lost probe."""
    if rtt_ms is None and random_.random() < 0.5:
        return ""
    if as_json:
        about = {"timestamp": at, "host": host, "seq": number}
        return json.dumps({"timeout": about} if rtt_ms is None else {"resp": {**about, "size": 64, "rtt": rtt_ms}})
    outcome = "timed out (9 avg, 1% loss)" if rtt_ms is None else f"64 bytes, {rtt_ms} ms (9.9 avg, 0% loss)"
    return f"[{at}] {host} : [{number}], {outcome}"


def parquet_of(random_: random.Random, probes: dict[str, Probes]) -> bytes:
    """Probes by target as polars or pandas writes them: with Parquet's own instants."""
    rows = [(sent_us, rtt_ms, target) for target, of in probes.items() for sent_us, rtt_ms in of]
    table = pl.DataFrame(rows, schema={"unix_ns": pl.Int64, "rtt_ms": pl.Float64, "target": pl.String}, orient="row")
    zone = random_.choice((None, "UTC", "Pacific/Auckland"))
    instants = pl.col("unix_ns").cast(pl.Datetime("us")).dt.cast_time_unit(random_.choice(("us", "ns")))
    if zone is not None:
        instants = instants.dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    file = io.BytesIO()
    table.with_columns(instants.alias("unix_ns")).write_parquet(file)
    return file.getvalue()


def made_up_folder(random_: random.Random) -> tuple[dict[str, Probes], dict[str, bytes], bool]:
    """Probes by target, [µs] and [ms], the files that several tools keep of them, and whether all of these have times.

    Each prober is started up to three times, by up to three targets, perhaps all at once; ping prints all into one
    file, with its headings or without, with times or without, irtt into files of one name. A traceroute has no times.
    """
    truth: dict[str, Probes] = {}
    printed: dict[str, list[tuple[int, str]]] = {"ping": [], "fping": [], "csv": []}
    files: dict[str, bytes] = {}
    frames: dict[str, Probes] = {}
    headed = random_.random() < 0.6
    timed = not headed or random_.random() < 0.7
    ending = not timed or random_.random() < 0.5
    as_json = random_.random() < 0.5
    together_us = random_.choice((None, random_.randint(1_400_000_000, 1_900_000_000) * 10**6))
    for target in range(random_.randint(1, 3)):
        names = {"ping": f"192.0.2.{target}", "fping": f"198.51.100.{target}", "csv": f"host{target}"}
        at_us = random_.randint(1_400_000_000, 1_900_000_000) * 10**6
        if together_us is not None:
            at_us = together_us + random_.randrange(30_000) * 100
        runs = runs_of(random_, at_us)
        if headed:
            begin = f"PING pop{target} ({names['ping']}) 56(84) bytes of data."
            printed["ping"] += [(probes[0][0] - 1, begin) for probes in runs]
            ends = [(probes[-1][0] + 160_000, totals(random_, f"pop{target}", probes, timed=timed)) for probes in runs]
            printed["ping"] += ends if ending else []
        for again, probes in enumerate(runs):
            for n, (sent_us, rtt_ms) in enumerate(probes):
                came_us = sent_us + round((rtt_ms or 0) * 1e3)
                at = f"{came_us // 10**6}.{came_us % 10**6:06d}"
                if rtt_ms is not None:
                    text = f"64 bytes from {names['ping']}: icmp_seq={n + 1} ttl=57 time={rtt_ms} ms"
                    printed["ping"].append((came_us, f"[{at}] {text}" if timed else text))
                if fping := fping_of(random_, names["fping"], n, at[:-1], rtt_ms, as_json=as_json):
                    printed["fping"].append((came_us, fping))
                value = "-1" if rtt_ms is None else rtt_ms
                printed["csv"].append((sent_us, f"{sent_us},{value},{n + 1},{names['csv']}"))
            irtt = f"203.0.113.{target}:{2112 + again}"
            files[f"t{target}/r{again}/irtt.json"] = irtt_of(probes, irtt)
            truth[irtt] = probes
        whole = [probe for probes in runs for probe in probes]
        truth |= dict.fromkeys((names["fping"], names["csv"], f"frame{target}"), whole)
        truth[f"pop{target}" if headed else names["ping"]] = whole if timed else behind(runs)
        frames[f"frame{target}"] = whole
    files["frame.parquet"] = parquet_of(random_, frames)
    if random_.random() < 0.5:
        files["trace.txt"] = TEXTS["traceroute"][0]
    for name, lines in printed.items():
        head = ["unix_us,rtt_ms,seq,host"] if name == "csv" else []
        text = "\n".join([*head, *(line for _, line in sorted(lines, key=lambda line: line[0]))]) + "\n"
        files[f"{name}.log"] = text.encode()
    results, atlas = atlas_of(random_)
    if atlas:  # else there is nothing to read
        files["atlas.json"] = json.dumps(results).encode()
        truth["atlas"] = atlas
    return truth, files, timed


def runs_of(random_: random.Random, at_us: int) -> list[Probes]:
    """Up to three runs of a prober, one behind the other from a time on."""
    runs: list[Probes] = []
    for _ in range(random_.randint(1, 3)):
        every_us = random_.choice((10_000, 200_000, 1_000_000))
        longest = 90 if every_us == 10_000 else 1_500
        count = random_.randint(2, 120)
        probes: Probes = []
        for n in range(count):
            lost = 0 < n < count - 1 and random_.random() < 0.1
            probes.append((at_us + n * every_us, None if lost else random_.randint(1, longest) / 10))
        runs.append(probes)
        at_us = probes[-1][0] + 200_000 + round(10 ** random_.uniform(2, 6.8)) * 100
    return runs


def atlas_of(random_: random.Random) -> tuple[list[dict], Probes]:
    """Results of RIPE Atlas, and the probes in them."""
    results, found = [], []
    for n in range(random_.randint(1, 5)):
        start_s = 1_500_000_000 + 240 * n
        answers = random_.choices(({"rtt": 40.5}, {"x": "*"}, {"error": "sendto failed"}), (6, 1, 1), k=3)
        about = {"type": "ping", "prb_id": 7, "msm_id": 1, "timestamp": start_s, "dst_addr": "atlas"}
        results.append({**about, "result": answers})
        sent = [answer for answer in answers if "error" not in answer]
        found += [((start_s + k) * 10**6, answer.get("rtt")) for k, answer in enumerate(sent)]
    return results, found


def irtt_of(probes: Probes, target: str) -> bytes:
    """Return irtt's document for probes."""
    trips = [
        {
            "seqno": n,
            "lost": "true" if rtt_ms is None else "false",
            "timestamps": {"client": {"send": {"wall": sent_us * 1000}}},
            "delay": {} if rtt_ms is None else {"rtt": round(rtt_ms * 1e6)},
        }
        for n, (sent_us, rtt_ms) in enumerate(probes)
    ]
    version = {"irtt": "0.9.1", "json_format": 1}
    return json.dumps(
        {"version": version, "config": {"remote_address": target}, "stats": {}, "round_trips": trips}
    ).encode()


def iperf3_of(rates_bps: list[float], streams: int) -> bytes:
    """Return iperf3's document for a download, with streams some hundred microseconds apart."""
    intervals = [
        {
            "streams": [
                {
                    "socket": 5 + s,
                    "start": n + s * 4e-4,
                    "end": n + 1 + s * 4e-4,
                    "bytes": round(bps / 8 / streams),
                    "bits_per_second": bps / streams,
                    "omitted": False,
                    "sender": False,
                }
                for s in range(streams)
            ]
        }
        for n, bps in enumerate(rates_bps)
    ]
    test = {"protocol": "TCP", "reverse": 1}
    start = {"version": "iperf 3.16", "timestamp": {"timesecs": 1_700_000_000}, "test_start": test, "connected": []}
    return json.dumps({"start": start, "intervals": intervals, "end": {}}).encode()


def folder_comes_back(random_: random.Random) -> None:
    """Made-up measurements of several tools, in one folder, read back correctly."""
    truth, files, timed = made_up_folder(random_)
    rates = {
        f"day{day}/test.json": ([random_.randint(1, 300) * 1e6 for _ in range(random_.randint(1, 9))], day)
        for day in range(1, random_.randint(2, 4))
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, data in {**files, **{name: iperf3_of(*about) for name, about in rates.items()}}.items():
            (Path(folder) / "in" / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / "in" / name).write_bytes(data)
        imported = import_files([Path(folder) / "in"], Path(folder) / "out")
        assert not imported.skipped, imported.skipped
        run = imported.run
        probes, samples = run.probes, run.samples
        tests = open_measured(run.path, "throughput").collect()
        assert load_table(run.path, "probes").clock_known == timed
    assert run.start_unix_ns >= 1_400_000_000 * 10**9
    assert set(probes["target"].unique()) == set(truth), (probes["target"].unique(), truth.keys())
    for target, expected in truth.items():
        found = probes.filter(target=target)
        assert not found["duplicate"].any(), (target, "duplicates")
        assert found["rtt_ms"].to_list() == [rtt_ms for _, rtt_ms in expected], (target, found)
        answered = found.filter(pl.col("rtt_ms").is_not_null())["unix_ns"] // 1000
        assert answered.to_list() == [sent_us for sent_us, rtt_ms in expected if rtt_ms is not None], (target, found)
    means = {name: float(np.mean(bps)) for name, (bps, _) in rates.items()}
    assert dict(tests.select("source", "throughput_bps").iter_rows()) == approx(means)
    found_tests = samples.select("source", "test").unique()
    assert found_tests["test"].n_unique() == found_tests.height == len(rates)
    for capacity in capacities_from_tables(samples, None):
        assert capacity.down is not None
        assert capacity.down.value[capacity.down.valid].tolist() == approx(rates[capacity.source][0])


def comes_back(random_: random.Random) -> None:
    """Made-up measurements read back correctly."""
    truth, texts = made_up(random_)
    for name, text in texts.items():
        entry = FORMATS[name]
        size = random_.choice((2 << 20, 4096))
        probes = entry.measure_blocks(blocks(io.BytesIO(text), size), name, READ_HINTS).tables["probes"]
        assert probes.height == truth.height, (name, probes, truth)
        assert probes["rtt_ms"].equals(truth["rtt_ms"], null_equal=True), (name, probes, truth)
        answered = truth["rtt_ms"].is_not_null()
        # The time of a lost probe is made up of its neighbours' where nothing is printed.
        known = probes["unix_ns"].filter(answered) // 1000
        assert known.equals(truth["unix_us"].filter(answered)), (name, probes, truth)


def once(random_: random.Random, name: str, folder: Path) -> None:
    """One damaged file of one reader, every way."""
    text, format_name = TEXTS[name]
    path = folder / "noise"
    data = damaged(random_, text) if random_.random() < 0.95 else random_.randbytes(random_.randint(0, 300))
    path.write_bytes(data)
    options = random_.choice((None, format_name, format_name))
    found = harmless(path, options)
    if random_.random() < 0.2:
        packed(path, options, found)
    if options is not None:
        other_ways(data, format_name)


def _hangs(signum, frame):
    raise TimeoutError(f"longer than {HANG_S} s")


def main() -> int:
    """Fuzz each reader for the requested time; return 1 if a failure was found, with its file stored."""
    parser = argparse.ArgumentParser(description="Damaged files for every reader.")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each reader")
    parser.add_argument("--reader", choices=FORMATS, help="only this one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("out/fuzz"), help="folder for failing files")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, _hangs)
    failures = 0
    for reader in [options.reader] if options.reader else FORMATS:
        names = [name for name, (_, known) in TEXTS.items() if known == reader]
        begin, count, slowest = time.monotonic(), 0, 0.0
        found: dict[str, str] = {}
        with tempfile.TemporaryDirectory() as folder:
            while time.monotonic() - begin < options.seconds:
                random_ = random.Random(f"{reader} {options.seed} {count}")
                at = time.monotonic()
                signal.alarm(HANG_S)
                try:
                    if reader in ("ping", "csv") and count % 8 == 0:
                        comes_back(random_)
                    elif reader in ("ping", "csv", "fping", "irtt", "iperf3", "ripe-atlas") and count % 40 == 1:
                        folder_comes_back(random_)
                    else:
                        once(random_, names[count % len(names)], Path(folder))
                except BaseException as error:
                    if isinstance(error, KeyboardInterrupt):
                        raise
                    place = traceback.extract_tb(error.__traceback__)[-1]
                    key = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
                    if key not in found:
                        found[key] = f"{str(error)[:600]!r} (--reader {reader} --seed {options.seed}, file {count})"
                        options.keep.mkdir(parents=True, exist_ok=True)
                        noise = Path(folder) / "noise"
                        if noise.exists():
                            (options.keep / f"{reader}-{options.seed}-{count}").write_bytes(noise.read_bytes())
                finally:
                    signal.alarm(0)
                slowest = max(slowest, time.monotonic() - at)
                count += 1
        print(f"{reader}: {count} files, slowest {slowest:.2f} s, {len(found)} kinds of failure", flush=True)
        for key, text in found.items():
            print(f"  {key}: {text}", flush=True)
        failures += len(found)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

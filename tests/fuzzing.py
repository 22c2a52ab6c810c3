"""Fuzzing of the readers with damaged files: `make fuzz`, and in small `test_readers_fuzz.py`.

A file may be refused in one line, or read; never a crash, a hang, or another answer than the same reader gives on
another way to the same bytes: packed, in small pieces, every line the careful way. Made-up measurements, of which the
truth is known, must come back as they are.

    python tests/fuzzing.py --seconds 600 [--reader ping] [--seed 1]
"""

import argparse
import gzip
import io
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import polars as pl
from generated_logs import iperf3_of, made_up, made_up_folder
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
    """`text` with some bytes cut out, put in twice, replaced or truncated: near enough to get past the first look."""
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

    result = outcome(read)
    if isinstance(result, str):
        return result
    name_of_format, tables = result
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
        result = entry.measure_blocks(blocks(io.BytesIO(data), size), "file", READ_HINTS)
        return dict(result.tables)

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


def packed(path: Path, format_name: str | None, result) -> None:
    """Packed, the same file says the same."""
    zipped = path.with_suffix(".gz")
    zipped.write_bytes(gzip.compress(path.read_bytes(), 1))
    again = harmless(zipped, format_name)
    if not isinstance(result, str) and not isinstance(again, str):
        # Without names of its own a series is called as its file.
        again = {n: _named(t, zipped.name, path.name) for n, t in again.items()}
    same(result, again, "packed")


def _named(table: pl.DataFrame, old: str, new: str) -> pl.DataFrame:
    names = [name for name in ("target", "source") if name in table.columns and table[name].dtype == pl.String]
    return table.with_columns(pl.col(names).replace(old, new)) if names else table


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
        result = probes.filter(target=target)
        assert not result["duplicate"].any(), (target, "duplicates")
        assert result["rtt_ms"].to_list() == [rtt_ms for _, rtt_ms in expected], (target, result)
        answered = result.filter(pl.col("rtt_ms").is_not_null())["unix_ns"] // 1000
        assert answered.to_list() == [sent_us for sent_us, rtt_ms in expected if rtt_ms is not None], (target, result)
    means = {name: float(np.mean(bps)) for name, (bps, _) in rates.items()}
    assert dict(tests.select("source", "throughput_bps").iter_rows()) == approx(means)
    reader_tests = samples.select("source", "test").unique()
    assert reader_tests["test"].n_unique() == reader_tests.height == len(rates)
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
    result = harmless(path, options)
    if random_.random() < 0.2:
        packed(path, options, result)
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
        results: dict[str, str] = {}
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
                    if key not in results:
                        results[key] = f"{str(error)[:600]!r} (--reader {reader} --seed {options.seed}, file {count})"
                        options.keep.mkdir(parents=True, exist_ok=True)
                        noise = Path(folder) / "noise"
                        if noise.exists():
                            (options.keep / f"{reader}-{options.seed}-{count}").write_bytes(noise.read_bytes())
                finally:
                    signal.alarm(0)
                slowest = max(slowest, time.monotonic() - at)
                count += 1
        print(f"{reader}: {count} files, slowest {slowest:.2f} s, {len(results)} kinds of failure", flush=True)
        for key, text in results.items():
            print(f"  {key}: {text}", flush=True)
        failures += len(results)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Import of a million pings into a measured Run, against short scripts that read the same file.

For the text of `ping -D` the peer is a regular expression of Python's `re`, line by line, into lists. For the same as a
table of numbers it is `polars.read_csv`, which knows nothing of lost probes or units and names no lines. Each runs in a
process of its own; CPU time, and peak memory above that at the start. Ours also hashes the file, finds lost probes and
duplicates, and counts clock jumps.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

ROWS = 1_000_000
ROUNDS = 3
#: Share of lost probes, as in a year of pings over Starlink (Huston 2024).
LOST = 0.01
START_US, EVERY_US = 1_734_544_800_000_000, 10_000
_LINE = re.compile(r"\[(\d+\.\d+)\] \d+ bytes from .*: icmp_seq=(\d+) ttl=\d+ time=([\d.]+) ms")


def write_logs(text: Path, table: Path) -> int:
    """Write the same pings in both forms; return the number of replies."""
    generator = np.random.default_rng(1)
    number = np.flatnonzero(generator.random(ROWS) >= LOST)
    rtt_ms = np.round(20 + generator.gamma(4.0, 1.0, number.size), 1)
    sent_us = START_US + number * EVERY_US
    rows = pl.DataFrame({"unix_us": sent_us, "seq": number + 1, "rtt_ms": rtt_ms})
    rows.write_csv(table)
    at = pl.col("unix_us") + (pl.col("rtt_ms") * 1000).cast(pl.Int64)
    lines = rows.select(
        pl.format(
            "[{}.{}] 64 bytes from 192.0.2.1: icmp_seq={} ttl=57 time={} ms",
            at // 10**6,
            (at % 10**6).cast(pl.String).str.zfill(6),
            pl.col("seq") % 65536,
            "rtt_ms",
        )
    ).to_series()
    text.write_text("PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n" + "\n".join(lines) + "\n")
    return number.size


def ours(path: str) -> int:
    from bentpipe.measurements.runs.imports import read_file

    return read_file(path).measurement.tables["probes"]["rtt_ms"].count()


def by_re(path: str) -> int:
    times, numbers, trips = [], [], []
    with Path(path).open() as file:
        for line in file:
            if result := _LINE.match(line):
                times.append(float(result[1]))
                numbers.append(int(result[2]))
                trips.append(float(result[3]))
    return len(trips)


def by_read_csv(path: str) -> int:
    return pl.read_csv(path)["rtt_ms"].count()


def warm(path: str) -> int:
    """Load what all variants need before the measurement."""
    import bentpipe.measurements.runs.imports

    return len(bentpipe.measurements.runs.imports.FORMATS)


def highest_kb() -> int:
    """Return this process's peak memory; getrusage's includes that of the parent process."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))


def _measured(work: Callable[[str], int], path: str, pipe: multiprocessing.connection.Connection) -> None:
    warm(path)
    before_kb = highest_kb()
    begin = time.process_time()
    replies = work(path)
    cpu_s = time.process_time() - begin
    pipe.send((replies, cpu_s, (highest_kb() - before_kb) / 1024))


def measure(work: Callable[[str], int], path: Path, answered: int) -> tuple[float, float]:
    """Return the best CPU time [s] and memory [MB] of several rounds."""
    spawning = multiprocessing.get_context("spawn")
    best = []
    for _ in range(ROUNDS):
        mine, theirs = spawning.Pipe()
        process = spawning.Process(target=_measured, args=(work, str(path), theirs))
        process.start()
        result, cpu_s, mb = mine.recv()
        process.join()
        if result != answered:
            raise SystemExit(f"logs: {work.__name__} found {result} replies, there are {answered}")
        best.append((cpu_s, mb))
    return min(cpu for cpu, _ in best), min(mb for _, mb in best)


def main() -> dict[str, float]:
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        text, table = Path(folder) / "ping.txt", Path(folder) / "pings.csv"
        answered = write_logs(text, table)
        for name, path, peer, called in (
            ("ping_vs_re", text, by_re, "Python's re"),
            ("table_vs_read_csv", table, by_read_csv, "polars.read_csv"),
        ):
            (cpu_s, mb), (their_s, their_mb) = (measure(work, path, answered) for work in (ours, peer))
            results[f"read_{name}"], results[f"read_{name}_memory"] = their_s / cpu_s, their_mb / mb
            print(
                f"read_{name}: {their_s / cpu_s:.2f} (best of {ROUNDS}, CPU time: ours {cpu_s:.2f} s, "
                f"{answered / cpu_s / 1e6:.1f} million rows/s; {called} {their_s:.2f} s); memory {their_mb / mb:.2f} "
                f"(ours {mb:.0f} MB, {called} {their_mb:.0f} MB; the file has {path.stat().st_size >> 20})"
            )
    return results


if __name__ == "__main__":
    main()

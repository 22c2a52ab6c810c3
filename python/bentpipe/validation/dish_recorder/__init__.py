"""The recorder under `kill -9` and over a replayed day: files open, little is lost, memory is constant."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.clocks import SetClock, WallClock
from bentpipe.measurements.dish.recording.reading import scan_recording
from bentpipe.measurements.dish.recording.recorder import Recorder
from bentpipe.measurements.dish.simulation.environment import DishEnvironment
from bentpipe.measurements.dish.simulation.server import serve
from bentpipe.measurements.dish.simulation.terminal import LocalTransport, Terminal
from bentpipe.profiles.make import make_profile
from bentpipe.times import DEFAULT_START_UTC, parse_utc
from bentpipe.validation import OnProgress, Outcome, Row

#: Number of kills, and the seed of their times.
KILLS, SEED = 100, 1
#: Interval of samples [s]: a tenth of the usual one, so that more kills interrupt a write.
EVERY_S = 0.1
#: Longest time from a recorder's first sample to its kill [s]: a second has every phase of its work many times.
LIVES_S = 1.0
#: Largest loss at a kill [s].
LOST_S = 1.0
#: Longest time between neighbouring rows of the whole recording [s]: half a second on either side belongs to a row, and
#: no second of the terminal's history may lie in the rest.
APART_S = 2.0
#: Longest start of a recorder [s], on a machine with other load.
START_S = 60.0
#: Longest duration of the replayed day [s].
REPLAY_S = 60.0
#: Largest growth of the memory from the second hour of the day to its end [MiB]. Chosen here for the allocator; the
#: day's samples are many times as much.
GROWTH_MIB = 8.0
#: Size of this process and its resident memory, in pages (proc_pid_statm(5)).
STATM = Path("/proc/self/statm")
_NANOS = 10**9
_MIB = 2**20
_HOURS = 24


class RecordingTerminal(Terminal):
    """A terminal that records the times of its answers."""

    def __init__(self, world: DishEnvironment) -> None:
        """Use the machine's clock."""
        super().__init__(world, WallClock())
        self.first_unix_ns = self.last_unix_ns = 0
        self.answered = threading.Event()

    def forget(self) -> None:
        """Reset the record."""
        self.answered.clear()
        self.first_unix_ns = self.last_unix_ns = 0

    def handle(self, data: bytes) -> bytes:
        """Answer as a terminal does, and record the time."""
        answer = super().handle(data)
        self.last_unix_ns = time.time_ns()
        if not self.answered.is_set():
            self.first_unix_ns = self.last_unix_ns
            self.answered.set()
        return answer


@dataclass
class Kills:
    """Results of the kills.

    Attributes:
        lost_s: Span of answers that were not on the disk, by killed recorder [s].
        opened: Number of files that open, of `tried`.
        tried: Number of files. One that does not open is moved away, so its content counts as lost.
        not_started: Last message of each recorder that sent no request to the terminal; such a kill tests nothing.
    """

    lost_s: list[float] = field(default_factory=list)
    opened: int = 0
    tried: int = 0
    not_started: list[str] = field(default_factory=list)


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Check the claim: the kills, then the day."""
    del data  # needs none
    if not STATM.exists():
        return Outcome("dish-recorder", skipped=f"no {STATM}, which reports the memory; expected Linux")
    with tempfile.TemporaryDirectory() as folder:
        kills = kill(hour_of_environment(), Path(folder) / "killed", KILLS, SEED, lambda done: on_progress(0.9 * done))
        apart_s, doubled = holes(Path(folder) / "killed")
        # Reading the kills' files leaves this process with free memory, which would hide the day's growth.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            took_s, memory_mib, count, size_mb = fresh.submit(replay, Path(folder) / "day", _HOURS).result()
    on_progress(1.0)
    first_mib, second_mib, last_mib = memory_mib
    lost_s, started = max(kills.lost_s, default=float("nan")), KILLS - len(kills.not_started)
    rows = [
        Row(f"recorders that ran when they were killed, of {KILLS}", f"{started}", f"{KILLS}", "all", started == KILLS),
        Row("largest loss at a kill", f"{lost_s:.2f} s", "", f"{LOST_S:g} s", lost_s <= LOST_S),
        Row("files that open after a kill", f"{kills.opened} of {kills.tried}", "all", "all",
            kills.opened == kills.tried > 0),
        Row("longest time without a row", f"{apart_s:.2f} s", "", f"{APART_S:g} s", apart_s <= APART_S),
        Row("repeated rows", f"{doubled}", "0", "none", doubled == 0),
        Row(f"{_HOURS} h at 1 Hz replayed in", f"{took_s:.0f} s", "", f"{REPLAY_S:g} s", took_s < REPLAY_S),
        Row("samples of them", f"{count}", f"{_HOURS * 3600}", "none", count == _HOURS * 3600),
        # The first merge of an hour's files makes the libraries allocate memory that they keep.
        Row("memory grew in the second hour by", f"{second_mib - first_mib:.1f} MiB", "", "reported, no limit", None),
        Row("memory grew after that by", f"{last_mib - second_mib:.1f} MiB", "0", f"{GROWTH_MIB:g} MiB",
            last_mib - second_mib <= GROWTH_MIB),
    ]  # fmt: skip
    notes = [f"a day of samples, events and maps takes {size_mb:.1f} MB"]
    notes += [f"a recorder did not start: {message or 'no message'}" for message in dict.fromkeys(kills.not_started)]
    return Outcome("dish-recorder", rows, notes)


def hour_of_environment() -> DishEnvironment:
    """Return an environment of one hour: as long as the merged files, so that no file repeats a part."""
    return DishEnvironment(make_profile("melbourne", "melbourne", duration_s=3600.0))


def kill(
    world: DishEnvironment, folder: Path, times: int, seed: int, on_progress: OnProgress = lambda _: None
) -> Kills:
    """Start a recorder of a terminal in `world`, kill it and open its files, `times` times in one folder."""
    draw = random.Random(seed)
    terminal = RecordingTerminal(world)
    server = serve(terminal, port=0)
    kills = Kills()
    try:
        for turn in range(times):
            terminal.forget()
            message = _run_and_kill(terminal, server.port, folder, draw.uniform(0.0, LIVES_S))
            files = list(folder.rglob("*.parquet"))
            kills.tried += len(files)
            kills.opened += sum(_opens(path) for path in files)
            if message is not None:
                kills.not_started.append(message)
            else:
                # The loss of an earlier recorder was counted at its own kill.
                kept = max(_last(folder), terminal.first_unix_ns)
                kills.lost_s.append(max(0, terminal.last_unix_ns - kept) / _NANOS)
            on_progress((turn + 1) / times)
        # The next recorder closes the last one's gap.
        Recorder(DishClient(f"127.0.0.1:{server.port}"), folder, WallClock()).run(2.0)
    finally:
        server.stop()
    return kills


def _run_and_kill(terminal: RecordingTerminal, port: int, folder: Path, lives_s: float) -> str | None:
    """Kill a recorder `lives_s` after the terminal's first answer; return its last message if there was no answer."""
    command = ["dish", "record", "--host", f"127.0.0.1:{port}", "--every", str(EVERY_S), "--map-every", "0.5"]
    with tempfile.TemporaryFile() as stderr_file:
        process = subprocess.Popen([sys.executable, "-m", "bentpipe", *command, "-o", str(folder)], stderr=stderr_file)
        try:
            give_up_at = time.monotonic() + START_S
            while not terminal.answered.wait(0.05) and process.poll() is None and time.monotonic() < give_up_at:
                pass
            there = terminal.answered.is_set() and process.poll() is None
            if there:
                time.sleep(lives_s)
                there = process.poll() is None  # a recorder that ended by itself was not killed
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if there:
            return None
        stderr_file.seek(0)
        return (stderr_file.read().decode(errors="replace").strip().splitlines() or [""])[-1]


def _opens(path: Path) -> bool:
    """Return whether a file can be read; if not, move it away."""
    try:
        pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        path.rename(path.with_suffix(".damaged"))
        return False
    return True


def _last(folder: Path) -> int:
    """Return the time of the last row in a folder; 0: no rows."""
    times = [pl.read_parquet(path, columns=["t_unix_ns"]) for path in (folder / "samples").glob("*.parquet")]
    return int(pl.concat(times)["t_unix_ns"].sort()[-1]) if times else 0


def holes(folder: Path) -> tuple[float, int]:
    """Return the longest time between neighbouring rows of a recording [s], and the number of repeated times."""
    times = scan_recording(folder).select("t_unix_ns").collect()["t_unix_ns"].to_list()
    return max((b - a) / _NANOS for a, b in pairwise(times)), len(times) - len(set(times))


def replay(folder: Path, hours: int) -> tuple[float, tuple[float, float, float], int, float]:
    """Record hours of a terminal at 1 Hz in this process, with a clock that advances when the recorder waits.

    Returns:
        The duration [s]; the process's memory after the first hour, after the second, and at the end [MiB]; the number
            of
        rows; and the size of a day on the disk [MB].
    """
    clock = SetClock(parse_utc(DEFAULT_START_UTC))
    client = DishClient(LocalTransport(Terminal(hour_of_environment(), clock)))
    begin = time.monotonic()
    memory_mib = []
    for span_h in (1, 1, hours - 2):
        Recorder(client, folder, clock).run(span_h * 3600.0)
        memory_mib.append(_in_memory_mib())
    took_s = time.monotonic() - begin
    count = scan_recording(folder).select(pl.len()).collect().item()
    size_mb = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6 * 24 / hours
    first_mib, second_mib, last_mib = memory_mib
    return took_s, (first_mib, second_mib, last_mib), count, size_mb


def _in_memory_mib() -> float:
    """Return the process's current memory, not its peak, which could hide growth."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB

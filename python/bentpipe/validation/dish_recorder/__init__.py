"""The recorder under `kill -9` at random moments, and a day replayed: files open, little is lost, memory is flat."""

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

#: How often the recorder is killed, and the seed of when.
KILLS, SEED = 100, 1
#: Interval of samples while it is killed [s]: ten times as fast as usual, so that a kill meets more of its work.
EVERY_S = 0.1
#: After the recorder's first sample it lives so long at most [s]: a second has every phase of its work many times.
LIVES_S = 1.0
#: Most that a kill may lose [s].
LOST_S = 1.0
#: Longest time between neighbouring rows in the end [s]: where they are less apart, half a second at either side
#: belongs to them, and no second of the terminal's history may lie in what is left.
APART_S = 2.0
#: Longest that starting the recorder may take [s], on a machine that has other things to do.
START_S = 60.0
#: What a day replayed may take [s].
REPLAY_S = 60.0
#: How much the memory may grow from the second hour of the day to its end [MiB]. Chosen here: room for the allocator;
#: the day's samples are many times as much.
GROWTH_MIB = 8.0
#: Of this process, in pages: its size, what of it is in memory now, and more (proc_pid_statm(5)).
STATM = Path("/proc/self/statm")
_NANOS = 10**9
_MIB = 2**20
_HOURS = 24


class Watched(Terminal):
    """A terminal that remembers when it answered."""

    def __init__(self, world: DishEnvironment) -> None:
        """By the machine's clock."""
        super().__init__(world, WallClock())
        self.first_unix_ns = self.last_unix_ns = 0
        self.answered = threading.Event()

    def forget(self) -> None:
        """As if it had never answered."""
        self.answered.clear()
        self.first_unix_ns = self.last_unix_ns = 0

    def handle(self, data: bytes) -> bytes:
        """As every terminal."""
        answer = super().handle(data)
        self.last_unix_ns = time.time_ns()
        if not self.answered.is_set():
            self.first_unix_ns = self.last_unix_ns
            self.answered.set()
        return answer


@dataclass
class Kills:
    """What the kills left.

    Attributes:
        lost_s: How much of what the terminal had answered was not on the disk, of each recorder that was killed [s].
        opened: How many files opened, of so many that were `tried`.
        tried: How many that were. One that does not open is moved away, so that what it held counts as lost.
        not_started: Of each recorder that never asked the terminal: the last it said. Nothing of it was tried.
    """

    lost_s: list[float] = field(default_factory=list)
    opened: int = 0
    tried: int = 0
    not_started: list[str] = field(default_factory=list)


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Kills, then a day."""
    del data  # everything is made here
    if not STATM.exists():
        return Outcome("dish-recorder", skipped=f"no {STATM}, which tells how much memory it takes; wanted Linux")
    with tempfile.TemporaryDirectory() as folder:
        kills = kill(an_hour(), Path(folder) / "killed", KILLS, SEED, lambda done: on_progress(0.9 * done))
        apart_s, doubled = holes(Path(folder) / "killed")
        # The kills' files leave this process with memory that it keeps, in which a day would grow unseen.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
            took_s, memory_mib, count, size_mb = fresh.submit(replay, Path(folder) / "day", _HOURS).result()
    on_progress(1.0)
    first_mib, second_mib, last_mib = memory_mib
    lost_s, started = max(kills.lost_s, default=float("nan")), KILLS - len(kills.not_started)
    rows = [
        Row(f"recorders that were there to be killed, of {KILLS}", f"{started}", f"{KILLS}", "all", started == KILLS),
        Row("lost at each of their kills, most", f"{lost_s:.2f} s", "", f"{LOST_S:g} s", lost_s <= LOST_S),
        Row("files that open after a kill", f"{kills.opened} of {kills.tried}", "all", "all",
            kills.opened == kills.tried > 0),
        Row("longest time without a row", f"{apart_s:.2f} s", "", f"{APART_S:g} s", apart_s <= APART_S),
        Row("rows that are there twice", f"{doubled}", "0", "none", doubled == 0),
        Row(f"{_HOURS} h at 1 Hz replayed in", f"{took_s:.0f} s", "", f"{REPLAY_S:g} s", took_s < REPLAY_S),
        Row("samples of them", f"{count}", f"{_HOURS * 3600}", "none", count == _HOURS * 3600),
        # When the first hour's files are put together the libraries take what they then keep.
        Row("memory grew in the second hour by", f"{second_mib - first_mib:.1f} MiB", "", "reported, no limit", None),
        Row("memory grew after that by", f"{last_mib - second_mib:.1f} MiB", "0", f"{GROWTH_MIB:g} MiB",
            last_mib - second_mib <= GROWTH_MIB),
    ]  # fmt: skip
    notes = [f"a day of samples, events and maps takes {size_mb:.1f} MB"]
    notes += [
        f"a recorder did not start: {message or 'it said nothing'}" for message in dict.fromkeys(kills.not_started)
    ]
    return Outcome("dish-recorder", rows, notes)


def an_hour() -> DishEnvironment:
    """What a terminal meets in an hour: as long as the files that are put together, so nothing repeats in one."""
    return DishEnvironment(make_profile("melbourne", "melbourne", duration_s=3600.0))


def kill(
    world: DishEnvironment, folder: Path, times: int, seed: int, on_progress: OnProgress = lambda _: None
) -> Kills:
    """Starts a recorder of a terminal behind `world`, kills it, opens what is there; again and again in one folder."""
    draw = random.Random(seed)
    terminal = Watched(world)
    server = serve(terminal, port=0)
    kills = Kills()
    try:
        for turn in range(times):
            terminal.forget()
            message = _run_and_kill(terminal, server.port, folder, draw.uniform(0.0, LIVES_S))
            found = list(folder.rglob("*.parquet"))
            kills.tried += len(found)
            kills.opened += sum(_opens(path) for path in found)
            if message is not None:
                kills.not_started.append(message)
            else:
                # What an earlier recorder lost was counted when that one was killed.
                kept = max(_last(folder), terminal.first_unix_ns)
                kills.lost_s.append(max(0, terminal.last_unix_ns - kept) / _NANOS)
            on_progress((turn + 1) / times)
        # The last one's gap is closed by whoever comes next.
        Recorder(DishClient(f"127.0.0.1:{server.port}"), folder, WallClock()).run(2.0)
    finally:
        server.stop()
    return kills


def _run_and_kill(terminal: Watched, port: int, folder: Path, lives_s: float) -> str | None:
    """Ends a recorder `lives_s` after the terminal's first answer to it; the last that it said if there was none."""
    command = ["dish", "record", "--host", f"127.0.0.1:{port}", "--every", str(EVERY_S), "--map-every", "0.5"]
    with tempfile.TemporaryFile() as stderr_file:
        process = subprocess.Popen([sys.executable, "-m", "bentpipe", *command, "-o", str(folder)], stderr=stderr_file)
        try:
            patience = time.monotonic() + START_S
            while not terminal.answered.wait(0.05) and process.poll() is None and time.monotonic() < patience:
                pass
            there = terminal.answered.is_set() and process.poll() is None
            if there:
                time.sleep(lives_s)
                there = process.poll() is None  # one that ended by itself is none that was killed
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        if there:
            return None
        stderr_file.seek(0)
        return (stderr_file.read().decode(errors="replace").strip().splitlines() or [""])[-1]


def _opens(path: Path) -> bool:
    """Whether it reads; if not, it is moved away."""
    try:
        pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        path.rename(path.with_suffix(".damaged"))
        return False
    return True


def _last(folder: Path) -> int:
    """The time of the last row in a folder; 0 where there is none."""
    times = [pl.read_parquet(path, columns=["t_unix_ns"]) for path in (folder / "samples").glob("*.parquet")]
    return int(pl.concat(times)["t_unix_ns"].sort()[-1]) if times else 0


def holes(folder: Path) -> tuple[float, int]:
    """The longest time between neighbouring rows of a recording [s], and how many rows have the time of another."""
    times = scan_recording(folder).select("t_unix_ns").collect()["t_unix_ns"].to_list()
    return max((b - a) / _NANOS for a, b in pairwise(times)), len(times) - len(set(times))


def replay(folder: Path, hours: int) -> tuple[float, tuple[float, float, float], int, float]:
    """Records hours of a terminal at 1 Hz in the same process, by a clock that moves on when somebody waits for it.

    Returns:
        How long it took [s]; the process' memory after the first hour, after the second, and at the end [MiB]; the
        rows; and what a day of it takes on the disk [MB].
    """
    clock = SetClock(parse_utc(DEFAULT_START_UTC))
    client = DishClient(LocalTransport(Terminal(an_hour(), clock)))
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
    """What of this process is in memory now: not the most that it ever was, below which nothing would show."""
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB

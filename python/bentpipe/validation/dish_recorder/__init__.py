"""The recorder under `kill -9` at random moments, and a day replayed: files open, little is lost, memory is flat."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

import polars as pl

from bentpipe.dish.client import DishClient
from bentpipe.dish.clocks import SetClock, WallClock
from bentpipe.dish.recording import scan_recording
from bentpipe.dish.recording.recorder import Recorder
from bentpipe.dish.simulation import LocalTransport, Terminal, World, serve
from bentpipe.profiles import make_profile
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
#: How much the memory may grow from the first hour of the day to its end [MiB]. Chosen here: room for the allocator;
#: the day's samples are several times as much.
GROWTH_MIB = 16.0
_NANOS = 10**9
_HOURS = 24


class Watched(Terminal):
    """A terminal that remembers when it answered."""

    def __init__(self, world: World) -> None:
        """By the machine's clock."""
        super().__init__(world, WallClock())
        self.first_unix_ns = self.last_unix_ns = 0
        self.answered = threading.Event()

    def handle(self, data: bytes) -> bytes:
        """As every terminal."""
        answer = super().handle(data)
        self.last_unix_ns = time.time_ns()
        if not self.answered.is_set():
            self.first_unix_ns = self.last_unix_ns
            self.answered.set()
        return answer


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Kills, then a day."""
    del data  # everything is made here
    # An hour, as long as the files that are put together, so that nothing repeats within one of them.
    world = World(make_profile("melbourne", "melbourne", duration_s=3600.0))
    with tempfile.TemporaryDirectory() as folder:
        lost_s, opened, found = kill(world, Path(folder) / "killed", KILLS, SEED, lambda done: on_progress(0.9 * done))
        apart_s, doubled = holes(Path(folder) / "killed")
        took_s, growth_mib, count, size_mb = replay(world, Path(folder) / "day", _HOURS)
    on_progress(1.0)
    rows = [
        Row(f"lost at each of {KILLS} kills, most", f"{max(lost_s):.2f} s", "", f"{LOST_S:g} s", max(lost_s) <= LOST_S),
        Row("files that open after a kill", f"{opened} of {found}", "all", "all", opened == found > 0),
        Row("longest time without a row", f"{apart_s:.2f} s", "", f"{APART_S:g} s", apart_s <= APART_S),
        Row("rows that are there twice", f"{doubled}", "0", "none", doubled == 0),
        Row(f"{_HOURS} h at 1 Hz replayed in", f"{took_s:.0f} s", "", f"{REPLAY_S:g} s", took_s < REPLAY_S),
        Row("samples of them", f"{count}", f"{_HOURS * 3600}", "none", count == _HOURS * 3600),
        Row("memory grew after the first hour by", f"{growth_mib:.1f} MiB", "0", f"{GROWTH_MIB:g} MiB",
            growth_mib <= GROWTH_MIB),
    ]  # fmt: skip
    return Outcome("dish-recorder", rows, [f"a day of samples, events and maps takes {size_mb:.1f} MB"])


def kill(
    world: World, folder: Path, times: int, seed: int, on_progress: OnProgress = lambda _: None
) -> tuple[list[float], int, int]:
    """Starts a recorder of a terminal behind `world`, kills it, opens what is there; again and again in one folder.

    Returns:
        How much of what the terminal had answered was not on the disk, each time [s]; how many files opened, and how
        many were tried. One that does not open is moved away, so that what it held counts as lost.
    """
    draw = random.Random(seed)
    terminal = Watched(world)
    server = serve(terminal, port=0)
    lost_s, opened, tried = [], 0, 0
    try:
        for turn in range(times):
            terminal.answered.clear()
            command = ["dish", "record", "--host", f"127.0.0.1:{server.port}", "--every", str(EVERY_S)]
            process = subprocess.Popen(
                [sys.executable, "-m", "bentpipe", *command, "--map-every", "0.5", "-o", str(folder)],
                stderr=subprocess.DEVNULL,
            )
            try:
                terminal.answered.wait(START_S)
                time.sleep(draw.uniform(0.0, LIVES_S))
            finally:
                process.send_signal(signal.SIGKILL)
                process.wait()
            found = list(folder.rglob("*.parquet"))
            tried += len(found)
            opened += sum(_opens(path) for path in found)
            # What an earlier recorder lost was counted when that one was killed.
            kept = max(_last(folder), terminal.first_unix_ns)
            lost_s.append(max(0, terminal.last_unix_ns - kept) / _NANOS)
            on_progress((turn + 1) / times)
        # The last one's gap is closed by whoever comes next.
        Recorder(DishClient(f"127.0.0.1:{server.port}"), folder, WallClock()).run(2.0)
    finally:
        server.stop()
    return lost_s, opened, tried


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


def replay(world: World, folder: Path, hours: int) -> tuple[float, float, int, float]:
    """Records hours of a terminal at 1 Hz in the same process, by a clock that moves on when somebody waits for it.

    Returns:
        How long it took [s], by how much the largest memory grew after the first hour [MiB], the rows, and what a day
        of it takes on the disk [MB].
    """
    clock = SetClock(parse_utc(DEFAULT_START_UTC))
    client = DishClient(LocalTransport(Terminal(world, clock)))
    begin = time.monotonic()
    Recorder(client, folder, clock).run(3600.0)
    first_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    Recorder(client, folder, clock).run((hours - 1) * 3600.0)
    took_s = time.monotonic() - begin
    growth_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first_kib) / 1024
    count = scan_recording(folder).select(pl.len()).collect().item()
    size_mb = sum(path.stat().st_size for path in folder.rglob("*.parquet")) / 1e6 * 24 / hours
    return took_s, growth_mib, count, size_mb

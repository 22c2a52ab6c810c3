"""Sudden ends: `kill -9` of the emulator, its supervisor, the program or the command must leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from bentpipe.errors import UserError
from bentpipe.execution.emulation.proc import PROC, processes, stat_fields
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.emulator import leaks
from bentpipe.validation.emulator.traffic import LOAD_PORT, prober

Victim = Literal["emulator", "supervisor", "program", "parent"]
VICTIMS: tuple[Victim, ...] = ("emulator", "supervisor", "program", "parent")
KILLS = 100
STARTING_KILLS = 25
"""Further kills of the command, uniformly between its start and the emulator's."""

STARTS = 200
UP_S = 0.8
"""Longest time from the victim's start to a kill [s], uniform. For the command it counts from the emulator's start,
before which little could be left."""

BUSY_S = 2.0
"""The same for every second kill [s]. Meanwhile a server starts, packets flow, and a Run with a capture is written."""

BUSY_BPS = 20e6

WAITS = "read -r _"
"""The program's command. The server's command line, briefly that of a shell too, does not contain it."""


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Check the claim: 100 kills of each process and 200 starts and stops, about twelve minutes. Needs no data."""
    del data
    rows = []
    total = KILLS * len(VICTIMS) + STARTING_KILLS + STARTS
    with tempfile.TemporaryDirectory() as folder:
        path = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="bell")
        file = Path(folder, "bell.parquet")
        write_profile(path, file)
        before = _Before()
        try:
            run_program(path, ["true"])
        except UserError as error:
            return Outcome("emulator-faults", skipped=str(error))
        done = 0
        took_s: list[float] = []
        plans: list[tuple[Victim, bool]] = [*((victim, False) for victim in VICTIMS), ("parent", True)]
        for victim, starting in plans:
            left = hits = 0
            kills = STARTING_KILLS if starting else KILLS
            for attempt in range(kills):
                busy = not starting and attempt % 2 == 1
                within_s = BUSY_S if busy else statistics.median(took_s) if starting else UP_S
                after_s = random.Random(f"{victim} {attempt}").uniform(0.0, within_s)
                killed = kill_once(victim, file, after_s, folder, starting=starting, busy=busy)
                left += bool(killed.left)
                hits += killed.hit
                took_s += [killed.there_s] if victim == "parent" and not (starting or busy) else []
                done += 1
                on_progress(done / total)
            if starting:
                quantity = f"kill -9 of the {victim} while it starts, {kills} times"
            else:
                quantity = (
                    f"kill -9 of the {victim}, {hits} times while the emulation was there, half of them in traffic"
                )
            within = left == 0 and (starting or hits == kills)
            rows.append(Row(f"{quantity}: ends that left a process", str(left), "0", "0", within))
        failed = 0
        for _ in range(STARTS):
            failed += run_program(path, ["true"]).exit_code != 0
            done += 1
            on_progress(done / total)
        rows.append(Row(f"{STARTS} starts and stops: failures", str(failed), "0", "0", failed == 0))
        rows += before.left()
    notes = [] if before.counted is not None else ["the kernel's own count of namespaces needs root and /proc/slabinfo"]
    return Outcome("emulator-faults", rows, notes)


class _Before:
    """Namespaces, devices and descriptors before the test."""

    def __init__(self) -> None:
        """Record the current ones."""
        self.namespaces = leaks.namespaces()
        self.counted = leaks.least_counted()
        self.devices = leaks.devices()
        self.descriptors = leaks.descriptors()

    def left(self) -> list[Row]:
        """Return rows of new ones that remain; a namespace may take a while to vanish."""
        rows = [
            (
                "network namespaces left, of threads, descriptors and mounts",
                len(leaks.left_of(leaks.namespaces, self.namespaces)),
            ),
            ("network devices left, in any namespace of a thread", len(leaks.left_of(leaks.devices, self.devices))),
            ("descriptors of this process left", max(0, leaks.descriptors() - self.descriptors)),
        ]
        if self.counted is not None:
            more = leaks.more_than(leaks.counted_namespaces, self.counted)
            rows.insert(1, ("network namespaces left, by the kernel's own count", more))
        return [Row(quantity, str(left), "0", "0", left == 0) for quantity, left in rows]


@dataclass(frozen=True)
class Killed:
    """Result of a kill.

    Attributes:
        left: Remaining processes of the emulation.
        output: Standard error of the command.
        hit: Whether the victim existed; for the command, whether its emulator or program did.
        there_s: Time from the command's start to the start of the kill's delay [s].
    """

    left: list[int]
    output: str
    hit: bool
    there_s: float


def kill_once(
    victim: Victim,
    profile: Path,
    after_s: float,
    folder: str | Path,
    *,
    starting: bool = False,
    busy: bool = False,
) -> Killed:
    """Start `bentpipe run` with a waiting program, `kill -9` a victim, and wait up to 10 s for all processes to end.

    The kill comes `after_s` after the victim's start. For the command it comes `after_s` after the emulator's start,
    or, with `starting`, after the command's own. The program ends when this process closes a pipe or ends.

    With `busy`, datagrams go to a server meanwhile, and a Run with a capture is written below `folder`.
    """
    mark = f"bentpipe-{os.getpid()}-{victim}-{after_s}"
    waits, ours = os.pipe()
    with os.fdopen(waits) as standard_input, os.fdopen(ours):
        return _kill_once(victim, profile, after_s, folder, mark, standard_input, starting=starting, busy=busy)


def _kill_once(
    victim: Victim,
    profile: Path,
    after_s: float,
    folder: str | Path,
    mark: str,
    standard_input: IO[str],
    *,
    starting: bool,
    busy: bool,
) -> Killed:
    command = [sys.executable, "-m", "bentpipe", "run", str(profile)]
    beside = ""
    if busy:
        server = prober("count", Path(folder, f"{mark}.count"), LOAD_PORT)
        command += ["--server", f": {mark}; exec {shlex.join(server)}", "--capture", "-o", str(Path(folder, mark))]
        # Its errors after the network's end are not the command's. The mark identifies it if it remains.
        beside = f"{shlex.join(prober('flood', 60, BUSY_BPS, LOAD_PORT, mark))} 2>/dev/null & "
    command += ["--", "sh", "-c", f": {mark}; {beside}{WAITS}; :"]
    begin = time.monotonic()
    with subprocess.Popen(
        command, stdin=standard_input, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder
    ) as parent:
        awaited: Victim = "emulator" if victim == "parent" else victim
        give_up_at = begin + 60
        pids: list[int] = []
        while not (starting or pids) and parent.poll() is None and time.monotonic() < give_up_at:
            time.sleep(0.005)
            pids = _process_of(awaited, descendants(parent.pid))
        there_s = time.monotonic() - begin
        time.sleep(after_s)
        family = descendants(parent.pid)
        if victim == "parent":
            hit = bool(_process_of("emulator", family) or _process_of("program", family))
        else:
            hit = bool(pids) and pids[0] in (pid for pid, _ in family)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pids[0] if pids and victim != "parent" else parent.pid, signal.SIGKILL)
        _, stderr = parent.communicate(timeout=60)
    deadline = time.monotonic() + 10
    while (left := [pid for pid, _ in family if is_alive(pid)] + processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return Killed(left, stderr.decode(errors="replace"), hit, there_s)


def _process_of(victim: Victim, family: list[tuple[int, str]]) -> list[int]:
    """Return the process of a kind in a family; empty: it does not exist."""
    supervisors = [pid for pid, line in family if "emulation.supervisor" in line]
    programs = [pid for pid, line in family if line.startswith("sh -c") and WAITS in line]
    candidates: dict[Victim, list[int]] = {
        "supervisor": supervisors[:1],
        "emulator": supervisors[1:2],
        "program": programs[:1],
    }
    return candidates[victim]


def descendants(root: int) -> list[tuple[int, str]]:
    """Return (pid, command line) of all descendants of a process, parents first."""
    parents = {}
    for folder in processes():
        try:
            parent = int(stat_fields(folder)[1])
            line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        parents[int(folder.name)] = (parent, line)
    family = [root]
    for member in family:
        family += sorted(pid for pid, (parent, _) in parents.items() if parent == member)
    return [(pid, parents[pid][1]) for pid in family[1:]]


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return stat_fields(PROC / str(pid))[0] != "Z"
    except OSError:
        return False


def processes_with(mark: str) -> list[int]:
    """Return the other processes with `mark` in their command line."""
    pids = []
    for folder in processes():
        pid = int(folder.name)
        try:
            if pid != os.getpid() and mark.encode() in folder.joinpath("cmdline").read_bytes() and is_alive(pid):
                pids.append(pid)
        except OSError:
            continue
    return pids

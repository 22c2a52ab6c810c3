"""Sudden ends: `kill -9` of the emulator, its keeper, the program or the command; and that nothing is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Literal

from bentpipe.errors import UserError
from bentpipe.profiles import preset_profile, write_profile
from bentpipe.runs.program import run_program
from bentpipe.validation import OnProgress, Outcome, Row

Victim = Literal["emulator", "keeper", "program", "parent"]
VICTIMS: tuple[Victim, ...] = ("emulator", "keeper", "program", "parent")
KILLS = 100
STARTS = 200
UP_S = 0.8
"""A kill comes uniformly within this time of the victim's start."""


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """100 kills of each and 200 starts and stops: about twelve minutes; needs no data."""
    del data
    rows = []
    total = KILLS * len(VICTIMS) + STARTS
    with tempfile.TemporaryDirectory() as folder:
        path = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="bell")
        file = Path(folder, "bell.parquet")
        write_profile(path, file)
        namespaces, devices, descriptors = _namespaces(), _devices(), _descriptors()
        try:
            run_program(path, ["true"])
        except UserError as error:
            return Outcome("emulator-faults", skipped=str(error))
        done = 0
        for victim in VICTIMS:
            left = hits = 0
            for attempt in range(KILLS):
                after_s = random.Random(f"{victim} {attempt}").uniform(0.0, UP_S)
                killed = kill_once(victim, file, after_s, folder)
                left += bool(killed.left)
                hits += killed.hit
                done += 1
                on_progress(done / total)
            rows.append(
                Row(
                    f"kill -9 of the {victim}, {hits} times: ends that left a process",
                    str(left),
                    "0",
                    "0",
                    left == 0 and hits == KILLS,
                )
            )
        failed = 0
        for _ in range(STARTS):
            failed += run_program(path, ["true"]).exit_code != 0
            done += 1
            on_progress(done / total)
        rows.append(Row(f"{STARTS} starts and stops: failures", str(failed), "0", "0", failed == 0))
        for what, before, after in (
            ("network namespaces", namespaces, _namespaces()),
            ("network devices", devices, _devices()),
            ("descriptors of this process", descriptors, _descriptors()),
        ):
            rows.append(Row(f"{what} left", str(max(0, after - before)), "0", "0", after <= before))
    return Outcome("emulator-faults", rows)


class Killed:
    """What a kill left: processes of the emulation, and what the command said."""

    def __init__(self, left: list[int], said: str, hit: bool) -> None:
        """See the class; `hit`: whether the victim was there."""
        self.left = left
        self.said = said
        self.hit = hit


def kill_once(victim: Victim, profile: Path, after_s: float, folder: str | Path) -> Killed:
    """`bentpipe run` of a program that waits; `kill -9` `after_s` after the victim is there; then up to 10 s to go.

    The program waits for this process to close a pipe, or to end, however it does.
    """
    mark = f"bentpipe-{os.getpid()}-{victim}-{after_s}"
    waits, ours = os.pipe()
    with os.fdopen(waits) as standard_input, os.fdopen(ours):
        return _kill_once(victim, profile, after_s, folder, mark, standard_input)


def _kill_once(
    victim: Victim, profile: Path, after_s: float, folder: str | Path, mark: str, standard_input: IO[str]
) -> Killed:
    program = ["sh", "-c", f": {mark}; read -r _; :"]
    command = [sys.executable, "-m", "bentpipe", "run", str(profile), "--", *program]
    with subprocess.Popen(
        command, stdin=standard_input, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=folder
    ) as parent:
        patience = time.monotonic() + 60
        while not (found := _found(victim, parent.pid)) and parent.poll() is None and time.monotonic() < patience:
            time.sleep(0.005)
        time.sleep(after_s)
        family = descendants(parent.pid)
        os.kill((found or [parent.pid])[0], signal.SIGKILL)
        _, complaint = parent.communicate(timeout=60)
        hit = bool(found)
    deadline = time.monotonic() + 10
    while (left := [pid for pid, _ in family if is_alive(pid)] + processes_with(mark)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return Killed(left, complaint.decode(errors="replace"), hit)


def _found(victim: Victim, parent: int) -> list[int]:
    if victim == "parent":
        return [parent]
    family = descendants(parent)
    keepers = [pid for pid, line in family if "emulation.keeper" in line]
    programs = [pid for pid, line in family if line.startswith("sh -c")]
    return {"keeper": keepers[:1], "emulator": keepers[1:2], "program": programs[:1]}[victim]


def descendants(root: int) -> list[tuple[int, str]]:
    """(pid, command line) of a process's family, itself left out, parents first."""
    found = {}
    for folder in _processes():
        try:
            parent = int(
                folder.joinpath("stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            )
            line = folder.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        found[int(folder.name)] = (parent, line)
    family = [root]
    for member in family:
        family += sorted(pid for pid, (parent, _) in found.items() if parent == member)
    return [(pid, found[pid][1]) for pid in family[1:]]


def is_alive(pid: int) -> bool:
    """Whether it is there and no zombie."""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0] != "Z"
        )
    except OSError:
        return False


def processes_with(mark: str) -> list[int]:
    """Processes, other than this one, with `mark` in their command line."""
    found = []
    for folder in _processes():
        pid = int(folder.name)
        try:
            if pid != os.getpid() and mark.encode() in folder.joinpath("cmdline").read_bytes() and is_alive(pid):
                found.append(pid)
        except OSError:
            continue
    return found


def _processes() -> list[Path]:
    return [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def _namespaces() -> int:
    found = set()
    for folder in _processes():
        try:
            found.add(os.readlink(folder / "ns" / "net"))  # noqa: PTH115 - not a path
        except OSError:
            continue
    return len(found)


def _devices() -> int:
    return len(list(Path("/sys/class/net").iterdir()))


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))

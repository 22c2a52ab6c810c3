"""The kernel's handover clock for controllers that a simulator gives the schedule: `bentpipe clock --profile`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.experiments.schemes import needs_of
from bentpipe.kernel.clock.profile import handover_times_s, regular_clock
from bentpipe.kernel.clock.record import read_records
from bentpipe.kernel.controllers import kernel_name
from bentpipe.profiles.parquet import write_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bentpipe._native import Profile

COMMAND = (sys.executable, "-P", "-m", "bentpipe", "clock", "--json", "--for", "2h", "--profile")
"""It ends by itself after two hours, if this process is killed and cannot end it."""
LONGEST_WAIT_S = 30.0
"""Longest time until it has the clock [s]. Chosen here: it takes a second."""
EXPECTED = {"controllers", "found"}
"""Events of a clock that stays as it is."""


def clock_for(path: Profile, controller: str) -> tuple[float, float] | None:
    """Return period and phase of the clock that a controller needs on a path [s]; None: it needs or has none.

    Example:
        >>> from bentpipe.profiles.presets import preset_profile
        >>> from bentpipe.validation.kernel_twins.announcing import clock_for
        >>> clock_for(preset_profile("fibre", 60.0), "satcp") is None
        True
    """
    if needs_of(controller) != "schedule":
        return None
    clock = regular_clock(handover_times_s(path))
    if clock is None:
        return None
    period_s, at_s = clock
    return round(period_s, 3), round((path.start_unix_ns / 1e9 + at_s) % period_s, 3)


@contextmanager
def clock_of(path: Profile, folder: Path) -> Iterator[Callable[[str], None]]:
    """Keep the clock of a Profile on this host within the block; `folder` gets its file and what the program prints.

    Yields:
        A function that raises `UserError` if a controller, by its name, has had another clock since the start, or none.

    Raises:
        UserError: The program has found no clock.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file, events, errors = (folder / f"clock.{end}" for end in ("parquet", "jsonl", "txt"))
    write_profile(path, file)
    with events.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen([*COMMAND, str(file)], stdout=out, stderr=err)

    def kinds() -> set[str]:
        whole = events.read_text(encoding="utf-8").splitlines(keepends=True)
        return {json.loads(line)["event"] for line in whole if line.endswith("\n")}

    def check_program() -> None:
        if process.poll() is not None:
            lines = errors.read_text(encoding="utf-8", errors="replace").split("\n")
            last = next((line for line in reversed(lines) if line), f"code {process.returncode}")
            raise UserError(f"`bentpipe clock` has ended: {last}")

    def check(controller: str) -> None:
        check_program()
        if others := kinds() - EXPECTED:
            raise UserError(f"the clock of this host has changed ({', '.join(sorted(others))})", hint="run it again")
        record = read_records().get(kernel_name(controller))
        if record is None or not record.is_valid(time.monotonic_ns()):
            raise UserError(f"{controller} had no clock", hint="run it again")

    try:
        until_s = time.monotonic() + LONGEST_WAIT_S
        while "found" not in kinds():
            check_program()
            if time.monotonic() > until_s:
                raise UserError(f"`bentpipe clock` has found no clock within {LONGEST_WAIT_S:g} s")
            time.sleep(0.05)
        yield check
    finally:
        process.terminate()
        try:
            process.wait(10.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

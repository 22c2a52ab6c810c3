"""The kernel's handover clock for controllers that a simulator tells the schedule: `bentpipe clock --profile`."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.experiments.schemes import needs_of
from bentpipe.kernel.clock.profile import handover_times_s, regular_clock
from bentpipe.profiles.parquet import write_profile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bentpipe._native import Profile

COMMAND = (sys.executable, "-P", "-m", "bentpipe", "clock", "--json", "--profile")


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
    return round(period_s, 3), round(at_s % period_s, 3)


@contextmanager
def announced(path: Profile, folder: Path) -> Iterator[None]:
    """Keep the clock of a Profile on this host within the block; `folder` gets its file.

    Raises:
        UserError: It was not kept until the end of the block.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "announced.parquet"
    write_profile(path, file)
    with subprocess.Popen([*COMMAND, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            if process.stdout is None or not any(json.loads(line)["event"] == "found" for line in process.stdout):
                raise UserError(f"`bentpipe clock` has ended: {_last_line(process)}")
            yield
            if process.poll() is not None:
                raise UserError(f"`bentpipe clock` has ended within the Runs: {_last_line(process)}")
        finally:
            process.terminate()


def _last_line(process: subprocess.Popen[bytes]) -> str:
    text = b"" if process.stderr is None else process.stderr.read()
    return (text.decode(errors="replace").strip().splitlines() or [f"code {process.wait()}"])[-1]

"""The terminal's telemetry beside a run: a slice of the recording as a measured Run."""

from __future__ import annotations

import errno
import logging
import shutil
import tempfile
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.signals.board import line_of
from bentpipe.testbed.schemas.agent_protocol import WITHOUT_TERMINAL as WITHOUT
from bentpipe.testbed.schemas.quantities import at_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bentpipe.testbed.agent.dish import DishRecording
    from bentpipe.testbed.agent.surroundings import Terminal
    from bentpipe.testbed.schemas.policy import HostPolicy

LOG = logging.getLogger("bentpipe.agent")


NOT_SHARED = "the host's policy does not share telemetry"


def add_telemetry(terminal: Terminal | None, from_s: float, to_s: float, folder: Path) -> tuple[str, ...]:
    """Write the telemetry of a time [s since 1970] into `folder`; return notes: why there is none.

    Raises:
        OSError: The disk is full.

    Example:
        >>> from pathlib import Path
        >>> add_telemetry(None, 0.0, 1.0, Path("terminal"))
        ('no terminal/: the node has no terminal',)
    """
    if terminal is None:
        return (f"{WITHOUT} the node has no terminal",)
    try:
        reason = terminal.slice(from_s, to_s, folder)
    except Exception as error:  # the run itself succeeded: its result goes without
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        LOG.warning("no telemetry beside a run: %s", line_of(error))
        shutil.rmtree(folder, ignore_errors=True)
        reason = line_of(error)
    return (f"{WITHOUT} {reason}",) if reason else ()


class RecordedTerminal:
    """A recording (`bentpipe.testbed.agent.surroundings.Terminal`)."""

    def __init__(self, recording: DishRecording, site: str, policy: Callable[[], HostPolicy]) -> None:
        """Use a recording that goes on."""
        self.recording, self._site, self._policy = recording, site, policy

    def slice(self, from_s: float, to_s: float, folder: Path) -> str:
        """Write the telemetry between two times [s since 1970] as a measured Run; return why there is none, or ""."""
        from bentpipe.measurements.runs.store import Source, write_measured

        share = self._policy().share
        if not share.telemetry:
            return NOT_SHARED
        tables = self.recording.slice(round(from_s * 1e3), round(to_s * 1e3), share)
        if not any(table.height for table in tables.values()):
            return self._why_empty(from_s, to_s)
        source = Source(name="bentpipe node", format="dish-recording", tables=tuple(tables))
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            run = write_measured(temporary, tables, [source], site=self._site)
            shutil.move(run.path, folder)
        return ""

    def _why_empty(self, from_s: float, to_s: float) -> str:
        recording = self.recording
        span = f"{at_text(round(from_s) * 1000)} to {at_text(round(to_s) * 1000)}"
        if recording.state == "connected":
            return f"the recording of the terminal has nothing from {span}"
        notes = tuple(recording.notes)
        return f"the terminal did not answer from {span}{f' (recorder: {notes[-1]})' if notes else ''}"

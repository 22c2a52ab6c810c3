"""Hook traces: every call of the controllers of a Run, recorded, and replayed without a network.

`docs/reference/hook-trace.md` describes the file.
"""

from __future__ import annotations

import gzip
import json
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from bentpipe import _native
from bentpipe.errors import ControllerError, UserError, shown
from bentpipe.experiments import plugins
from bentpipe.experiments.schemes import flows_of, parse_scheme
from bentpipe.files import GZIP_MAGIC, open_input, reason_of, write_error
from bentpipe.plugin import make

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

PART_BYTES = 1 << 18
"""Unpacked bytes of a trace that are replayed at once: a hostile gzip file takes no more memory. Chosen here."""


class HookRecorder:
    """Writes the traces of a Run's flows as ``flow-0.hooks.gz``, … into an existing folder; a context manager.

    Raises:
        StoreError: The disk is full or fails.
        UserError: The folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder."""
        self._folder = folder
        self._files: dict[int, gzip.GzipFile] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        """Return the recorder, which receives the parts of the traces."""
        return self

    def __call__(self, flow: int, part: bytes) -> None:
        """Append the next part of the trace of a flow."""
        path = self._folder / name_of(flow)
        try:
            if flow not in self._files:
                raw = self._stack.enter_context(path.open("wb"))
                # Without a time or a name in its header the file depends on the Run alone. Level 1: the fastest.
                self._files[flow] = self._stack.enter_context(gzip.GzipFile("", "wb", 1, raw, mtime=0))
            self._files[flow].write(part)
        except OSError as error:
            raise write_error(path, error) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files."""
        try:
            self._stack.close()
        except OSError as failed:
            raise write_error(self._folder, failed) from failed


def name_of(flow: int) -> str:
    """Return the name of the file with the trace of a flow.

    Example:
        >>> name_of(0)
        'flow-0.hooks.gz'
    """
    return f"flow-{flow}.hooks.gz"


def are_stored(run_folder: Path, flows: int) -> bool:
    """Tell whether the Run in that folder has the traces of its `flows` flows."""
    return all((run_folder / name_of(flow)).exists() for flow in range(flows))


@dataclass(frozen=True)
class Replayed:
    """Result of a replay.

    Attributes:
        recorded: The trace's controller.
        controller: The controller that it was replayed on, as a scheme.
        calls: Number of calls; None: the replay ended at the difference.
        difference: The first call after which window, threshold or rate differ, in one line; None: there is none.
    """

    recorded: str
    controller: str
    calls: int | None
    difference: str | None


def replay(path: str | os.PathLike[str], scheme: str | None = None) -> Replayed:
    """Replay a hook trace without a network.

    Args:
        path: A trace, plain or packed with gzip.
        scheme: The controller to call, with its tunables: ``cubic:hystart=off``; None: the trace's own.

    Raises:
        UserError: The trace cannot be read or is damaged, or the controller is unknown.
        ControllerError: A Python controller failed.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=2)
        >>> run = bp.Experiment(path, schemes=["cubic"]).simulate("out/traced", hook_trace=True)[0]
        >>> print(bp.replay(run.folder / "flow-0.hooks.gz").difference)
        None
        >>> bp.replay(run.folder / "flow-0.hooks.gz", "reno").controller
        'reno'
    """
    parts = _parts(path)
    first = next(parts, b"")
    try:
        recorded = _native.traced_controller(first)
        name, options = (recorded, None) if scheme is None else _controller(scheme)
        makers = {}
        if plugins.is_python_controller(name):
            makers[name] = partial(make, plugins.find_python_controller(name).kind)
        session = _native.HookReplay(name, None if options is None else json.dumps(options), makers)
        replayed_on = recorded if scheme is None else parse_scheme(scheme)
        for part in chain([first], parts):
            if (difference := session.feed(part)) is not None:
                return Replayed(recorded, replayed_on, None, difference)
        return Replayed(recorded, replayed_on, session.finish(), None)
    except ControllerError:
        raise
    except UserError as error:
        raise error.within(str(path)) from None


def _controller(scheme: str) -> tuple[str, dict[str, float | str]]:
    flows = flows_of(parse_scheme(scheme))
    if len(flows) != 1:
        raise UserError(
            f"{shown(scheme)} has {len(flows)} flows", where="scheme", expected="one, as in cubic:hystart=off"
        )
    return flows[0]


def _parts(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the unpacked file in parts of at most `PART_BYTES`."""
    with open_input(path) as raw:
        packed = raw.peek(2)[:2] == GZIP_MAGIC
        file = gzip.GzipFile(fileobj=raw) if packed else raw
        try:
            while part := file.read(PART_BYTES):
                yield part
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"is damaged: {error}; record it again", where=str(path)) from None
        except OSError as error:
            raise UserError(f"cannot be read: {reason_of(error)}", where=str(path)) from error

"""The results of a sweep on disk: `results.jsonl`, one line for each finished Run, only ever appended to.

A line is written in one piece when its Run is finished, so whatever ends the process, all lines but the last are whole;
a last one without its newline is cut off when the table is opened next. The lines are in the order in which Runs
finished, which is not always the same; a line itself always is.
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import StoreError, UserError
from bentpipe.files import read_bytes, reason_of, write_error
from bentpipe.segments import locked

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

FORMAT = 1
"""Newest layout of the table that this version writes and reads; it stands in the first line."""

NAME = "results.jsonl"


class DamagedResultWarning(UserWarning):
    """A line of the table that does not read; its Run is run again."""


class ResultsTable:
    """Results by key. One process has it at a time.

    Attributes:
        path: The file.
        lines: What it holds: the parsed line by key.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        """Opens the table of a folder, which is made if need be, and reads it; `fresh` begins an empty one.

        Raises:
            UserError: The folder cannot be written or another sweep has it, or the table is of a newer bentpipe.
        """
        self.path = folder / NAME
        self._lock: int | None = locked(folder, "another sweep is writing there; wait for it, or choose another folder")
        self.lines: dict[str, dict[str, Any]] = {}
        self._file: int | None = None
        self._dirty = False
        try:
            if fresh:
                self.path.unlink(missing_ok=True)
            whole = self._read()
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            os.ftruncate(self._file, whole)
            if whole == 0:
                self._write(json.dumps({"bentpipe.sweep": FORMAT}))
        except OSError as error:
            self.close()
            raise write_error(self.path, error) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The table itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Closes it."""
        self.close()

    def add(self, line: str, parsed: dict[str, Any]) -> None:
        """Appends a result, as `bentpipe.execution.sweeps.swept.execute` made it; `parsed` is the same.

        Raises `StoreError` where the disk refuses; what was there before stays whole.
        """
        self._write(line)
        self.lines[parsed["key"]] = parsed

    def flush(self) -> None:
        """Makes what was added outlast a power cut.

        Raises `StoreError` where the disk refuses.
        """
        if self._dirty and self._file is not None:
            try:
                os.fsync(self._file)
            except OSError as error:
                raise StoreError(f"{self.path}: cannot write it: {reason_of(error)}") from error
            self._dirty = False

    def close(self) -> None:
        """Ends the writing and lets others have the table."""
        try:
            self.flush()
        finally:
            for descriptor in (self._file, self._lock):
                if descriptor is not None:
                    os.close(descriptor)
            self._file = self._lock = None

    def _write(self, line: str) -> None:
        assert self._file is not None  # open until `close`
        data, before = f"{line}\n".encode(), os.fstat(self._file).st_size
        try:
            written = 0
            while written < len(data):  # a full disk takes what fits, and refuses the rest
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, before)
            raise StoreError(f"{self.path}: cannot write it: {reason_of(error)}") from error
        self._dirty = True

    def _read(self) -> int:
        """Reads what is there; how many bytes of it are whole lines."""
        if not self.path.exists():
            return 0
        data = read_bytes(self.path)
        whole = data.rfind(b"\n") + 1
        for number, line in enumerate(data[:whole].splitlines(), 1):
            try:
                parsed = json.loads(line)
                if number == 1:
                    _check_format(self.path, parsed)
                else:
                    self.lines[parsed["key"]] = {key: parsed[key] for key in ("key", "record", "measures")}
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                if isinstance(error, UserError):
                    raise
                if number == 1:
                    raise UserError(f"{self.path}:1: is not a sweep's table; choose another folder with -o") from None
                said = f"{self.path}:{number}: a damaged line is left out, its Run is run again"
                warnings.warn(said, DamagedResultWarning, stacklevel=4)
        return whole


def read_results(folder: Path) -> list[dict[str, Any]]:
    """The lines of a table that may still be written, in order: `key`, `record` (as `run.json`), `measures`.

    Raises `UserError` if there is none.
    """
    path = folder / NAME
    data = read_bytes(path)
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    try:
        parsed = [json.loads(line) for line in lines]
        _check_format(path, parsed[0] if parsed else None)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: a line is damaged: {error}; run the sweep again") from None
    return parsed[1:]


def _check_format(path: Path, first: Any) -> None:  # noqa: ANN401 - whatever the file holds
    found = first.get("bentpipe.sweep") if isinstance(first, dict) else None
    if not isinstance(found, int):
        raise UserError(f"{path}:1: is not a sweep's table; choose another folder with -o")
    if found > FORMAT:
        raise UserError(f"{path}: has format {found}, this bentpipe reads up to {FORMAT}: install a newer bentpipe")

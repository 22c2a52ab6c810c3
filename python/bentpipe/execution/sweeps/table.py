"""The results of a sweep on disk: `results.jsonl`, append-only, one line for each finished Run.

A line is written at once when its Run is finished. If the process is killed, all lines except the last are whole; the
next opening truncates a last line without newline. The order of lines is that in which Runs finished and may vary; the
lines themselves do not.
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
"""Format of the table that this version writes and the newest it reads; the first line has it."""

NAME = "results.jsonl"


class DamagedResultWarning(UserWarning):
    """A damaged line of the table; its Run is run again."""


class ResultsTable:
    """Results by key, locked by one process at a time.

    Attributes:
        path: The file.
        lines: The parsed lines by key.
    """

    def __init__(self, folder: Path, *, fresh: bool = False) -> None:
        """Open and read the table of a folder, which is made if necessary; `fresh` starts an empty one.

        Raises:
            UserError: The folder cannot be written, another sweep has locked it, or the table is of a newer bentpipe.
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
        """Return the table itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the table."""
        self.close()

    def add(self, line: str, parsed: dict[str, Any]) -> None:
        """Append a result of `bentpipe.execution.sinks.table.execute`; `parsed` is the parsed `line`.

        Raises:
            StoreError: The disk cannot be written; earlier lines are unchanged.
        """
        self._write(line)
        self.lines[parsed["key"]] = parsed

    def flush(self) -> None:
        """Sync added results to the disk.

        Raises:
            StoreError: The disk cannot be written.
        """
        if self._dirty and self._file is not None:
            try:
                os.fsync(self._file)
            except OSError as error:
                raise StoreError(f"{self.path}: cannot write it: {reason_of(error)}") from error
            self._dirty = False

    def close(self) -> None:
        """Sync the table and release its lock."""
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
        """Read the existing lines; return the number of bytes in whole lines."""
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
                    raise UserError(f"{self.path}:1: is not a sweep's table; choose another folder (`out`)") from None
                message = f"{self.path}:{number}: a damaged line is left out, its Run is run again"
                warnings.warn(message, DamagedResultWarning, stacklevel=4)
        return whole


def read_results(folder: Path) -> list[dict[str, Any]]:
    """Read the lines of a table that may still be written, in order: `key`, `record` (as `run.json`), `measures`.

    Raises:
        UserError: There is no table, or a line is damaged.
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


def _check_format(path: Path, first: Any) -> None:  # noqa: ANN401 - any JSON value
    version = first.get("bentpipe.sweep") if isinstance(first, dict) else None
    if not isinstance(version, int):
        raise UserError(f"{path}:1: is not a sweep's table; choose another folder (`out`)")
    if version > FORMAT:
        raise UserError(f"{path}: format {version}; expected at most {FORMAT}; install a newer bentpipe")

"""A Run on disk: a folder with `run.json` and three Parquet tables, written atomically.

Layout: ``<root>/<experiment>/<node>/<start time>/<run>/``. A simulated Run has no wall-clock time: its start time is
the Profile's. Layout and columns: `docs/reference/run.md`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import polars as pl

from bentpipe.damage import guarded, read_parquet
from bentpipe.errors import DiskFullError, StoreError, UserError
from bentpipe.experiments.flow_names import flow_parts, split_flow
from bentpipe.files import is_full, read_bytes, reason_of
from bentpipe.records import Record
from bentpipe.runs.run_record import FORMAT, MEASURED_FORMAT, RunRecord, World, joined_labels
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bentpipe.runs.run_record import PingFigures

R = TypeVar("R", bound=Record)

TABLES = ("samples", "links", "events")

APPLICATIONS = "applications"
"""Table of a Run whose applications have items: transfers, messages, requests."""

LONGEST_NAME = 120
"""Largest number of characters of a path component. Chosen here: every file system takes twice as many bytes."""

MEASURED = "measured"
"""The world of Runs that `bentpipe.measurements.runs` writes and reads."""

PARTIAL = ".partial-"
"""Prefix of a Run's folder while it is being written."""

BEFORE = f"{PARTIAL}before-"
"""Prefix of a Run's folder while it is being replaced, before its name."""


@dataclass(frozen=True)
class Run:
    """A Run on disk. `record` is its `run.json`; its methods read and check the tables."""

    path: Path
    record: RunRecord = field(repr=False)
    settings: str = field(default="", repr=False, kw_only=True)
    """Settings in which its Experiment differs from others of its name, in words (`bentpipe.runs.apart`)."""

    @property
    def label(self) -> str:
        """Label of its Profile in the race; several are joined by ``+``."""
        return joined_labels(profile.label for profile in self.record.profiles)

    @property
    def experiment(self) -> str:
        """Name of its Experiment, with the settings in which it differs from others of that name."""
        name = self.record.experiment.name
        return f"{name} · {self.settings}" if self.settings else name

    @property
    def world(self) -> World:
        """Its world: ``simulated`` or ``emulated``."""
        return self.record.world

    @property
    def scheme(self) -> str:
        """Its controllers with their tunables: ``bbr``, ``cubic+bbr``, ``bbr:min_rtt_win_s=20``."""
        return self.record.scheme

    @property
    def flow_paths(self) -> Sequence[str | None]:
        """Role of the Profile of each flow; None: not known, as a damaged record has another number of flows."""
        specs = self.record.experiment.flows
        return [spec.profile for spec in specs] if len(specs) == len(self.flows) else [None] * len(self.flows)

    @property
    def names(self) -> list[str]:
        """Name of each flow: its part of the scheme, or its controller if the scheme is a program."""
        parts = flow_parts(self.scheme)
        controllers = [str(flow["controller"]) for flow in self.flows]
        if len(parts) == 1 and len(set(controllers)) == 1:  # all flows of a test have its scheme
            parts *= len(controllers)
        if [split_flow(part)[0] for part in parts] == controllers:
            return parts
        return controllers

    @property
    def distinctions(self) -> list[str]:
        """What tells each flow from others of its name: `` on SYD-NYC`` over several paths, `` (2)`` beside a like."""
        names, paths = self.names, self.flow_paths
        has_paths = len(set(paths)) > 1
        alike = [(name, path if has_paths else None) for name, path in zip(names, paths, strict=True)]
        return [
            (f" on {each[1]}" if each[1] is not None else "")
            + (f" ({alike[: i + 1].count(each)})" if alike.count(each) > 1 else "")
            for i, each in enumerate(alike)
        ]

    @property
    def seed(self) -> int:
        """Seed of its Profile's random processes and of its own."""
        return self.record.seed

    @property
    def flows(self) -> list[dict[str, Any]]:
        """Summary of each flow."""
        return [dict(flow) for flow in self.record.summary["flows"]]

    @property
    def pings(self) -> list[PingFigures]:
        """Summary of its pings, one entry for each of the Experiment's; empty: it has none."""
        return self.record.summary.get("pings", [])

    @property
    def flow_numbers(self) -> Sequence[int]:
        """Number of each flow in the tables on disk."""
        return range(len(self.record.summary["flows"]))

    @property
    def duration_s(self) -> float:
        """Duration [s]."""
        return self.record.experiment.duration_ns / 1e9

    @property
    def warmup_s(self) -> float:
        """Duration of the warm-up, which steady-state figures exclude [s]."""
        return self.record.experiment.warmup_ns / 1e9

    @property
    def offset_s(self) -> float:
        """Offset in its Profile at which it began [s]."""
        return self.record.experiment.offset_ns / 1e9

    @property
    def start_unix_ns(self) -> int:
        """UTC of its start [ns]: the Profile's start plus the offset."""
        return self.record.profiles[0].start_unix_ns + self.record.experiment.offset_ns

    def samples(self) -> pl.DataFrame:
        """Read `samples.parquet`."""
        return self._table("samples")

    def links(self) -> pl.DataFrame:
        """Read `links.parquet`."""
        return self._table("links")

    def events(self) -> pl.DataFrame:
        """Read `events.parquet`."""
        return self._table("events")

    def applications(self) -> pl.DataFrame | None:
        """Read `applications.parquet`; None: no application of the Run has items."""
        has_items = f"{APPLICATIONS}.parquet" in self.record.files
        return self._table(APPLICATIONS) if has_items else None

    def _table(self, name: str) -> pl.DataFrame:
        return read_table(self.path, self.record.files, name, "running the race again with `fresh`")


def read_table(folder: Path, files: Mapping[str, str], name: str, hint: str) -> pl.DataFrame:
    """Read a table of a Run and check its file's hash, which is in `files`; `hint` is the remedy in messages."""
    file = folder / f"{name}.parquet"
    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != files.get(file.name):
        problem = "its SHA-256 is not the one in run.json: damaged or edited"
        raise UserError(problem, where=str(file), hint=hint, code="damaged")
    return guarded(
        lambda: read_parquet(data),
        lambda reason: UserError(f"does not read ({reason})", where=str(file), hint=hint, code="damaged"),
    )


def run_folder(root: Path, experiment: str, world: World, start_unix_ns: int, run: str) -> Path:
    """Return a Run's folder below `root`."""
    return root / safe_name(experiment) / world / basic_utc(start_unix_ns) / safe_name(run)


def basic_utc(unix_ns: int) -> str:
    """Format UTC in the basic format of ISO 8601, which every file system takes: ``20260510T090000Z``."""
    return format_utc(unix_ns).replace("-", "").replace(":", "")


def safe_name(text: str) -> str:
    """Convert `text` to one path component: anything but letters, digits and ``. _ + ~ -`` becomes ``-``.

    Leading dots are removed. The end of a long text is replaced by a hash, so that names stay distinct.
    """
    safe = re.sub(r"[^\w.+~-]+", "-", text).lstrip(".") or "unnamed"
    if len(safe) <= LONGEST_NAME:
        return safe
    return f"{safe[: LONGEST_NAME - 9]}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    """Make a table from the simulator's columns; NaN (not known yet) becomes null, as Parquet's readers expect."""
    return pl.DataFrame(dict(columns)).with_columns(pl.selectors.float().fill_nan(None))


def write_run(folder: Path, record: RunRecord, tables: Mapping[str, pl.DataFrame]) -> Run:
    """Write a Run to a temporary folder and rename it to its place.

    An existing Run is replaced. It is put back if the rename fails, and by `remove_partial` if the process is killed.
    `tables` has the three of `TABLES`, and `APPLICATIONS` if the Run has items.

    Raises:
        StoreError: The disk cannot be written; the temporary folder is removed.
    """
    files = write_folder(folder, record.to_dict(), tables)
    return Run(folder, record.replace(files=files))


def write_folder(folder: Path, record: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> dict[str, str]:
    """Write a folder with `run.json` and `tables`, as `write_run` does; return the hashes of the tables' files."""
    with storing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL, dir=folder.parent))
        try:
            files = {
                f"{name}.parquet": _write_table(partial / f"{name}.parquet", table) for name, table in tables.items()
            }
            whole = {**record, "files": files}
            (partial / "run.json").write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
            partial.chmod(0o755)  # mkdtemp's 0700 would hide the Run from the group's other users
            _move_in(partial, folder)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    return files


def _move_in(partial: Path, folder: Path) -> None:
    """Move a written Run to its place; restore an existing one if that fails."""
    if not folder.exists():
        partial.rename(folder)
        return
    # Its name tells `remove_partial` the Run's place if the process is killed between the two renames.
    before = folder.with_name(f"{BEFORE}{folder.name}")
    shutil.rmtree(before, ignore_errors=True)  # of a process that was killed after them
    folder.rename(before)
    try:
        partial.rename(folder)
    except BaseException:
        before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


def remove_partial(folders: Iterable[Path]) -> None:
    """Remove partial Runs of killed processes in `folders`, and put back a Run that was not replaced yet.

    The caller holds the lock of the race.
    """
    for folder in dict.fromkeys(folders):
        for left in list(folder.iterdir()) if folder.is_dir() else ():
            if left.name.startswith(BEFORE) and not (place := folder / left.name.removeprefix(BEFORE)).exists():
                left.rename(place)
            elif left.name.startswith(PARTIAL):
                shutil.rmtree(left, ignore_errors=True)


@contextlib.contextmanager
def storing(target: Path) -> Iterator[None]:
    """Turn an OSError of the disk into a one-line `StoreError` about `target`."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFullError(f"{target}: cannot write it: {reason_of(error)}") from error
        raise StoreError(f"{target}: cannot write it: {error.strerror or error}") from error


def _write_table(file: Path, table: pl.DataFrame) -> str:
    """Write a table and return the file's SHA-256. Through memory, so that a full disk is an OSError and no panic."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd")
    data = buffer.getbuffer()
    file.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


class DamagedRunError(UserError):
    """A Run's `run.json` is missing or damaged; the only remedy is to run again."""

    code = "damaged"


class MeasuredOnlyError(UserError):
    """A folder has measured Runs, and none of a race or a program."""


class DamagedRunWarning(UserWarning):
    """A damaged Run is left out or replaced."""


RUN_AGAIN = "running the race again"
"""The remedy for a damaged Run of a race."""


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a Run's `run.json`.

    Raises:
        UserError: The file is no Run of a race. The message names file, problem and remedy.
        DamagedRunError: The Run must be run again.
    """
    folder = Path(folder)
    return _checked(folder, read_record(folder, RUN_AGAIN))


def _checked(folder: Path, record: Mapping[str, Any]) -> Run:
    file = str(folder / "run.json")
    if record.get("world") == MEASURED:
        raise UserError(
            "a measured Run", where=file, expected="one of a race", hint="bentpipe analyze for measured Runs"
        )
    return Run(folder, check_record(RunRecord, record, file, RUN_AGAIN))


def check_record(kind: type[R], record: Mapping[str, Any], file: str, hint: str) -> R:
    """Make a record of the content of a `run.json`. Raises `DamagedRunError` with the remedy `hint`."""
    try:
        return kind.check(record, file)
    except UserError as error:
        raise DamagedRunError(error.found, where=error.where, expected=error.expected, hint=hint) from None


def read_record(folder: Path, hint: str) -> dict[str, Any]:
    """Read the `run.json` of any world. Raises as `read_run`; `hint` is the remedy in messages."""
    file = folder / "run.json"
    where = str(file)
    if not folder.is_dir():
        raise UserError("no such folder", where=str(folder), expected="the folder of a Run, with its run.json")
    if not file.exists():
        raise DamagedRunError("no run.json in it", where=str(folder), expected="the folder of a Run", hint=hint)
    data = read_bytes(file)
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedRunError(f"not JSON ({error})", where=where, hint=hint) from error
    if not isinstance(record, dict) or type(record.get("format")) is not int:
        raise DamagedRunError("no field 'format'", where=where, expected="the run.json of a Run")
    known = MEASURED_FORMAT if record.get("world") == MEASURED else FORMAT
    if record["format"] > known:
        problem = f"format {record['format']} is newer than {known}, the newest known"
        raise UserError(problem, where=where, hint="a newer bentpipe", code="newer_format")
    if record["format"] < known:
        problem = f"format {record['format']} is of an older bentpipe"
        raise UserError(problem, where=where, expected=str(known), hint="running it again", code="older_format")
    return record


def find_runs(root: str | os.PathLike[str]) -> list[Run]:
    """Return every simulated or emulated Run below `root`, sorted by path; damaged ones are left out with a warning.

    Raises:
        MeasuredOnlyError: There are measured Runs, and no other.
        UserError: There is none, or one has a newer format.
    """
    root = Path(root)
    check_folder(root)
    if not root.is_dir():
        raise UserError(
            "no such folder", where=str(root), expected="the folder (`out`) of a race or of a program's Runs"
        )
    runs = []
    for folder in sorted(run_folders(root)):
        try:
            record = read_record(folder, RUN_AGAIN)
            if record.get("world") != MEASURED:  # `bentpipe.measurements.runs` reads measured Runs
                runs.append(_checked(folder, record))
        except DamagedRunError as error:
            warnings.warn(f"a damaged Run is left out: {error}", DamagedRunWarning, stacklevel=2)
    if not runs:
        if _has_measured(root):
            raise MeasuredOnlyError(
                "holds measured Runs only",
                where=str(root),
                expected="Runs of a race",
                hint="`bentpipe analyze` for measured Runs",
            )
        raise UserError("no Run in it (looked for <experiment>/<node>/<start time>/<run>/run.json)", where=str(root))
    return runs


def _has_measured(root: Path) -> bool:
    """Return whether one of the records where `bentpipe.measurements.runs` looks for them says that it is measured."""
    plain = (file.parent for depth in ("", "*/", "*/*/") for file in root.glob(f"{depth}run.json"))
    results = (file.parent for depth in ("*/*/*/", "*/*/*/*/") for file in root.glob(f"{depth}testbed.json"))
    for folder in itertools.chain(plain, results):
        for place in (folder, folder / "terminal"):
            with contextlib.suppress(UserError):
                if read_record(place, RUN_AGAIN).get("world") == MEASURED:
                    return True
    return False


def run_folders(root: Path) -> set[Path]:
    """Return the folders of the complete Runs below `root`, measured ones as well."""
    return {file.parent for file in root.glob("*/*/*/*/run.json") if not file.parent.name.startswith(PARTIAL)}


def check_folder(path: Path) -> None:
    """Refuse a place for Runs that is not a folder, or lies below a file."""
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            raise UserError("is a file", where=str(place), expected="a folder")

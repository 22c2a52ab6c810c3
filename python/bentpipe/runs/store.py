"""A Run on disk: a folder with `run.json` and three Parquet tables, written atomically.

Layout: ``<root>/<experiment>/<node>/<start time>/<run>/``. A simulated Run has no wall-clock time: its start time is
the Profile's. Layout and columns: `docs/reference/run.md`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import re
import shutil
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from bentpipe.damage import guarded, read_parquet
from bentpipe.errors import DiskFullError, StoreError, UserError, shown
from bentpipe.experiments.flow_names import flow_parts, split_flow
from bentpipe.files import is_full, read_bytes, reason_of
from bentpipe.times import format_utc

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

FORMAT = 2
"""Format of `run.json` that this version writes and reads. Format 1 named schemes otherwise."""

TABLES = ("samples", "links", "events")

World = Literal["simulated", "emulated"]
"""World of a Run; also the name of its node in the hierarchy, as neither world has a measuring terminal."""

LONGEST_NAME = 120
"""Largest number of characters of a path component. Chosen here: every file system takes twice as many bytes."""

MEASURED = "measured"
"""The world of Runs that `bentpipe.measurements.runs` writes and reads."""

PARTIAL = ".partial-"
"""Prefix of a Run's folder while it is being written."""

BEFORE = f"{PARTIAL}before-"
"""Prefix of a Run's folder while it is being replaced, before its name."""

REQUIRED = {
    "format": int,
    "world": str,
    "profiles": list,
    "scheme": str,
    "seed": int,
    "experiment": dict,
    "summary": dict,
    "valid": bool,
    "versions": dict,
    "content_hash": str,
    "files": dict,
}
"""Fields of `run.json` that readers require."""


@dataclass(frozen=True)
class Run:
    """A Run on disk. `record` is its `run.json`; its methods read and check the tables."""

    path: Path
    record: Mapping[str, Any] = field(repr=False)

    @property
    def label(self) -> str:
        """Label of its Profile in the race; several are joined by ``+``."""
        return "+".join(str(profile["label"]) for profile in self.record["profiles"])

    @property
    def experiment(self) -> str:
        """Name of its Experiment."""
        return str(self.record["experiment"]["name"])

    @property
    def world(self) -> str:
        """Its world: ``simulated`` or ``emulated``."""
        return str(self.record["world"])

    @property
    def scheme(self) -> str:
        """Its controllers with their tunables: ``bbr``, ``cubic+bbr``, ``bbr:min_rtt_win_s=20``."""
        return str(self.record["scheme"])

    @property
    def names(self) -> list[str]:
        """Name of each flow: its part of the scheme, or its controller if the scheme is a program."""
        parts = flow_parts(self.scheme)
        controllers = [str(flow["controller"]) for flow in self.flows]
        if [split_flow(part)[0] for part in parts] == controllers:
            return parts
        return controllers

    @property
    def seed(self) -> int:
        """Seed of its Profile's random processes and of its own."""
        return int(self.record["seed"])

    @property
    def flows(self) -> list[dict[str, Any]]:
        """Summary of each flow."""
        return list(self.record["summary"]["flows"])

    @property
    def flow_numbers(self) -> Sequence[int]:
        """Number of each flow in the tables on disk."""
        return list(self.record.get("flow_numbers", range(len(self.flows))))

    @property
    def duration_s(self) -> float:
        """Duration [s]."""
        return float(self.record["experiment"]["duration_ns"]) / 1e9

    @property
    def warmup_s(self) -> float:
        """Duration of the warm-up, which steady-state figures exclude [s]."""
        return float(self.record["experiment"]["warmup_ns"]) / 1e9

    @property
    def offset_s(self) -> float:
        """Offset in its Profile at which it began [s]."""
        return float(self.record["experiment"]["offset_ns"]) / 1e9

    @property
    def start_unix_ns(self) -> int:
        """UTC of its start [ns]: the Profile's start plus the offset."""
        return int(self.record["profiles"][0]["start_unix_ns"]) + int(self.record["experiment"]["offset_ns"])

    def samples(self) -> pl.DataFrame:
        """Read `samples.parquet`."""
        return self._table("samples")

    def links(self) -> pl.DataFrame:
        """Read `links.parquet`."""
        return self._table("links")

    def to_pandas(self, table: str = "samples") -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Read one table, ``samples``, ``links`` or ``events``, as a pandas DataFrame.

        Raises:
            UserError: There is no such table, or the extra ``bentpipe[pandas]`` is not installed.
        """
        if table not in TABLES:
            raise UserError(f"table {shown(table)}; expected {', '.join(TABLES)}")
        try:
            return self._table(table).to_pandas()
        except ModuleNotFoundError as error:
            raise UserError(f"to_pandas needs {error.name}: pip install 'bentpipe[pandas]'") from error

    def events(self) -> pl.DataFrame:
        """Read `events.parquet`."""
        return self._table("events")

    def _table(self, name: str) -> pl.DataFrame:
        return read_table(self.path, self.record, name, "run the race again with --fresh")


def read_table(folder: Path, record: Mapping[str, Any], name: str, then: str) -> pl.DataFrame:
    """Read a table of a Run and check its file's hash. The message of a `UserError` ends with the remedy `then`."""
    file = folder / f"{name}.parquet"
    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != record["files"].get(file.name):
        raise UserError(f"{file}: its SHA-256 is not the one in run.json: damaged or edited; {then}")
    return guarded(lambda: read_parquet(data), lambda reason: UserError(f"{file}: does not read ({reason}); {then}"))


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


def write_run(folder: Path, record: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> Run:
    """Write a Run to a temporary folder and move it to its place in one step, replacing an existing one.

    `tables` has the three of `TABLES`.

    Raises:
        StoreError: The disk cannot be written; the temporary folder is removed.
    """
    return Run(folder, write_folder(folder, record, {name: tables[name] for name in TABLES}))


def write_folder(folder: Path, record: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> dict[str, Any]:
    """Write a folder with `run.json` and `tables`, as `write_run` does; return the content of `run.json`."""
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
    return whole


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


class DamagedRunWarning(UserWarning):
    """A damaged Run is left out or replaced."""


def read_run(folder: str | os.PathLike[str]) -> Run:
    """Read a Run's `run.json`.

    Raises:
        UserError: The file is no Run of a race. The message names file, problem and remedy.
        DamagedRunError: The Run must be run again.
    """
    folder = Path(folder)
    record = read_record(folder, "run the race again")
    file = folder / "run.json"
    if record.get("world") == MEASURED:
        raise UserError(f"{file}: a measured Run; expected one of a race; try bentpipe analyze for measured Runs")
    for key, kind in REQUIRED.items():
        if type(record.get(key)) is not kind:
            actual = type(record[key]).__name__ if key in record else "nothing"
            raise DamagedRunError(f"{file}: field {key!r} holds {actual}; expected {kind.__name__}; run the race again")
    _check_inside(file, record)
    return Run(folder, record)


def read_record(folder: Path, then: str) -> dict[str, Any]:
    """Read the `run.json` of any world. Raises as `read_run`; `then` is the remedy in messages."""
    file = folder / "run.json"
    if folder.is_dir() and not file.exists():
        raise DamagedRunError(f"{file}: no such file; {then}")
    data = read_bytes(file)
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DamagedRunError(f"{file}: not JSON ({error}); {then}") from error
    if not isinstance(record, dict) or not isinstance(record.get("format"), int):
        raise DamagedRunError(f"{file}: no field 'format'; expected the run.json of a Run")
    if record["format"] > FORMAT:
        raise UserError(f"{file}: format {record['format']} is newer than {FORMAT}, the newest known; update bentpipe")
    if record["format"] < FORMAT:
        raise UserError(f"{file}: format {record['format']} is of an older bentpipe; expected {FORMAT}; run it again")
    return record


def _check_inside(file: Path, record: Mapping[str, Any]) -> None:
    """Check the nested fields that summaries and the report require."""

    def check(where: str, entry: object, key: str, *kinds: type) -> None:
        _check_field(file, where, entry, key, *kinds)

    if (place := _out_of_range(record)) is not None:
        raise DamagedRunError(f"{file}: {place} is out of range; run the race again")
    if record["seed"] < 0:
        raise DamagedRunError(f"{file}: seed is {record['seed']}; expected 0 or more; run the race again")
    check("summary", record["summary"], "flows", list)
    check("experiment", record["experiment"], "name", str)
    check("experiment", record["experiment"], "profiles", list)
    for key in ("duration_ns", "offset_ns", "warmup_ns", "sample_step_ns"):
        check("experiment", record["experiment"], key, int)
    for i, profile in enumerate(record["profiles"]):
        check(f"profiles[{i}]", profile, "label", str)
        check(f"profiles[{i}]", profile, "base_hash", str)
        check(f"profiles[{i}]", profile, "start_unix_ns", int)
        if not 0 <= profile["start_unix_ns"] < 2**63:
            raise DamagedRunError(f"{file}: profiles[{i}].start_unix_ns is no time; run the race again")
    _check_ends(record["experiment"], check)
    _check_flows(file, record, check)
    played = [profile for profile in record["experiment"]["profiles"] if isinstance(profile, dict)]
    # A program may have no TCP flow; a race always has one.
    empty = not record["summary"]["flows"] and "program" not in record
    if not record["profiles"] or len(played) != len(record["profiles"]) or empty:
        raise DamagedRunError(
            f"{file}: no flow, no Profile, or another number of them in experiment; run the race again"
        )


def _check_field(file: Path, where: str, entry: object, key: str, *kinds: type) -> None:
    if not isinstance(entry, dict) or key not in entry:
        raise DamagedRunError(f"{file}: {where} has no field {key!r}; run the race again")
    if type(entry[key]) not in kinds:
        expected = " or ".join(kind.__name__ for kind in kinds)
        raise DamagedRunError(f"{file}: {where}.{key} is {shown(entry[key])}; expected {expected}; run the race again")


def _check_ends(experiment: Mapping[str, Any], check: Callable[..., None]) -> None:
    """Check the hosts of an Experiment and the flows' ends; a file may omit both."""
    if "hosts" in experiment:
        check("experiment", experiment, "hosts", dict, NoneType)
        for name in experiment["hosts"] or ():
            check("experiment.hosts", experiment["hosts"], name, dict, NoneType)
    if "flows" in experiment:
        check("experiment", experiment, "flows", list)
        for i, flow in enumerate(experiment["flows"]):
            for end in ("sender", "receiver"):
                if not isinstance(flow, dict) or end in flow:
                    check(f"experiment.flows[{i}]", flow, end, str, NoneType)


def _check_flows(file: Path, record: Mapping[str, Any], check: Callable[..., None]) -> None:
    """Check the figures of each flow."""
    # Null only in an invalid Run, which no figure uses, or if a program's flow ended before the warm-up.
    rate = (int, float) if record["valid"] and "program" not in record else (int, float, NoneType)
    for i, flow in enumerate(record["summary"]["flows"]):
        check(f"summary.flows[{i}]", flow, "controller", str)
        check(f"summary.flows[{i}]", flow, "direction", str)
        if flow["direction"] not in ("up", "down"):
            problem = f"summary.flows[{i}].direction is {shown(flow['direction'])}"
            raise DamagedRunError(f"{file}: {problem}; expected up or down; run the race again")
        check(f"summary.flows[{i}]", flow, "goodput_bps", *rate)
        check(f"summary.flows[{i}]", flow, "whole_run_bps", *rate)
        check(f"summary.flows[{i}]", flow, "retransmits", int)
        for key in ("completed_s", "losses", "timeouts", "marks"):
            if key in flow:
                check(f"summary.flows[{i}]", flow, key, int, float, NoneType)
        for key in ("rtt_median_ms", "rtt_p95_ms"):
            check(f"summary.flows[{i}]", flow, key, int, float, NoneType)
        check(f"summary.flows[{i}]", flow, "startup", dict)
        for key in ("time_to_90_s", "overshoot", "retransmits"):
            check(f"summary.flows[{i}].startup", flow["startup"], key, int, float, NoneType)


def _out_of_range(value: object, where: str = "the record") -> str | None:
    """Return the place of the first number that is not finite or exceeds 64 bits; None: there is none."""
    if isinstance(value, float):
        return None if math.isfinite(value) else where
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else where
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    places = (_out_of_range(each, str(key) if where == "the record" else f"{where}.{key}") for key, each in items)
    return next((place for place in places if place is not None), None)


def find_runs(root: str | os.PathLike[str]) -> list[Run]:
    """Return every simulated or emulated Run below `root`, sorted by path; damaged ones are left out with a warning.

    Raises:
        UserError: There is none, or one has a newer format.
    """
    root = Path(root)
    check_folder(root)
    if not root.is_dir():
        raise UserError(f"{root}: no such folder; expected the -o of a bentpipe race or run")
    runs = []
    for file in sorted(root.glob("*/*/*/*/run.json")):
        if not file.parent.name.startswith(PARTIAL):
            try:
                # `bentpipe.measurements.runs` reads measured Runs.
                if read_record(file.parent, "run the race again").get("world") != MEASURED:
                    runs.append(read_run(file.parent))
            except DamagedRunError as error:
                warnings.warn(f"a damaged Run is left out: {error}", DamagedRunWarning, stacklevel=2)
    if not runs:
        if any(root.glob("*/*/run.json")) or (root / "run.json").exists():
            raise UserError(
                f"{root}: holds measured Runs only; expected Runs of a race; try `bentpipe analyze` for measured Runs"
            )
        raise UserError(f"{root}: no Run in it (looked for <experiment>/<node>/<start time>/<run>/run.json)")
    return runs


def check_folder(path: Path) -> None:
    """Refuse a place for Runs that is not a folder, or lies below a file."""
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            raise UserError(f"{place}: is a file; expected a folder")

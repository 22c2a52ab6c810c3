"""Import of files of any known format into one measured Run."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import polars as pl

from bentpipe.errors import UserError
from bentpipe.files import MAX_BYTES, unpacked, unpacked_limit
from bentpipe.measurements.dish.dumps.formats import FORMATS as DISH_FORMATS
from bentpipe.measurements.dish.dumps.recordings import is_recording, measure_recording
from bentpipe.measurements.readers.blocks import blocks
from bentpipe.measurements.readers.formats import FORMATS as TOOL_FORMATS
from bentpipe.measurements.readers.formats import HEAD_BYTES, Format
from bentpipe.measurements.readers.measurement import SECOND_NS, Measurement, ReadHints
from bentpipe.measurements.runs.store import UNKNOWN_SITE, MeasuredRun, Source, write_measured
from bentpipe.measurements.runs.tables import TIME_COLUMNS, filled

#: The byte-order mark that Windows writes before UTF-8, and those of UTF-16, which its shell writes.
_MARK, _WIDE = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")

#: Formats in order of recognition, the most specific first: a CSV of a terminal is also a CSV.
FORMATS: dict[str, Format] = {**DISH_FORMATS, **TOOL_FORMATS}

_GZIP = b"\x1f\x8b"

OnProgress = Callable[[float], None]


@dataclass(frozen=True)
class Part:
    """A file that was read.

    Attributes:
        source: Its description for `run.json`.
        measurement: Its content.
    """

    source: Source
    measurement: Measurement


@dataclass(frozen=True)
class Imported:
    """A Run from files, and the skipped files of folders, each with a one-line reason."""

    run: MeasuredRun
    parts: Sequence[Part]
    skipped: Sequence[tuple[Path, str]] = field(default_factory=tuple)


def import_files(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    site: str = UNKNOWN_SITE,
    format_name: str | None = None,
    hints: ReadHints | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Imported:
    """Read files, and all files of known formats in folders, into a measured Run below `out`.

    Args:
        paths: Files, plain or gzipped, and folders.
        out: Folder for Runs.
        site: Place of the measurement.
        format_name: A key of `FORMATS`; None: detected for each file.
        hints: The user's statements about the files.
        on_progress: Called with the share of bytes read.

    Raises:
        UserError: A named file is unreadable, no file of the folders is readable, or see `write_measured`.
        StoreError: A write to the disk fails.
    """
    parts, skipped = read_files(paths, out=Path(out), format_name=format_name, hints=hints, on_progress=on_progress)
    return Imported(write_parts(parts, out, site=site), parts, skipped)


def read_files(
    paths: Sequence[str | os.PathLike[str]],
    *,
    out: Path | None = None,
    format_name: str | None = None,
    hints: ReadHints | None = None,
    on_progress: OnProgress = lambda _: None,
) -> tuple[list[Part], list[tuple[Path, str]]]:
    """Read files, and all files of known formats in folders; the arguments are those of `import_files`.

    Returns:
        The parts, in sequence, and the skipped files of folders, each with the reason. The folder `out` is not read.

    Raises:
        UserError: A named file is unreadable, or no file of the folders is readable.
    """
    files, folders = _find_files(paths, out)
    names = _names({**files, **folders})
    parts: list[Part] = []
    skipped: list[tuple[Path, str]] = []
    sizes: dict[Path, int] = {}
    for path, (_, alone) in files.items():
        try:
            sizes[path] = _size(path)
        except UserError:  # a broken link, for example; reading it below reports why
            if alone:
                raise
            sizes[path] = 0
    whole, done = max(1, sum(sizes.values())), 0
    for path, (_, alone) in files.items():

        def advance(read: int, before: int = done) -> None:
            on_progress((before + read) / whole)

        try:
            part = read_file(path, format_name=format_name, hints=hints, on_bytes=advance)
            parts.append(replace(part, source=part.source.replace(name=names[path])))
        except UserError as error:
            if alone:
                raise
            skipped.append((path, str(error).removeprefix(f"{path}: ").partition("; expected")[0]))
        done += sizes[path]
    for folder in folders:
        recorded = measure_recording(folder)
        parts.append(Part(Source(name=names[folder], format="dish-recording", tables=tuple(recorded.tables)), recorded))
    if not parts:
        reasons = "; ".join(f"{path.name}: {why}" for path, why in skipped[:3])
        raise UserError(f"{', '.join(map(str, paths))}: has no readable measurement{': ' + reasons if reasons else ''}")
    return put_in_sequence(parts), skipped


def write_parts(parts: Sequence[Part], out: str | os.PathLike[str], *, site: str = UNKNOWN_SITE) -> MeasuredRun:
    """Write the files that `read_files` read into a measured Run below `out`. Raises as `write_measured` does."""
    tables = assemble_tables(parts, site)
    return write_measured(
        out,
        tables,
        [part.source.replace(series=_series_of(part, site)) for part in parts],
        site=site,
        start_unix_ns=_start_unix_ns(parts),
        summary={"clock_jumps": clock_jumps(parts)} if "probes" in tables else {},
    )


def clock_jumps(parts: Sequence[Part]) -> int:
    """Return the number of times that the clocks of the probers jumped."""
    return sum(part.measurement.clock_jumps for part in parts)


def _series_of(part: Part, site: str) -> list[dict[str, str | None]]:
    """Return the site, target and kind of each series of probes in a file, named as in `assemble_tables`."""
    probes = part.measurement.tables.get("probes")
    if probes is None:
        return []
    unnamed = {"site": site, "target": part.source.name, "kind": None}
    there = [name for name in unnamed if name in probes.columns]
    # An expression does not materialise a column with a single value.
    if all(count == 1 for count in probes.select(pl.col(there).n_unique()).row(0)):
        rows = probes.select(pl.col(there).first()).rows(named=True)
    else:
        rows = probes.select(there).unique().sort(there).rows(named=True)
    return [{name: row.get(name) or other for name, other in unnamed.items()} for row in rows]


def _start_unix_ns(parts: Sequence[Part]) -> int | None:
    """Return the earliest wall-clock time [ns since 1970]; None: no file has a wall clock."""
    starts = [
        int(table[TIME_COLUMNS[name]].min() or 0)  # type: ignore[arg-type]
        for part in parts
        if part.measurement.clock != "relative"
        for name, table in part.measurement.tables.items()
        if name in TIME_COLUMNS and table.height
    ]
    return min(starts, default=None)


def assemble_tables(parts: Sequence[Part], site: str) -> dict[str, pl.DataFrame]:
    """Assemble the tables of a Run from those of its sources; tests are numbered across all sources."""
    assembled: dict[str, list[pl.DataFrame]] = {}
    tests = 0
    for part in parts:
        for name, table in part.measurement.tables.items():
            mine = filled(name, table)
            if name == "probes":
                mine = mine.with_columns(_named(mine, "site", site), _named(mine, "target", part.source.name))
            elif name == "hops":
                mine = mine.with_columns(pl.col("probe").fill_null(pl.lit(site)))
            elif name in ("samples", "links"):
                mine = mine.with_columns(pl.lit(part.source.name).alias("source"))
                if name == "samples" and mine.height:
                    mine = mine.with_columns(pl.col("test").fill_null(0) + tests)
                    tests = int(mine["test"].max() or 0) + 1  # type: ignore[arg-type]
            assembled.setdefault(name, []).append(mine)
    return {name: pl.concat(tables) for name, tables in assembled.items()}


def _named(table: pl.DataFrame, column: str, name: str) -> pl.Expr:
    """Return a column of names with `name` for nulls; a single value, the usual case, is not materialised."""
    missing = table.select(pl.col(column).null_count()).item()
    if missing == table.height:
        return pl.lit(name, pl.String).alias(column)
    return pl.col(column).fill_null(pl.lit(name)) if missing else pl.col(column)


#: Table → its column of times, and the columns that identify a series among simultaneous ones.
_SERIES = {
    "probes": ("unix_ns", ("site", "target", "kind")),
    "hops": ("unix_ns", ("probe", "target")),
    "dish_samples": ("t_unix_ns", ("device_id",)),
    "dish_maps": ("t_unix_ns", ()),
}


def put_in_sequence(parts: Sequence[Part]) -> list[Part]:
    """Shift parts without timestamps so that each follows the preceding part of the same series.

    Otherwise two traceroutes at the same time would count as one.
    """
    sequence: list[Part] = []
    ends: dict[tuple[Any, ...], int] = {}
    for given in parts:
        part, tables = given, given.measurement.tables
        if not part.measurement.counted:
            sequence.append(part)
            continue
        own: dict[tuple[Any, ...], int] = {}
        for name, (when, by) in _SERIES.items():
            if name in tables and tables[name].height:
                keys = filled(name, tables[name]).group_by(by or pl.lit(0).alias("all")).agg(pl.col(when).max())
                # A series without a target has the name of its file.
                default = part.source.name if name == "probes" else None
                own |= {(name, *(default if key is None else key for key in row[:-1])): row[-1] for row in keys.rows()}
        starts = [
            int(tables[name][when].min() or 0)  # type: ignore[arg-type]
            for name, (when, _) in _SERIES.items()
            if name in tables and tables[name].height
        ]
        after = max((ends[key] + SECOND_NS for key in own if key in ends), default=None)
        shift = 0 if after is None or not starts else max(0, after - min(starts))
        ends |= {key: end + shift for key, end in own.items()}
        if shift:
            moved = {
                name: table.with_columns(pl.col(_SERIES[name][0]) + shift) if name in _SERIES else table
                for name, table in tables.items()
            }
            note = f"no timestamps: put {shift / SECOND_NS:g} s later, after the preceding file"
            part = replace(
                part,
                source=part.source.replace(notes=(*part.source.notes, note)),
                measurement=replace(part.measurement, tables=moved),
            )
        sequence.append(part)
    return sequence


def _names(paths: Mapping[Path, tuple[str, bool]]) -> dict[Path, str]:
    """Return a unique name for each path: its path below the given folder, with parent folders as needed."""
    names = {path: below for path, (below, _) in paths.items()}
    for depth in range(2, 64):
        count: dict[str, int] = {}
        for name in names.values():
            count[name] = count.get(name, 0) + 1
        twice = [path for path, name in names.items() if count[name] > 1]
        if not twice:
            break
        for path in twice:
            whole = _real(path)
            names[path] = "/".join(whole.parts[-max(depth, names[path].count("/") + 2) :]).removeprefix("//")
    return names


def read_file(
    path: str | os.PathLike[str],
    *,
    format_name: str | None = None,
    hints: ReadHints | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Part:
    """Read one file, plain or gzipped.

    Args:
        path: The file.
        format_name: A key of `FORMATS`; None: detected.
        hints: The user's statements about the file.
        on_bytes: Called with the number of bytes read so far.

    Raises:
        UserError: Its format is unknown, or its content is invalid for the format; the place is named.
    """
    hints = hints or ReadHints()
    if hints.every_s is not None and not 1e-6 <= hints.every_s <= 86_400:
        raise UserError(f"{hints.every_s:g} s", where="every", expected="0.000001 to 86400")
    path = Path(path)
    size = _size(path)
    try:
        with path.open("rb") as raw:
            file = _Hashing(raw, on_bytes)
            head = raw.read(HEAD_BYTES)
            packed = head.startswith(_GZIP)
            raw.seek(0)
            name = format_name or recognise(_unpacked_head(head) if packed else head, path)
            entry = format_of(name)
            if entry.measure_blocks is not None:
                text: IO[bytes] = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
                measurement = entry.measure_blocks(
                    _unmarked(_limited(blocks(text), path, unpacked_limit(size) if packed else None)), str(path), hints
                )
                while file.read(1 << 20):  # hash the bytes after the end of the gzip data too
                    pass
            elif entry.measure is not None:
                if size > MAX_BYTES:
                    raise UserError(f"{path}: is too large ({size} bytes); expected at most {MAX_BYTES} bytes")
                measurement = entry.measure(
                    unpacked(file.read(-1), path, unpacked_limit(size) if packed else MAX_BYTES).removeprefix(_MARK),
                    str(path),
                    hints,
                )
    except (OSError, EOFError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UserError(f"{path}: cannot be read: {reason}") from error
    source = Source(
        name=path.name,
        format=name,
        bytes=file.count,
        sha256=file.digest(),
        clock=measurement.clock,
        notes=tuple(measurement.notes),
        tables=tuple(measurement.tables),
    )
    return Part(source, measurement)


def recognise(head: bytes, path: str | os.PathLike[str]) -> str:
    """Return the name of the format of a file with this beginning. Raises `UserError` if none of `FORMATS` matches."""
    if not head.strip():
        raise UserError(f"{path}: is empty; expected a measurement")
    if head.startswith(_WIDE):
        raise UserError(f"{path}: is UTF-16 text; expected UTF-8 (iconv -f UTF-16 -t UTF-8)")
    head = head.removeprefix(_MARK)
    name = next((name for name, entry in FORMATS.items() if entry.matches(head)), None)
    if name is None:
        raise UserError(
            "unknown format",
            where=str(path),
            expected="one of docs/reference/read.md",
            hint="`format`, or `units` for the columns of a table",
        )
    return name


def format_of(name: str) -> Format:
    """Return a format by its name. Raises `UserError` for an unknown name."""
    if name not in FORMATS:
        from bentpipe.errors import unknown_name

        raise unknown_name("format", name, list(FORMATS), f"known: {', '.join(FORMATS)}")
    return FORMATS[name]


_Paths = dict[Path, tuple[str, bool]]


def _find_files(paths: Sequence[str | os.PathLike[str]], out: Path | None) -> tuple[_Paths, _Paths]:
    """Return the files, and the dish recordings (folders), each with its path below `paths` and whether it was named.

    Folders with a Run in them, and the output folder, are skipped.
    """
    files: _Paths = {}
    recordings: _Paths = {}
    seen: set[Path] = set()
    own = None if out is None else _real(out)

    def add(kind: _Paths, path: Path, below: str, *, alone: bool) -> None:
        if (whole := _real(path)) not in seen:
            seen.add(whole)
            kind[path] = (below, alone)

    for given in map(Path, paths):
        if not given.is_dir():
            add(files, given, given.name, alone=True)
            continue
        top = _real(given)
        if is_recording(given):
            add(recordings, given, top.name, alone=True)
            continue
        for folder, below, names in os.walk(given):
            place = Path(folder)
            if "run.json" in names or (_real(place) == own and own != top):
                below[:] = []
                continue
            taken = [name for name in below if is_recording(place / name)]
            for name in taken:
                add(recordings, place / name, (place / name).relative_to(given).as_posix(), alone=False)
            below[:] = sorted(name for name in below if name not in taken and not name.startswith("."))
            for name in sorted(names):
                if not name.startswith("."):
                    add(files, place / name, (place / name).relative_to(given).as_posix(), alone=False)
    return files, recordings


def _real(path: Path) -> Path:
    """Resolve a path; `Path.resolve` raises RuntimeError for circular links."""
    return Path(os.path.realpath(path))


def _size(path: Path) -> int:
    """Return the size of a regular file; devices and pipes are refused, because they may never end."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{path}: is not an ordinary file; expected a file or a folder")
    return status.st_size


def _unpacked_head(head: bytes) -> bytes:
    import zlib

    try:
        return zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
    except zlib.error:
        return b""


def _unmarked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    first = next(pieces, None)
    if first is not None:
        yield first.removeprefix(_MARK)
        yield from pieces


def _limited(pieces: Iterator[bytes], path: Path, limit: int | None) -> Iterator[bytes]:
    total = 0
    for piece in pieces:
        total += len(piece)
        if limit is not None and total > limit:
            raise UserError(f"{path}: unpacks to more than {limit} bytes; expected at most that")
        yield piece


class _Hashing(io.RawIOBase):
    """A file reader that computes the SHA-256 of what it reads."""

    def __init__(self, file: IO[bytes], on_bytes: Callable[[int], None]) -> None:
        self._file, self._on_bytes = file, on_bytes
        self._sum = hashlib.sha256()
        self.count = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._sum.update(data)
        self.count += len(data)
        self._on_bytes(self.count)
        return data

    def digest(self) -> str:
        return self._sum.hexdigest()

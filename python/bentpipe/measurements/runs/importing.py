"""Files of any known format as one measured Run."""

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
from bentpipe.measurements.readers.measurement import SECOND_NS, Measurement, Said
from bentpipe.measurements.runs.store import UNKNOWN_SITE, MeasuredRun, Source, write_measured
from bentpipe.measurements.runs.tables import WHEN, filled

#: The byte-order mark that Windows puts before UTF-8, and those of UTF-16, which its shell writes.
_MARK, _WIDE = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")

#: What says most about itself first: a CSV of a terminal is a CSV too.
FORMATS: dict[str, Format] = {**DISH_FORMATS, **TOOL_FORMATS}

_GZIP = b"\x1f\x8b"

OnProgress = Callable[[float], None]


@dataclass(frozen=True)
class Part:
    """A file that was read.

    Attributes:
        source: About it, as in `run.json`.
        measurement: What it holds.
    """

    source: Source
    measurement: Measurement


@dataclass(frozen=True)
class Imported:
    """A Run from files, and the files of folders that were passed over: each with the reason, in one line."""

    run: MeasuredRun
    parts: Sequence[Part]
    skipped: Sequence[tuple[Path, str]] = field(default_factory=tuple)


def import_files(
    paths: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    site: str = UNKNOWN_SITE,
    format_name: str | None = None,
    said: Said | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Imported:
    """Read files, and all known ones in folders, into a measured Run below `out`.

    Args:
        paths: Files, plain or gzipped, and folders.
        out: Folder for Runs.
        site: Where it was measured.
        format_name: Of `FORMATS`; None: each file's is found out.
        said: What the files do not say themselves.
        on_progress: Called with the share of bytes read.

    Raises:
        UserError: A file that is named and cannot be read, folders without any that can, or see `write_measured`.
        StoreError: The disk refuses.
    """
    files, folders = _found(paths, Path(out))
    names = _names({**files, **folders})
    parts: list[Part] = []
    skipped: list[tuple[Path, str]] = []
    sizes: dict[Path, int] = {}
    for path, (_, alone) in files.items():
        try:
            sizes[path] = _size(path)
        except UserError:  # a link that leads nowhere, say; reading it says why
            if alone:
                raise
            sizes[path] = 0
    whole, done = max(1, sum(sizes.values())), 0
    for path, (_, alone) in files.items():

        def advance(read: int, before: int = done) -> None:
            on_progress((before + read) / whole)

        try:
            part = read_file(path, format_name=format_name, said=said, on_bytes=advance)
            parts.append(replace(part, source=replace(part.source, name=names[path])))
        except UserError as error:
            if alone:
                raise
            skipped.append((path, str(error).removeprefix(f"{path}: ").partition("; wanted")[0]))
        done += sizes[path]
    for folder in folders:
        recorded = measure_recording(folder)
        parts.append(Part(Source(names[folder], "dish-recording", tables=tuple(recorded.tables)), recorded))
    if not parts:
        reasons = "; ".join(f"{path.name}: {why}" for path, why in skipped[:3])
        raise UserError(
            f"{', '.join(map(str, paths))}: holds nothing that can be read{': ' + reasons if reasons else ''}"
        )
    parts = behind_each_other(parts)
    tables = assembled(parts, site)
    jumps = sum(part.measurement.clock_jumps for part in parts)
    run = write_measured(
        out,
        tables,
        [replace(part.source, series=_series_of(part, site)) for part in parts],
        site=site,
        start_unix_ns=_start_unix_ns(parts),
        summary={"clock_jumps": jumps} if "probes" in tables else {},
    )
    return Imported(run, parts, skipped)


def _series_of(part: Part, site: str) -> list[dict[str, str | None]]:
    """What the probes of a file are of, as `assembled` names it."""
    probes = part.measurement.tables.get("probes")
    if probes is None:
        return []
    unnamed = {"site": site, "target": part.source.name, "kind": None}
    there = [name for name in unnamed if name in probes.columns]
    # As expressions: a column of one value is not laid out for that.
    if all(count == 1 for count in probes.select(pl.col(there).n_unique()).row(0)):
        found = probes.select(pl.col(there).first()).rows(named=True)
    else:
        found = probes.select(there).unique().sort(there).rows(named=True)
    return [{name: row.get(name) or other for name, other in unnamed.items()} for row in found]


def _start_unix_ns(parts: Sequence[Part]) -> int | None:
    """The first time that a wall clock showed [ns since 1970]; None: no file knows one."""
    starts = [
        int(table[WHEN[name]].min() or 0)  # type: ignore[arg-type]
        for part in parts
        if part.measurement.clock != "relative"
        for name, table in part.measurement.tables.items()
        if name in WHEN and table.height
    ]
    return min(starts, default=None)


def assembled(parts: Sequence[Part], site: str) -> dict[str, pl.DataFrame]:
    """The tables of a Run from those of its sources, tests numbered over all of them."""
    found: dict[str, list[pl.DataFrame]] = {}
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
            found.setdefault(name, []).append(mine)
    return {name: pl.concat(tables) for name, tables in found.items()}


def _named(table: pl.DataFrame, column: str, name: str) -> pl.Expr:
    """A column of names, `name` where there is none; of one value, as nearly always, it is not laid out."""
    missing = table.select(pl.col(column).null_count()).item()
    if missing == table.height:
        return pl.lit(name, pl.String).alias(column)
    return pl.col(column).fill_null(pl.lit(name)) if missing else pl.col(column)


#: By table: the column that says when, and those that tell a series from others which may go on at the same time.
_SERIES = {
    "probes": ("unix_ns", ("site", "target", "kind")),
    "hops": ("unix_ns", ("probe", "target")),
    "dish_samples": ("t_unix_ns", ("device_id",)),
    "dish_maps": ("t_unix_ns", ()),
}


def behind_each_other(parts: Sequence[Part]) -> list[Part]:
    """The same; of those that all begin when nobody says, each after the end of those of the same series before it.

    Else two traceroutes of one moment would be one.
    """
    found: list[Part] = []
    ends: dict[tuple[Any, ...], int] = {}
    for given in parts:
        part, tables = given, given.measurement.tables
        if not part.measurement.counted:
            found.append(part)
            continue
        own: dict[tuple[Any, ...], int] = {}
        for name, (when, by) in _SERIES.items():
            if name in tables and tables[name].height:
                keys = filled(name, tables[name]).group_by(by or pl.lit(0).alias("all")).agg(pl.col(when).max())
                # What has no name of its own has that of its file.
                whose = part.source.name if name == "probes" else None
                own |= {(name, *(whose if key is None else key for key in row[:-1])): row[-1] for row in keys.rows()}
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
            note = f"no times in it: put {shift / SECOND_NS:g} s later, behind the file before"
            part = replace(
                part,
                source=replace(part.source, notes=(*part.source.notes, note)),
                measurement=replace(part.measurement, tables=moved),
            )
        found.append(part)
    return found


def _names(found: Mapping[Path, tuple[str, bool]]) -> dict[Path, str]:
    """A name for each: its path below what was given, with as many folders before it as tell it from all others."""
    names = {path: below for path, (below, _) in found.items()}
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
    said: Said | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Part:
    """One file, plain or gzipped.

    Args:
        path: The file.
        format_name: Of `FORMATS`; None: it is found out.
        said: What the file does not say itself.
        on_bytes: Called with how many bytes have been read.

    Raises:
        UserError: It is of no known format, or not what that should be; the place is named.
    """
    said = said or Said()
    if said.every_s is not None and not 1e-6 <= said.every_s <= 86_400:
        raise UserError(f"--every: {said.every_s:g} s; wanted 0.000001 to 86400")
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
                found = entry.measure_blocks(
                    _unmarked(_limited(blocks(text), path, unpacked_limit(size) if packed else None)), str(path), said
                )
                while file.read(1 << 20):  # behind the end of what is packed
                    pass
            elif entry.measure is not None:
                if size > MAX_BYTES:
                    raise UserError(f"{path}: is too large ({size} bytes); wanted at most {MAX_BYTES} bytes")
                found = entry.measure(
                    unpacked(file.read(-1), path, unpacked_limit(size) if packed else MAX_BYTES).removeprefix(_MARK),
                    str(path),
                    said,
                )
    except (OSError, EOFError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UserError(f"{path}: cannot be read: {reason}") from error
    source = Source(path.name, name, file.count, file.digest(), found.clock, found.notes, tuple(found.tables))
    return Part(source, found)


def recognise(head: bytes, path: str | os.PathLike[str]) -> str:
    """The name of the format of a file that begins so. Raises `UserError` if it is none of `FORMATS`."""
    if not head.strip():
        raise UserError(f"{path}: is empty; wanted a measurement")
    if head.startswith(_WIDE):
        raise UserError(f"{path}: is UTF-16 text; wanted UTF-8 (iconv -f UTF-16 -t UTF-8)")
    head = head.removeprefix(_MARK)
    found = next((name for name, entry in FORMATS.items() if entry.is_it(head)), None)
    if found is None:
        raise UserError(
            f"{path}: is of no known format; wanted one of docs/reference/read.md (--format says which, --units what a "
            "table's columns are)"
        )
    return found


def format_of(name: str) -> Format:
    """A format by its name. Raises `UserError` for an unknown one."""
    if name not in FORMATS:
        from bentpipe.scenarios.tables import unknown_name

        raise unknown_name("format", name, list(FORMATS), f"known: {', '.join(FORMATS)}")
    return FORMATS[name]


_Found = dict[Path, tuple[str, bool]]


def _found(paths: Sequence[str | os.PathLike[str]], out: Path) -> tuple[_Found, _Found]:
    """Files, and recordings of a terminal, which are folders: the path below what was given, and whether it was named.

    A folder with a Run in it, or to which this one is to be written, is none that was measured.
    """
    files: _Found = {}
    recordings: _Found = {}
    seen: set[Path] = set()
    own = _real(out)

    def add(kind: _Found, path: Path, below: str, *, alone: bool) -> None:
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
    """Where a path leads; `Path.resolve` raises RuntimeError of links that lead in a circle."""
    return Path(os.path.realpath(path))


def _size(path: Path) -> int:
    """Bytes of an ordinary file: a device or a pipe may never end."""
    try:
        found = path.stat()
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error
    if not stat.S_ISREG(found.st_mode):
        raise UserError(f"{path}: is not an ordinary file; wanted a file or a folder")
    return found.st_size


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
            raise UserError(f"{path}: unpacks to more than {limit} bytes; wanted at most that")
        yield piece


class _Hashing(io.RawIOBase):
    """A file that is hashed while it is read."""

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

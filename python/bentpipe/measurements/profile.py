"""Profiles from measurements: from a measured Run, a table of pings or a prober's log (``bentpipe profile from``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.analysis.files import scan_file
from bentpipe.analysis.tables import KEYS
from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.runs.analysis_input import distrust_reasons
from bentpipe.measurements.runs.imports import assemble_tables, clock_jumps, read_file
from bentpipe.measurements.runs.store import UNKNOWN_SITE, read_measured
from bentpipe.profiles.measured.capacity import capacities_from_tables
from bentpipe.profiles.measured.make import FromPings, Measured, profile_from_pings

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import polars as pl

    from bentpipe.measurements.runs.imports import Part
    from bentpipe.measurements.runs.store import Source

#: Files of a Run that a Profile names; chosen here: further ones are counted.
_MOST_NAMED = 3


@dataclass(frozen=True)
class _Input:
    tables: Mapping[str, pl.DataFrame]
    source: str
    notes: tuple[str, ...]
    clock_known: bool
    #: Sources without a wall clock.
    timeless: frozenset[str]


def profile_from(source: str | os.PathLike[str], options: FromPings | None = None) -> Measured:
    """Make a Profile from a measured Run (its folder), a table of pings (Parquet), or a log that `bentpipe read` reads.

    The capacity comes from the throughput tests and capacity traces of the Run, unless `options` has one.

    Args:
        source: The Run, the table or the log.
        options: Options of `profile_from_pings`; its `source` is set here.

    Raises:
        UserError: The source is unreadable or has no probes, or see `profile_from_pings`.
    """
    requested = options or FromPings()
    path = Path(source)
    if path.is_file() and _is_parquet(path):
        return profile_from_pings(scan_file(path), replace(requested, source=path.name))
    if path.is_dir():
        return _made(_run(path, requested), str(path), requested)
    return profile_from_parts([read_file(path, hints=ReadHints(times=requested.times))], str(path), requested)


def profile_from_parts(
    parts: Sequence[Part], where: str, options: FromPings | None = None, *, site: str = UNKNOWN_SITE
) -> Measured:
    """Make a Profile from files that `read_file` read, as `profile_from` does.

    Args:
        parts: The files, in sequence.
        where: Their name in messages.
        options: Options of `profile_from_pings`; its `source` is set here, and the readers have applied `times`.
        site: Site of probes whose file names none.

    Raises:
        UserError: As `profile_from`.
    """
    tables = assemble_tables(parts, site)
    notes = tuple(dict.fromkeys(note for part in parts for note in part.source.notes))
    timeless = frozenset(part.source.name for part in parts if part.measurement.clock == "relative")
    name = ", ".join(part.source.name for part in parts[:_MOST_NAMED])
    name += f" and {len(parts) - _MOST_NAMED} more" if parts[_MOST_NAMED:] else ""
    loaded = _Input(tables, name, (*_jumps(clock_jumps(parts)), *notes), not timeless, timeless)
    return _made(loaded, where, replace(options or FromPings(), times="probe"))


def _made(loaded: _Input, where: str, requested: FromPings) -> Measured:
    probes = loaded.tables.get("probes")
    if probes is None:
        raise UserError(
            f"{where}: has no probes, only {', '.join(loaded.tables) or 'no table'}; the delay of a Profile comes from "
            "pings"
        )
    if not requested.capacities:
        capacities = capacities_from_tables(loaded.tables.get("samples"), loaded.tables.get("links"), loaded.timeless)
        requested = replace(requested, capacities=capacities)
    made = profile_from_pings(probes, replace(requested, source=loaded.source, clock_known=loaded.clock_known))
    return replace(made, notes=list(dict.fromkeys([*loaded.notes, *made.notes])))


def _run(path: Path, requested: FromPings) -> _Input:
    run = read_measured(path)
    sources = [one for one in run.sources_of("probes") if _has_series(one, requested)]
    notes = _jumps(int(run.summary.get("clock_jumps") or 0))
    known = all(one.clock != "relative" for one in sources)
    if not known:
        notes += ("its times are not those of a wall clock: the phase of slots is meaningless",)
    notes += distrust_reasons(run)
    tables = {name: table for name in ("probes", "samples", "links") if (table := run.table(name)) is not None}
    names = ", ".join(one.name for one in sources[:_MOST_NAMED])
    names += f" and {len(sources) - _MOST_NAMED} more" if sources[_MOST_NAMED:] else ""
    timeless = frozenset(one.name for one in run.record.sources if one.clock == "relative")
    return _Input(tables, names or "a measured Run", notes, known, timeless)


def _has_series(source: Source, requested: FromPings) -> bool:
    """Return whether a source has, or may have, probes of the requested series."""
    keys = {name: value for name in KEYS if (value := getattr(requested, name)) is not None}
    return not source.series or any(
        all(one.get(name) == value for name, value in keys.items()) for one in source.series
    )


def _jumps(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"the prober's clock jumped {count} time(s) during the measurement: times are not corrected",)


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error

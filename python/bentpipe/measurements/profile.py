"""A measured Run, a table of pings or a prober's log as a Profile: what ``bentpipe profile from`` does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.analysis.files import scan_file
from bentpipe.analysis.tables import KEYS
from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import Said
from bentpipe.measurements.runs.importing import assembled, read_file
from bentpipe.measurements.runs.opening import trusted
from bentpipe.measurements.runs.store import UNKNOWN_SITE, read_measured
from bentpipe.profiles.measured.capacity import of_tables
from bentpipe.profiles.measured.make import FromPings, Measured, profile_from_pings

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import polars as pl

#: Files of a Run that a Profile of it names; chosen here: of more it says how many.
_MOST_NAMED = 3


@dataclass(frozen=True)
class _Opened:
    tables: Mapping[str, pl.DataFrame]
    source: str
    notes: tuple[str, ...]
    clock_known: bool
    #: Sources whose times are no wall clock's.
    timeless: frozenset[str]


def profile_from(source: str | os.PathLike[str], options: FromPings | None = None) -> Measured:
    """The Profile of a measured Run (its folder), a table of pings (Parquet), or a log that `bentpipe read` reads.

    A Run's own throughput tests and capacity traces are its capacity, unless `options` gives one.

    Args:
        source: The Run, the table or the log.
        options: As `profile_from_pings` takes them; its `source` is filled in here.

    Raises:
        UserError: Nothing that can be read, no probes in it, or what `profile_from_pings` refuses.
    """
    wanted = options or FromPings()
    path = Path(source)
    if path.is_file() and _is_parquet(path):
        return profile_from_pings(scan_file(path), replace(wanted, source=path.name))
    opened = _run(path, wanted) if path.is_dir() else _log(path, wanted)
    if not path.is_dir():  # the reader has made send times of them
        wanted = replace(wanted, times="probe")
    probes = opened.tables.get("probes")
    if probes is None:
        raise UserError(
            f"{path}: has no probes, only {', '.join(opened.tables) or 'no table'}; the delay of a Profile comes from "
            "pings"
        )
    if not wanted.capacities:
        found = of_tables(opened.tables.get("samples"), opened.tables.get("links"), opened.timeless)
        wanted = replace(wanted, capacities=found)
    made = profile_from_pings(probes, replace(wanted, source=opened.source, clock_known=opened.clock_known))
    return replace(made, notes=list(dict.fromkeys([*opened.notes, *made.notes])))


def _run(path: Path, wanted: FromPings) -> _Opened:
    run = read_measured(path)
    sources = [one for one in run.sources_of("probes") if _gave(one, wanted)]
    notes = _jumps(int(run.summary.get("clock_jumps") or 0))
    known = all(one.get("clock") != "relative" for one in sources)
    if not known:
        notes += ("its times are no wall clock's: the phase of slots means nothing",)
    notes += trusted(run)
    tables = {name: table for name in ("probes", "samples", "links") if (table := run.table(name)) is not None}
    names = ", ".join(str(one.get("name")) for one in sources[:_MOST_NAMED])
    names += f" and {len(sources) - _MOST_NAMED} more" if sources[_MOST_NAMED:] else ""
    timeless = frozenset(str(one.get("name")) for one in run.record["sources"] if one.get("clock") == "relative")
    return _Opened(tables, names or "a measured Run", notes, known, timeless)


def _gave(source: Mapping[str, Any], wanted: FromPings) -> bool:
    """Whether probes of a source are of what is wanted, or may be."""
    asked = {name: value for name in KEYS if (value := getattr(wanted, name)) is not None}
    series = source.get("series")
    return not series or any(all(one.get(name) == value for name, value in asked.items()) for one in series)


def _log(path: Path, wanted: FromPings) -> _Opened:
    part = read_file(path, said=Said(times=wanted.times))
    tables = assembled([part], UNKNOWN_SITE)
    notes = (*_jumps(part.measurement.clock_jumps), *part.measurement.notes)
    known = part.measurement.clock != "relative"
    return _Opened(tables, path.name, notes, known, frozenset[str]() if known else frozenset({part.source.name}))


def _jumps(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"the prober's clock jumped {count} time(s) while it measured: times are as it had them",)


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error

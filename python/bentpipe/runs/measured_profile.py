"""A measured Run, or a table of pings, as a Profile: what ``bentpipe profile from`` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.analysis.files import open_table
from bentpipe.errors import UserError
from bentpipe.profiles.measured import FromPings, Measured, of_tables, profile_from_pings
from bentpipe.runs.measured import read_measured

if TYPE_CHECKING:
    import os


def profile_from(source: str | os.PathLike[str], options: FromPings | None = None) -> Measured:
    """The Profile of a measured Run (its folder) or of a table of pings (a Parquet file).

    A Run's own throughput tests and capacity traces are its capacity, unless `options` gives one.

    Args:
        source: The Run or the table.
        options: As `profile_from_pings` takes them; its `source` is filled in here.

    Raises:
        UserError: No such Run or table, a Run without probes, or what `profile_from_pings` refuses.
    """
    wanted = options or FromPings()
    path = Path(source)
    if path.is_file() and path.suffix != ".json":
        return profile_from_pings(open_table(path), replace(wanted, source=path.name))
    run = read_measured(path.parent if path.name == "run.json" else path)
    probes = run.probes
    if probes is None:
        raise UserError(
            f"{run.path}: has no probes, only {', '.join(run.tables) or 'no table'}; the delay of a Profile comes from "
            "pings (bentpipe read of a ping log)"
        )
    if not wanted.capacities:
        wanted = replace(wanted, capacities=of_tables(run.samples, run.links, run.start_unix_ns))
    names = ", ".join(str(one.get("name")) for one in run.record["sources"][:3])
    made = profile_from_pings(probes, replace(wanted, source=names or "a measured Run"))
    jumps = run.summary.get("clock_jumps") or 0
    notes = [f"the prober's clock jumped {jumps} time(s) when it was measured: times are as it had them"] if jumps else []
    if not run.record["valid"]:
        notes.append(f"the Run says it is not to be trusted: {run.record.get('why_invalid')}")
    return replace(made, notes=[*notes, *made.notes])

"""Other people's formats: one file per format, and the table of them.

A format that is added is a file here and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.profiles.convert.hypatia import read_hypatia, write_hypatia
from bentpipe.profiles.convert.iperf3 import read_iperf3
from bentpipe.profiles.convert.leoreplayer import read_leoreplayer, write_leoreplayer
from bentpipe.profiles.convert.mahimahi import read_mahimahi, write_mahimahi
from bentpipe.profiles.convert.netem import read_netem, write_netem
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions
from bentpipe.profiles.convert.starrynet import read_starrynet, write_starrynet
from bentpipe.profiles.convert.table_csv import read_csv, write_csv
from bentpipe.profiles.convert.writing import WriteOptions, Written
from bentpipe.scenarios.tables import unknown_name

__all__ = ["FORMATS", "Converted", "Format", "ReadOptions", "WriteOptions", "Written", "ending", "read_as", "write_as"]


@dataclass(frozen=True)
class Format:
    """A format: one line about it, and what reads and writes it (None: that way is not possible).

    Attributes:
        ending: What the default name of a written file adds to the Profile's.
    """

    description: str
    read: Callable[[Paths, ReadOptions], Converted] | None = None
    write: Callable[[Profile, Path, WriteOptions], Written] | None = None
    ending: str = ""


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "csv": Format("the long table, with or without its metadata line", read_csv, write_csv, ".csv"),
        "hypatia": Format("RTTs of a pair, time_ns,rtt_ns", read_hypatia, write_hypatia, ".networkx_rtt.txt"),
        "iperf3": Format("JSON of iperf3 -J", read_iperf3),
        "leoreplayer": Format(
            "LeoReplayer's delay file, with mm-link's traces beside it", read_leoreplayer, write_leoreplayer
        ),
        "mahimahi": Format("packet-delivery traces of mm-link, one per direction", read_mahimahi, write_mahimahi),
        "netem": Format(
            "tc netem on a schedule, one script per direction (reads only its own)", read_netem, write_netem
        ),
        "starrynet": Format(
            "a folder of StarryNet's link files: two ground stations", read_starrynet, write_starrynet, ".starrynet"
        ),
    }
)

#: RTTs, of which a Profile is made, with its losses and slots; converted they would be a line between probes.
_MEASUREMENTS = ("fping", "irtt", "ping", "rtt")


def read_as(name: str, paths: Paths, options: ReadOptions | None = None) -> Converted:
    """The Profile in files of the format `name`.

    Raises:
        UserError: An unknown format, one that cannot be read, or what its reader refuses.
    """
    if (read := _format(name, "read").read) is None:
        raise UserError(f"format {name} can be written but not read; formats that can: {_those_with('read')}")
    if not paths:
        raise UserError(f"no file given; wanted one of the format {name}")
    try:
        return read(paths, options or ReadOptions())
    except UserError as error:
        # What the Profile itself refuses (a duration, a delay) does not know of files.
        if any(str(path) in str(error) for path in paths):
            raise
        raise UserError(f"{', '.join(map(str, paths))}: {error}") from error


def write_as(name: str, profile: Profile, path: str | os.PathLike[str], options: WriteOptions | None = None) -> Written:
    """Writes `profile` in the format `name`: at `path`, or at names that begin with it if there are several files.

    Raises:
        UserError: An unknown format, one that cannot be written, or what its writer refuses.
    """
    if (write := _format(name, "write").write) is None:
        raise UserError(f"format {name} can be read but not written; formats that can: {_those_with('write')}")
    return write(profile, Path(path), options or WriteOptions())


def ending(name: str) -> str:
    """What the default name of a file written in the format `name` ends in. Raises `UserError` for an unknown one."""
    return _format(name, "write").ending


def _format(name: str, way: Literal["read", "write"]) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    known = _those_with(way)
    if name.lower() == "parquet":
        raise UserError(f"a Profile is Parquet already, and every command takes it as it is; formats to {way}: {known}")
    if way == "read" and name.lower() in _MEASUREMENTS:
        raise UserError(
            f"{name}: RTTs are no Profile, but one is made from them: bentpipe profile from FILE -o P.parquet"
        )
    raise unknown_name(f"format to {way}", name, [n for n in FORMATS if n in known], f"known: {known}")


def _those_with(way: str) -> str:
    return ", ".join(name for name, entry in FORMATS.items() if getattr(entry, way) is not None)

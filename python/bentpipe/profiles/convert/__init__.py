"""Convert Profiles from and to the formats of other tools: one module per format, listed in `FORMATS`.

A new format is a module here and a line in `FORMATS`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from bentpipe._native import Profile
from bentpipe.errors import UserError, unknown_name
from bentpipe.profiles.convert.hypatia import read_hypatia, write_hypatia
from bentpipe.profiles.convert.iperf3 import read_iperf3
from bentpipe.profiles.convert.leoreplayer import read_leoreplayer, write_leoreplayer
from bentpipe.profiles.convert.mahimahi import read_mahimahi, write_mahimahi
from bentpipe.profiles.convert.netem import read_netem, write_netem
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions
from bentpipe.profiles.convert.starrynet import read_starrynet, write_starrynet
from bentpipe.profiles.convert.table_csv import read_csv, write_csv
from bentpipe.profiles.convert.writing import WriteOptions, Written

__all__ = ["FORMATS", "Converted", "Format", "ReadOptions", "WriteOptions", "Written", "ending", "read_as", "write_as"]


@dataclass(frozen=True)
class Format:
    """A format with its reader and writer.

    Attributes:
        description: One line.
        read: Reads files; None: the format cannot be read.
        write: Writes files; None: the format cannot be written.
        ending: Suffix of the default name of a written file.
    """

    description: str
    read: Callable[[Paths, ReadOptions], Converted] | None = None
    write: Callable[[Profile, Path, WriteOptions], Written] | None = None
    ending: str = ""


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "csv": Format("the long table, with or without its metadata line", read_csv, write_csv, ".csv"),
        "hypatia": Format(
            "RTTs of a pair of stations, time_ns,rtt_ns", read_hypatia, write_hypatia, ".networkx_rtt.txt"
        ),
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

#: RTT logs. `bentpipe profile from` makes a Profile of them, with loss and slots, which a conversion cannot do.
_MEASUREMENTS = ("fping", "irtt", "ping", "rtt")


def read_as(name: str, paths: Paths, options: ReadOptions | None = None) -> Converted:
    """Read a Profile from files of another tool.

    Args:
        name: A key of `FORMATS`, such as ``"mahimahi"``.
        paths: The files, in the order that the format's reader takes them.
        options: Values that the files lack, such as a one-way delay [s].

    Returns:
        The Profile, and notes about assumed or missing values.

    Raises:
        UserError: The format is unknown or cannot be read, or the reader refuses a file; the message names file and
            line.

    Example:
        >>> import os, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trace = pathlib.Path(folder, "trace.down")
        ...     _ = trace.write_text(os.linesep.join(["1", "1000"]))
        ...     read_as("mahimahi", [trace], ReadOptions(delay_s=0.02)).profile.duration_s
        1.0
    """
    if (read := _format(name, "read").read) is None:
        raise UserError(f"format {name} can be written but not read; formats that can: {_formats_with('read')}")
    if not paths:
        raise UserError("no file given", expected=f"one of the format {name}")
    try:
        return read(paths, options or ReadOptions())
    except UserError as error:
        # Errors of the Profile itself (a duration, a delay) do not name the file.
        if any(str(path) in str(error) for path in paths):
            raise
        raise UserError(f"{error}", where=", ".join(map(str, paths))) from error


def write_as(name: str, profile: Profile, path: str | os.PathLike[str], options: WriteOptions | None = None) -> Written:
    """Write a Profile in the format of another tool.

    Args:
        name: A key of `FORMATS`.
        profile: The Profile.
        path: The file; where the format has several files, the prefix of their names.
        options: Sampling step [s].

    Returns:
        The written files, and notes about content that the format cannot hold.

    Raises:
        UserError: The format is unknown or cannot be written, or cannot hold this Profile.
    """
    if (write := _format(name, "write").write) is None:
        raise UserError(f"format {name} can be read but not written; formats that can: {_formats_with('write')}")
    return write(profile, Path(path), options or WriteOptions())


def ending(name: str) -> str:
    """Return the suffix of a format's default file name. Raises `UserError` for an unknown format."""
    return _format(name, "write").ending


def _format(name: str, mode: Literal["read", "write"]) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    known = _formats_with(mode)
    if name.lower() == "parquet":
        raise UserError(
            f"a Profile is Parquet already, and every command takes it as it is; formats to {mode}: {known}"
        )
    if mode == "read" and name.lower() in _MEASUREMENTS:
        raise UserError(
            "RTTs are not converted; make a Profile from them: bentpipe profile from FILE -o P.parquet", where=name
        )
    raise unknown_name(f"format to {mode}", name, [n for n in FORMATS if n in known], f"known: {known}")


def _formats_with(mode: str) -> str:
    return ", ".join(name for name, entry in FORMATS.items() if getattr(entry, mode) is not None)

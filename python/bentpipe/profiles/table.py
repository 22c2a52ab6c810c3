"""Convert a Profile to and from a long table with names: ``t_s, hop, direction, kind, value, valid``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bentpipe._native import Network, Profile
from bentpipe.errors import UserError, shown

Direction = Literal["up", "down"]
Code = TypeVar("Code", np.uint8, np.uint32)

#: Columns and their types, in order.
SCHEMA = {
    "t_s": pl.Float64,
    "hop": pl.String,
    "direction": pl.String,
    "kind": pl.String,
    "value": pl.Float64,
    "valid": pl.Boolean,
}
#: Names of the direction codes 0 and 1.
DIRECTIONS: tuple[Direction, Direction] = ("up", "down")
#: Names of the kind codes 0 to 3; each says the unit of `value`.
KINDS = ("delay_s", "capacity_bps", "loss_probability", "jitter_s")


def profile_to_frame(profile: Profile | Network) -> pl.DataFrame:
    """Return all series of a Profile, or of the links of a network, as one long table.

    Returns:
        Columns ``t_s`` [s since the start], ``hop`` (name), ``direction`` (up, down), ``kind`` (`KINDS`: one-way
        delay [s], capacity [bit/s], loss probability [0–1], or the length [s] of a closure of the grant
        schedule), ``value``, and ``valid`` (whether the value is known until the next row).

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> profile_to_frame(preset_profile("dumbbell", 1.0)).columns
        ['t_s', 'hop', 'direction', 'kind', 'value', 'valid']
    """
    table = profile.table()
    hops = [hop["name"] for hop in json.loads(profile.metadata_json())["hops"]]
    return pl.DataFrame(
        {
            "t_s": table["t_s"],
            "hop": _named(table["hop"], hops),
            "direction": _named(table["direction"], DIRECTIONS),
            "kind": _named(table["kind"], KINDS),
            "value": table["value"],
            "valid": table["valid"],
        },
        schema=SCHEMA,
    )


def profile_from_frame(frame: pl.DataFrame, metadata: str) -> Profile:
    """Build a Profile from a table in the form of `profile_to_frame` and its metadata (JSON).

    Raises:
        UserError: A column is missing, has another type or empty cells; a name is unknown; or the series or metadata
            are invalid.

    Example:
        >>> from bentpipe.profiles import preset_profile
        >>> path = preset_profile("dumbbell", 1.0)
        >>> copy = profile_from_frame(profile_to_frame(path), path.metadata_json())
        >>> copy.content_hash() == path.content_hash()
        True
    """
    return Profile.from_table(metadata, *_columns(frame, metadata))


def network_from_frame(frame: pl.DataFrame, metadata: str) -> Network:
    """Build a network from a table and its metadata (JSON), as `profile_from_frame` does; ``hop`` names a link."""
    return Network.from_table(metadata, *_columns(frame, metadata))


def _columns(frame: pl.DataFrame, metadata: str) -> tuple[NDArray[Any], ...]:
    """Return the columns as the native module takes them. Raises `UserError`."""
    missing = [name for name in SCHEMA if name not in frame.columns]
    if missing:
        raise UserError(f"the table has no column {missing[0]}", expected=", ".join(SCHEMA))
    for name, kind in SCHEMA.items():
        if frame[name].dtype != kind:
            raise UserError(f"column {name} holds {frame[name].dtype}", expected=str(kind))
        if frame[name].null_count():
            raise UserError(f"column {name} has {frame[name].null_count()} empty cell(s); every row needs a value")
    return (
        frame["t_s"].to_numpy(),
        _codes(frame["hop"], _hop_names(metadata), np.uint32),
        _codes(frame["direction"], DIRECTIONS, np.uint8),
        _codes(frame["kind"], KINDS, np.uint8),
        frame["value"].to_numpy(),
        frame["valid"].to_numpy(),
    )


def _named(codes: NDArray[Code], names: Sequence[str]) -> pl.Series:
    return pl.Series(names, dtype=pl.String).gather(pl.Series(codes).cast(pl.UInt32))


def _codes(column: pl.Series, names: Sequence[str], dtype: type[Code]) -> NDArray[Code]:
    """Return the index in `names` of each value of a column."""
    places = {name: place for place, name in enumerate(names)}
    unknown = [value for value in column.unique(maintain_order=True) if value not in places]
    if unknown:
        row = int((column == unknown[0]).arg_max() or 0)
        raise UserError(f"row {row}: {column.name} {shown(unknown[0])} is unknown", expected=f"{_listed(names)}")
    if not places:
        return np.empty(0, dtype)
    return column.replace_strict(places, return_dtype=pl.UInt32).to_numpy().astype(dtype)


def _listed(names: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(names[:most])
    return f"{shown}, …" if len(names) > most else shown


def _hop_names(metadata: str) -> list[str]:
    """Return the hop names of the metadata; none if it is malformed, which the Profile reports better."""
    try:
        return [str(hop["name"]) for hop in json.loads(metadata)["hops"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []

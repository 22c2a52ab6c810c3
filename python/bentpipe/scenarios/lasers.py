"""Fleets of satellites that carry lasers for inter-satellite links, read from ``lasers.toml``."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from bentpipe.records import Items, Record, Text
from bentpipe.scenarios.tables import packaged_text

Launch = Annotated[str, Field(pattern=r"^\d{4}-\d{3}$")]


class Fleet(Record):
    """Satellites with lasers of one operator.

    Attributes:
        name_prefix: Start of the satellites' names, in capital letters.
        since: The first launch since which all of them have lasers: ``2021-082``.
        also: Earlier launches with lasers.
    """

    name_prefix: Text
    since: Launch
    also: Items[Launch] = ()


class LasersFile(Record):
    """``lasers.toml``."""

    source: Text
    fleets: Items[Fleet]


@cache
def load_fleets() -> tuple[Fleet, ...]:
    """Return the packaged fleets."""
    return LasersFile.from_toml(packaged_text("lasers.toml"), "lasers.toml").fleets

"""Published satellite paths by name: terminal, PoP, server, constellation and start, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from bentpipe.errors import UserError, unknown_name
from bentpipe.records import Name, Record, Text
from bentpipe.scenarios.ground import pop_by_code
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.shells import constellation_names
from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import packaged_text


@dataclass(frozen=True, slots=True)
class Service:
    """A published satellite path.

    Attributes:
        name: Value of ``--preset``.
        description: One line.
        source: Source of the measurement: one line.
        chosen: Choices where the source is silent, with reasons: one line.
        terminal: Place of the terminal, with its PoP if known.
        server: Place of the server.
        constellation: Built-in constellation.
        start: Start (ISO 8601, UTC).
    """

    name: str
    description: str
    source: str
    chosen: str
    terminal: Place
    server: Place
    constellation: str
    start: str


class ServiceEntry(Record):
    """A service in ``services.toml``; `site` and `to` are places of ``--site`` and ``--to``."""

    description: Text
    source: Text
    chosen: Text
    site: Text
    pop: Text | None = None
    to: Text
    constellation: Text
    start: Text


class ServicesFile(Record):
    """``services.toml``."""

    services: Annotated[dict[Name, ServiceEntry], Field(min_length=1)]


@cache
def load_services() -> Mapping[str, Service]:
    """Return the packaged services, by name."""
    return MappingProxyType(parse_services(packaged_text("services.toml"), "services.toml"))


def parse_services(text: str, where: str) -> dict[str, Service]:
    """Read TOML text shaped like ``services.toml``; `where` names it in messages. Raise `UserError`."""
    entries = ServicesFile.from_toml(text, where).services
    return {name: _service(name, entry, f"{where}: services.{name}") for name, entry in entries.items()}


def _service(name: str, entry: ServiceEntry, where: str) -> Service:
    terminal = _place(entry.site, f"{where}: site")
    if entry.pop is not None:
        try:
            pop_by_code(entry.pop)
        except UserError as error:
            raise error.within(f"{where}: pop") from None
        terminal = replace(terminal, pop=entry.pop)
    shells = constellation_names()
    if entry.constellation not in shells:
        raise unknown_name("constellation", entry.constellation, shells, f"known: {', '.join(shells)}", where)
    return Service(
        name=name,
        description=entry.description,
        source=entry.source,
        chosen=entry.chosen,
        terminal=terminal,
        server=_place(entry.to, f"{where}: to"),
        constellation=entry.constellation,
        start=entry.start,
    )


def _place(text: str, where: str) -> Place:
    try:
        return parse_place(text)
    except UserError as error:
        raise error.within(where) from None

"""Published satellite paths by name: terminal, PoP, server, constellation and start, each with its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType

from bentpipe.errors import UserError
from bentpipe.scenarios.ground import pop_by_code
from bentpipe.scenarios.places import parse_place
from bentpipe.scenarios.shells import constellation_names
from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import Table, packaged_text, unknown_name


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


@cache
def load_services() -> Mapping[str, Service]:
    """Return the packaged services, by name."""
    return MappingProxyType(parse_services(packaged_text("services.toml"), "services.toml"))


def parse_services(text: str, where: str) -> dict[str, Service]:
    """Read TOML text shaped like ``services.toml``; `where` names it in messages. Raise `UserError`."""
    table = Table.parse(text, where)
    services = {name: _service(name, entry) for name, entry in table.named_tables("services").items()}
    table.done()
    return services


def _service(name: str, entry: Table) -> Service:
    terminal = _place(entry, "site")
    if entry.has("pop"):
        code = entry.text("pop")
        try:
            pop_by_code(code)
        except UserError as error:
            raise UserError(f"{entry.where}: pop: {error}") from None
        terminal = replace(terminal, pop=code)
    shells = constellation_names()
    constellation = entry.text("constellation")
    if constellation not in shells:
        raise unknown_name("constellation", constellation, shells, f"known: {', '.join(shells)}", entry.where)
    service = Service(
        name=name,
        description=entry.text("description"),
        source=entry.text("source"),
        chosen=entry.text("chosen"),
        terminal=terminal,
        server=_place(entry, "to"),
        constellation=constellation,
        start=entry.text("start"),
    )
    entry.done()
    return service


def _place(entry: Table, key: str) -> Place:
    try:
        return parse_place(entry.text(key))
    except UserError as error:
        raise UserError(f"{entry.where}: {key}: {error}") from None

"""A study's TOML file: parameters, and published values with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import packaged_text
from bentpipe.studies.study import Relation, Row
from bentpipe.studies.table import Table

_RELATIONS: dict[str, Relation] = {"=": "=", ">": ">", "<": "<"}


@dataclass(frozen=True)
class Published:
    """A published value; see `bentpipe.studies.study.Row`."""

    quantity: str
    unit: str
    value: float
    source: str
    relation: Relation = "="

    def row(self, ours: float | None, basis: str, *, of: str = "") -> Row:
        """Return a row with our value beside it; `of` names the subject where several are compared with one value."""
        quantity = f"{self.quantity}: {of}" if of else self.quantity
        return Row(quantity, self.unit, self.value, ours, self.source, basis, self.relation)


@dataclass(frozen=True)
class Scenario:
    """A study's file.

    Attributes:
        table: The study's own keys; the study reads them and then calls `Table.done`.
        published: Published values by key.
    """

    table: Table
    published: Mapping[str, Published]


def load_scenario(name: str) -> Scenario:
    """Read the file ``scenarios/studies/NAME.toml``."""
    where = f"studies/{name}.toml"
    table = Table.parse(packaged_text(where), where)
    published = {key: _published(entry) for key, entry in table.named_tables("published").items()}
    return Scenario(table, published)


def _published(entry: Table) -> Published:
    published = Published(
        entry.text("quantity"),
        entry.text("unit") if entry.has("unit") else "",
        entry.number("value", -1e12, 1e12),
        entry.text("source"),
        _RELATIONS[entry.choice("relation", _RELATIONS)] if entry.has("relation") else "=",
    )
    entry.done()
    return published


def take_place(name: str, entry: Table) -> Place:
    """Read a study's terminal or server: `lat_deg`, `lon_deg` and, where known, its `pop`."""
    place = Place(
        name=entry.text("label") if entry.has("label") else name,
        lat_deg=entry.number("lat_deg", -90.0, 90.0),
        lon_deg=entry.number("lon_deg", -180.0, 180.0),
        alt_m=entry.number("alt_m", -430.0, 9000.0) if entry.has("alt_m") else 0.0,
        pop=entry.text("pop") if entry.has("pop") else None,
        description=entry.text("description"),
    )
    entry.done()
    return place

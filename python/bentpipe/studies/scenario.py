"""A study's TOML file: its parameters, and the published figures with their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import Table, packaged_text
from bentpipe.studies.study import Relation, Row

_RELATIONS: dict[str, Relation] = {"=": "=", ">": ">", "<": "<"}


@dataclass(frozen=True)
class Published:
    """A published figure; see `bentpipe.studies.study.Row`."""

    quantity: str
    unit: str
    value: float
    source: str
    relation: Relation = "="

    def row(self, ours: float | None, basis: str, *, of: str = "") -> Row:
        """Ours beside it; `of` says whose ours is, where the figure is held against several."""
        quantity = f"{self.quantity}: {of}" if of else self.quantity
        return Row(quantity, self.unit, self.value, ours, self.source, basis, self.relation)


@dataclass(frozen=True)
class Scenario:
    """A study's file.

    Attributes:
        table: What is the study's own; the study takes its keys and then calls `Table.done`.
        published: By key.
    """

    table: Table
    published: Mapping[str, Published]


def load_scenario(name: str) -> Scenario:
    """The file ``scenarios/studies/NAME.toml``."""
    where = f"studies/{name}.toml"
    table = Table.parse(packaged_text(where), where)
    published = {key: _published(entry) for key, entry in table.named_tables("published").items()}
    return Scenario(table, published)


def _published(entry: Table) -> Published:
    found = Published(
        entry.text("quantity"),
        entry.text("unit") if entry.has("unit") else "",
        entry.number("value", -1e12, 1e12),
        entry.text("source"),
        _RELATIONS[entry.choice("relation", _RELATIONS)] if entry.has("relation") else "=",
    )
    entry.done()
    return found


def take_place(name: str, entry: Table) -> Place:
    """A terminal or server of a study: `lat_deg`, `lon_deg`, and where it is known its own `pop`."""
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

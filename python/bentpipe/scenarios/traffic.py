"""Cross traffic by name: its share of the path's capacity, and the sizes of its transfers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from bentpipe.errors import UserError
from bentpipe.scenarios.tables import Table, packaged_text, unknown_name


@dataclass(frozen=True, slots=True)
class Traffic:
    """Transfers that share a path with the studied flows.

    Attributes:
        name: Value of ``--traffic``.
        description: One line.
        source: Source of the values: one line.
        share: Offered load of new transfers, as a share of the path's mean capacity in their direction; None: the
            capacity difference of the access model's quietest and busiest hour
            (`bentpipe.experiments.traffic.traffic_share`).
        controller: Congestion controller of the transfers.
        least_bytes: Smallest transfer [bytes].
        most_bytes: Largest transfer [bytes].
        tail_index: Index of the bounded Pareto distribution of sizes.
    """

    name: str
    description: str
    source: str
    share: float | None
    controller: str
    least_bytes: int
    most_bytes: int
    tail_index: float


@cache
def load_traffic() -> Mapping[str, Traffic]:
    """Return the packaged traffic, by name."""
    return MappingProxyType(parse_traffic(packaged_text("traffic.toml"), "traffic.toml"))


def find_traffic(name: str) -> Traffic:
    """Return traffic by name. Raises `UserError` with the nearest name."""
    known = load_traffic()
    if name not in known:
        raise unknown_name("traffic", name, known, f"known: {', '.join(known)}")
    return known[name]


def parse_traffic(text: str, where: str) -> dict[str, Traffic]:
    """Read TOML text shaped like ``traffic.toml``; `where` names it in messages. Raise `UserError`."""
    table = Table.parse(text, where)
    traffic = {name: _traffic(name, entry) for name, entry in table.named_tables("traffic").items()}
    table.done()
    return traffic


def _traffic(name: str, entry: Table) -> Traffic:
    busiest_hour = entry.has("busiest_hour") and entry.boolean("busiest_hour")
    traffic = Traffic(
        name=name,
        description=entry.text("description"),
        source=entry.text("source"),
        share=None if busiest_hour else entry.number("share", 1e-3, 2.0),
        controller=entry.text("controller"),
        least_bytes=entry.integer("least_bytes", 1, 10**12),
        most_bytes=entry.integer("most_bytes", 1, 10**12),
        tail_index=entry.number("tail_index", 0.1, 10.0),
    )
    if traffic.most_bytes < traffic.least_bytes:
        raise UserError(f"{entry.where}: most_bytes is {traffic.most_bytes}; expected at least least_bytes")
    entry.done()
    return traffic

"""Order of the controllers by level of loss: the study's own paths, its counterfactuals, and the published order.

Loss decides many published orders, and publications seldom state it. The table has the Runs that a study makes anyway,
from the lowest level to the highest, and marks the place of the published order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from bentpipe.profiles.path import PathView
from bentpipe.records import Items, Record, Text
from bentpipe.studies.agreement import Claim, all_of, assess
from bentpipe.studies.study import LevelOrder

if TYPE_CHECKING:
    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction


class OrderEntry(Record):
    """The published order on one path of a study, in the study's file."""

    order: Annotated[Items[Items[Text]], Field(min_length=2)]
    """Controllers in groups, the first has most; the publication does not order those of one group."""
    lost: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of packets lost in the flows' direction; default: the publication has none."""
    source: Text
    """Figure, table or section of the order and of the level."""


@dataclass(frozen=True)
class Level:
    """A path's tests at one level of loss.

    Attributes:
        loss: Name of the loss environment, or of the static path.
        lost: Share of packets lost in the flows' direction.
        goodput: By controller, one value per test, in the same order of tests.
    """

    loss: str
    lost: float
    goodput: Mapping[str, Sequence[float]]


def share_lost(paths: Sequence[Profile], direction: Direction) -> float:
    """Return the paths' mean random loss over their whole duration, 0 to 1."""
    return float(np.mean([PathView(path).loss(direction).mean() for path in paths]))


def by_level(path: str, unit: str, published: OrderEntry, levels: Sequence[Level]) -> list[LevelOrder]:
    """Return the order at each level of a path, the least loss first, with the published order at its level.

    A published order without a level comes last. It holds at a level where each controller of a group has more than
    each of the next one (`bentpipe.studies.agreement`).

    Args:
        path: Part of the study, as text.
        unit: Unit of the goodput; empty for a share.
        published: The published order.
        levels: The tests at each level.
    """
    text = " > ".join(", ".join(group) for group in published.order)
    orders = [LevelOrder(path, "", published.lost, text, {}, unit, None, published.source)]
    for level in levels:
        medians = {name: float(np.median(tests)) for name, tests in level.goodput.items()}
        ranked = sorted(medians, key=lambda name: (-medians[name], name))
        pairs = [pair for above, below in pairwise(published.order) for pair in product(above, below)]
        claims = [Claim(f"{a} over {b}", level.goodput[a], level.goodput[b]) for a, b in pairs]
        holds = all_of([assess(claim).holds for claim in claims])
        values = {name: medians[name] for name in ranked}
        orders.append(LevelOrder(path, level.loss, level.lost, " > ".join(ranked), values, unit, holds))
    return sorted(orders, key=lambda each: math.inf if each.lost is None else each.lost)

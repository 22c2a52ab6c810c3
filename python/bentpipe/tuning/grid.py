"""A grid of tunables, for example ``probe_rtt_win_ms=1000,2000``; values are checked before anything runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from bentpipe.errors import UserError, shown
from bentpipe.experiments.flow_names import split_flow
from bentpipe.experiments.schemes import check_controller, parse_scheme, read_tunable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Grid:
    """All combinations of the values of some tunables of one controller.

    Attributes:
        controller: The controller with the tunables that all points share, as a scheme: ``bbr2:probe_rtt_mode_ms=100``.
        axes: Name and values of each tunable, in the given order.
    """

    controller: str
    axes: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def size(self) -> int:
        """Number of points."""
        return math.prod(len(values) for _, values in self.axes)

    def points(self) -> Iterator[tuple[str, ...]]:
        """Iterate over the values of the axes, the last axis fastest."""
        return product(*(values for _, values in self.axes))

    def scheme(self, point: Sequence[str]) -> str:
        """Return the scheme of a point."""
        given = ",".join(f"{name}={value}" for (name, _), value in zip(self.axes, point, strict=True))
        return parse_scheme(f"{self.controller}{':' if split_flow(self.controller)[1] is None else ','}{given}")


def parse_grid(controller: str, axes: Sequence[str]) -> Grid:
    """Parse a grid: a controller with or without tunables, and ``tunable=value,value,…`` for each axis.

    Raises:
        UserError: A name is unknown (with the nearest name), or a value is out of range (with range and unit).
    """
    if "+" in controller or "," in controller.partition(":")[0]:
        raise UserError(f"{shown(controller)}: a grid has one controller", where="schemes", expected="for example bbr2")
    base = parse_scheme(controller)
    name, _ = split_flow(base)
    check_controller(name, "schemes")
    values_by_tunable: dict[str, tuple[str, ...]] = {}
    for axis in axes:
        tunable, equals, listed = (part.strip() for part in axis.partition("="))
        values = [value.strip() for value in listed.split(",")]
        if not (tunable and equals) or not all(values):
            raise UserError(
                shown(axis), where="grid", expected="tunable=value,value,…, for example loss_thresh=0.02,0.08"
            )
        if tunable in values_by_tunable:
            raise UserError(f"{tunable} is given twice", where="grid", expected="it once, with all its values")
        distinct = {read_tunable(name, tunable, value): value for value in values}
        values_by_tunable[tunable] = tuple(distinct.values())
    if not values_by_tunable:
        raise UserError("none given", where="grid", expected="for example loss_thresh=0.02,0.04,0.08")
    return Grid(base, tuple(values_by_tunable.items()))

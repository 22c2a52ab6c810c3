"""Obstruction maps with known serving satellites: those of the simulated terminal, from real elements of the day.

`bentpipe.measurements.dish.simulation.sky` draws the maps; it shares only the orbits and the size of a pixel with the
matching. The matching gets elements that are a day older, without some of the satellites.
"""

from __future__ import annotations

import gzip
import itertools
import re
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.measurements.dish.simulation.environment import DishEnvironment
from bentpipe.measurements.dish.simulation.sky import SimulatedMap
from bentpipe.measurements.dish.slots import SLOT_NS, SLOT_PHASE_NS
from bentpipe.orbits.elements import read_elements
from bentpipe.profiles.make import make_profile
from bentpipe.scenarios.places import parse_place
from bentpipe.times import SLOT_S, parse_utc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bentpipe import _native
    from bentpipe.scenarios.sites import Place

#: Elements for the maps, and those for the matching: `tle_starlink`.
PAINTED_BY, KNOWN = "10-05-2026.tle.gz", "09-05-2026.tle.gz"
#: Share of the satellites that the matching lacks.
UNKNOWN = 0.05


@dataclass(frozen=True)
class Case:
    """One terminal over a period.

    Attributes:
        site, start: Its place and the start.
        every_s: Time between reads of the map.
        clear_s: Time between resets of the map; 0: never.
        off: Error of the map, upwards and to the right [pixels]: a terminal that does not know its orientation exactly.
        late_s: By how much the clock of the reads is late.
    """

    site: str
    start: str
    every_s: float
    clear_s: int
    off: tuple[int, int] = (0, 0)
    late_s: float = 0.0


#: Cases: sites, hours and reads. Constants are fitted on the first and scored on the second.
_WAYS = ((1, 15), (1, 600), (5, 15), (15, 900), (1, 0))
FITTED = [
    Case(site, start, every, clear, off, late)
    for (site, start), (every, clear), (off, late) in zip(
        [("melbourne", "2026-05-10T03:00:12Z"), ("louvain", "2026-05-10T05:00:12Z")] * 5,
        [way for way in _WAYS for _ in range(2)],
        [((0, 0), 0.0), ((1, 0), 0.5), ((0, -1), 0.0), ((0, 0), 1.0), ((1, 1), 0.3)] * 2,
        strict=True,
    )
]
SCORED = [
    Case(site, start, every, clear, off, late)
    for (site, start), (every, clear), (off, late) in zip(
        [("seattle", "2026-05-10T07:00:12Z"), ("48.51,-124.29", "2026-05-10T01:30:12Z")] * 5,
        [way for way in _WAYS for _ in range(2)],
        [((0, 0), 0.5), ((0, 1), 0.0), ((1, 0), 0.0), ((0, 0), 0.0), ((-1, 1), 0.3)] * 2,
        strict=True,
    )
]


@dataclass(frozen=True)
class Truth:
    """A case's truth: the place, the serving satellite of each slot (0: none), and the terminal's environment."""

    place: Place
    world: DishEnvironment
    serving: dict[int, int]


def world_of(case: Case, elements: Path, duration_s: int) -> Truth:
    """Return the scheduler's choices at the case's site and hour."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the distance to gateways does not matter here
        profile = make_profile(
            case.site, case.site, start_unix_ns=parse_utc(case.start), duration_s=duration_s, elements=elements, seed=7
        )
    world = DishEnvironment(profile)
    slots = {world.start_unix_ns + s * 10**9: int(world.serving[s]) for s in range(0, world.seconds, SLOT_S)}
    return Truth(parse_place(case.site), world, slots)


def maps_of(case: Case, truth: Truth) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Return the terminal's map at each read."""
    paint = SimulatedMap(truth.world, 0)
    every = round(case.every_s)
    for second in range(0, truth.world.seconds + 1, every):
        paint.paint_to(second)
        up, right = case.off
        shown = np.roll(paint.quality, (-up, right), axis=(0, 1))
        yield truth.world.start_unix_ns + second * 10**9 + round(case.late_s * 1e9), shown.copy()
        if case.clear_s and second % case.clear_s == 0:
            paint.clear(second)


def known_satellites(folder: Path, at_unix_ns: int, *, missing: float = UNKNOWN) -> _native.Satellites:
    """Return the elements of the day before, without some of the satellites."""
    lines = gzip.decompress((folder / KNOWN).read_bytes()).decode("ascii").splitlines()
    rng = np.random.default_rng(11)
    kept: list[str] = []
    for first, second in itertools.pairwise(lines):
        if re.match("1 ", first) and re.match("2 ", second) and rng.random() >= missing:
            kept += [first, second]
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "elements.tle"
        path.write_text("\n".join(kept) + "\n", encoding="ascii")
        return read_elements(path, at_unix_ns)


def slot_start(unix_ns: int) -> int:
    """Return the start of the slot that contains a time."""
    return (unix_ns - SLOT_PHASE_NS) // SLOT_NS * SLOT_NS + SLOT_PHASE_NS

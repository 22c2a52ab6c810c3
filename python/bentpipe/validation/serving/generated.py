"""Maps of which it is known who painted them: the simulated terminal's, under real elements of the same day.

The maps are painted by `bentpipe.measurements.dish.simulation.sky`, which shares no code with the matching but the
orbits and the size of a pixel; the elements that the matching gets are a day older than those that painted, and some of
the satellites are not among them.
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

#: Elements that painted, and those that the matching gets: `tle_starlink`.
PAINTED_BY, KNOWN = "10-05-2026.tle.gz", "09-05-2026.tle.gz"
#: Part of the satellites that the matching does not get.
UNKNOWN = 0.05


@dataclass(frozen=True)
class Case:
    """One terminal for a while.

    Attributes:
        site, start: Where and when it stood.
        every_s: Time between looks at the map.
        clear_s: Time between clearings of it; 0: never.
        off: Pixels that the map is off upwards and to the right: a terminal that does not know exactly how it stands.
        late_s: By how much the looks' clock is late.
    """

    site: str
    start: str
    every_s: float
    clear_s: int
    off: tuple[int, int] = (0, 0)
    late_s: float = 0.0


#: Sites, hours and ways of looking: what constants are fitted on, and what they are scored on.
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
    """A case's sky: the place, who served in each slot (0: nobody), and the terminal's world."""

    place: Place
    world: DishEnvironment
    serving: dict[int, int]


def world_of(case: Case, elements: Path, duration_s: int) -> Truth:
    """The scheduler's choices at the case's site and hour."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gateways far from a site are not what is asked here
        profile = make_profile(
            case.site, case.site, start_unix_ns=parse_utc(case.start), duration_s=duration_s, elements=elements, seed=7
        )
    world = DishEnvironment(profile)
    slots = {world.start_unix_ns + s * 10**9: int(world.serving[s]) for s in range(0, world.seconds, SLOT_S)}
    return Truth(parse_place(case.site), world, slots)


def maps_of(case: Case, truth: Truth) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """What the terminal's map shows at each look."""
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
    """The elements of the day before, without some of the satellites."""
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
    """The begin of the slot that a moment lies in."""
    return (unix_ns - SLOT_PHASE_NS) // SLOT_NS * SLOT_NS + SLOT_PHASE_NS

"""Constellations as Walker shells, read from ``constellations/*.toml``.

**Altitude** is the height of a circular orbit above the equatorial radius of WGS72, `WGS72_RADIUS_KM`; with WGS72's
gravitational parameter it gives the mean motion, `mean_motion_rev_per_day`, as in a two-line element set (550 km
is 15.055 revolutions a day). WGS72 is used because SGP4 is defined with it.

**Phasing** is Walker's F: satellite s of plane p has right ascension of the ascending node ``raan_spread * p / planes``
and argument of latitude ``360 s / S + 360 F p / (planes * S)`` degrees, S satellites per plane (J. G. Walker, Satellite
constellations, JBIS 37, 1984). A spread of 360 degrees is a Walker delta, 180 a Walker star.
"""

from __future__ import annotations

import difflib
import math
from dataclasses import dataclass
from functools import cache
from typing import Literal, cast

from bentpipe.errors import UserError
from bentpipe.scenarios.tables import Table, packaged_names, packaged_text, unknown_name

#: Earth's gravitational parameter of WGS72 [km³/s²] (Vallado et al., AIAA 2006-6753, table 1).
WGS72_MU_KM3_S2 = 398600.8
#: Earth's equatorial radius of WGS72 [km] (same source).
WGS72_RADIUS_KM = 6378.135

Isl = Literal["grid", "none"]
PhasingBasis = Literal["filing", "chosen"]


@dataclass(frozen=True, slots=True)
class Shell:
    """Satellites of equal altitude and inclination in evenly spaced planes.

    Attributes:
        name: Unique within its constellation.
        altitude_km: Above `WGS72_RADIUS_KM`; see the module's docstring.
        inclination_deg: 0 to 180.
        planes: Number of planes.
        satellites_per_plane: Number of satellites in each.
        raan_spread_deg: Right ascension covered by all planes together, 360 (delta) or about 180 (star).
        phasing: Walker's F, 0 to planes - 1.
        phasing_basis: ``"filing"`` if F is in the filing, ``"chosen"`` if it was chosen here.
        min_elevation_deg: Lowest elevation at which a terminal may use a satellite.
        gso_exclusion_deg: Smallest angle to the geostationary arc, None where the source has none.
        isl: ``"grid"`` for +Grid inter-satellite links, ``"none"`` for no links.
        slot_longitude_deg: For a geostationary satellite its longitude, otherwise None.

    """

    name: str
    altitude_km: float
    inclination_deg: float
    planes: int
    satellites_per_plane: int
    raan_spread_deg: float
    phasing: int
    phasing_basis: PhasingBasis
    min_elevation_deg: float
    gso_exclusion_deg: float | None
    isl: Isl
    slot_longitude_deg: float | None

    @property
    def satellites(self) -> int:
        """Number of satellites in the shell."""
        return self.planes * self.satellites_per_plane


@dataclass(frozen=True, slots=True)
class Constellation:
    """A constellation of one or more shells.

    Attributes:
        name: File name, the value of ``--constellation``.
        description: One line.
        source: Source of the shells: one line.
        sources: Further sources by subject (``phasing``, ``min_elevation``, ...).
        shells: At least one.

    """

    name: str
    description: str
    source: str
    sources: dict[str, str]
    shells: tuple[Shell, ...]

    @property
    def satellites(self) -> int:
        """Number of satellites in all shells."""
        return sum(shell.satellites for shell in self.shells)


def constellation_names() -> list[str]:
    """Return the names of the packaged constellations, sorted."""
    return packaged_names("constellations")


@cache
def load_constellation(name: str) -> Constellation:
    """Return a packaged constellation; raise `UserError` with the nearest name if there is none of this name."""
    known = constellation_names()
    if name not in known:
        nearest = sorted(known, key=lambda k: -difflib.SequenceMatcher(None, name.lower(), k).ratio())
        raise unknown_name("constellation", name, known, f"known: {', '.join(nearest)}")
    return parse_constellation(packaged_text(f"constellations/{name}.toml"), name, f"constellations/{name}.toml")


def parse_constellation(text: str, name: str, where: str) -> Constellation:
    """Read a constellation from TOML text; `where` names it in messages. Raise `UserError`."""
    table = Table.parse(text, where)
    constellation = Constellation(
        name=name,
        description=table.text("description"),
        source=table.text("source"),
        sources=table.named_texts("sources"),
        shells=tuple(_shell(entry) for entry in table.tables("shells")),
    )
    table.done()
    names = [shell.name for shell in constellation.shells]
    if len(set(names)) != len(names):
        raise UserError(f"{where}: shells are named {names}; expected unique names")
    return constellation


def mean_motion_rev_per_day(altitude_km: float) -> float:
    """Return the revolutions per day of a circular orbit `altitude_km` above `WGS72_RADIUS_KM` (Kepler, WGS72)."""
    semi_major_axis_km = WGS72_RADIUS_KM + altitude_km
    return math.sqrt(WGS72_MU_KM3_S2 / semi_major_axis_km**3) * 86400.0 / (2.0 * math.pi)


def _shell(entry: Table) -> Shell:
    planes = entry.integer("planes", 1, 1000)
    shell = Shell(
        name=entry.text("name"),
        altitude_km=entry.number("altitude_km", 100.0, 100_000.0),
        inclination_deg=entry.number("inclination_deg", 0.0, 180.0),
        planes=planes,
        satellites_per_plane=entry.integer("satellites_per_plane", 1, 10_000),
        raan_spread_deg=entry.number("raan_spread_deg", 0.0, 360.0),
        phasing=entry.integer("phasing", 0, planes - 1),
        phasing_basis=cast(PhasingBasis, entry.choice("phasing_basis", ["filing", "chosen"])),
        min_elevation_deg=entry.number("min_elevation_deg", 0.0, 90.0),
        gso_exclusion_deg=entry.number("gso_exclusion_deg", 0.0, 90.0) if entry.has("gso_exclusion_deg") else None,
        isl=cast(Isl, entry.choice("isl", ["grid", "none"])),
        slot_longitude_deg=entry.number("slot_longitude_deg", -180.0, 180.0)
        if entry.has("slot_longitude_deg")
        else None,
    )
    entry.done()
    if shell.slot_longitude_deg is not None and (shell.satellites != 1 or shell.inclination_deg != 0.0):
        raise UserError(f"{entry.where}: slot_longitude_deg is for a single satellite at inclination 0; remove it")
    return shell

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
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, unknown_name
from bentpipe.records import Items, Name, Record, Text
from bentpipe.scenarios.tables import packaged_names, packaged_text

#: Earth's gravitational parameter of WGS72 [km³/s²] (Vallado et al., AIAA 2006-6753, table 1).
WGS72_MU_KM3_S2 = 398600.8
#: Earth's equatorial radius of WGS72 [km] (same source).
WGS72_RADIUS_KM = 6378.135

Isl = Literal["grid", "ring", "none"]
PhasingBasis = Literal["filing", "chosen"]


class Shell(Record):
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
        isl: ``"grid"`` for +Grid inter-satellite links, ``"ring"`` for links in the planes only, ``"none"``.
        slot_longitude_deg: For a geostationary satellite its longitude, otherwise None.

    """

    name: Text
    altitude_km: Annotated[float, Field(ge=100, le=100_000)]
    inclination_deg: Annotated[float, Field(ge=0, le=180)]
    planes: Annotated[int, Field(ge=1, le=1000)]
    satellites_per_plane: Annotated[int, Field(ge=1, le=10_000)]
    raan_spread_deg: Annotated[float, Field(ge=0, le=360)]
    phasing: Annotated[int, Field(ge=0)]
    phasing_basis: PhasingBasis
    min_elevation_deg: Annotated[float, Field(ge=0, le=90)]
    gso_exclusion_deg: Annotated[float, Field(ge=0, le=90)] | None = None
    isl: Isl
    slot_longitude_deg: Annotated[float, Field(ge=-180, le=180)] | None = None

    @model_validator(mode="after")
    def _check_orbits(self) -> Self:
        if self.phasing >= self.planes:
            raise UserError(f"phasing is {self.phasing}", expected=f"a whole number from 0 to {self.planes - 1}")
        if self.slot_longitude_deg is not None and (self.satellites != 1 or self.inclination_deg != 0.0):
            raise UserError("slot_longitude_deg is for a single satellite at inclination 0", hint="removing it")
        return self

    @property
    def satellites(self) -> int:
        """Number of satellites in the shell."""
        return self.planes * self.satellites_per_plane


class ConstellationFile(Record):
    """A constellation of one or more shells, as ``constellations/NAME.toml`` has it.

    Attributes:
        description: One line.
        source: Source of the shells: one line.
        sources: Further sources by subject (``phasing``, ``min_elevation``, ...).
        shells: At least one.

    """

    description: Text
    source: Text
    sources: dict[Name, Text] = Field(default_factory=dict)
    shells: Annotated[Items[Shell], Field(min_length=1)]

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        names = [shell.name for shell in self.shells]
        if len(set(names)) != len(names):
            raise UserError(f"shells are named {names}", expected="unique names")
        return self


class Constellation(ConstellationFile):
    """A constellation with its name, the value of ``--constellation``."""

    name: str

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
    file = ConstellationFile.from_toml(text, where)
    return Constellation(name=name, **dict(file))


def mean_motion_rev_per_day(altitude_km: float) -> float:
    """Return the revolutions per day of a circular orbit `altitude_km` above `WGS72_RADIUS_KM` (Kepler, WGS72)."""
    semi_major_axis_km = WGS72_RADIUS_KM + altitude_km
    return math.sqrt(WGS72_MU_KM3_S2 / semi_major_axis_km**3) * 86400.0 / (2.0 * math.pi)

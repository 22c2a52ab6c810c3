"""Scenario data: constellations, sites, gateways, PoPs, fibre and presets, with loaders that check them.

The TOML files are in this package and part of the wheel. ``docs/reference/scenarios.md`` describes their keys.

- `load_constellation`, `constellation_names`: Walker shells from published filings.
- `load_sites`, `parse_place`, `as_place`: named places, and ``lat,lon[,alt_m]``.
- `load_gateways`, `read_gateways`, `load_pops`, `nearest_pop`, `pop_by_code`: gateways and PoPs.
- `country_at`: the country of the nearest site, gateway or PoP.
- `fibre_one_way_ms`: fibre delay between two points.
- `load_presets`, `parse_preset`: static paths. `load_services`: published satellite paths.
- `load_traffic`, `find_traffic`: cross traffic on a path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe import lazy

if TYPE_CHECKING:
    from bentpipe.scenarios.fibre import FibreDelay, fibre_one_way_ms, great_circle_km
    from bentpipe.scenarios.ground import (
        Gateway,
        GatewayList,
        Pop,
        country_at,
        load_gateways,
        load_pops,
        nearest_pop,
        pop_by_code,
        read_gateways,
    )
    from bentpipe.scenarios.places import PlaceLike, as_place, parse_place
    from bentpipe.scenarios.presets import Preset, PresetPath, load_presets, parse_preset
    from bentpipe.scenarios.services import Service, load_services
    from bentpipe.scenarios.shells import (
        Constellation,
        Shell,
        constellation_names,
        load_constellation,
        mean_motion_rev_per_day,
    )
    from bentpipe.scenarios.sites import Place, load_sites, sites_source
    from bentpipe.scenarios.traffic import Traffic, find_traffic, load_traffic
    from bentpipe.scenarios.units import QueueLimit

_HOMES = {
    "Constellation": "bentpipe.scenarios.shells",
    "FibreDelay": "bentpipe.scenarios.fibre",
    "Gateway": "bentpipe.scenarios.ground",
    "GatewayList": "bentpipe.scenarios.ground",
    "Place": "bentpipe.scenarios.sites",
    "PlaceLike": "bentpipe.scenarios.places",
    "Pop": "bentpipe.scenarios.ground",
    "Preset": "bentpipe.scenarios.presets",
    "PresetPath": "bentpipe.scenarios.presets",
    "QueueLimit": "bentpipe.scenarios.units",
    "Service": "bentpipe.scenarios.services",
    "Shell": "bentpipe.scenarios.shells",
    "Traffic": "bentpipe.scenarios.traffic",
    "as_place": "bentpipe.scenarios.places",
    "constellation_names": "bentpipe.scenarios.shells",
    "country_at": "bentpipe.scenarios.ground",
    "fibre_one_way_ms": "bentpipe.scenarios.fibre",
    "find_traffic": "bentpipe.scenarios.traffic",
    "great_circle_km": "bentpipe.scenarios.fibre",
    "load_constellation": "bentpipe.scenarios.shells",
    "load_gateways": "bentpipe.scenarios.ground",
    "load_pops": "bentpipe.scenarios.ground",
    "load_presets": "bentpipe.scenarios.presets",
    "load_services": "bentpipe.scenarios.services",
    "load_sites": "bentpipe.scenarios.sites",
    "load_traffic": "bentpipe.scenarios.traffic",
    "mean_motion_rev_per_day": "bentpipe.scenarios.shells",
    "nearest_pop": "bentpipe.scenarios.ground",
    "parse_place": "bentpipe.scenarios.places",
    "parse_preset": "bentpipe.scenarios.presets",
    "pop_by_code": "bentpipe.scenarios.ground",
    "read_gateways": "bentpipe.scenarios.ground",
    "sites_source": "bentpipe.scenarios.sites",
}

__all__ = [
    "Constellation",
    "FibreDelay",
    "Gateway",
    "GatewayList",
    "Place",
    "PlaceLike",
    "Pop",
    "Preset",
    "PresetPath",
    "QueueLimit",
    "Service",
    "Shell",
    "Traffic",
    "as_place",
    "constellation_names",
    "country_at",
    "fibre_one_way_ms",
    "find_traffic",
    "great_circle_km",
    "load_constellation",
    "load_gateways",
    "load_pops",
    "load_presets",
    "load_services",
    "load_sites",
    "load_traffic",
    "mean_motion_rev_per_day",
    "nearest_pop",
    "parse_place",
    "parse_preset",
    "pop_by_code",
    "read_gateways",
    "sites_source",
]

__getattr__ = lazy.names_of(__name__, _HOMES)

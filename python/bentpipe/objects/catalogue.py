"""Lists of what has a name: controllers, sites, constellations, presets, policies and loss environments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.objects.arguments import FileLike

Rows = list[dict[str, Any]]


def controllers() -> Rows:
    """List the built-in congestion controllers: status, description, source, needed path hints, and tunables.

    Example:
        >>> import bentpipe as bp
        >>> bbr = next(each for each in bp.controllers() if each["name"] == "bbr")
        >>> [tunable["name"] for tunable in bbr["tunables"]]
        ['min_rtt_win_s', 'probe_rtt_mode_ms']
    """
    return _native.controllers()


def sites(gateways: FileLike | None = None) -> Rows:
    """List the places with a name: IATA codes, position, PoP, gateways in reach and coverage.

    `coverage_percent` is the share of slots in which a satellite of starlink-gen1 sees the site and a gateway,
    `coverage_with_lasers_percent` the share with inter-satellite links where no gateway is in reach.

    Args:
        gateways: A gateway list (TOML); default: Starlink's of 2024.

    Example:
        >>> import bentpipe as bp
        >>> next(site["lat_deg"] for site in bp.sites() if site["name"] == "london")
        51.51
    """
    return site_rows(gateways)


def site_rows(gateways: FileLike | None = None, on_progress: Callable[[float], None] = lambda fraction: None) -> Rows:
    """Return the rows of `sites`; `on_progress` is called with the fraction done."""
    from bentpipe.profiles.coverage import coverage
    from bentpipe.scenarios.ground import read_gateways
    from bentpipe.scenarios.sites import load_iata_codes, load_sites, sites_source

    places, codes = list(load_sites().values()), load_iata_codes()
    ground = None if gateways is None else read_gateways(arguments.file(gateways, "gateways"))
    source = sites_source()
    return [
        {
            "name": place.name,
            "iata": [code for code, name in codes.items() if name == place.name],
            "lat_deg": place.lat_deg,
            "lon_deg": place.lon_deg,
            "alt_m": place.alt_m,
            "pop": place.pop,
            "gateways": cover.gateways,
            "coverage_percent": round(100 * cover.share),
            "coverage_with_lasers_percent": round(100 * cover.share_with_lasers),
            "description": place.description,
            "source": source,
        }
        for place, cover in zip(places, coverage(places, ground, on_progress), strict=True)
    ]


def constellations() -> Rows:
    """List the constellations: satellites, shells, description and source.

    Example:
        >>> import bentpipe as bp
        >>> [each["satellites"] for each in bp.constellations() if each["name"] == "starlink-s1"]
        [1584]
    """
    from bentpipe.scenarios.shells import constellation_names, load_constellation

    return [
        {
            "name": name,
            "satellites": constellation.satellites,
            "shells": len(constellation.shells),
            "description": constellation.description,
            "source": constellation.source,
        }
        for name in constellation_names()
        for constellation in [load_constellation(name)]
    ]


def presets() -> Rows:
    """List the paths with a name: static ones with their parameters, and published satellite services.

    Example:
        >>> import bentpipe as bp
        >>> [each["parameters"]["rtt"] for each in bp.presets() if each["name"] == "dumbbell"]
        ['40ms']
    """
    from bentpipe.scenarios.presets import load_presets
    from bentpipe.scenarios.services import load_services

    static: Rows = [
        {
            "name": preset.name,
            "parameters": {key: parameter.default for key, parameter in preset.parameters.items()},
            "description": preset.description,
            "source": preset.source,
        }
        for preset in load_presets().values()
    ]
    return static + [
        {
            "name": service.name,
            "parameters": {},
            "description": service.description,
            "source": f"{service.source}. {service.chosen}",
        }
        for service in load_services().values()
    ]


def losses() -> Rows:
    """List the loss environments: description, source, the figures they were fitted to, level and parameters.

    Shares of `level` are of their Profiles, mean of both directions, over all hours: packets `lost` in a direction,
    `pings_lost`, `lossy_seconds`, and packets `lost_at_edges`, within a second of a slot edge.

    Example:
        >>> import bentpipe as bp
        >>> satguard = next(each for each in bp.losses() if each["name"] == "satguard")
        >>> satguard["parameters"]["reconfiguration_probability"]
        1.0
    """
    from bentpipe.scenarios.losses import load_losses

    keys = ("name", "description", "level", "source", "fitted_to")
    return [
        {**{key: plain[key] for key in keys}, "parameters": environment.process()}
        for environment in load_losses().values()
        for plain in [environment.to_dict()]
    ]


def policies() -> Rows:
    """List the policies that select the satellite of each slot.

    Example:
        >>> import bentpipe as bp
        >>> [each["name"] for each in bp.policies()][0]
        'starlink-like'
    """
    from bentpipe.orbits import sky

    return [{"name": name, "description": description} for name, description in sky.policies().items()]

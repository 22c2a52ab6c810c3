"""Profiles by name: static paths (``dumbbell:rate=100mbit,rtt=40ms,queue=1bdp``) and published satellite paths."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from bentpipe._native import Profile
from bentpipe.errors import UserError, unknown_name
from bentpipe.profiles.build import Points, Provenance, Side, queue_limit, single_hop_profile
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.scenarios.presets import load_presets, parse_preset
from bentpipe.scenarios.services import Service, load_services
from bentpipe.times import DEFAULT_START_UTC, parse_utc


def preset_profile(
    preset: str,
    duration_s: float,
    *,
    start_unix_ns: int | None = None,
    seed: int = 0,
    name: str | None = None,
    loss: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> Profile:
    """Return the Profile of a preset.

    A static preset is one hop with constant rate and delay and a drop-tail queue in each direction. A published
    service is a satellite path (`make_profile`) from its terminal to its server.

    Args:
        preset: ``NAME`` or ``NAME:key=value,...`` of `bentpipe.scenarios.load_presets`, or ``NAME`` of
            `bentpipe.scenarios.load_services`. Each direction has half of `rtt` as its delay. A queue in ``bdp`` is a
            multiple of the direction's rate x `rtt`.
        duration_s: Duration [s], above 0 and at most 31 days.
        start_unix_ns: Start [ns since 1970, UTC]; default: the start of the service, or `DEFAULT_START_UTC`.
        seed: Seed of all random draws; a static path has none.
        name: The Profile's name; default: the preset with all its parameters.
        loss: Loss environment, as for `make_profile`; for a service only.
        parameters: Access model parameters, as for `make_profile`; for a service only.
        on_progress: Called with the fraction done, 0 to 1.

    Raises:
        UserError: An unknown preset or parameter, a value out of range, a duration that is not above zero.

    Example:
        >>> path = preset_profile("dumbbell:rate=100mbit,rtt=40ms,queue=1bdp", 60.0)
        >>> path.name
        'dumbbell:rate=100mbit,rtt=40ms,queue=1bdp,loss=0'
        >>> path.duration_s
        60.0
    """
    key, colon, _ = preset.strip().partition(":")
    services = load_services()
    service = services.get(key.strip().lower())
    if service is not None:
        if colon:
            raise UserError(f"{service.name} has no parameters", where="preset", expected="the name alone")
        return _service_profile(service, duration_s, start_unix_ns, seed, name, loss, parameters, on_progress)
    if key.strip().lower() not in load_presets():
        known = [*load_presets(), *services]
        raise unknown_name("preset", key.strip(), known, "`bentpipe presets` lists them")
    if parameters or loss is not None:
        raise UserError(f"preset {key.strip()}: a static path has no access model; give its own, as in NAME:loss=1e-3")
    return _static_profile(preset, duration_s, start_unix_ns, name)


def _service_profile(
    service: Service,
    duration_s: float,
    start_unix_ns: int | None,
    seed: int,
    name: str | None,
    loss: str | None,
    parameters: Mapping[str, Any] | None,
    on_progress: Callable[[float], object],
) -> Profile:
    with warnings.catch_warnings():
        # services.toml already documents the route to the server.
        warnings.simplefilter("ignore", UnpublishedRouteWarning)
        return make_profile(
            service.terminal,
            service.server,
            start_unix_ns=parse_utc(service.start) if start_unix_ns is None else start_unix_ns,
            duration_s=duration_s,
            constellation=service.constellation,
            seed=seed,
            name=name or service.name,
            loss=loss,
            parameters=parameters,
            on_progress=on_progress,
        )


def _static_profile(preset: str, duration_s: float, start_unix_ns: int | None, name: str | None) -> Profile:
    path = parse_preset(preset)
    up_ns = path.rtt_ns // 2

    def side(delay_ns: int, rate_bps: int) -> Side:
        return Side(
            delay_s=Points.constant(delay_ns / 1e9),
            capacity_bps=Points.constant(rate_bps),
            loss_probability=Points.constant(path.loss) if path.loss > 0 else None,
            queue=queue_limit(path.queue, rate_bps, path.rtt_ns),
        )

    return single_hop_profile(
        name=name or path.text,
        hop="bottleneck",
        start_unix_ns=parse_utc(DEFAULT_START_UTC) if start_unix_ns is None else start_unix_ns,
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance(
            "preset", f"{load_presets()[path.preset].description} ({path.text})", recipe={"preset": path.text}
        ),
        up=side(up_ns, path.up_bps),
        down=side(path.rtt_ns - up_ns, path.down_bps),
    )

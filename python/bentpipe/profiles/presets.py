"""Static paths by name: ``dumbbell:rate=100mbit,rtt=40ms,queue=1bdp``."""

from __future__ import annotations

from bentpipe._native import Profile
from bentpipe.profiles.build import Points, Provenance, Side, queue_limit, single_hop_profile
from bentpipe.scenarios import load_presets, parse_preset
from bentpipe.times import DEFAULT_START_UTC, parse_utc


def preset_profile(
    preset: str, duration_s: float, *, start_unix_ns: int | None = None, name: str | None = None
) -> Profile:
    """The Profile of a preset: one hop with constant rate and delay and a drop-tail queue, each direction for itself.

    Args:
        preset: ``NAME`` or ``NAME:key=value,...``; `bentpipe.scenarios.load_presets` lists them. Half of `rtt` is each
            direction's delay; a queue in ``bdp`` is multiples of the direction's rate x `rtt`.
        duration_s: How long it lasts [s].
        start_unix_ns: When it starts [ns since 1970, UTC]; by default `DEFAULT_START_UTC`.
        name: The Profile's name; by default the preset with all its parameters.

    Raises:
        UserError: An unknown preset or parameter, a value out of range, a duration that is not above zero.
    """
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

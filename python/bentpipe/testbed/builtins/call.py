"""``call``: packets at the pace of a video call both ways, with irtt, and an estimate of what a listener would say.

The estimate is the E-model for G.711 with concealment as Cole and Rosenbluth simplified it (Voice over IP Performance
Monitoring, ACM SIGCOMM CCR 31(2), 2001): R = 94.2 - Id - Ie with Id = 0.024 d + 0.11 (d - 177.3) if d > 177.3 ms and
Ie = 30 ln(1 + 15 e). Its d is half of the least RTT, plus the playout buffer and a frame; e counts packets that were
lost, and those later than the buffer. Delays are compared within a direction only, so clocks need not agree.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.builtins import irtt

if TYPE_CHECKING:
    import polars as pl

    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import CallArguments

PACKET_BYTES = 1200
"""Payload of a packet [bytes]: the size that WebRTC's video packets have at most."""
HEADER_BYTES = 28
"""Headers of IPv4 and UDP [bytes]."""
BUFFER_MS = 60.0
"""Playout buffer beyond the least delay [ms]. Chosen here."""
FRAME_MS = 20.0
"""Speech in a packet [ms]."""


def client(arguments: CallArguments, context: Context) -> None:
    """Call."""
    every_s = (PACKET_BYTES + HEADER_BYTES) * 8 / arguments.bitrate
    size_bytes = PACKET_BYTES
    if every_s > 0.02:  # a frame of speech every 20 ms, in smaller packets
        every_s, size_bytes = 0.02, max(60, round(arguments.bitrate * 0.02 / 8) - HEADER_BYTES)
    run = irtt.send(context, every_s, arguments.seconds, size_bytes)
    assert run.probes is not None
    lost = lost_by_direction((context.raw / "irtt.json").read_bytes())
    context.figures |= {"packets": run.probes.height, "packet_bytes": size_bytes, "every_ms": every_s * 1e3}
    context.figures |= figures(run.probes, lost)


def lost_by_direction(document: bytes) -> dict[str, int]:
    """Return the packets that were lost, by direction, from the document of irtt; ``unknown``: on one of the two."""
    names = {"true": "unknown", "true_up": "up", "true_down": "down"}
    lost = dict.fromkeys(names.values(), 0)
    for trip in json.loads(document)["round_trips"]:
        name = names.get(str(trip["lost"]).lower())
        if name is not None:
            lost[name] += 1
    return lost


def figures(probes: pl.DataFrame, lost: dict[str, int]) -> dict[str, Any]:
    """Return the figures of a call: the RTT, and of each direction loss, delay variation and opinion.

    Args:
        probes: Packets, with `rtt_ms`, `up_ms` and `down_ms`.
        lost: Lost packets by direction; ``unknown`` counts in both.

    Example:
        >>> import polars as pl
        >>> probes = pl.DataFrame({"rtt_ms": [40.0] * 9, "up_ms": [1e6 + 20] * 9, "down_ms": [20 - 1e6] * 9})
        >>> call = figures(probes, {"up": 1, "down": 0, "unknown": 0})
        >>> call["down"]["mos"], call["up"]["mos"] < 3
        (4.3, True)
    """
    answered = probes.filter(probes["rtt_ms"].is_not_null())
    if answered.is_empty():
        nothing = {"loss": 1.0, "late": 0.0, "variation_p95_ms": None, "mos": 1.0}
        return {"rtt_min_ms": None, "rtt_median_ms": None, "up": nothing, "down": nothing}
    least_ms = float(answered["rtt_ms"].min())  # type: ignore[arg-type]
    result: dict[str, Any] = {"rtt_min_ms": least_ms, "rtt_median_ms": answered["rtt_ms"].median()}
    sent = probes.height
    for direction in ("up", "down"):
        missing = lost[direction] + lost["unknown"]
        delays = answered[f"{direction}_ms"].drop_nulls()
        variation = delays - delays.min()
        late = int((variation > BUFFER_MS).sum())
        share = min(1.0, (missing + late) / sent)
        result[direction] = {
            "loss": missing / sent,
            "late": late / sent,
            "variation_p95_ms": variation.quantile(0.95),
            "mos": round(opinion(least_ms / 2 + BUFFER_MS + FRAME_MS, share), 2),
        }
    return result


def opinion(delay_ms: float, loss: float) -> float:
    """Return the mean opinion score (1 to 4.5) of a one-way delay and a share of missing packets.

    Example:
        >>> round(opinion(100.0, 0.0), 1), round(opinion(400.0, 0.1), 1)
        (4.3, 2.2)
    """
    rating = 94.2 - 0.024 * delay_ms - 0.11 * max(0.0, delay_ms - 177.3) - 30 * math.log(1 + 15 * loss)
    rating = min(100.0, max(0.0, rating))
    return max(1.0, 1 + 0.035 * rating + 7e-6 * rating * (rating - 60) * (100 - rating))

"""Delay by path segment, S1 to S6, and the bent pipe's share (T3P, section 3.4, figures 3b and 3c).

S1 is host to terminal, S2 the bent pipe (terminal, satellite, gateway), S3 to S5 Starlink's own network on the ground,
S6 the wide area. The paper separates them by the AS numbers of addresses; so does this, with `networks.toml`:

- S1 ends at the last private address before the gateway; a host connected directly to the dish has none;
- S2 ends at the first carrier-grade NAT address (100.64.0.1, the gateway), if its RTT exceeds that of the fastest
  private address by at least that of a path over a satellite (`LEAST_BENT_PIPE_MS`): other carriers' NATs have such
  addresses too, a few milliseconds away. A terminal with a public address has a gateway with a public address: it
  counts if its range is known, or if the next address that is not private belongs to Starlink's network;
- S3 ends at the last private address after it (172.16.0.0/12: the PoP);
- S4 ends at the first public address of Starlink's network, S5 at the last;
- S6 ends at the target.

The division of the ground part into S3, S4 and S5 is ours: the paper's text has only their sum.
"""

from __future__ import annotations

import ipaddress
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from bentpipe.analysis.tables import check_columns
from bentpipe.errors import UserError

#: Hops of traceroutes, one row each; `address` null: no answer; `rtt_ms` null likewise.
HOPS = {
    "probe": pl.String(),
    "target": pl.String(),
    "unix_ns": pl.Int64(),
    "ttl": pl.Int64(),
    "address": pl.String(),
    "rtt_ms": pl.Float64(),
}
SEGMENTS = ("S1", "S2", "S3", "S4", "S5", "S6")
#: Altitude of the lowest shell [km]: Starlink's are at 525 to 570 km; 500 leaves room for satellites below their shell.
LOWEST_KM = 500.0
#: Least RTT that a satellite hop adds [ms]: four times straight up or down (to the satellite, to the gateway, and
#: back) at the speed of light.
LEAST_BENT_PIPE_MS = 4 * LOWEST_KM / 299.792458
_PARTS = ("access", "inside", "private")


@dataclass(frozen=True)
class PathShares:
    """Delay by path segment.

    Attributes:
        traces: One row per traceroute: `probe`, `target`, `unix_ns`, `reached` (the target answered), `bent_pipe` (it
            passed a gateway), and the RTT to the end of each segment, `S1_end_ms` … `S6_end_ms`; null where no
            hop there answered.
        segments: One row per probe, target and segment: `traces` (number that have it), `end_rtt_ms` (median over
            traceroutes of the RTT to its end), `one_way_ms` (half of the difference to the preceding segment's end),
            `share` of the one-way time to the target. The time of a missing segment counts for the next. Routers answer
            with low priority: a small negative `one_way_ms` is an effect of that, and is not corrected.
    """

    traces: pl.DataFrame
    segments: pl.DataFrame


@cache
def _networks() -> list[tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, str]]:
    data = tomllib.loads((Path(__file__).with_name("networks.toml")).read_text(encoding="utf-8"))
    ranges = [(ipaddress.ip_network(entry["prefix"]), str(entry["part"])) for entry in data["range"]]
    return sorted(ranges, key=lambda entry: -entry[0].prefixlen)


def part_of(address: str) -> str:
    """Return `access`, `inside`, `private` or `outside`, by the longest matching prefix of `networks.toml`.

    Raises:
        UserError: Not an IP address.
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise UserError(f"hops: address is {address!r}; expected an IPv4 or IPv6 address, or null") from None
    return next((part for network, part in _networks() if ip.version == network.version and ip in network), "outside")


def path_segments(hops: pl.DataFrame | pl.LazyFrame) -> PathShares:
    """Return the path segments of traceroutes.

    Args:
        hops: One row per answer, columns `HOPS`. `target` is an address; of several answers of a hop the least RTT
            counts.

    Raises:
        UserError: A column is missing or of another type, or an address is invalid.
    """
    lazy = hops.lazy()
    check_columns(lazy, HOPS, "hops")
    answers = lazy.select(*HOPS).drop_nulls(["address", "rtt_ms"]).collect()
    parts = {address: part_of(address) for address in answers["address"].unique().to_list()}
    rows = []
    key = ["probe", "target", "unix_ns"]
    for (probe, target, unix_ns), trace in answers.sort("ttl").group_by(key, maintain_order=True):
        ends = _ends(trace, parts, str(target))
        rows.append({"probe": probe, "target": target, "unix_ns": unix_ns, **ends})
    traces = pl.DataFrame(
        rows,
        schema={
            "probe": pl.String,
            "target": pl.String,
            "unix_ns": pl.Int64,
            "reached": pl.Boolean,
            "bent_pipe": pl.Boolean,
            **{f"{segment}_end_ms": pl.Float64 for segment in SEGMENTS},
        },
    ).sort(key)
    return PathShares(traces, _shares(traces))


def _ends(trace: pl.DataFrame, parts: dict[str, str], target: str) -> dict[str, object]:
    """Return the end of each segment in one traceroute, by the rules in the module's docstring."""
    ends: dict[str, object] = {"reached": False, "bent_pipe": False, **{f"{s}_end_ms": None for s in SEGMENTS}}
    state = "home"
    home_ms: list[float] = []
    least = trace.group_by("ttl", "address", maintain_order=True).agg(pl.col("rtt_ms").min())
    answers = list(least.select("address", "rtt_ms").iter_rows())
    for place, (address, rtt_ms) in enumerate(answers):
        part = parts[address]
        if part == "outside" and state == "home" and _leads_inside([parts[a] for a, _ in answers[place + 1 :]]):
            part = "access"
        if address == target:
            ends |= {"reached": True, "S6_end_ms": rtt_ms}
            break
        if part == "access" and state == "home":
            # A slow answer of a home router does not delay the packets that it forwards.
            if rtt_ms - min(home_ms, default=0.0) < LEAST_BENT_PIPE_MS:
                continue  # too near for a satellite hop
            state = "inside"
            ends |= {"bent_pipe": True, "S2_end_ms": rtt_ms}
        elif part == "private" and state == "home":
            ends["S1_end_ms"] = rtt_ms
            home_ms.append(rtt_ms)
        elif part == "private" and ends["S4_end_ms"] is None and state == "inside":
            ends["S3_end_ms"] = rtt_ms
        elif part == "inside" and state == "inside":
            if ends["S4_end_ms"] is None:
                ends["S4_end_ms"] = rtt_ms
            ends["S5_end_ms"] = rtt_ms
        elif part == "outside":
            state = "outside"
    return ends


def _leads_inside(behind: list[str]) -> bool:
    """Return whether the next hop that is not private is in Starlink's network, by the parts of the following hops."""
    return next((part for part in behind if part != "private"), None) == "inside"


def _shares(traces: pl.DataFrame) -> pl.DataFrame:
    """Return medians over each probe's traceroutes to a target, of those through a bent pipe that reached it."""
    rows = []
    whole = traces.filter("reached", "bent_pipe")
    for (probe, target), group in whole.group_by(["probe", "target"], maintain_order=True):
        before, total = 0.0, float(np.median(group["S6_end_ms"].to_numpy()))
        for segment in SEGMENTS:
            known = group[f"{segment}_end_ms"].drop_nulls().to_numpy()
            row: dict[str, object] = {"probe": probe, "target": target, "segment": segment, "traces": known.size}
            if known.size:
                end = float(np.median(known))
                row |= {"end_rtt_ms": end, "one_way_ms": (end - before) / 2, "share": (end - before) / total}
                before = end
            rows.append(row)
    schema = {"probe": pl.String, "target": pl.String, "segment": pl.String, "traces": pl.Int64}
    return pl.DataFrame(rows, schema={**schema, **dict.fromkeys(("end_rtt_ms", "one_way_ms", "share"), pl.Float64)})

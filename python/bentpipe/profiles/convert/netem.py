"""Shell scripts that make Linux's netem (tc-netem(8)) follow a Profile, one per direction, and their reader.

The script's header and ``docs/reference/converters.md`` list the limits of netem: values change in steps; loss is
independent from packet to packet within a step; a capacity of zero is a loss of 100 %; packets overtake each other when
the delay falls.
"""

from __future__ import annotations

import math
import os
import re
from itertools import groupby
from pathlib import Path

import numpy as np

from bentpipe._native import Profile
from bentpipe.errors import UserError, shown
from bentpipe.files import atomic_write, read_text
from bentpipe.profiles.build import Points, Provenance, Side, duration_to_ns, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions
from bentpipe.profiles.convert.writing import WriteOptions, Written, filled_notes, grid_s, limited_capacity, sibling
from bentpipe.profiles.path import PathView, Steps
from bentpipe.profiles.table import DIRECTIONS, Direction
from bentpipe.times import format_utc, parse_utc

#: Packet size [bytes] that converts a queue in bytes to packets.
_PACKET_BYTES = 1500

_HEAD = """#!/usr/bin/env bash
# bentpipe netem 1 {direction} duration_s={duration_s} start={start}
# {name}
# Delay (middle of the step), loss (mean of the step), rate (mean of the step; 100 % loss where it is zero) and queue
# limit of the path {direction}, every {step_s} s. netem holds each step, loses packets independently within it, and
# lets them overtake when the delay falls. Run as root: bash {file} DEVICE
set -euo pipefail
device=${{1:?usage: bash $0 DEVICE}}
trap 'tc qdisc del dev "$device" root 2>/dev/null || true' EXIT
begin=$EPOCHREALTIME
tc qdisc replace dev "$device" root netem
while read -r at delay loss rate limit; do
  wait=$(awk -v at="$at" -v begin="$begin" -v now="$EPOCHREALTIME" \\
    'BEGIN {{ w = begin + at - now; print (w > 0 ? w : 0) }}')
  sleep "$wait"
  [ "$at" = {duration_s} ] && break
  arguments=(delay "$delay" loss "$loss" limit "$limit")
  [ "$rate" = unlimited ] || arguments+=(rate "$rate")
  tc qdisc change dev "$device" root netem "${{arguments[@]}}"
done <<'SCHEDULE'
"""
_TAIL = "SCHEDULE\n"

_FIRST = re.compile(r"# bentpipe netem (\d+) (up|down) duration_s=(\d{1,9}(?:\.\d{1,9})?) start=(\S+)\Z")
_LINE = re.compile(
    r"(?P<at>\d{1,9}(?:\.\d{1,9})?) (?P<delay>\d{1,9}(?:\.\d{1,6})?)ms (?P<loss>\d{1,3}(?:\.\d{1,7})?)%"
    r" (?:(?P<rate>\d{1,15})bit|unlimited) (?P<limit>\d{1,9})\Z"
)


def write_netem(profile: Profile, path: Path, options: WriteOptions) -> Written:
    """Write ``path.up.sh`` and ``path.down.sh``; run each on the sending device of its direction.

    Raises:
        UserError: The step is out of range, or the capacity limit is missing for part of the time.
    """
    view = PathView(profile)
    files = []
    for direction in DIRECTIONS:
        target = sibling(path, f".{direction}.sh")
        head = _HEAD.format(
            direction=direction,
            duration_s=_short(view.duration_s),
            start=format_utc(profile.start_unix_ns),
            name=re.sub(r"\s+", " ", profile.name),
            step_s=_short(options.step_s),
            file=target.name,
        )
        with atomic_write(target) as file:
            file.write((head + "".join(f"{line}\n" for line in _schedule(view, direction, options)) + _TAIL).encode())
        files.append(target)
    return Written(
        files,
        [
            "netem holds each step, draws loss per packet and lets packets overtake: see the head of the scripts",
            *filled_notes(view),
        ],
    )


def _schedule(view: PathView, direction: Direction, options: WriteOptions) -> list[str]:
    """Return lines ``at delay loss rate limit``, without repeated steps; the last line is the end time."""
    capacity, loss = limited_capacity(view, direction), view.loss(direction)
    # Interruptions are shorter than steps: the schedule changes at their edges too.
    edges = [edge for hop in range(len(view.metadata["hops"])) for pair in view.interruptions(hop) for edge in pair]
    at = np.unique(np.concatenate([grid_s(view, options), np.array(edges, np.float64)]))
    at = at[at < view.duration_s]
    bounds = np.append(at, view.duration_s)
    delays = view.profile.delay_ms(direction, (bounds[:-1] + bounds[1:]) / 2)
    # Without a path the last delay is repeated, and all packets are lost.
    known = np.maximum.accumulate(np.where(np.isnan(delays), 0, np.arange(delays.size)))
    delays = np.nan_to_num(delays[known])
    lost = loss.means(bounds)
    if capacity is None:
        free = view.capacity(direction)
        blocked = Steps(free.t_s, (free.value == 0).astype(np.float64), free.end_s).means(bounds)
        rates = np.where(blocked > 0.5, 0.0, np.inf)
    else:
        rates = capacity.means(bounds)
    lines = []
    for start, delay, share, rate in zip(at, delays, np.where(rates < 1, 1.0, lost), rates, strict=True):
        bps = None if rate < 1 or math.isinf(rate) else round(rate)
        limit = _limit(view, direction, bps, delay)
        lines.append((start, f"{_short(round(delay, 6))}ms {_short(round(share * 100, 7))}% {_rate(bps)} {limit}"))
    changes = [next(same) for _, same in groupby(lines, key=lambda line: line[1])]
    return [f"{_short(round(start, 9))} {rest}" for start, rest in [*changes, (view.duration_s, changes[-1][1])]]


def _limit(view: PathView, direction: Direction, bps: int | None, delay_ms: float) -> int:
    """Return the smallest queue on the path plus the packets in flight [packets]: netem's limit counts both."""
    queues = []
    for hop in view.metadata["hops"]:
        limit = hop[f"{direction}_queue"]["limit"]
        if "packets" in limit:
            queues.append(int(limit["packets"]))
        elif "bytes" in limit:
            queues.append(limit["bytes"] // _PACKET_BYTES)
        else:
            queues.append(int(limit["time_ns"] / 1e9 * (bps or 0) / 8 / _PACKET_BYTES))
    in_flight = (bps or 0) * delay_ms / 1e3 / 8 / _PACKET_BYTES
    return max(1, min(queues)) + math.ceil(in_flight)


def read_netem(paths: Paths, options: ReadOptions) -> Converted:
    """Read a Profile from scripts of `write_netem`: one direction, or both in any order.

    Steps become points, with linear delay between them. A direction without a script has no limit and the other's
    delay. Limits in the scripts include packets in flight, so the queues are those of `options`.

    Raises:
        UserError: Not a script of `write_netem`, a newer format, or two of one direction; the message names the line.
    """
    if len(paths) not in (1, 2):
        raise UserError(f"{len(paths)} scripts given", expected="one or two of `bentpipe profile convert --to netem`")
    sides: dict[str, Side] = {}
    spans = []
    for path in paths:
        direction, duration_s, start, side = _script(path, options)
        if direction in sides:
            raise UserError(f"is a second script for {direction}", where=str(path), expected="one for each direction")
        sides[direction] = side
        spans.append((duration_s, start))
    notes = []
    for direction, other in (("up", "down"), ("down", "up")):
        if direction not in sides:
            sides[direction] = Side(delay_s=sides[other].delay_s, queue=options.limit())
            notes.append(f"{direction} has no script: no capacity limit there, and the delay of {other}")
    if len(set(spans)) > 1:
        raise UserError(
            f"start or duration differ from those of {paths[0]}", where=f"{paths[1]}", expected="scripts of one Profile"
        )
    duration_s, start = spans[0]
    profile = single_hop_profile(
        name=options.name_for(paths[0]),
        hop="netem",
        start_unix_ns=start if options.start_unix_ns is None else options.start_unix_ns,
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance("measured", f"netem schedule in {' and '.join(Path(path).name for path in paths)}"),
        up=sides["up"],
        down=sides["down"],
    )
    return Converted(profile, notes)


def _script(path: str | os.PathLike[str], options: ReadOptions) -> tuple[str, float, int, Side]:
    lines = read_text(path).splitlines()
    first = _FIRST.match(lines[1].strip()) if len(lines) > 1 else None
    if first is None:
        raise UserError(
            "is not a script of `bentpipe profile convert --to netem`; no other netem script can be read",
            where=f"{path}:2",
        )
    if int(first[1]) != 1:
        raise UserError(
            f"has format {shown(first[1])}, this bentpipe reads 1: install a newer bentpipe", where=f"{path}:2"
        )
    try:
        begin, end = lines.index("done <<'SCHEDULE'") + 1, lines.index(_TAIL.strip())
    except ValueError:
        raise UserError("its SCHEDULE is missing or cut short; write the script again", where=str(path)) from None
    rows = []
    for count, line in enumerate(lines[begin:end], begin + 1):
        match = _LINE.match(line)
        if match is None:
            raise UserError(f"{shown(line)} is not `at delay loss rate limit`", where=f"{path}:{count}")
        if float(match["loss"]) > 100:
            raise UserError(f"a loss of {match['loss']} %", where=f"{path}:{count}", expected="0 to 100")
        bps = float(match["rate"]) if match["rate"] else math.inf
        rows.append((float(match["at"]), float(match["delay"]) / 1e3, float(match["loss"]) / 100, bps))
    if len(rows) < 2:
        raise UserError(f"its SCHEDULE has {len(rows)} line(s)", where=str(path), expected="at least two")
    at, delay, loss, rate = np.array(rows[:-1]).T
    limited = np.isfinite(rate)
    # A rate of zero is written as 100 % loss and no rate.
    capacity = Points.of(at, np.where(limited, rate, 0.0)) if limited.any() else None
    side = Side(
        delay_s=Points.of(at, delay), capacity_bps=capacity, loss_probability=Points.of(at, loss), queue=options.limit()
    )
    duration_s = float(first[3])
    duration_to_ns(duration_s, f"{path}:2: duration")  # here, where the line is known
    return first[2], duration_s, parse_utc(first[4], f"{path}:2: start"), side


def _rate(bps: int | None) -> str:
    return "unlimited" if bps is None else f"{bps}bit"


def _short(number: float) -> str:
    """Format a decimal without exponent and trailing zeros."""
    return f"{number:.9f}".rstrip("0").rstrip(".")

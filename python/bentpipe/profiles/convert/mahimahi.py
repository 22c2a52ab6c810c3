"""Packet-delivery traces of mahimahi's ``mm-link``: one line for each opportunity to send 1500 bytes.

A line is a time in whole milliseconds since the start; lines repeat and never decrease; at the last time the
trace starts over (mahimahi-traces README; mm-link(1)). An opportunity at millisecond t stands for what the link sends
in the millisecond that ends at t, so a trace of the one line ``1`` is 12 Mbit/s.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.files import atomic_write, read_unpacked
from bentpipe.measurements.readers.traces import OPPORTUNITY_BITS, binned_bps, opportunities_ms
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions
from bentpipe.profiles.convert.writing import WriteOptions, Written, filled_notes, limited_capacity, sibling
from bentpipe.profiles.path import PathView
from bentpipe.profiles.show import delay_times_s, known_at
from bentpipe.profiles.table import DIRECTIONS, Direction


def write_mahimahi(profile: Profile, path: Path, options: WriteOptions) -> Written:
    """Write ``path.up`` and ``path.down``, one for each direction that has a capacity.

    Delay, loss and queues are not in the format; the notes give the delays for ``mm-delay``.

    Raises:
        UserError: The capacity is missing for part of the time, or too small for a single packet.
    """
    view = PathView(profile)
    files, notes = [], []
    for direction in DIRECTIONS:
        capacity = limited_capacity(view, direction)
        if capacity is None:
            notes.append(f"{direction} has no capacity limit: no trace for it")
            continue
        times, seconds = capacity.cumulative()
        count = int(seconds[-1] // OPPORTUNITY_BITS)
        # Where the sum is constant (no path) its first time counts: a packet leaves with its last bit.
        sums, first = np.unique(seconds, return_index=True)
        due_s = np.interp(np.arange(1, count + 1) * float(OPPORTUNITY_BITS), sums, times[first])
        lines = np.ceil(due_s * 1e3 - 1e-6).astype(np.int64)
        lines = lines[lines <= int(view.duration_s * 1e3)]
        if not lines.size or lines[-1] == 0:
            raise UserError(
                f"{direction} sends less than one packet of 1500 bytes; mahimahi reads no empty trace",
                where=profile.name,
            )
        files.append(sibling(path, f".{direction}"))
        with atomic_write(files[-1]) as file:
            file.write(b"\n".join(lines.astype(np.bytes_)) + b"\n")
    if not files:
        raise UserError(
            "neither direction has a capacity limit; a packet-delivery trace cannot say that", where=profile.name
        )
    at_s = delay_times_s(profile)
    up_ms, down_ms = (
        np.nanmedian(profile.delay_ms(direction, at_s[known_at(view, direction, at_s)])) for direction in DIRECTIONS
    )
    notes.append(
        f"delay, loss and queues are not in the format; median one-way delays are {up_ms:.2f} ms up and "
        f"{down_ms:.2f} ms down (mm-delay takes one for both)"
    )
    return Written(files, notes + filled_notes(view))


def read_mahimahi(paths: Paths, options: ReadOptions) -> Converted:
    """Read a Profile from one or two packet-delivery traces.

    Two traces are up, then down, as mm-link takes them. One trace is of `options.direction`; the other direction has no
    limit. The capacity is the mean over each `options.bin_s`; the Profile lasts as long as the longer trace.

    Raises:
        UserError: `options.delay_s` is missing, or a line is not a time or decreases; the message names the line.
    """
    if len(paths) not in (1, 2):
        raise UserError(f"{len(paths)} traces given", expected="one, or two: up, then down")
    if options.delay_s is None:
        raise UserError(
            "a packet-delivery trace holds no delay", where=str(paths[0]), expected="a one-way delay (`delay`), as 20ms"
        )
    if not 0.001 <= options.bin_s <= 3600:
        raise UserError(f"{options.bin_s:g} s", where="bin", expected="0.001 to 3600")
    directions: tuple[Direction, ...] = ("up", "down") if len(paths) == 2 else (options.direction,)
    times = {
        direction: opportunities_ms(read_unpacked(path), str(path))
        for direction, path in zip(directions, paths, strict=True)
    }
    duration_s = max(int(ms[-1]) for ms in times.values()) / 1e3
    notes = []
    if len({int(ms[-1]) for ms in times.values()}) > 1:
        notes.append("the traces differ in length: after the shorter's end is a gap (mm-link would start it over)")

    def side(direction: Direction, delay_s: float) -> Side:
        capacity = capacity_of(times[direction], options.bin_s, duration_s) if direction in times else None
        return Side(delay_s=Points.constant(delay_s), capacity_bps=capacity, queue=options.limit())

    if len(paths) == 1:
        notes.append(f"{'up' if directions == ('down',) else 'down'} has no trace: no capacity limit there")
    names = " and ".join(Path(path).name for path in paths)
    profile = single_hop_profile(
        name=options.name_for(_without_direction(paths[0])),
        hop="measured",
        start_unix_ns=options.start_unix_ns or 0,
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance(
            "measured",
            f"packet-delivery trace {names}, in steps of {options.bin_s:g} s; delay as given",
            recipe={"bin_s": options.bin_s},
        ),
        up=side("up", options.delay_s),
        down=side("down", options.delay_s),
    )
    return Converted(profile, notes)


def _without_direction(path: str | os.PathLike[str]) -> Path:
    """Return the path without the suffix of a direction that `write_mahimahi` adds."""
    return Path(path).with_suffix("") if Path(path).suffix in {f".{d}" for d in DIRECTIONS} else Path(path)


def capacity_of(times_ms: NDArray[np.int64], bin_s: float, duration_s: float) -> Points:
    """Return the mean capacity of each bin; the last bin ends with the trace, and a gap fills the rest."""
    edges, bps = binned_bps(times_ms, bin_s)
    if edges[-1] < duration_s:
        return Points.of(edges, np.append(bps, 0.0), np.arange(edges.size) < bps.size)
    return Points.of(edges[:-1], bps)

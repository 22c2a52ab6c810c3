"""RTTs of one pair of stations in the format of Hypatia's analysis: ``networkx_rtt_<src>_to_<dst>.txt``.

A line is ``time_ns,rtt_ns``, the RTT of the shortest path at that time, 0 where there is none (Hypatia,
satgenpy/satgen/post_analysis/print_routes_and_rtt.py, commit 0332a2d).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bentpipe._native import Profile
from bentpipe.errors import UserError, shown
from bentpipe.files import atomic_write, read_text
from bentpipe.measurements.readers.checked import MAX_RTT_MS
from bentpipe.profiles.build import MAX_DURATION_S, Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.profiles.convert.writing import WriteOptions, Written, grid_s, no_path_notes, stepped_rtt_ms
from bentpipe.profiles.path import PathView


def write_hypatia(profile: Profile, path: Path, options: WriteOptions) -> Written:
    """Write the RTT of a lone small packet every `options.step_s` (Hypatia's default is 0.1 s).

    The value 0 (no path) also marks gaps of a step or more.

    Raises:
        UserError: The step is out of range.
    """
    view = PathView(profile)
    times = grid_s(view, options)
    rtt_ms, known = stepped_rtt_ms(view, times, options)
    rtt_ns = np.where(known, np.nan_to_num(rtt_ms), 0.0) * 1e6
    with atomic_write(path) as file:
        file.writelines(f"{round(t * 1e9)},{rtt:.10f}\n".encode() for t, rtt in zip(times, rtt_ns, strict=True))
    return Written([path], ["capacity, loss and queues are not in the format", *no_path_notes(known)])


def read_hypatia(paths: Paths, options: ReadOptions) -> Converted:
    """Read a Profile from Hypatia's RTTs: half of each RTT in each direction, gaps where there was no path.

    Raises:
        UserError: A line that is not ``time_ns,rtt_ns``, times that do not increase, no path at all; the line is named.
    """
    path = one_path(paths, "Hypatia's RTTs")
    times: list[int] = []
    rtts: list[float] = []
    for count, line in enumerate(read_text(path).splitlines(), 1):
        where = f"{path}:{count}"
        fields = line.strip().split(",")
        try:
            time_ns, rtt_ns = int(fields[0]), float(fields[1])
        except (ValueError, IndexError):
            raise UserError(f"{shown(line)} is not time_ns,rtt_ns", where=where) from None
        if len(fields) != 2 or not 0 <= time_ns <= MAX_DURATION_S * 1e9 or not 0 <= rtt_ns <= MAX_RTT_MS * 1e6:
            raise UserError(f"{shown(line)} is out of range", where=where, expected="time_ns,rtt_ns")
        if times and time_ns <= times[-1]:
            raise UserError(f"{time_ns} ns comes after {times[-1]} ns; times must increase", where=where)
        times.append(time_ns)
        rtts.append(rtt_ns)
    rtt = np.array(rtts)
    if not rtt.any():
        raise UserError("holds no RTT above zero", where=str(path))
    t_s = np.array(times) / 1e9
    step_s = float(np.median(np.diff(t_s))) if t_s.size > 1 else 0.1
    last = np.maximum.accumulate(np.where(rtt > 0, np.arange(rtt.size), int(np.argmax(rtt > 0))))
    side = Side(delay_s=Points.of(t_s, rtt[last] / 2e9, rtt > 0), queue=options.limit())
    profile = single_hop_profile(
        name=options.name_for(path),
        hop="path",
        start_unix_ns=options.start_unix_ns or 0,
        duration_s=float(t_s[-1]) + step_s,
        basis="half_rtt",
        provenance=Provenance("measured", f"Hypatia RTTs in {options.name_for(path)}"),
        up=side,
        down=side,
    )
    notes = (
        [f"{int((rtt == 0).sum())} of {rtt.size} steps without a path: gaps in the Profile"] if (rtt == 0).any() else []
    )
    return Converted(profile, notes)

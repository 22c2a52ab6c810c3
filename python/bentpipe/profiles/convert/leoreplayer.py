"""Delay files of LeoReplayer's ``mm-delay``, with the packet-delivery traces of its ``mm-link``.

A line is a one-way delay in whole milliseconds, for packets of either direction that enter within the interval of that
line; the interval is the first argument of ``mm-delay`` (10 ms in the published traces), and at its end the file starts
over (LeoCC, leoreplayer/replayer/src/frontend/delay_queue.cc and delayshell.cc, commit 06d89b3).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.files import atomic_write, read_unpacked
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.readers.traces import DELAY_STEP_S, measure_delays, opportunities_ms
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert.mahimahi import capacity_of, write_mahimahi
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions
from bentpipe.profiles.convert.writing import WriteOptions, Written, filled_notes, sibling
from bentpipe.profiles.path import PathView
from bentpipe.profiles.table import DIRECTIONS

#: Interval of the delay file [ms].
INTERVAL_MS = round(DELAY_STEP_S * 1e3)


def write_leoreplayer(profile: Profile, path: Path, options: WriteOptions) -> Written:
    """Write ``path.delay``, and ``path.up`` and ``path.down`` for the directions that have a capacity.

    A line is half the RTT of a lone small packet that leaves in the middle of the interval, because ``mm-delay`` has
    one delay for both directions. Without a path the last delay is repeated.

    Raises:
        UserError: The capacity is missing for part of the time, or too small for a single packet.
    """
    view = PathView(profile)
    count = max(1, int(view.duration_s * 1e3) // INTERVAL_MS)
    middle_s = np.minimum((np.arange(count) + 0.5) * INTERVAL_MS / 1e3, view.duration_s)
    half_ms = view.rtt_ms(middle_s) / 2
    if np.isnan(half_ms).all():
        raise UserError("has no path at any time; a delay file cannot say that", where=profile.name)
    known = np.where(np.isnan(half_ms), -1, np.arange(count))
    last = np.maximum.accumulate(known)
    last[last < 0] = int(np.argmax(known >= 0))
    files = [sibling(path, ".delay")]
    with atomic_write(files[0]) as file:
        file.writelines(f"{round(ms)}\n".encode() for ms in half_ms[last])
    notes = [f"mm-delay {INTERVAL_MS} {files[0].name}: half of each RTT, in whole milliseconds"]
    if all(np.isinf(view.capacity(direction).value).any() for direction in DIRECTIONS):
        notes.append("no direction has a capacity limit: no trace for mm-link")
    else:
        traces = write_mahimahi(profile, path, options)
        files += traces.files
        notes += [note for note in traces.notes if "mm-delay" not in note]
    notes += [note for note in filled_notes(view) if note not in notes]
    lost = [view.loss(direction).mean() for direction in DIRECTIONS]
    notes.append(
        f"loss is not in the format: mm-loss uplink {lost[0]:.5f}, downlink {lost[1]:.5f} lose as much, evenly"
    )
    return Written(files, notes)


def read_leoreplayer(paths: Paths, options: ReadOptions) -> Converted:
    """Read a Profile from a delay file and packet-delivery traces: one, of `options.direction`, or two, up and down.

    Each delay holds for its interval (`INTERVAL_MS`), in both directions. The Profile lasts as long as the delay file;
    shorter traces start over, as in the replayer.

    Raises:
        UserError: A line is invalid; the message names it.
    """
    if len(paths) not in (1, 2, 3):
        raise UserError(
            f"{len(paths)} files given", expected="a delay file, and one or two traces (up, then down) after it"
        )
    table = measure_delays(read_unpacked(paths[0]), str(paths[0]), ReadHints()).tables["links"]
    delays_ms = table["delay_ms"].to_numpy()
    duration_s = delays_ms.size * INTERVAL_MS / 1e3
    directions = DIRECTIONS if len(paths) == 3 else (options.direction,)
    capacity = {}
    notes = []
    for direction, path in zip(directions, paths[1:], strict=False):
        times = opportunities_ms(read_unpacked(path), str(path))
        copies = int(np.ceil(duration_s * 1e3 / times[-1]))
        if copies > 1:
            notes.append(f"{direction}: the trace is shorter than the delay file and starts over")
        whole = (np.arange(copies)[:, None] * times[-1] + times[None, :]).ravel()
        inside = whole[whole <= duration_s * 1e3]
        capacity[direction] = capacity_of(inside, options.bin_s, duration_s) if inside.size else Points.constant(0.0)
    change = np.flatnonzero(np.concatenate([[True], np.diff(delays_ms) != 0]))
    begin_s = change * INTERVAL_MS / 1e3
    # A step is two points a nanosecond apart, since delays are straight lines between points.
    end_s = np.append(begin_s[1:] - 1e-9, begin_s[-1])
    times_s = np.stack([begin_s, end_s], axis=1).ravel()[: 2 * change.size - 1]
    delay = Points.of(times_s, np.repeat(delays_ms[change] / 1e3, 2)[: times_s.size])
    sides = {d: Side(delay_s=delay, capacity_bps=capacity.get(d), queue=options.limit()) for d in DIRECTIONS}
    profile = single_hop_profile(
        name=options.name_for(paths[0]),
        hop="measured",
        start_unix_ns=options.start_unix_ns or 0,
        duration_s=duration_s,
        basis="half_rtt",
        provenance=Provenance("measured", f"LeoReplayer delay file {options.name_for(paths[0])}"),
        up=sides["up"],
        down=sides["down"],
    )
    return Converted(profile, notes)

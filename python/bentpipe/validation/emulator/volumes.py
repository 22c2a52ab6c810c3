"""Measure capacity, losses, speed, drops outside the path, and the cost of an idle emulation."""

from __future__ import annotations

import itertools
import math
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.execution.emulation.proc import PROC, cpu_time_s
from bentpipe.profiles.build import Points
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation import Row
from bentpipe.validation.emulator import traffic
from bentpipe.validation.emulator.calm import Measured, Ticks
from bentpipe.validation.emulator.delays import HANDOVER_MS, unlimited_path
from bentpipe.validation.emulator.faults import descendants

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe._native import Profile

CAPACITY_ERROR = 0.005
LOSS = 0.02
LOSS_PACKETS = 20_000
EPISODES = 25
EPISODE_PACKETS = 25_000
EPISODES_S = (0.02, 0.1)
"""Shortest and longest duration of an episode, and of the time between two [s]. As a path's handovers and fades (access
model: most are below 150 ms)."""

EPISODE_LOSS = (0.3, 0.6, 0.9)
"""Chosen here: runs of losses from one packet to a whole episode."""

EPISODE_SEED = 1
DRAWS = 2000
"""Chosen here: ten lie beyond each end of the middle 99 %."""

SPEED_BPS = 1.5e9
SPEED_GBPS = 1.8
"""Capacity of the path: above `SPEED_BPS`, since CUBIC does not fill it."""

FLAT_OUT_RUNS = 3
IDLE_SHARE = 0.02
IDLE_S = 8.0
IDLE_TIMES = 3
DROPS_MBPS = 500
STREAM_S = 10
SETTLED_S = 2.0
"""Start of the measurement, after slow start [s]."""

REACHED = 0.9
"""Least share of a bottleneck's capacity that a connection must reach to count as filling it."""

PAYLOAD_PER_PACKET = 1448 / 1500
"""Share of payload in a packet of TCP with timestamps over IPv4 at an MTU of 1500 (RFC 7323)."""


def capacity(mbps: int) -> Measured:
    """Measure the bytes per second of a flood above the capacity, with a queue that bridges its pauses."""
    path = preset_profile(f"dumbbell:rate={mbps}mbit,rtt=20ms,queue=20bdp", 60.0, start_unix_ns=0, name="capacity")
    flood = traffic.flood(path, 5.0, 1.3e6 * mbps)
    quantity = f"capacity over 1 s at {mbps} Mbit/s, largest error [%]"
    got = flood.packets
    second = ((got[:, 0] - got[0, 0]) // 10**9).astype(int)
    whole = np.bincount(second, weights=got[:, 1] * 8.0)[1:4]
    worst = float(np.max(np.abs(whole / (mbps * 1e6) - 1)))
    row = Row(quantity, f"{100 * worst:.2f}", "0", f"{100 * CAPACITY_ERROR:g}", worst <= CAPACITY_ERROR)
    return Measured([row], _why_not(flood.emulated.why_invalid, flood.overflowed))


def losses() -> Measured:
    """Count independent losses and runs of losses, and check that the emulator records every loss."""
    path = preset_profile(f"dumbbell:rate=1gbit,rtt=20ms,loss={LOSS}", 60.0, start_unix_ns=0, name="loss")
    n = LOSS_PACKETS
    probe = traffic.probe(path, n, 2e-4)
    lost = probe.arrived == 0
    runs = sum(1 for value, _ in itertools.groupby(lost) if value)
    rows = []
    for quantity, counted, p in (("losses", int(lost.sum()), LOSS), ("runs of losses", runs, LOSS * (1 - LOSS))):
        half = 2.576 * math.sqrt(n * p * (1 - p))
        within = abs(counted - n * p) <= half
        rows.append(Row(f"{quantity} of {n} packets", str(counted), f"{n * p:.0f}", f"± {half:.0f} (99 %)", within))
    unknown = int(lost.sum()) - (probe.emulated.done or {})["relay"]["lost"]
    rows.append(Row("losses without a drop in the path's elements", str(unknown), "0", "0", unknown == 0))
    return Measured(rows, _why_not(probe.emulated.why_invalid, probe.overflowed))


def episodes() -> Measured:
    """Check losses in episodes: their number, the lengths of runs, and none elsewhere.

    The reference is the Profile's loss probabilities at the send times, sampled `DRAWS` times.
    """
    generator = np.random.default_rng(EPISODE_SEED)
    edges_s = 1.0 + np.cumsum(generator.uniform(*EPISODES_S, 2 * EPISODES))
    values = np.zeros(2 * EPISODES)
    values[::2] = generator.choice(EPISODE_LOSS, EPISODES)
    loss = Points.of(np.append(0.0, edges_s), np.append(0.0, values))
    probe = traffic.probe(unlimited_path(40e-3, loss), EPISODE_PACKETS, 2e-4)
    at_s = probe.at_s
    # A packet sent close to an edge may have met the element on its other side.
    with np.errstate(invalid="ignore"):
        known = np.isfinite(at_s) & (np.abs(at_s[:, None] - edges_s).min(axis=1) > HANDOVER_MS / 1e3)
    at_s, lost = at_s[known], (probe.arrived == 0)[known]
    chance = loss.value[np.searchsorted(loss.t_s, at_s, side="right") - 1]
    drawn = np.random.default_rng(EPISODE_SEED + 1).random((DRAWS, len(chance)), np.float32) < chance
    (runs, longest), (drawn_runs, drawn_longest) = _runs(lost[None]), _runs(drawn)
    rows = [
        _drawn_row(f"losses of {len(chance)} packets, {EPISODES} episodes", int(lost.sum()), drawn.sum(axis=1)),
        _drawn_row("runs of losses in episodes", int(runs[0]), drawn_runs),
        _drawn_row("longest run of losses", int(longest[0]), drawn_longest),
    ]
    elsewhere = int(lost[chance == 0].sum())
    rows.append(Row("losses outside of episodes", str(elsewhere), "0", "0", elsewhere == 0))
    return Measured(rows, _why_not(probe.emulated.why_invalid, probe.overflowed))


def _drawn_row(quantity: str, counted: int, drawn: NDArray[np.int_]) -> Row:
    """Compare a count with the middle 99 % of those `drawn`."""
    low, high = np.quantile(drawn, [0.005, 0.995])
    return Row(
        quantity, str(counted), f"{np.mean(drawn):.1f}", f"{low:.0f} to {high:.0f} (99 %)", bool(low <= counted <= high)
    )


def _runs(lost: NDArray[np.bool_]) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Return the number of runs of losses of each row, and the length of its longest run."""
    ends = np.diff(np.pad(lost, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    row, begin = np.nonzero(ends == 1)
    length = np.nonzero(ends == -1)[1] - begin
    longest = np.zeros(len(lost), np.int_)
    np.maximum.at(longest, row, length)
    return np.bincount(row, minlength=len(lost)), longest


def speed() -> Measured:
    """Measure one CUBIC connection over a path of `SPEED_GBPS` and an RTT of 10 ms; both ends are on this machine.

    At an RTT of 20 ms Linux's send buffer of 4 MB would limit it to 1.6 Gbit/s.
    """
    path = preset_profile(f"dumbbell:rate={SPEED_GBPS}gbit,rtt=10ms,queue=1bdp", 60.0, start_unix_ns=0, name="speed")
    bps, busy, why_invalid = _stream_at(path)
    quantity = f"1500-byte packets through a path of {SPEED_GBPS} Gbit/s, both ends included ({busy}) [Gbit/s]"
    row = Row(quantity, f"{bps / 1e9:.2f}", f"{SPEED_BPS / 1e9:g}", f"≥ {SPEED_BPS / 1e9:g}", bps >= SPEED_BPS)
    return Measured([row], why_invalid)


def flat_out() -> Measured:
    """Measure the same without a rate, three times: the speed that only the machine limits.

    There is no limit: a fully loaded machine is late now and then, and chance decides whether a Run is valid. So no Run
    is repeated, and the row says how many were valid.
    """
    counted = [_stream_at(unlimited_path(10e-3)) for _ in range(FLAT_OUT_RUNS)]
    median = statistics.median(bps for bps, _, _ in counted)
    valid = sum(why_invalid is None for _, _, why_invalid in counted)
    quantity = f"as fast as it goes, no rate, median of {FLAT_OUT_RUNS} ({counted[0][1]}; {valid} valid) [Gbit/s]"
    return Measured([Row(quantity, f"{median / 1e9:.2f}", "", "reported, no limit", None)], None)


def _stream_at(path: Profile) -> tuple[float, str, str | None]:
    """Return the rate of a connection [bit/s on the path], the processors' load, and why the Run is invalid."""
    ticks = Ticks()
    stream = traffic.stream(path, STREAM_S, "cubic")
    busy = f"{100 * ticks.busy():.0f} % of the processors"
    return stream.goodput_bps(SETTLED_S) / PAYLOAD_PER_PACKET, busy, stream.emulated.why_invalid


def drops() -> Measured:
    """Count packets of a BBR connection at its bottleneck that a device's queue dropped.

    These are drops outside the path; none may occur.
    """
    path = preset_profile(f"dumbbell:rate={DROPS_MBPS}mbit,rtt=40ms,queue=1bdp", 60.0, start_unix_ns=0, name="drops")
    try:
        stream = traffic.stream(path, STREAM_S, "bbr")
    except UserError as error:
        return Measured([Row("BBR: packets lost in a device's queue", "", "0", "0", within=False)], str(error))
    done = stream.emulated.done or {}
    lost = sum(done["device_drops"]) + done["relay"]["kernel_rejected"]
    bps = stream.goodput_bps(SETTLED_S) / PAYLOAD_PER_PACKET
    quantity = f"BBR at {DROPS_MBPS} Mbit/s ({bps / 1e6:.0f} reached): packets lost outside the path (tx_dropped)"
    # Below its capacity the path never filled the queues of its ends. Losses count in any case.
    missed = None if lost or bps >= REACHED * DROPS_MBPS * 1e6 else f"the path was not filled: {bps / 1e6:.0f} Mbit/s"
    return Measured([Row(quantity, str(lost), "0", "0", lost == 0)], missed)


def idle_share(path: Profile) -> Row:
    """Measure the processor time of an idle emulation, as a share of one processor.

    That of the command and its descendants while the program sleeps: the median of `IDLE_TIMES` emulations, each with
    its own processes.
    """
    counted = [_idle_share(path) for _ in range(IDLE_TIMES)]
    share, processes = statistics.median(share for share, _ in counted), counted[0][1]
    each = ", ".join(f"{100 * share:.2f}" for share, _ in counted)
    quantity = f"an emulation without traffic, its {processes} processes, median of {each}: share of one processor [%]"
    return Row(quantity, f"{100 * share:.2f}", "0", f"< {100 * IDLE_SHARE:g}", share < IDLE_SHARE)


def _idle_share(path: Profile) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "path.parquet")
        write_profile(path, file)
        mark = str(IDLE_S + 60.0)
        command = [sys.executable, "-m", "bentpipe", "run", str(file), "--", "sleep", mark]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder) as parent:
            try:
                return _share_of(parent.pid, f"sleep {mark}")
            finally:
                parent.terminate()


def _share_of(root: int, program: str) -> tuple[float, int]:
    give_up_at = time.monotonic() + 30.0
    while not any(line.strip() == program for _, line in descendants(root)):
        if time.monotonic() > give_up_at:
            raise UserError("the emulation did not start within 30 s; see above")
        time.sleep(0.05)
    time.sleep(1.0)  # processor time of the start
    family = [PROC / str(pid) for pid in (root, *(pid for pid, _ in descendants(root)))]
    begin, spent = time.monotonic(), sum(map(cpu_time_s, family))
    time.sleep(IDLE_S)
    return (sum(map(cpu_time_s, family)) - spent) / (time.monotonic() - begin), len(family)


def _why_not(why_invalid: str | None, overflowed: int) -> str | None:
    full = f"{overflowed} packets crossed the path and found the prober's buffer full" if overflowed else None
    return "; ".join(reason for reason in (why_invalid, full) if reason) or None

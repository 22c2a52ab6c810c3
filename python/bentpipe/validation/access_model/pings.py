"""The three ping campaigns, as windows of eight slots.

All three print the time of the *reply*, so a probe was sent one round trip before. Lost probes are absent, or -1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.files import read_text

Floats = NDArray[np.float64]

SLOT_S = 15.0
#: Window: eight slots. Long enough for seven steps between slots, short enough for a dozen windows a campaign.
WINDOW_S = 8 * SLOT_S
#: Fewer replies than this in a slot tell nothing about its median.
LEAST_REPLIES = 20

_PING = re.compile(r"\[(\d{1,10}\.\d{1,9})\] \d+ bytes from .*icmp_seq=\d+ .*time=(\d{1,9}(?:\.\d{1,9})?) ms")


@dataclass(frozen=True)
class Window:
    """Round trips over `WINDOW_S` from a slot's edge.

    Attributes:
        start_unix_s: The edge, on the second [s since 1970].
        t_s: When each probe was sent, after the edge [s], increasing.
        rtt_ms: Its round trip [ms].
    """

    start_unix_s: int
    t_s: Floats
    rtt_ms: Floats


@dataclass(frozen=True)
class Site:
    """A terminal, the server its pings went to, and the windows the model is fitted on and tested on.

    Attributes:
        name: Key of its site offset.
        terminal: `lat,lon` as `make_profile` takes it.
        server: The same of what answered: the PoP.
        fitted: Windows for the fit.
        held_out: Windows for the test.
        lags_s: Lags at which its sampling gives the structure function without bias.
        offset_of: The site whose offset it uses: its own, unless none of it is fitted.
    """

    name: str
    terminal: str
    server: str
    fitted: list[Window]
    held_out: list[Window]
    lags_s: tuple[float, ...]
    offset_of: str


def load_sites(data: Path) -> list[Site] | None:
    """The campaigns below `data`, or None if one is absent.

    Raises:
        UserError: A file that is there and does not read.
    """
    victoria = [data / "latency_victoria_10ms" / f"bent_pipe_victoria_{k}_latency.csv" for k in (2, 3)]
    seattle = data / "latency_seattle_250ms" / "no-isl-ping-gw-seattle-230911-170535-0.1s-60min.txt"
    joint = data / "joint_victoria_20250529" / "ping-10ms-2025-05-29-23-20-13.txt"
    if not all(path.is_file() for path in (*victoria, seattle, joint)):
        return None
    place, pop = "48.46,-123.31", "47.61,-122.34"
    # Victoria's host clock runs 20 ms behind: its interruptions begin at 11.98 s.
    first, second = (cut(*read_columns(path, 0, 1, 1e-9), phase_s=11.98) for path in victoria)
    windows = cut(*read_columns(seattle, 0, 2, 1.0), phase_s=12.0)
    return [
        Site("victoria", place, pop, first, second, (0.012, 0.1, 1.0, 7.0), "victoria"),
        # The next probe leaves a fixed time after a reply: below 0.3 s the lag itself says how long the round trip was.
        Site("seattle", place, pop, windows[0::2], windows[1::2], (1.0, 7.0), "seattle"),
        Site("joint", place, pop, [], cut(*read_pings(joint), phase_s=12.0), (0.1, 1.0, 7.0), "victoria"),
    ]


def read_columns(path: Path, time: int, rtt: int, unit_s: float) -> tuple[Floats, Floats]:
    """Sending times [s since 1970] and round trips [ms] of a table without header, separated by commas or tabs.

    Raises:
        UserError: A line with too few columns or without numbers; the line is named.
    """
    replies, rtts = [], []
    for count, line in enumerate(read_text(path).splitlines(), 1):
        fields = line.replace(",", "\t").split("\t")
        try:
            reply_s, rtt_ms = float(fields[time]) * unit_s, float(fields[rtt])
        except (ValueError, IndexError):
            raise UserError(
                f"{path}:{count}: {line[:60]!r}; wanted numbers in columns {time + 1} and {rtt + 1}"
            ) from None
        if rtt_ms >= 0:
            replies.append(reply_s)
            rtts.append(rtt_ms)
    return _sent(path, replies, rtts)


def read_pings(path: Path) -> tuple[Floats, Floats]:
    """The same of the text of ``ping -D``; other lines are passed over.

    Raises:
        UserError: No reply in it.
    """
    found = [match.groups() for match in map(_PING.match, read_text(path).splitlines()) if match]
    return _sent(path, [float(at) for at, _ in found], [float(rtt) for _, rtt in found])


def _sent(path: Path, replies_s: list[float], rtts_ms: list[float]) -> tuple[Floats, Floats]:
    rtt_ms = np.array(rtts_ms)
    sent_s = np.array(replies_s) - rtt_ms / 1e3
    if rtt_ms.size == 0 or not (np.isfinite(sent_s).all() and np.isfinite(rtt_ms).all()):
        raise UserError(f"{path}: no replies, or times that are not finite; wanted a table of round trips")
    order = np.argsort(sent_s, kind="stable")
    return sent_s[order], rtt_ms[order]


def cut(sent_s: Floats, rtt_ms: Floats, *, phase_s: float) -> list[Window]:
    """Windows from the first slot edge on, those with seven slots at least that hold replies.

    `phase_s` is where this host's clock sees the edges, modulo `SLOT_S`.
    """
    windows = []
    edge = np.ceil((sent_s[0] - phase_s) / SLOT_S) * SLOT_S + phase_s
    while edge + WINDOW_S <= sent_s[-1]:
        inside = slice(*np.searchsorted(sent_s, [edge, edge + WINDOW_S]))
        t_s = sent_s[inside] - edge
        filled = np.bincount((t_s / SLOT_S).astype(int), minlength=8) >= LEAST_REPLIES
        if filled.sum() >= 7:
            windows.append(Window(round(edge), t_s, rtt_ms[inside]))
        edge += WINDOW_S
    return windows

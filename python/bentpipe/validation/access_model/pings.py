"""The three ping campaigns, as windows of eight slots."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.readers.measurement import ReadHints
from bentpipe.measurements.runs.imports import read_file

Floats = NDArray[np.float64]

SLOT_S = 15.0
#: Window: eight slots. Long enough for seven steps between slots, short enough for a dozen windows a campaign.
WINDOW_S = 8 * SLOT_S
#: Windows of a block: blocks of a long campaign are alternately fitted and held out. Chosen here: 20 minutes, longer
#: than the load takes to change.
BLOCK = 10
#: Smallest number of replies in a slot for its median.
LEAST_REPLIES = 20


@dataclass(frozen=True)
class Window:
    """RTTs over `WINDOW_S` from a slot's edge.

    Attributes:
        start_unix_s: The edge, on the second [s since 1970].
        t_s: Send time of each probe, after the edge [s], increasing.
        rtt_ms: Its RTT [ms].
    """

    start_unix_s: int
    t_s: Floats
    rtt_ms: Floats


@dataclass(frozen=True)
class Site:
    """A terminal, the server of its pings, and the windows for fit and test.

    Attributes:
        name: Key of its site offset.
        terminal: `lat,lon` as `make_profile` takes it.
        server: Place of the server, the PoP, in the same form.
        fitted: Windows for the fit.
        held_out: Windows for the test.
        lags_s: Lags at which its sampling gives the structure function without bias.
        own_of: The site whose own parameters it uses: itself, unless none of its windows are fitted.
    """

    name: str
    terminal: str
    server: str
    fitted: list[Window]
    held_out: list[Window]
    lags_s: tuple[float, ...]
    own_of: str

    @property
    def is_dense(self) -> bool:
        """Whether its probes are frequent enough for the fine features of slots."""
        return min(self.lags_s) < 0.1


def load_sites(data: Path) -> list[Site] | None:
    """Load the campaigns below `data`; None: one is absent.

    Raises:
        UserError: A file cannot be read.
    """
    victoria = [data / "latency_victoria_10ms" / f"bent_pipe_victoria_{k}_latency.csv" for k in (2, 3)]
    seattle = data / "latency_seattle_250ms" / "no-isl-ping-gw-seattle-230911-170535-0.1s-60min.txt"
    joint = data / "joint_victoria_20250529" / "ping-10ms-2025-05-29-23-20-13.txt"
    if not all(path.is_file() for path in (*victoria, seattle, joint)):
        return None
    place, pop = "48.46,-123.31", "47.61,-122.34"
    # Victoria's host clock runs 20 ms behind: its interruptions begin at 11.98 s.
    first, second = (cut(*replies(path), phase_s=11.98) for path in victoria)
    windows = cut(*replies(seattle), phase_s=12.0)
    even, odd = ([w for i, w in enumerate(windows) if i // BLOCK % 2 == part] for part in (0, 1))
    return [
        Site("victoria", place, pop, first, second, (0.012, 0.1, 1.0, 7.0), "victoria"),
        # The next probe leaves a fixed time after a reply: below 0.3 s the lag itself depends on the RTT.
        Site("seattle", place, pop, even, odd, (1.0, 7.0), "seattle"),
        Site("joint", place, pop, [], cut(*replies(joint, stamped="sent"), phase_s=12.0), (0.1, 1.0, 7.0), "victoria"),
    ]


def replies(path: Path, *, stamped: Literal["sent", "answered"] = "answered") -> tuple[Floats, Floats]:
    """Return send times of answered probes in a file of any known format [s since 1970], in order, and RTTs [ms].

    Args:
        path: The file.
        stamped: Whether its times are send or reply times. Tables of these campaigns have reply times; ping's own text
            is read as send times.

    Raises:
        UserError: The file cannot be read (the line is named), or has no reply.
    """
    hints = ReadHints(times="reply" if stamped == "answered" else "probe")
    probes = read_file(path, hints=hints).measurement.tables.get("probes")
    answered = probes.drop_nulls("rtt_ms").sort("unix_ns") if probes is not None else None
    if answered is None or not answered.height:
        raise UserError(f"{path}: no replies; expected a table of RTTs")
    sent_s: Floats = answered["unix_ns"].to_numpy() / 1e9
    return sent_s, answered["rtt_ms"].to_numpy()


def cut(sent_s: Floats, rtt_ms: Floats, *, phase_s: float) -> list[Window]:
    """Cut windows from the first slot edge; keep those with replies in at least seven slots.

    `phase_s` is the phase of the edges on this host's clock, modulo `SLOT_S`.
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

"""The same datagrams through nodes and in the simulator."""

from __future__ import annotations

import json
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe.errors import UserError
from bentpipe.execution.one_way import one_way_delays
from bentpipe.execution.program import run_program
from bentpipe.validation.emulator.traffic import KNOWN_SHARE, prober

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe._native import Profile

DIRECTIONS = ("up", "down")
SECONDS = 40
PER_S = 1000
SIZE_BYTES = 1200
"""10 Mbit/s each way. Chosen here: Python's prober sends that steadily, and a second has enough losses to compare."""

SEEDS = 10
"""Seeds of the simulator's per-packet draws. Nodes draw their own, because they send each packet some µs later."""


@dataclass(frozen=True)
class World:
    """Datagrams by direction: when they were sent [s of the Profile], and their one-way delays [ms], NaN if lost.

    `delays_ms` have one row for each seed.
    """

    sent_s: dict[str, NDArray[np.float64]]
    delays_ms: dict[str, NDArray[np.float64]]


def emulate(path: Profile, scheme: str) -> tuple[World, str | None]:
    """Send the datagrams through nodes. Returns them, and why they do not count; None: they do."""
    with tempfile.TemporaryDirectory() as folder:
        client, server = Path(folder, "client"), Path(folder, "server")
        numbers = (SECONDS * PER_S, 1 / PER_S, SIZE_BYTES)
        result = run_program(
            path,
            prober("exchange", client, *numbers, "server"),
            server="exec " + shlex.join(prober("exchange", server, *numbers)),
            offset_s=0.0,
            recovery=scheme,
            nodes=True,
        )
        ends = [_read(client), _read(server)]
    emulated = result.emulated
    started = emulated.started or {}
    shift_ns = started["offset_ns"] - started["clock_unix_ns"]
    sent_s, delays_ms, thin = {}, {}, []
    for direction, source, sink in zip(DIRECTIONS, ends, reversed(ends), strict=True):
        sent_ns, arrived_ns = np.array(source["sent"], np.float64), np.array(sink["arrived"], np.float64)
        known = np.isfinite(sent_ns)
        # Differences of integers are exact below 2^53 ns; times of UTC in floats are to 256 ns.
        sent_s[direction] = (sent_ns[known] + shift_ns) / 1e9
        delays_ms[direction] = ((arrived_ns - sent_ns)[known] / 1e6)[None, :]
        if known.mean() < KNOWN_SHARE or sink["overflowed"]:
            thin.append(
                f"{direction}: {known.sum()} of {len(known)} send times are known, {sink['overflowed']} overflowed"
            )
    return World(sent_s, delays_ms), "; ".join(filter(None, [emulated.why_invalid, *thin])) or None


def simulate(path: Profile, scheme: str, like: World) -> World:
    """Send datagrams at the times of another world in the simulator."""
    runs = [
        one_way_delays(path, like.sent_s["up"], like.sent_s["down"], size_bytes=SIZE_BYTES, scheme=scheme, seed=seed)
        for seed in range(SEEDS)
    ]
    delays = dict(zip(DIRECTIONS, (np.stack(rows) for rows in zip(*runs, strict=True)), strict=True))
    return World(like.sent_s, delays)


def _read(file: Path) -> Any:  # noqa: ANN401 - JSON
    try:
        return json.loads(file.read_text())
    except FileNotFoundError:
        raise UserError("the prober wrote nothing: it, or the emulation, was ended; see above") from None

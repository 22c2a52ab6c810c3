"""Datagrams through nodes against the simulator, on the same Profiles: recovered losses and one-way delays.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.nodes import figures, worlds

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe._native import Profile

SCHEMES = ("none", "satguard")
TRIES = 3
"""Runs through nodes of a path and scheme until one is valid."""


def paths() -> list[Profile]:
    """Return the paths: independent losses, and two of Starlink with episodes of loss and handovers."""
    start_unix_ns = parse_utc("2026-05-10T09:00:00Z")
    duration_s = worlds.SECONDS + 30.0
    presets = [
        preset_profile(f"dumbbell:rate=100mbit,rtt=40ms,queue=100ms,loss={loss}", duration_s) for loss in (0.01, 0.05)
    ]
    made = [
        make_profile(site, to, start_unix_ns=start_unix_ns, duration_s=duration_s, loss=loss)
        for site, to, loss in (("louvain", "london", "busy"), ("barcelona", "madrid", "satguard"))
    ]
    return [*presets, *made]


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Send datagrams over each path with and without recovery, through nodes and in the simulator; needs no data."""
    del data
    rows: list[Row] = []
    notes = []
    every = paths()
    for number, path in enumerate(every):
        pairs = {}
        for scheme in SCHEMES:
            try:
                nodes, why = _valid(path, scheme)
            except UserError as error:
                return Outcome("nodes", skipped=str(error))
            if why:
                notes.append(f"{path.name}, {scheme}: not valid in {TRIES} Runs: {why}")
            pairs[scheme] = (nodes, worlds.simulate(path, scheme, nodes))
            on_progress((number + len(pairs) / len(SCHEMES)) / len(every))
        for direction in worlds.DIRECTIONS:
            rows += figures.compare(path.name, direction, pairs)
    sent = worlds.SECONDS * worlds.PER_S
    notes.append(
        f"{len(every)} paths, {sent} datagrams of {worlds.SIZE_BYTES} bytes each way; intervals are of 95 %, from "
        f"{figures.RESAMPLES} samples of the seconds; the simulator's figures are of {worlds.SEEDS} seeds"
    )
    return Outcome("nodes", rows, notes)


def _valid(path: Profile, scheme: str) -> tuple[worlds.World, str | None]:
    """Return the first valid Run, or the last and the reason."""
    for _ in range(TRIES - 1):
        world, why = worlds.emulate(path, scheme)
        if why is None:
            return world, None
    return worlds.emulate(path, scheme)

"""Claim: controllers in a stock kernel come, transfer and go, and leave nothing behind.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.kernel import controllers
from bentpipe.validation import Outcome, Row
from bentpipe.validation.kernel_life import lives

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.validation import OnProgress

SIZE_BYTES, QUICK_SIZE_BYTES = 1_000_000_000, 100_000_000
GAP_S = 1.0
"""Longest time without progress; chosen here: five times the least RTO of Linux, so one time-out is no stall [s]."""
CYCLES, QUICK_CYCLES = 100, 10
CONNECTIONS, QUICK_CONNECTIONS = 5_000, 200
UNLOAD_S = 1.0
"""Longest unload; chosen here: subject a user does not wait for [s]."""


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False) -> Outcome:
    """Transfer, load and unload, and unload while connections use it, with each controller; needs no data."""
    del data
    if why := lives.may_load():
        return Outcome("kernel-life", skipped=why)
    try:
        if loaded := [each for each in controllers.loaded_controllers() if each.state == controllers.STATES[1]]:
            return Outcome("kernel-life", skipped=f"{loaded[0].name} is loaded: unload it first")
    except UserError as error:
        return Outcome("kernel-life", skipped=str(error))
    size = QUICK_SIZE_BYTES if quick else SIZE_BYTES
    cycles, connections = (QUICK_CYCLES, QUICK_CONNECTIONS) if quick else (CYCLES, CONNECTIONS)
    names = controllers.available()
    rows: list[Row] = []
    for number, name in enumerate(names):
        rows += _transfer(name, size) + _cycles(name, cycles) + _orphans(name, connections)
        on_progress((number + 1) / len(names))
    return Outcome("kernel-life", rows)


def _transfer(name: str, size: int) -> list[Row]:
    controllers.load_controller(name)
    try:
        made = lives.transfer(controllers.kernel_name(name), size)
    finally:
        controllers.unload_controller(name)
    within = made.gap_s <= GAP_S
    subject = f"{name}: longest time without progress in {size / 1e9:g} GB over veth"
    return [Row(subject, f"{made.gap_s:.3f} s of {made.seconds:.1f} s", "none", f"{GAP_S:g} s", within)]


def _cycles(name: str, times: int) -> list[Row]:
    earlier = lives.registrations(name)
    whole = lives.cycle(name, times)
    left = lives.left_over(name, earlier)
    subject = f"{name}: {times} loads under traffic"
    return [
        Row(f"{subject}: connections whose data all arrived", f"{whole}", f"{times}", "none", whole == times),
        Row(f"{subject}: registrations left", f"{left}", "0", "none", not left),
    ]


def _orphans(name: str, connections: int) -> list[Row]:
    least = 2 * connections + 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < least:
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, max(hard, least)))
    seen = lives.orphan(name, connections)
    subject = f"{name}: unloaded while {connections} connections use it"
    sizes = f"{seen.memory_bytes / 1e6:.0f} MB in the kernel, {seen.left_bytes / 1e6:.0f} MB after they closed"
    return [
        Row(f"{subject}: time", f"{seen.unload_s * 1e3:.1f} ms", "", f"{UNLOAD_S:g} s", seen.unload_s <= UNLOAD_S),
        Row(
            f"{subject}: that transfer afterwards",
            f"{seen.served}",
            f"{connections}",
            "none",
            seen.served == connections,
        ),
        Row(f"{subject}: registrations left after them", f"{seen.left}", "0", "none", not seen.left),
        Row(f"{subject}: memory", sizes, "", "", None),
    ]

"""What the report says of the path itself, and of the hosts at its ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.profiles.queues import describe_queue
from bentpipe.runs.path import raced_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.profiles.table import Direction
    from bentpipe.runs.path import RacedPath
    from bentpipe.runs.store import Run

HOST_BUFFERS = {"wmem_max_bytes": 4_194_304, "rmem_max_bytes": 33_554_432}
"""Fields of an Experiment's hosts that bound a flow's window, and what they are where nothing is said
(`docs/reference/experiment.md`)."""

ROUNDING_S = 1e-6
"""Times that differ by less are alike [s]: seconds as floats hold a day to a hundredth of that."""


def facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """What the path did in the Runs, each thing counted apart; if their Profiles are there to be asked."""
    paths = _met(runs)
    if len(paths) < len({(run.seed, run.offset_s) for run in runs}):
        # The kept Profile is gone, or this build draws another path from a seed than the one that ran.
        several = any(len(run.record["profiles"]) > 1 for run in runs)
        why = "told only of Runs over one Profile" if several else "the Profile of these Runs cannot be drawn again"
        return [("Handovers, outages, loss episodes", f"not known: {why}")]
    outages = [path.outages() for path in paths]
    seconds = [path.no_path_s() for path in paths]
    cut = f", {span(seconds)} s in all" if max(seconds) > 0 else ""
    return [
        ("Handovers in a run", _span_of_counts([len(path.handovers()) for path in paths])),
        ("Reconfigurations without one", _span_of_counts([len(path.reconfigurations()) for path in paths])),
        ("Outages in a run", _span_of_counts(list(map(len, outages))) + cut),
        *((f"Loss episodes in a run ({direction})", _episodes(paths, direction)) for direction in directions(runs)),
    ]


def _episodes(paths: Sequence[RacedPath], direction: Direction) -> str:
    episodes = [path.loss_episodes(direction) for path in paths]
    always = all(
        path.duration_s - sum(b - a for a, b in found) < ROUNDING_S for path, found in zip(paths, episodes, strict=True)
    )
    return "lossy throughout" if always else _span_of_counts(list(map(len, episodes)))


def directions(runs: Sequence[Run]) -> list[Direction]:
    """The ways in which data went, that of the first flow first."""
    return list(dict.fromkeys(flow["direction"] for run in runs for flow in run.flows))


def sentences(label: str, runs: Sequence[Run]) -> list[str]:
    """What a reader must know about the path before any figure of it."""
    if one_outage(runs):
        return [
            f"{label} is an outage from the beginning of every run to its end: there was nothing to race over, "
            "and there are no figures."
        ]
    if has_capacity(runs):
        return []
    return [
        f"{label} knows no capacity: only windows and buffers held its flows back, so their goodput says nothing "
        "about the path, and nothing is concluded from it here."
    ]


def has_capacity(runs: Sequence[Run]) -> bool:
    """Whether a capacity limits the path in every direction of the Runs' data, as far as their Profiles are there."""
    return all(path.limited(direction) for path in _met(runs) for direction in directions(runs))


def buffers(runs: Sequence[Run]) -> str:
    """What the limits of the buffers are called, and how large they were."""
    return (
        "Send buffer: tcp_wmem[2] of the sender, wmem_max_bytes in an Experiment's [hosts]: "
        f"{_buffer(runs, 'sender', 'wmem_max_bytes')}. "
        f"Receive window: tcp_rmem[2] of the receiver, rmem_max_bytes: {_buffer(runs, 'receiver', 'rmem_max_bytes')}."
    )


def _buffer(runs: Sequence[Run], end: str, key: str) -> str:
    """The sizes of a buffer at one end of the flows; an end that names no host has the defaults."""
    sizes: dict[str, None] = {}
    for experiment in (run.record["experiment"] for run in runs):
        hosts = experiment.get("hosts") or {}
        for flow in experiment.get("flows") or [{}]:
            host = hosts.get(flow.get(end)) or {}
            said = f"{host[key]} bytes" if key in host else f"{HOST_BUFFERS[key]} bytes (Linux's default)"
            sizes[said] = None
    return " or ".join(sizes)


def queues(runs: Sequence[Run]) -> str:
    """The queues that the Runs had instead of their Profile's own; empty where they had those."""
    rules = [run.record["experiment"].get("queues") or [] for run in runs]
    said = dict.fromkeys("; ".join(describe_queue(rule) for rule in each) for each in rules if each)
    return f"Not the Profile's own queues: {' or '.join(said)}. " if said else ""


def one_outage(runs: Sequence[Run]) -> bool:
    """Whether nothing could pass from the beginning of every Run to its end."""
    paths = _met(runs)
    return bool(paths) and all(path.no_path_s() >= path.duration_s - ROUNDING_S for path in paths)


def span(found: Sequence[float]) -> str:
    """``3.0`` or ``3.0 to 7.5``."""
    low, high = min(found), max(found)
    return f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


def _span_of_counts(found: Sequence[int]) -> str:
    return str(found[0]) if min(found) == max(found) else f"{min(found)} to {max(found)}"


def _met(runs: Sequence[Run]) -> list[RacedPath]:
    """The path of each seed once: all schemes of a seed met the same."""
    return list({(run.seed, run.offset_s): path for run in runs if (path := raced_path(run)) is not None}.values())

"""The report's facts and sentences about the path and about the hosts at its ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.runs.path import raced_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.profiles.table import Direction
    from bentpipe.runs.path import RacedPath
    from bentpipe.runs.store import Run

HOST_BUFFERS = {"wmem_max_bytes": 4_194_304, "rmem_max_bytes": 33_554_432}
"""Fields of an Experiment's hosts that bound a flow's window, with their defaults (`docs/reference/experiment.md`)."""

ROUNDING_S = 1e-6
"""Times that differ by less are equal [s]: a float of seconds holds a day to a hundredth of that."""


def facts(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Count the path's handovers, reconfigurations, outages and loss episodes in the Runs, if their Profiles exist."""
    paths = _raced_paths(runs)
    if len(paths) < len({(run.seed, run.offset_s) for run in runs}):
        # The stored Profile is missing, or this build draws another path from the seed than the Run's build.
        several = any(len(run.record.profiles) > 1 for run in runs)
        why = "counted only for Runs over one Profile" if several else "the path of these Runs cannot be reproduced"
        return [("Handovers, outages, loss episodes", f"not known: {why}")]
    outages = [path.outages() for path in paths]
    seconds = [path.no_path_s() for path in paths]
    total = f", {span(seconds)} s in all" if max(seconds) > 0 else ""
    return [
        ("Handovers in a run", _span_of_counts([len(path.handovers()) for path in paths])),
        ("Reconfigurations without handover", _span_of_counts([len(path.reconfigurations()) for path in paths])),
        ("Outages in a run", _span_of_counts(list(map(len, outages))) + total),
        *((f"Loss episodes in a run ({direction})", _episodes(paths, direction)) for direction in directions(runs)),
    ]


def _episodes(paths: Sequence[RacedPath], direction: Direction) -> str:
    episodes = [path.loss_episodes(direction) for path in paths]
    always = all(
        path.duration_s - sum(b - a for a, b in spans) < ROUNDING_S for path, spans in zip(paths, episodes, strict=True)
    )
    return "lossy throughout" if always else _span_of_counts(list(map(len, episodes)))


def directions(runs: Sequence[Run]) -> list[Direction]:
    """Return the directions of the flows' data, the first flow's first."""
    return list(dict.fromkeys(flow["direction"] for run in runs for flow in run.flows))


def sentences(label: str, runs: Sequence[Run]) -> list[str]:
    """Return warnings about the path that a reader needs before its figures."""
    if is_permanent_outage(runs):
        return [f"{label} is an outage from the start of every run to its end, so there are no results and no figures."]
    if has_capacity(runs):
        return []
    return [
        f"{label} has no capacity limit: only windows and buffers limited its flows. Their goodput does not describe "
        "the path and is not compared here."
    ]


def has_capacity(runs: Sequence[Run]) -> bool:
    """Tell whether the path has a capacity in every direction of the Runs' data, as far as their Profiles exist."""
    return all(path.limited(direction) for path in _raced_paths(runs) for direction in directions(runs))


def buffers(runs: Sequence[Run]) -> str:
    """Describe the limits of the hosts' buffers: their names and sizes."""
    return (
        "Send buffer: tcp_wmem[2] of the sender, wmem_max_bytes in an Experiment's [hosts]: "
        f"{_buffer(runs, 'sender', 'wmem_max_bytes')}. "
        f"Receive window: tcp_rmem[2] of the receiver, rmem_max_bytes: {_buffer(runs, 'receiver', 'rmem_max_bytes')}."
    )


def _buffer(runs: Sequence[Run], end: str, key: str) -> str:
    """Describe the sizes of a buffer at one end of the flows; an end without a host has the defaults."""
    sizes: dict[str, None] = {}
    for experiment in (run.record.experiment for run in runs):
        for flow in experiment.flows or (None,):
            host = experiment.hosts.get(str(getattr(flow, end, None)))
            size = getattr(host, key, None)
            described = f"{HOST_BUFFERS[key]} bytes (Linux's default)" if size is None else f"{size} bytes"
            sizes[described] = None
    return " or ".join(sizes)


def queues(runs: Sequence[Run]) -> str:
    """Describe the queues that replaced the Profile's own in the Runs; empty if none did."""
    rules = [run.record.experiment.queues for run in runs]
    descriptions = dict.fromkeys("; ".join(rule.description for rule in each) for each in rules if each)
    return f"Queues that replace the Profile's own: {' or '.join(descriptions)}. " if descriptions else ""


def is_permanent_outage(runs: Sequence[Run]) -> bool:
    """Tell whether the path is an outage from the start of every Run to its end."""
    paths = _raced_paths(runs)
    return bool(paths) and all(path.no_path_s() >= path.duration_s - ROUNDING_S for path in paths)


def span(values: Sequence[float]) -> str:
    """Format the range of values: ``3.0`` or ``3.0 to 7.5``."""
    low, high = min(values), max(values)
    return f"{low:.1f}" if low == high else f"{low:.1f} to {high:.1f}"


def _span_of_counts(counts: Sequence[int]) -> str:
    return str(counts[0]) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _raced_paths(runs: Sequence[Run]) -> list[RacedPath]:
    """Return each seed's path once: all schemes of a seed had the same."""
    return list({(run.seed, run.offset_s): path for run in runs if (path := raced_path(run)) is not None}.values())

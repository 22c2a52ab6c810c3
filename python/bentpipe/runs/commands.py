"""Runs of programs (`bentpipe run`) grouped by command, direction and controller, without idle connections."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from bentpipe.experiments.flow_names import COMMAND
from bentpipe.experiments.recovery import recovery_name
from bentpipe.runs.store import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

IDLE_BUSY = 0.1
IDLE_BYTES = 0.01
"""A connection is idle if it has data to send for less than this share of its life, and carries less than this share of
its Run's bytes. Chosen here: iperf3's control connection is busy for some RTTs and carries a few kilobytes. A starved
flow is busy all the time, and a short transfer for all of its short life."""

LIMITED = ("cwnd_limited_s", "receiver_limited_s", "sender_limited_s")


@dataclass(frozen=True)
class CommandRun(Run):
    """A program's Run, reduced to some of its flows."""

    numbers: tuple[int, ...] = ()
    """Their numbers in the tables on disk."""
    idle: int = 0
    """Number of its other connections, which were idle."""

    @property
    def flow_numbers(self) -> Sequence[int]:
        """Number of each flow in the tables on disk."""
        return self.numbers

    def samples(self) -> pl.DataFrame:
        """Return `samples.parquet` of these flows, numbered from 0."""
        numbers = pl.Series(list(self.flow_numbers), dtype=pl.UInt64)
        table = super().samples().filter(pl.col("flow").is_in(numbers.implode()))
        return table.with_columns(
            pl.col("flow").replace_strict(numbers, pl.int_range(len(numbers), eager=True), return_dtype=pl.UInt64)
        )


def by_command(runs: Iterable[Run]) -> list[Run]:
    """Name the Runs of programs by their command and drop their idle connections.

    The Experiment's name gets the direction of the data as a suffix, so that no figure mixes directions. Other Runs are
    returned unchanged.
    """
    views = [_view(run) for run in runs]
    variants: dict[tuple[str, str, str], list[tuple[list[str], str | None]]] = {}
    for run in views:
        if isinstance(run, CommandRun):
            variants.setdefault((run.experiment, run.label, run.scheme), []).append(_variant(run))
    return [
        _named_apart(run, variants[run.experiment, run.label, run.scheme]) if isinstance(run, CommandRun) else run
        for run in views
    ]


def idle_connections(runs: Iterable[Run]) -> int:
    """Count the connections that `by_command` dropped."""
    return sum(run.idle for run in runs if isinstance(run, CommandRun))


def _view(run: Run) -> Run:
    program, specs = run.record.program, run.record.experiment.flows
    if program is None or not program.command or len(specs) != len(run.flows):
        return run
    numbers = _busy_flows(run)
    figures = [run.record.summary["flows"][i] for i in numbers]
    directions = sorted({figure["direction"] for figure in figures})
    experiment = run.record.experiment.replace(
        name="-".join([run.experiment, *directions]), flows=tuple(specs[i] for i in numbers)
    )
    options = [word for queue in program.queues for word in ("--aqm", queue)]
    options += ["--gateway-cc", program.gateway_controller] if program.gateway_controller else []
    options += ["--recovery", recovery_name(recovery)] if (recovery := run.record.experiment.recovery) else []
    options += ["--mtu", str(program.mtu)] if program.mtu != 1500 else []
    record = run.record.replace(
        scheme=COMMAND + shlex.join(program.command) + (f" ({shlex.join(options)})" if options else ""),
        experiment=experiment,
        summary={**run.record.summary, "flows": figures},
    )
    return CommandRun(run.path, record, tuple(numbers), len(specs) - len(numbers))


def _busy_flows(run: Run) -> list[int]:
    """Return the numbers of the flows that are not idle; all flows if all are idle."""
    every = list(range(len(run.flows)))
    if len(every) < 2:
        return every
    activity = {
        int(flow): (received, active_s, life_s)
        for flow, received, active_s, life_s in run.samples()
        .group_by("flow")
        .agg(
            pl.col("goodput_bytes").max().cast(pl.Float64),
            (pl.col(LIMITED[0]).max() + pl.col(LIMITED[1]).max()).alias("active"),
            pl.sum_horizontal(pl.col(name).max() for name in LIMITED).alias("life"),
        )
        .rows()
    }
    total = sum(received or 0.0 for received, _, _ in activity.values())

    def is_idle(flow: int) -> bool:
        received, active_s, life_s = activity.get(flow, (0.0, 0.0, 0.0))
        return (received or 0.0) < IDLE_BYTES * total and (active_s or 0.0) <= IDLE_BUSY * (life_s or 0.0)

    return [flow for flow in every if not is_idle(flow)] or every


def _variant(run: Run) -> tuple[list[str], str | None]:
    program = run.record.program
    return run.names, None if program is None else program.server


def _named_apart(run: CommandRun, variants: Sequence[tuple[list[str], str | None]]) -> Run:
    """Add controllers or server to the Run's name if they differ among the Runs of its command."""
    controllers, server = _variant(run)
    suffixes = []
    if any(other != controllers for other, _ in variants):
        suffixes.append(", ".join(controllers))
    if any(other != server for _, other in variants):
        suffixes.append(f"server: {server}")
    if not suffixes:
        return run
    return replace(run, record=run.record.replace(scheme=f"{run.scheme} [{'; '.join(suffixes)}]"))

"""What a sweep is made of: jobs, each one Run to be, and the key under which its result is kept."""

from __future__ import annotations

import hashlib
import inspect
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution import plan as planning
from bentpipe.experiments.plugins import is_python_controller
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs import record
from bentpipe.runs.work import Base, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction, Experiment

    Measure = Callable[["Outcome"], Mapping[str, Any]]
    """What is kept of a Run beside its summary: plain data (numbers, texts, None, lists and mappings of them) by name.
    A function of a module, so that other processes and machines find it."""


@dataclass(frozen=True)
class Outcome:
    """A Run of a sweep before it is let go: what a `Measure` reads.

    Attributes:
        experiment: As it was run, with the hashes of the Profiles as drawn.
        summary: As in `run.json`.
    """

    experiment: Experiment
    summary: Mapping[str, Any]
    data: record.Data

    def samples(self) -> pl.DataFrame:
        """What `samples.parquet` of a Run holds (`docs/reference/run.md`)."""
        return self._table("samples")

    def links(self) -> pl.DataFrame:
        """What `links.parquet` holds."""
        return self._table("links")

    def events(self) -> pl.DataFrame:
        """What `events.parquet` holds."""
        return self._table("events")

    def seconds(self) -> pl.DataFrame:
        """The samples at whole seconds from the warm-up's end on: of each flow one more than there are seconds."""
        import polars as pl

        warm_s = self.experiment.warmup_ns / 1e9
        return self.samples().filter(((pl.col("t_s") * 10).round() % 10 == 0) & (pl.col("t_s") >= warm_s - 1e-6))

    def _table(self, name: str) -> pl.DataFrame:
        return record.tables(self.experiment.to_dict()["flows"], self.data)[name]


@dataclass(frozen=True)
class Job:
    """One Run to be. Make them with `race_jobs` or `experiment_jobs`."""

    work: Work
    measure: Measure | None = None

    @cached_property
    def key(self) -> str:
        """Hex SHA-256 of all that its result depends on.

        The Experiment with its seed, the hashes of the given Profiles, version and build of bentpipe, and the measure
        with its source. What the measure calls counts by bentpipe's version alone.
        """
        whole = {"run": self._identity, "measure": None if self.measure is None else _source(self.measure)}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return self.work.identity

    @property
    def versions(self) -> dict[str, str]:
        """What must have run it, as `record.versions` names it: of the moment when `key` was first asked for."""
        return {name: value for name, value in self._identity["versions"].items() if value is not None}

    @property
    def cost_s(self) -> float:
        """Simulated time of all its flows [s]: what it will take, but for a factor."""
        return self.work.experiment.duration_ns / 1e9 * len(self.work.experiment.flows)

    @property
    def name(self) -> str:
        """As messages call it."""
        return self.work.name

    @property
    def in_python(self) -> bool:
        """Whether a controller in Python takes part, which holds the interpreter's lock."""
        return any(is_python_controller(flow.controller) for flow in self.work.experiment.flows)


def race_jobs(
    paths: Sequence[Profile],
    schemes: Sequence[str],
    *,
    direction: Direction = "down",
    duration_s: float | None = None,
    seeds: int = 1,
    phase_s: float | None = None,
    queues: Sequence[str] = (),
    measure: Measure | None = None,
) -> list[Job]:
    """Every scheme on every Profile with every seed: the Runs of `bentpipe.runs.race` with the same arguments.

    Raises `UserError` for what cannot be run.
    """
    bases = planning.label_profiles(paths)
    rules = tuple(parse_queue(text) for text in queues)
    work = planning.plan_race(bases, schemes, direction, duration_s, seeds, Path(), phase_s, queues=rules)
    return [Job(item, measure) for item in work]


def experiment_jobs(
    experiment: Experiment, paths: Sequence[Profile], *, seeds: int = 1, measure: Measure | None = None
) -> list[Job]:
    """An Experiment over the Profiles of its roles, in order, for the seeds s … s + `seeds` − 1 from its own seed s on.

    The Runs of `bentpipe.runs.run_experiment`. Raises `UserError` for what cannot be run.
    """
    if len(paths) != len(experiment.profiles):
        raise UserError(f"{experiment.name}: {len(paths)} Profiles; wanted one for each of {len(experiment.profiles)}")
    bases = [
        Base(reference.role, label.label, label.profile, label.hash)
        for reference, label in zip(experiment.profiles, planning.label_profiles(paths), strict=True)
    ]
    return [Job(item, measure) for item in planning.plan_experiment(experiment, bases, seeds, Path())]


def _source(measure: Measure) -> dict[str, str]:
    """A measure by name and by what it does."""
    name = f"{measure.__module__}:{measure.__qualname__}"
    if "<" in name:
        raise UserError(f"the measure {name} has no name that another process could find; wanted a module's function")
    return {"name": name, "sha256": hashlib.sha256(inspect.getsource(measure).encode()).hexdigest()}

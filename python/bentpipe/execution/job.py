"""Jobs of a sweep: each is one planned Run, with the key under which its result is stored."""

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
from bentpipe.experiments.plugins import python_plugins
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs import record
from bentpipe.runs.work import Base, Work

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import polars as pl

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Direction, Experiment

    Measure = Callable[["Outcome"], Mapping[str, Any]]
    """Function that returns the values stored beside a Run's summary: plain data (numbers, texts, None, lists and
    mappings of them) by name. It must be a module's function, so that other processes and machines can import it."""


@dataclass(frozen=True)
class Outcome:
    """A finished Run of a sweep with its tables: the argument of a `Measure`.

    Attributes:
        experiment: The Experiment, with the hashes of the realised Profiles.
        summary: As in `run.json`.
    """

    experiment: Experiment
    summary: Mapping[str, Any]
    data: record.Data

    def samples(self) -> pl.DataFrame:
        """Return the table `samples.parquet` (`docs/reference/run.md`)."""
        return self._table("samples")

    def links(self) -> pl.DataFrame:
        """Return the table `links.parquet`."""
        return self._table("links")

    def events(self) -> pl.DataFrame:
        """Return the table `events.parquet`."""
        return self._table("events")

    def seconds(self) -> pl.DataFrame:
        """Return the samples at whole seconds from the warm-up's end on: for n seconds n + 1 rows of each flow."""
        import polars as pl

        warm_s = self.experiment.warmup_ns / 1e9
        return self.samples().filter(((pl.col("t_s") * 10).round() % 10 == 0) & (pl.col("t_s") >= warm_s - 1e-6))

    def _table(self, name: str) -> pl.DataFrame:
        return record.tables(self.experiment.to_dict()["flows"], self.data)[name]


@dataclass(frozen=True)
class Job:
    """One planned Run. Make jobs with `race_jobs` or `experiment_jobs`."""

    work: Work
    measure: Measure | None = None

    @cached_property
    def key(self) -> str:
        """Hex SHA-256 of everything that the result depends on.

        These are the Experiment with its seed, the hashes of the given Profiles, version and build of bentpipe, and the
        measure with its source. Functions that the measure calls are covered only by bentpipe's version.
        """
        whole = {"run": self._identity, "measure": None if self.measure is None else _source(self.measure)}
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    @cached_property
    def _identity(self) -> dict[str, Any]:
        return self.work.identity

    @property
    def versions(self) -> dict[str, str]:
        """Required versions, as in `record.versions`, at the time of the first access to `key`."""
        return {name: value for name, value in self._identity["versions"].items() if value is not None}

    @property
    def cost_s(self) -> float:
        """Simulated time of all its flows [s]: proportional to the run time."""
        return self.work.experiment.duration_ns / 1e9 * len(self.work.experiment.flows)

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.work.name

    @property
    def in_python(self) -> bool:
        """Whether it has a Python controller, which holds the interpreter's lock."""
        return bool(python_plugins(self.work.experiment))


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
    """Make a job for every scheme, Profile and seed: the Runs of `bentpipe.race` with the same arguments.

    Raises:
        UserError: A Run is impossible.
    """
    bases = planning.label_profiles(paths)
    rules = tuple(parse_queue(text) for text in queues)
    work = planning.plan_race(bases, schemes, direction, duration_s, seeds, Path(), phase_s, queues=rules)
    return [Job(item, measure) for item in work]


def experiment_jobs(
    experiment: Experiment, paths: Sequence[Profile], *, seeds: int = 1, measure: Measure | None = None
) -> list[Job]:
    """Make a job for each seed s … s + `seeds` − 1 of an Experiment over its Profiles, where s is its own seed.

    The Runs are those of `bentpipe.execution.run_experiment`.

    Raises:
        UserError: A Run is impossible.
    """
    if len(paths) != len(experiment.profiles):
        raise UserError(
            f"{experiment.name}: {len(paths)} Profiles; expected one for each of {len(experiment.profiles)}"
        )
    bases = [
        Base(reference.role, label.label, label.profile, label.hash)
        for reference, label in zip(experiment.profiles, planning.label_profiles(paths), strict=True)
    ]
    return [Job(item, measure) for item in planning.plan_experiment(experiment, bases, seeds, Path())]


def _source(measure: Measure) -> dict[str, str]:
    """Identify a measure by its name and its source."""
    name = f"{measure.__module__}:{measure.__qualname__}"
    if "<" in name:
        raise UserError(f"the measure {name} cannot be imported by another process; expected a module's function")
    return {"name": name, "sha256": hashlib.sha256(inspect.getsource(measure).encode()).hexdigest()}

"""A Run's tables and `run.json`, made from a driver's result."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from bentpipe import _native
from bentpipe.errors import printable
from bentpipe.experiments.recovery import recovery_name
from bentpipe.runs import store
from bentpipe.runs.run_record import ProfileRecord, RunRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.experiments.plugins import PythonPlugin
    from bentpipe.runs.run_record import World
    from bentpipe.runs.store import Run
    from bentpipe.runs.work import Base, Work

ROW_KEYS = ("controller", "goodput_bps", "rtt_median_ms", "rtt_p95_ms", "retransmits")
"""Keys of each flow in ``race --json`` that are stable, first and in this order."""


PLUGINS = ("controller ", "app ")
"""Prefixes of the entries of plugins in Python in `versions`."""


@cache
def build() -> str:
    """Return an identifier of the native module's build: the start of its file's SHA-256.

    Two builds of one version may differ in code and so in results. Two builds of one code may differ in the file
    (another compiler); a race then repeats Runs needlessly.
    """
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:16]


class Data(Protocol):
    """A driver's result: `RunData` of the simulator, `EmulationResult` of the emulator."""

    def samples(self) -> dict[str, Any]:
        """Return the columns of `samples`."""

    def links(self) -> dict[str, Any]:
        """Return the columns of `links`."""

    def events(self) -> dict[str, Any]:
        """Return the columns of `events`."""

    def applications(self) -> dict[str, Any]:
        """Return the columns of `applications`."""

    def summary_json(self) -> str:
        """Return the summary, with `valid` and `why_invalid`."""

    def content_hash(self) -> str:
        """Return the hash of tables and summary."""


def tables(flows: Sequence[Mapping[str, Any]], data: Data) -> dict[str, pl.DataFrame]:
    """Return the tables of a Run; samples get the `direction` and `controller` of their flow.

    Without items of an application there is no table `applications`.
    """
    samples = store.frame(data.samples())
    samples = samples.with_columns(pl.col("losses").cast(pl.UInt64))  # null if the kernel does not count them
    flows_table = pl.DataFrame(
        {
            "flow": range(len(flows)),
            "direction": [flow["direction"] for flow in flows],
            "controller": [flow["controller"] for flow in flows],
        },
        schema={"flow": samples.schema["flow"], "direction": pl.String, "controller": pl.String},
    )
    first = ["t_s", "flow", "direction", "controller"]
    named = samples.join(flows_table, on="flow", how="left", maintain_order="left")
    ordered = named.select(first + [column for column in samples.columns if column not in first])
    run = {"samples": ordered, "links": store.frame(data.links()), "events": store.frame(data.events())}
    items = data.applications()
    return {**run, "applications": store.frame(items)} if len(items["flow"]) else run


def run_record(item: Work, experiment: Experiment, paths: Sequence[Profile], data: Data) -> RunRecord:
    """Return `run.json` without the files' hashes; `paths` are the Profiles as realised with the Run's seed."""
    from bentpipe.experiments.plugins import python_plugins

    summary = json.loads(data.summary_json())
    return RunRecord(
        world=item.world,
        node=item.world,
        scheme=item.scheme,
        seed=item.seed,
        phase=item.phase,
        profiles=tuple(
            profile_record(base, path, reference.hash)
            for base, path, reference in zip(item.bases, paths, experiment.profiles, strict=True)
        ),
        experiment=experiment,
        versions=versions(item.world, python_plugins(experiment)),
        valid=summary.pop("valid"),
        why_invalid=summary.pop("why_invalid"),
        summary=summary,
        content_hash=data.content_hash(),
    )


def profile_record(base: Base, path: Profile, drawn_hash: str) -> ProfileRecord:
    """A Profile in `run.json`: as it was given, and as it was drawn."""
    return ProfileRecord(
        role=base.role,
        label=base.label,
        name=path.name,
        hash=drawn_hash,
        base_hash=base.hash,
        start_unix_ns=path.start_unix_ns,
        duration_s=path.duration_s,
        provenance=json.loads(path.metadata_json())["provenance"],
    )


def versions(world: World, plugins: Iterable[PythonPlugin] = ()) -> dict[str, str]:
    """Return the versions of the software that made a Run.

    `build` of an emulated Run identifies only the emulator, as the simulator's TCP has no effect on it; kernel and
    processor are added. A simulated Run does not depend on the machine's TCP. Each plugin in Python has the SHA-256 of
    its file, because an edited one is another one.
    """
    files = plugin_hashes(plugins)
    if world == "simulated":
        return {"bentpipe": _native.__version__, "build": build(), **files}
    software = {"bentpipe": _native.__version__, "build": _native.__emulator__, **files}
    return {**software, **machine()}


def plugin_hashes(plugins: Iterable[PythonPlugin]) -> dict[str, str]:
    """Return the SHA-256 of each plugin's file, by ``controller NAME`` or ``app NAME``."""
    return {f"{plugin.role} {plugin.name}": plugin.sha256 for plugin in plugins}


def machine() -> dict[str, str]:
    """Return the kernel and the processor architecture of this machine."""
    return {"kernel": f"{platform.system()} {platform.release()}", "machine": platform.machine()}


def race_row(run: Run) -> dict[str, Any]:
    """Return one Run as ``race --json`` prints it: the stable keys first."""
    flows = [
        {**{key: flow.get(key) for key in ROW_KEYS}, **{k: v for k, v in flow.items() if k not in ROW_KEYS}}
        for flow in run.flows
    ]
    return {
        "profile": run.label,
        "scheme": run.scheme,
        "seed": run.seed,
        "world": run.record.world,
        "flows": flows,
        **({"pings": run.pings} if run.pings else {}),
        **({} if (recovery := run.record.experiment.recovery) is None else {"recovery": recovery_name(recovery)}),
        "valid": run.record.valid,
        "why_invalid": run.record.why_invalid,
        "path": str(run.path),
        "content_hash": run.record.content_hash,
    }


def results_table(runs: Iterable[Run]) -> pl.DataFrame:
    """Return one row per flow of every Run: its identity and summary; nested fields are ``startup_…`` and ``app_…``.

    `path` is the role of the flow's Profile in the Experiment: the name of a path in a Network.
    """
    rows = []
    for run in runs:
        for i, role, flow in zip(run.flow_numbers, run.flow_paths, run.flows, strict=True):
            plain = {key: value for key, value in flow.items() if not isinstance(value, dict)}
            start = {f"startup_{key}": value for key, value in flow["startup"].items()}
            app = {f"app_{key}": value for key, value in flow.get("app", {}).items()}
            identity = {
                "experiment": run.experiment,
                "profile": run.label,
                "scheme": run.scheme,
                "seed": run.seed,
                "flow": i,
                "path": role,
            }
            validity = {"valid": run.record.valid, "content_hash": run.record.content_hash}
            row = {**identity, **plain, **start, **app, **validity}
            # A lone surrogate of a run.json fits no file.
            rows.append({key: printable(value) if isinstance(value, str) else value for key, value in row.items()})
    return pl.DataFrame(rows, infer_schema_length=None)

"""What a driver returns, as a Run's tables and `run.json`."""

from __future__ import annotations

import hashlib
import json
import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from bentpipe import _native
from bentpipe.runs import store

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.experiments.plugins import PythonController
    from bentpipe.runs.store import Run
    from bentpipe.runs.work import Base, Work

ROW_KEYS = ("controller", "goodput_bps", "rtt_median_ms", "rtt_p95_ms", "retransmits")
"""What ``race --json`` promises for each flow, first and in this order."""


PYTHON_CONTROLLER = "controller "
"""How the entries of controllers in Python begin among the versions."""


@cache
def build() -> str:
    """Which build of the native half runs here: the start of the SHA-256 of its file.

    Two builds of one version may differ in their code, and so in what they simulate. Two of one code may differ in
    their file too (another compiler): a race then runs again what it need not.
    """
    return hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:16]


class Data(Protocol):
    """What a driver returns: `RunData` of the simulator, `Emulated` of the emulator."""

    def samples(self) -> dict[str, Any]:
        """Columns of `samples`."""

    def links(self) -> dict[str, Any]:
        """Columns of `links`."""

    def events(self) -> dict[str, Any]:
        """Columns of `events`."""

    def summary_json(self) -> str:
        """The summary, with `valid` and `why_invalid`."""

    def content_hash(self) -> str:
        """Of tables and summary."""


def tables(flows: Sequence[Mapping[str, Any]], data: Data) -> dict[str, pl.DataFrame]:
    """`samples`, `links` and `events`; samples say the `direction` and `controller` of their flow."""
    samples = store.frame(data.samples())
    samples = samples.with_columns(pl.col("losses").cast(pl.UInt64))  # null where the kernel does not keep them
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
    return {"samples": ordered, "links": store.frame(data.links()), "events": store.frame(data.events())}


def run_record(item: Work, experiment: Experiment, paths: Sequence[Profile], data: Data) -> dict[str, Any]:
    """`run.json` but for the files' hashes; `paths` are the Profiles as drawn with the Run's seed."""
    from bentpipe.experiments.plugins import python_controllers

    summary = json.loads(data.summary_json())
    return {
        "format": store.FORMAT,
        "world": item.world,
        "node": item.world,
        "scheme": item.scheme,
        "seed": item.seed,
        "phase": item.phase,
        "profiles": [
            profile_record(base, path, reference.hash)
            for base, path, reference in zip(item.bases, paths, experiment.profiles, strict=True)
        ],
        "experiment": experiment.to_dict(),
        "versions": versions(item.world, python_controllers(experiment)),
        "valid": summary.pop("valid"),
        "why_invalid": summary.pop("why_invalid"),
        "summary": summary,
        "content_hash": data.content_hash(),
    }


def profile_record(base: Base, path: Profile, drawn_hash: str) -> dict[str, Any]:
    """A Profile in `run.json`: as it was given, and as it was drawn."""
    return {
        "role": base.role,
        "label": base.label,
        "name": path.name,
        "hash": drawn_hash,
        "base_hash": base.hash,
        "start_unix_ns": path.start_unix_ns,
        "duration_s": path.duration_s,
        "provenance": json.loads(path.metadata_json())["provenance"],
    }


def versions(world: store.World, plugins: Mapping[str, PythonController] | None = None) -> dict[str, str]:
    """What ran. Of an emulated Run `build` is the emulator's alone, and which kernel and processor is told too.

    What the simulator's senders and receivers do is nothing to an emulated Run, which TCP the machine has nothing to a
    simulated one. Of each controller in Python the SHA-256 of its file: one that was edited is another.
    """
    brought = {f"{PYTHON_CONTROLLER}{name}": plugin.sha256 for name, plugin in (plugins or {}).items()}
    if world == "simulated":
        return {"bentpipe": _native.__version__, "build": build(), **brought}
    ours = {"bentpipe": _native.__version__, "build": _native.__emulator__, **brought}
    return {**ours, **machine()}


def machine() -> dict[str, str]:
    """Whose TCP it was, and on what processor."""
    return {"kernel": f"{platform.system()} {platform.release()}", "machine": platform.machine()}


def race_row(run: Run) -> dict[str, Any]:
    """One Run as ``race --json`` prints it: the promised keys first."""
    flows = [
        {**{key: flow.get(key) for key in ROW_KEYS}, **{k: v for k, v in flow.items() if k not in ROW_KEYS}}
        for flow in run.flows
    ]
    return {
        "profile": run.label,
        "scheme": run.scheme,
        "seed": run.seed,
        "world": run.record["world"],
        "flows": flows,
        "valid": run.record["valid"],
        "why_invalid": run.record.get("why_invalid"),
        "path": str(run.path),
        "content_hash": run.record["content_hash"],
    }


def results_table(runs: Iterable[Run]) -> pl.DataFrame:
    """One row per flow of every Run: what was run, and its summary; nested fields are ``startup_…``."""
    rows = []
    for run in runs:
        for i, flow in zip(run.flow_numbers, run.flows, strict=True):
            plain = {key: value for key, value in flow.items() if not isinstance(value, dict)}
            start = {f"startup_{key}": value for key, value in flow["startup"].items()}
            what = {
                "experiment": run.experiment,
                "profile": run.label,
                "scheme": run.scheme,
                "seed": run.seed,
                "flow": i,
            }
            how = {"valid": run.record["valid"], "content_hash": run.record["content_hash"]}
            rows.append({**what, **plain, **start, **how})
    return pl.DataFrame(rows, infer_schema_length=None)

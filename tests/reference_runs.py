"""Thirty-one fixed Runs whose values may only change where behaviour is meant to change.

A digest covers every value of a Run's tables and summary in their order, but no name of a column or a key, so that a
rename leaves it as it is. `reference_runs.json` holds the digests, with the content hash of each Profile: making a
Profile may use the host's mathematics, so a Run whose Profile differs on a machine is not compared there.

    python tests/reference_runs.py           # compares; exit code 1 where a Run differs
    python tests/reference_runs.py --write   # after a change of behaviour; the commit says which Runs changed and why
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from bentpipe import _native, controllers
from bentpipe.experiments.experiment import CrossTraffic, Experiment, Flow, ProfileRef
from bentpipe.experiments.plugins import simulate
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.measured.make import profile_from_pings
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.queues import parse_queue

KEPT = Path(__file__).with_name("reference_runs.json")
START_NS = 1_734_544_800_000_000_000
S = 1_000_000_000
CONTROLLER = Path(__file__).parent.parent / "examples" / "my_controller.py"


@dataclass(frozen=True)
class Case:
    """One Run: its Profiles by name, its flows (`Flow.profile` is the Profile's name), and what else differs."""

    flows: tuple[Flow, ...]
    duration_s: int = 12
    queues: tuple[str, ...] = ()
    offset_s: int = 0
    cross: tuple[CrossTraffic, ...] = ()
    hosts: dict[str, dict[str, object]] = field(default_factory=dict)


@cache
def profile(name: str) -> _native.Profile:
    """A Profile of this file by name."""
    makers = {
        "dumbbell": lambda: preset_profile("dumbbell:rate=40mbit,rtt=40ms,queue=1bdp", 30),
        "lossy": lambda: preset_profile("dumbbell:rate=40mbit,rtt=50ms,queue=1bdp,loss=1e-3", 30),
        "geo": lambda: preset_profile("geo", 30),
        "computed": lambda: make_profile("london", "frankfurt", duration_s=40, seed=3),  # its gateway changes
        "steps": lambda: make_profile("melbourne", "tokyo", duration_s=40, seed=5),
        "measured": lambda: profile_from_pings(pings()).profile,
        "beam-near": lambda: shared("beam-near", "20ms"),
        "beam-far": lambda: shared("beam-far", "80ms"),
    }
    return makers[name]()


def pings() -> pl.DataFrame:
    """Ten minutes of probes each 50 ms: a level for each 15 s, noise and 1 % loss."""
    draw = np.random.default_rng(11)
    t_s = np.arange(0, 600, 0.05)
    levels = draw.exponential(8.0, 42)
    rtt_ms = 20 + levels[np.floor((t_s + 3) / 15).astype(int)] + draw.exponential(3.0, t_s.size)
    rtt_ms[draw.random(t_s.size) < 0.01] = np.nan
    return pl.DataFrame(
        {"unix_ns": START_NS + np.round(t_s * 1e9).astype(np.int64), "rtt_ms": pl.Series(rtt_ms).fill_nan(None)}
    )


def shared(name: str, rtt: str) -> _native.Profile:
    """A bottleneck that two Profiles of different delay share."""
    alone = preset_profile(f"dumbbell:rate=40mbit,rtt={rtt},queue=120packets", 30)
    metadata = json.loads(alone.metadata_json())
    metadata["name"] = name
    metadata["hops"][0]["shared_id"] = "beam"
    table = alone.table()
    return _native.Profile.from_table(
        json.dumps(metadata), *(table[key] for key in ("t_s", "hop", "direction", "kind", "value", "valid"))
    )


def cases() -> dict[str, Case]:
    """Every controller, both directions, shared queues, AQM, cross traffic, measured and computed Profiles."""

    def flow(controller: str, on: str, direction: str = "down", **more: object) -> Flow:
        return Flow(controller=controller, direction=direction, profile=on, **more)

    def requests(**more: object) -> dict[str, dict[str, object]]:
        return {"request": {"request_bytes": 2_000, **more}}

    runs = {}
    future = [entry["name"] for entry in controllers() if entry["needs"] == "future"]
    for i, name in enumerate(entry["name"] for entry in controllers() if entry["name"] not in future):
        on = ("computed", "steps", "lossy")[i % 3]
        runs[f"{name} on {on}"] = Case((flow(name, on, "up" if i % 4 == 3 else "down"),), duration_s=20)
    traffic = CrossTraffic(
        offered_bps=8_000_000,
        sizes={"least_bytes": 5_000, "most_bytes": 5_000_000, "tail_index": 1.2},
        profile="dumbbell",
    )
    knowledge = {"known_capacity": "forecast", "known_losses": 1.0}
    for name, options in zip(future, (knowledge, {}), strict=True):
        runs[f"{name} on computed"] = Case((flow(name, "computed", options=options),), duration_s=20)
    runs |= {
        "python controller on dumbbell": Case((flow(f"{CONTROLLER}:Steady", "dumbbell"),)),
        "cubic up and bbr down on computed": Case((flow("cubic", "computed", "up"), flow("bbr", "computed"))),
        "cubic and bbr on dumbbell": Case((flow("cubic", "dumbbell"), flow("bbr", "dumbbell"))),
        "reno and reno, one late, on dumbbell": Case(
            (flow("reno", "dumbbell"), flow("reno", "dumbbell", start_ns=4 * S))
        ),
        "cubic and bbr3 on measured": Case((flow("cubic", "measured"), flow("bbr3", "measured"))),
        "reno up on measured": Case((flow("reno", "measured", "up"),)),
        "bbr on geo": Case((flow("bbr", "geo"),), duration_s=25),
        "cubic on geo, both ways": Case((flow("cubic", "geo"), flow("cubic", "geo", "up")), duration_s=25),
        "cubic near and far of one beam": Case((flow("cubic", "beam-near"), flow("cubic", "beam-far"))),
        "bbr near and reno far of one beam": Case((flow("bbr", "beam-near"), flow("reno", "beam-far", "up"))),
        "cubic under codel": Case((flow("cubic", "dumbbell"),), queues=("codel",)),
        "cubic and bbr under fq_codel": Case(
            (flow("cubic", "computed"), flow("bbr", "computed")), queues=("fq_codel:limit_packets=500",)
        ),
        "reno under red, ecn": Case((flow("reno", "dumbbell", ecn="classic"),), queues=("red",)),
        "bbr3 under step, accurate ecn": Case(
            (flow("bbr3", "dumbbell", ecn="accurate"),), queues=("step:threshold_ms=1",)
        ),
        "cubic beside transfers": Case((flow("cubic", "dumbbell"),), cross=(traffic,)),
        "a transfer and a paced flow on computed": Case(
            (
                flow("cubic", "computed", app={"transfers": {"sizes_bytes": [3_000_000], "count": 1}}),
                flow("cubic", "computed", app={"paced": {"write_bytes": 12_000, "every_ns": 20_000_000}}),
            )
        ),
        "requests in both directions on lossy": Case(
            (
                flow("cubic", "lossy", app=requests(response_bytes=200_000)),
                flow("bbr", "lossy", "up", app=requests(response_bytes=20_000, think_ns=30_000_000)),
            )
        ),
        "bbr2 and hybla on steps from its 15th second": Case(
            (flow("bbr2", "steps"), flow("hybla", "steps", stop_ns=9 * S)), offset_s=15
        ),
        "cubic with small buffers on computed": Case(
            (flow("cubic", "computed", sender="small", receiver="small"),),
            hosts={"small": {"rmem_max_bytes": 600_000, "wmem_max_bytes": 600_000}},
        ),
        "bbr3-leo and cubic-leo on steps": Case((flow("bbr3-leo", "steps"), flow("cubic-leo", "steps")), duration_s=20),
    }
    return runs


def run(name: str, case: Case) -> _native.RunData:
    """Simulates one case."""
    roles = list(dict.fromkeys(flow.profile for flow in case.flows))
    paths = [profile(role) for role in roles]
    experiment = Experiment(
        name=name,
        seed=7,
        duration_ns=case.duration_s * S,
        profiles=tuple(
            ProfileRef(role=role, name=path.name, hash=path.content_hash())
            for role, path in zip(roles, paths, strict=True)
        ),
        flows=case.flows,
        warmup_ns=2 * S,
        offset_ns=case.offset_s * S,
        hosts=case.hosts,
        queues=tuple(parse_queue(text) for text in case.queues),
        cross=case.cross,
    )
    return simulate(experiment, paths)


def digest(data: _native.RunData) -> str:
    """Hex SHA-256 of all values of a Run, without any names."""
    sha = hashlib.sha256()

    def add(value: object) -> None:
        if isinstance(value, dict):
            for part in value.values():
                add(part)
        elif isinstance(value, list):
            sha.update(b"[%d" % len(value))
            for part in value:
                add(part)
        else:
            sha.update(repr(value).encode())

    for table in (data.samples(), data.links(), data.events()):
        for column in table.values():
            if isinstance(column, np.ndarray):
                sha.update(column.dtype.str.encode() + column.tobytes())
            else:
                add(column)
    summary = json.loads(data.summary_json())
    for part in summary.get("flows", []) + summary.get("cross", []):
        part.pop("controller", None)  # the path of a Python controller is of this machine
        part.pop("app", None)  # newer than the digests, as is the table of the applications
    add(summary)
    return sha.hexdigest()


def measure(name: str, case: Case) -> dict[str, object]:
    """Measure a case: the hashes of its Profiles and the digest of its Run."""
    roles = dict.fromkeys(flow.profile for flow in case.flows)
    return {"profiles": {role: profile(role).content_hash() for role in roles}, "run": digest(run(name, case))}


def main() -> int:
    """Compares or writes; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="store the digests of this build")
    write = parser.parse_args().write
    measured = {name: measure(name, case) for name, case in cases().items()}
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    changed = [name for name, one in measured.items() if kept.get(name) != one]
    for name in changed:
        path = "" if kept.get(name, {}).get("profiles") == measured[name]["profiles"] else " (its Profile, too)"
        print(f"changed: {name}{path}")
    print(f"{len(measured)} Runs, {len(changed)} changed")
    if write:
        KEPT.write_text(json.dumps(measured, indent=1) + "\n")
        return 0
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs of the study ``satguard``: one flow, one bulk flow, pages and calls over each pair, for each scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
import polars as pl

from bentpipe.execution import calls, pages, racing
from bentpipe.execution.plan import label_contents, seconds_to_ns
from bentpipe.experiments.experiment import default_warmup_ns, for_scheme
from bentpipe.experiments.file import ExperimentFile
from bentpipe.experiments.recovery import parse_recovery, recovery_name
from bentpipe.profiles.networks.make import make_network, parse_pairs
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from bentpipe._native import Network
    from bentpipe.runs.store import Run
    from bentpipe.studies.files import SatGuard

#: Scheme of the study → controller of the flows, and scheme of recovery.
SCHEMES = {
    "none": ("cubic", "none"),
    "satcp": ("satcp", "none"),
    "linkguardian": ("cubic", "linkguardian"),
    "tambur": ("cubic", "tambur"),
    "mpep": ("cubic", "mpep"),
    "satguard": ("cubic", "satguard"),
}

#: Results by pair and draw, in the order of the networks.
Values = list[float]


@dataclass
class Field:
    """What the Runs of one scheme gave, each list in the order of the networks."""

    owd_p50_ms: Values = field(default_factory=list)
    owd_p99_ms: Values = field(default_factory=list)
    retransmits: Values = field(default_factory=list)
    rates_bps: list[Values] = field(default_factory=list)
    plt_ms: Values = field(default_factory=list)
    call_ms: Values = field(default_factory=list)
    buffer_ms: Values = field(default_factory=list)
    fps: Values = field(default_factory=list)
    fps_sd: Values = field(default_factory=list)
    overhead: list[dict[str, int]] = field(default_factory=list)
    delivered_bytes: Values = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What is run: the study's file in full, or with ``--quick``."""

    file: SatGuard
    quick: bool

    @property
    def pairs(self) -> Sequence[str]:
        """Pairs of places."""
        return self.file.pairs_quick if self.quick else self.file.pairs

    @property
    def draws(self) -> int:
        """Draws of each pair."""
        return self.file.draws_quick if self.quick else self.file.draws

    def seconds(self, part: str) -> float:
        """Return a duration: of ``delay``, ``bulk`` or ``call`` [s]."""
        return float(getattr(self.file, f"{part}_quick_s" if self.quick else f"{part}_s"))

    @property
    def loads(self) -> int:
        """Loads of the page on each network."""
        return self.file.loads_quick if self.quick else self.file.loads

    def networks(self) -> list[tuple[str, Network]]:
        """Make the networks, each of one pair: the pair's name and the network."""
        longest_s = max(*(self.seconds(part) for part in ("delay", "bulk", "call")), 10.0 * self.loads)
        made = []
        for pair in self.pairs:
            for draw in range(self.draws):
                start_unix_ns = parse_utc(self.file.first) + round(draw * self.file.every_h * 3600e9)
                network = make_network(
                    parse_pairs(pair),
                    start_unix_ns=start_unix_ns,
                    duration_s=longest_s,
                    loss=self.file.loss,
                    seed=draw,
                    name=f"{pair}-{draw}",
                )
                made.append((pair, network))
        return made


def run_delays(plan: Plan, networks: Sequence[Network], recoveries: Sequence[str], controller: str) -> dict[str, Field]:
    """Run the flow of figures 5 and 12 over every network with each scheme of recovery."""
    fields = {recovery: Field() for recovery in recoveries}
    done = racing.race(
        networks,
        [controller],
        out=None,
        app=plan.file.delay_app,
        duration_s=plan.seconds("delay"),
        phase_s=0.0,
        recovery=",".join(recoveries),
    )
    for run, recovery in zip(done.runs, [*recoveries] * len(networks), strict=True):
        _add_delays(run, fields[recovery])
    return fields


def run_pages(plan: Plan, networks: Sequence[Network], recovery: str, controller: str) -> Values:
    """Return the mean page load time over each network [ms]."""
    loads = pages.load_page(plan.file.page, networks, [controller], loads=plan.loads, recovery=recovery, phase_s=0.0)
    return [float(np.mean([each.plt_ms for each in own])) for own in _by_profile(loads)]


def run_calls(plan: Plan, networks: Sequence[Network], recovery: str, into: Field) -> None:
    """Hold a call over each network; the figures are means of its two directions."""
    every = calls.call(networks, app=plan.file.call, duration_s=plan.seconds("call"), phase_s=0.0, recovery=recovery)
    for both in _by_profile(every):
        into.call_ms.append(float(np.mean([each.delay_mean_ms for each in both])))
        into.buffer_ms.append(float(np.mean([each.jitter_buffer_ms for each in both])))
        into.fps.append(float(np.mean([each.fps_mean for each in both])))
        into.fps_sd.append(float(np.mean([each.fps_sd for each in both])))


class _Labelled(Protocol):
    @property
    def profile(self) -> str: ...


_T = TypeVar("_T", bound=_Labelled)


def _by_profile(rows: Sequence[_T]) -> list[list[_T]]:
    groups: dict[str, list[_T]] = {}
    for row in rows:
        groups.setdefault(row.profile, []).append(row)
    return list(groups.values())


def _add_delays(run: Run, into: Field) -> None:
    (flow,) = run.record.summary["flows"]
    into.owd_p50_ms.append(float(flow["owd_p50_ms"] or np.nan))
    into.owd_p99_ms.append(float(flow["owd_p99_ms"] or np.nan))
    into.retransmits.append(float(flow["retransmits"]))
    into.overhead.append(run.record.summary.get("recovery", {"overhead": {}})["overhead"])
    into.delivered_bytes.append(float(run.samples()["goodput_bytes"].max() or 0))  # type: ignore[arg-type]


def bulk_rates(plan: Plan, network: Network, recovery: str, controller: str) -> Values:
    """Return the goodput of a bulk flow in each second after the warm-up [bit/s]."""
    bases = label_contents([network])
    duration_ns = seconds_to_ns(plan.seconds("bulk"), "bulk")
    experiment = for_scheme(
        controller,
        "down",
        [base.reference for base in bases],
        duration_ns=duration_ns,
        seed=0,
        name=f"bulk-{recovery_name(parse_recovery(recovery))}",
        recovery=parse_recovery(recovery),
    )
    host = plan.file.host.host()
    flows = tuple(flow.replace(sender="host", receiver="host") for flow in experiment.flows)
    experiment = experiment.replace(flows=flows, hosts={"host": host})
    files = {base.role: Path() for base in bases}
    (run,) = racing.run_experiment(ExperimentFile(experiment, files), [network], out=None, jobs=1).runs
    warmup_s = default_warmup_ns(duration_ns) / 1e9
    samples = run.samples().sort("t_s").filter(pl.col("t_s") >= warmup_s - 1e-9)
    t_s, delivered = samples["t_s"].to_numpy(), samples["goodput_bytes"].to_numpy().astype(float)
    whole = np.arange(np.ceil(t_s[0]), np.floor(t_s[-1] + 1e-6) + 1)
    return [float(each) for each in np.diff(np.interp(whole, t_s, delivered)) * 8]

"""Our controllers in a stock kernel on emulated LEO paths: are their ratios of goodputs those of the simulator?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from bentpipe.execution.racing import race
from bentpipe.runs.estimates import Estimate, paired_ratio
from bentpipe.studies.agreement import Claim, all_hold, ratio_text
from bentpipe.studies.field import bootstrap, make_paths
from bentpipe.studies.files import LeoKernel
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.runs.store import Run

World = Literal["kernel", "simulator"]
WORLDS: tuple[World, ...] = ("kernel", "simulator")
OWNERS = {"bbr": "the kernel's own BBR", "cubic": "the kernel's own CUBIC"}


@dataclass(frozen=True)
class Figures:
    """Figures of one flow after the warm-up.

    Attributes:
        goodput_mbps: Goodput [Mbit/s].
        rtt_median_ms: Median of its RTT [ms].
        rtt_p95_ms: 95th percentile [ms].
    """

    goodput_mbps: float
    rtt_median_ms: float
    rtt_p95_ms: float


#: Quantity → unit.
QUANTITIES = {"goodput_mbps": "Mbit/s", "rtt_median_ms": "ms", "rtt_p95_ms": "ms"}
TITLES = {"goodput_mbps": "goodput", "rtt_median_ms": "median RTT", "rtt_p95_ms": "95th percentile of the RTT"}


def _run(request: Request) -> Result:
    file = LeoKernel.load()
    schemes = [*file.ours, *file.others]
    paths = make_paths(file.paths[: file.paths_quick if request.quick else None], file.duration_s)
    figures_of: dict[tuple[World, str], list[Figures]] = {(world, scheme): [] for world in WORLDS for scheme in schemes}
    left_out: dict[str, list[str]] = {}
    for number, path in enumerate(paths):
        for world in WORLDS:  # the kernel first: what it lacks is known before anything has run
            result = race(
                [path.profile],
                schemes,
                out=request.out / "runs" / world / path.name,
                duration_s=file.duration_s,
                on_kernel=world == "kernel",
            )
            for scheme, run in zip(schemes, result.runs, strict=True):
                figures_of[world, scheme].append(_figures(run))
                if not figures_of[world, scheme][-1].goodput_mbps > 0:
                    left_out.setdefault(path.name, []).append(f"{scheme}, {world}")
        request.on_progress((number + 1) / len(paths))
    whole = [number for number, path in enumerate(paths) if path.name not in left_out]
    figures_of = {key: [each[n] for n in whole] for key, each in figures_of.items()}
    basis = f"emulated, and simulated: {len(whole)} Profiles × {file.duration_s:g} s"
    rows = [
        Row(f"{world}: {TITLES[key]}, {scheme}", unit, None, mean, f"95 %: {low:.4g} to {high:.4g}", basis)
        for key, unit in QUANTITIES.items()
        for scheme in schemes
        for world in WORLDS
        for mean, low, high in [bootstrap(_values(figures_of[world, scheme], key))]
    ]
    notes = [
        "one Profile is one value; each Run begins at the same moment of its Profile in both worlds",
        "bbr and cubic are the kernel's own, the others those of `bentpipe kernel load`",
        f"{len(left_out)} of {len(paths)} Profiles are left out, as a Run there was disturbed or had no goodput"
        + "".join(f"; {name}: {', '.join(runs)}" for name, runs in left_out.items()),
    ]
    return Result(rows, _verdicts(figures_of, file, basis), [basis], notes=notes)


def _figures(run: Run) -> Figures:
    (flow,) = run.record.summary["flows"]
    values = flow["goodput_bps"] if run.record.valid else None, flow["rtt_median_ms"], flow["rtt_p95_ms"]
    goodput_bps, median_ms, p95_ms = (math.nan if value is None else float(value) for value in values)
    return Figures(goodput_bps / 1e6, median_ms, p95_ms)


def _values(figures: Sequence[Figures], key: str) -> list[float]:
    return [float(getattr(each, key)) for each in figures]


def _verdicts(figures_of: Mapping[tuple[World, str], list[Figures]], file: LeoKernel, basis: str) -> list[Verdict]:
    """Return one verdict for each of ours and each rival: the kernel's ratio of goodputs over the simulator's."""
    verdicts = []
    for our in file.ours:
        for other in file.others:
            name = OWNERS.get(other, other)
            ratios = {
                world: [
                    ours.goodput_mbps / theirs.goodput_mbps
                    for ours, theirs in zip(figures_of[world, our], figures_of[world, other], strict=True)
                ]
                for world in WORLDS
            }
            figures = "; ".join(
                f"{TITLES[key]}, {world}: {_ratio_text(figures_of[world, our], figures_of[world, other], key)}"
                for key in QUANTITIES
                for world in WORLDS
            )
            verdicts.append(
                all_hold(
                    f"{our} over {name}: at least {file.kept:g} of the simulator's ratio of goodputs",
                    [Claim("kernel over simulator", ratios["kernel"], ratios["simulator"], file.kept)],
                    "wanted: docs/design/022-kernel-controllers.md",
                    basis,
                    f"{our} over {name}: {figures}",
                )
            )
    return verdicts


def _ratio_text(ours: Sequence[Figures], theirs: Sequence[Figures], key: str) -> str:
    ratio: Estimate | None = paired_ratio(_values(ours, key), _values(theirs, key))
    return "not known" if ratio is None else ratio_text(ratio)


STUDY = Study(
    name="leo-kernel",
    title="Our controllers in a stock kernel on emulated LEO paths, beside the simulator",
    source="bentpipe's own question; docs/design/022-kernel-controllers.md",
    takes="40 minutes in real time; --quick: ten",
    run=_run,
)

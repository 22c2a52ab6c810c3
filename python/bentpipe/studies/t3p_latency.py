"""RTTs to popular services from five terminals (T3P, section 3.2, figures 2a to 2c)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from bentpipe.analysis.latency import cdf, latency_summary
from bentpipe.plots.analysis import plot_latency
from bentpipe.studies.measured import Part, joint_basis, probe_series
from bentpipe.studies.scenario import Published
from bentpipe.studies.simulated import windows_of
from bentpipe.studies.study import Request, Result, Row, Study, Verdict
from bentpipe.studies.t3p import SOURCE, load_terminals, simulated_probes
from bentpipe.studies.t3p_files import T3pLatency

#: Least replies of a measured series for a 99th percentile; chosen here: ten lie above it.
LEAST_REPLIES = 1000
#: Content networks; a measured target counts if its name contains one of them.
CDNS = ("akamai", "cloudflare", "fastly")
_SPAIN, _UK = ("bcn-1", "bcn-2"), ("edh", "cmg", "ldn")
_2A, _2B, _2C = "figure 2a, section 3.2", "figure 2b, section 3.2", "figure 2c, section 3.2"
_NO_RATIO = "a median is 0 ms, below the tool's resolution, so there is no ratio"
_ONE_PATH = "simulated paths to all services near one PoP are the same path"


def _run(request: Request) -> Result:
    file = T3pLatency.load()
    windows, quick = windows_of(file.windows), windows_of(file.windows_quick)
    every = probe_series(request.data)
    measured = [part for part in every if part.table["rtt_ms"].count() >= LEAST_REPLIES]
    to_cdns = [part for part in measured if _cdn(part) is not None]
    to_others = [part for part in measured if _cdn(part) is None]
    simulated: Mapping[str, Part] = {}
    if not (to_cdns and to_others):
        simulated = simulated_probes(list(load_terminals()), quick if request.quick else windows, request.on_progress)
    published = file.published
    rows, verdicts = _popular(published, to_others or list(simulated.values()))
    rows += [
        published[f"median-{key}"].row(_summary(part)["median_ms"], part.basis)
        for key, part in simulated.items()
        if f"median-{key}" in published and not to_others
    ]
    if to_cdns:
        rows += _measured_cdns(published, to_cdns)
    else:
        cdn_rows, cdn_verdicts = _simulated_cdns(published, simulated)
        rows, verdicts = rows + cdn_rows, verdicts + cdn_verdicts
    figures = {"figure-2a": plot_latency(_cdfs(to_others or list(simulated.values())))}
    if to_cdns:
        figures["figures-2b-2c"] = plot_latency(_cdfs(to_cdns))
    notes = [] if to_cdns else [f"figures 2b and 2c are simulated, and drawn as 2a: {_ONE_PATH}"]
    if few := len(every) - len(measured):
        notes.append(f"{few} measured series with fewer than {LEAST_REPLIES} replies are left out")
    used = [*measured, *(simulated.values())]
    return Result(rows, verdicts, [part.text for part in used], figures, notes)


def _cdn(part: Part) -> str | None:
    """Return the content network that a series' target names."""
    if "target" not in part.table.columns:
        return None
    target = str(part.table["target"][0]).lower()
    return next((name for name in CDNS if name in target), None)


def _summary(part: Part) -> dict[str, Any]:
    return latency_summary(part.table).row(0, named=True)


def _cdfs(parts: list[Part]) -> pl.DataFrame:
    """Return the distributions, one line per part, also for two files of one site and target."""
    lines = []
    for number, part in enumerate(parts):
        again = any(other.name == part.name for other in parts[:number])
        lines.append(
            cdf(part.table.select("unix_ns", "rtt_ms")).with_columns(
                pl.lit(f"{part.name} ({number + 1})" if again else part.name).alias("site")
            )
        )
    return pl.concat(lines)


def _popular(published: Mapping[str, Published], parts: list[Part]) -> tuple[list[Row], list[Verdict]]:
    """Judge figure 2a: medians and tails of all terminals."""
    summaries = [(part, _summary(part)) for part in parts]
    rows = [Row(f"median RTT: {part.name}", "ms", None, one["median_ms"], _2A, part.basis) for part, one in summaries]
    rows += [
        Row(f"99th percentile over median: {part.name}", "", None, one["p99_over_median"], _2A, part.basis)
        for part, one in summaries
    ]
    for key, name, choose in (
        ("median-least", "median_ms", min),
        ("median-greatest", "median_ms", max),
        ("p99", "p99_over_median", min),
        ("max-least", "max_over_median", min),
        ("max-greatest", "max_over_median", max),
    ):
        # A median of 0, below the tool's resolution, has no ratio.
        known = [pair for pair in summaries if pair[1][name] is not None]
        part, one = choose(known, key=lambda pair: pair[1][name]) if known else summaries[0]
        rows.append(published[key].row(one[name], part.basis, of=part.name))
    basis = joint_basis(parts)
    medians = [one["median_ms"] for _, one in summaries]
    tails = [one["p99_over_median"] for _, one in summaries if one["p99_over_median"] is not None]
    highest = [one["max_over_median"] for _, one in summaries if one["max_over_median"] is not None]
    whole = len(tails) == len(summaries)
    return rows, [
        Verdict(
            "medians are low at all terminals (30 to 50 ms there; here at most 50 ms)",
            max(medians) <= 50,
            "section 3.2",
            basis,
            f"{min(medians):.1f} to {max(medians):.1f} ms",
        ),
        Verdict(
            "latencies have long tails at all terminals: the 99th percentile is above 2.4 × the median",
            min(tails) > published["p99"].value if whole else None,
            _2A,
            basis,
            f"{min(tails):.2f} to {max(tails):.2f} ×" if whole else _NO_RATIO,
        ),
        Verdict(
            "the maximum is an order of magnitude above the median (11 to 16 ×) at all terminals",
            all(published["max-least"].value <= value <= published["max-greatest"].value for value in highest)
            if whole
            else None,
            _2A,
            basis,
            f"{min(highest):.1f} to {max(highest):.1f} ×; a maximum grows with the number of probes"
            if whole
            else _NO_RATIO,
        ),
    ]


def _measured_cdns(published: Mapping[str, Published], parts: list[Part]) -> list[Row]:
    """Return the rows of figures 2b and 2c from measurements: medians by network."""
    return [
        published[str(_cdn(part))].row(_summary(part)["median_ms"], part.basis, of=f"ours {part.name}")
        for part in parts
    ]


def _simulated_cdns(
    published: Mapping[str, Published], simulated: Mapping[str, Part]
) -> tuple[list[Row], list[Verdict]]:
    """Return the rows and verdicts of figures 2b and 2c over simulated paths."""
    summaries = {key: _summary(part) for key, part in simulated.items()}
    basis = simulated["bcn-1"].basis
    rows = [published[name].row(summaries["bcn-1"]["median_ms"], basis) for name in CDNS]
    rows += [published[f"p95-{key}"].row(summaries[key]["p95_ms"], basis) for key in (*_UK, *_SPAIN)]
    inflation = min(summaries[key]["p95_ms"] for key in _SPAIN) / max(summaries[key]["p95_ms"] for key in _UK)
    rows.append(published["p95-inflation"].row(inflation, basis))
    return rows, [
        Verdict("all three networks of caches have comparable medians from BCN-1", None, _2B, basis, _ONE_PATH),
        Verdict(
            "95th percentiles to Akamai are more than 2 × higher from Spain than from the UK",
            inflation > published["p95-inflation"].value,
            _2C,
            basis,
            f"{inflation:.2f} ×; the paper names the place of gateways and caches as a possible cause: {_ONE_PATH}, "
            "so only the gateways' place can show here",
        ),
    ]


STUDY = Study(
    name="t3p-latency",
    title="RTTs to popular services from five terminals: low medians, long tails",
    source=f"{SOURCE}, figures 2a to 2c",
    takes="two minutes; --quick: seconds",
    run=_run,
    measured="pings",
)

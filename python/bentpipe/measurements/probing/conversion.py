"""Conversion of a recording to a measured Run: tables in their units, and a summary of the measurement."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from bentpipe.errors import BentpipeError, UserError, printable
from bentpipe.measurements.probing import clock_offset, recording
from bentpipe.measurements.probing.recording import ProbeRequest
from bentpipe.measurements.probing.spec import KINDS
from bentpipe.measurements.probing.tracker import DUPLICATE, KERNEL_RX, KERNEL_TX, OUT_OF_ORDER
from bentpipe.measurements.runs.store import MeasuredRun, SameMeasurementError, Source, read_measured, write_measured

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.measurements.probing.engine import Counts

#: A Run is invalid if more than this share of probes was dropped at a full buffer of this machine, or was skipped.
#: Chosen here: a tenth of the usual loss on these paths, and a negligible change of the cadence.
OVERRUNS_BOUND, SKIPPED_BOUND = 0.001, 0.01
#: Most events in the summary.
_MOST_EVENTS = 1000
#: Suffix of a converted recording while it is removed.
_DONE = ".done"
_BOTH_STAMPS = KERNEL_TX | KERNEL_RX


def finish(folder: Path) -> MeasuredRun | None:
    """Convert a recording to a Run beside it, and remove the recording; None: it was empty.

    Raises:
        UserError: It is being written, or is not a recording.
        StoreError: A write to the disk fails; the recording stays.
    """
    with recording.held(folder) as request:
        run = _write(folder, request)
        # Rename first: a partly removed recording would be converted again, to a shorter Run.
        done = folder.with_name(f".{folder.name}{_DONE}")
        folder.rename(done)
    shutil.rmtree(done)
    return run


def _write(folder: Path, request: ProbeRequest) -> MeasuredRun | None:
    raw = {name: recording.table(folder, name) for name in recording.LAYOUT.tables}
    probes, hops = raw["probes"], raw["hops"]
    if not probes.height and not hops.height:
        return None
    counts: Counts | None = json.loads(raw["counts"]["counts"][-1]) if raw["counts"].height else None
    probes, clocks = _one_way(probes, request, counts)
    summary = _summary(request, probes, hops, raw["events"], counts, clocks)
    names = [target.name for target in request.spec.targets]
    addresses = [target.address for target in request.spec.targets]
    whole = {
        "probes": _probes(probes, request.site, names, KINDS[request.spec.method]),
        "hops": _hops(hops, request.site, addresses),
    }
    command = " ".join(["bentpipe probe", request.spec.method, *names, f"--every {request.spec.every_ns / 1e9:g}"])
    whole = {name: table for name, table in whole.items() if table.height}
    try:
        return write_measured(
            folder.parent.parent,
            whole,
            [Source(name=command, format="bentpipe-probe", notes=tuple(_notes(clocks, request)), tables=tuple(whole))],
            site=request.site,
            summary=summary,
            why_invalid=_why_invalid(summary),
        )
    except SameMeasurementError as error:
        there = read_measured(error.there)
        if json.loads(json.dumps(summary)).items() <= there.summary.items():
            return there  # an earlier conversion ended before it removed the recording
        raise


def _probes(raw: pl.DataFrame, site: str, names: list[str], kind: str) -> pl.DataFrame:
    return raw.select(
        "unix_ns",
        pl.lit(site).alias("site"),
        _named(names),
        pl.lit(kind).alias("kind"),
        "seq",
        *((pl.col(f"{name}_ns") / 1e6).alias(f"{name}_ms") for name in ("rtt", "up", "down")),
        _flag(DUPLICATE).alias("duplicate"),
        _flag(OUT_OF_ORDER).alias("out_of_order"),
    )


def _hops(raw: pl.DataFrame, site: str, addresses: list[str]) -> pl.DataFrame:
    """Convert hops; targets are addresses, by which `path_segments` recognises the end of a path."""
    return raw.select(
        pl.lit(site).alias("probe"),
        _named(addresses),
        "unix_ns",
        pl.col("ttl").cast(pl.Int64),
        "address",
        (pl.col("rtt_ns") / 1e6).alias("rtt_ms"),
    )


def _named(names: list[str]) -> pl.Expr:
    numbers = list(range(len(names)))
    return pl.col("target").replace_strict(numbers, names, return_dtype=pl.String).alias("target")


def _flag(bit: int) -> pl.Expr:
    return (pl.col("flags") & bit) != 0


def _one_way(
    probes: pl.DataFrame, request: ProbeRequest, counts: Counts | None
) -> tuple[pl.DataFrame, dict[int, dict[str, Any]]]:
    """Subtract the estimated offset of unsynchronised clocks from one-way delays; return both.

    The offset of each target is by its number.
    """
    if request.spec.method != "owd":
        return probes, {}
    same = counts["same_clock"] if counts else []
    parts: list[pl.DataFrame] = []
    clocks: dict[int, dict[str, Any]] = {}
    for number in range(len(request.spec.targets)):
        rows = probes.filter(pl.col("target") == number)
        known = rows.filter(pl.col("up_ns").is_not_null())
        if number < len(same) and same[number]:
            clocks[number] = {"known": "same"}
        elif request.synchronised:
            clocks[number] = {"known": "synchronised"}
        elif known.height:
            # Sort by number, because times are out of order if this machine's clock was set.
            known = known.sort("seq")
            first, every_s = known["seq"][0], request.spec.every_ns / 1e9
            t_s = (known["seq"] - first).to_numpy() * every_s
            stretches = clock_offset.estimate(t_s, known["up_ns"].to_numpy() / 1e6, known["down_ns"].to_numpy() / 1e6)
            clocks[number] = {
                "known": "estimated",
                "offset_ms": stretches[0].offset_ms,
                "drift_ppm": stretches[0].drift_ppm,
                "uncertain_ms": max(one.uncertain_ms for one in stretches),
                "set_after_s": [one.from_s for one in stretches[1 : 1 + _MOST_EVENTS]],
            }
            off_ms = clock_offset.offsets_ms(stretches, (rows["seq"] - first).to_numpy() * every_s)
            by_ns = pl.Series(np.round(off_ms * 1e6).astype(np.int64))
            rows = rows.with_columns(pl.col("up_ns") - by_ns, pl.col("down_ns") + by_ns)
        parts.append(rows)
    return pl.concat(parts).sort("unix_ns", maintain_order=True), clocks


def _summary(
    request: ProbeRequest,
    probes: pl.DataFrame,
    hops: pl.DataFrame,
    events: pl.DataFrame,
    counts: Counts | None,
    clocks: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    """Return the facts of a measurement that its tables do not contain."""
    late_ns = probes.filter(~_flag(DUPLICATE))["late_ns"] if probes.height else _rounds(hops)["late_ns"]
    jumps = events.filter(pl.col("kind") == "clock_jump")
    slept = events.filter(pl.col("kind") == "suspended")
    return {
        "method": request.spec.method,
        "every_s": request.spec.every_ns / 1e9,
        "asked_for_s": None if request.spec.for_ns is None else request.spec.for_ns / 1e9,
        "part": request.part,
        "clock_jumps": jumps.height,
        "suspended": slept.height,
        "lateness_ms": _quantiles(late_ns.to_numpy() / 1e6),
        "skipped": sum(counts["skipped"]) if counts else 0,
        "overruns": counts["overruns"] if counts else 0,
        "targets": [
            _target(request, number, probes, hops, counts, clocks) for number in range(len(request.spec.targets))
        ],
        "events": events.head(_MOST_EVENTS).drop("target").to_dicts(),
        "complete": counts is not None and bool(counts["over"]),
    }


def _target(
    request: ProbeRequest,
    number: int,
    probes: pl.DataFrame,
    hops: pl.DataFrame,
    counts: Counts | None,
    clocks: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    target = request.spec.targets[number]
    here = {"name": target.name, "address": target.address, "port": target.port or None}
    known = {
        "skipped": counts["skipped"][number] if counts else 0,
        "late_answers": counts["late_answers"][number] if counts else 0,
    }
    if request.spec.method == "trace":
        own = hops.filter(pl.col("target") == number)
        reached = own.filter(pl.col("address") == target.address)["unix_ns"].n_unique()
        return {**here, "rounds": _rounds(own).height, "reached": reached, **known}
    rows = probes.filter(pl.col("target") == number)
    sent = rows.filter(~_flag(DUPLICATE))
    lost = sent.filter(pl.col("rtt_ns").is_null())
    causes = lost["cause"].fill_null("no answer").value_counts(sort=True)
    answered = sent.filter(pl.col("rtt_ns").is_not_null())
    kernel = answered.filter((pl.col("flags") & _BOTH_STAMPS) == _BOTH_STAMPS).height
    summary: dict[str, Any] = {
        **here,
        "probes": sent.height,
        "lost": lost.height,
        "loss": lost.height / sent.height if sent.height else None,
        "lost_by_cause": dict(causes.iter_rows()),
        "duplicates": rows.height - sent.height,
        "out_of_order": answered.filter(_flag(OUT_OF_ORDER)).height,
        "rtt_ms": _quantiles(answered["rtt_ns"].to_numpy() / 1e6),
        "kernel_timed": kernel,
        **known,
    }
    if request.spec.method == "owd":
        summary |= {
            "lost_up": counts["lost_up"][number] if counts else None,
            "reflector_overruns": counts["far_overruns"][number] if counts else None,
            "reflector_refused": counts["far_refused"][number] if counts else None,
            "clocks": clocks.get(number),
        }
        for way in ("up", "down"):
            summary[f"{way}_ms"] = _quantiles(answered[f"{way}_ns"].drop_nulls().to_numpy() / 1e6)
    return summary


def _rounds(hops: pl.DataFrame) -> pl.DataFrame:
    return hops.unique(["unix_ns", "target"], keep="first", maintain_order=True)


def _quantiles(values: NDArray[np.float64]) -> dict[str, float | None]:
    """Return quantiles, interpolated like those of `bentpipe.analysis.latency`."""
    levels = {"median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    if not values.size:
        return dict.fromkeys(levels)
    quantiles = np.quantile(values, list(levels.values()))
    return {name: float(value) for name, value in zip(levels, quantiles, strict=True)}


def _notes(clocks: dict[int, dict[str, Any]], request: ProbeRequest) -> list[str]:
    notes = [] if request.part == 0 else [f"continues the preceding Run; part {request.part}, counted from 0"]
    for number, clock in clocks.items():
        if clock["known"] == "estimated":
            notes.append(
                f"{request.spec.targets[number].name}: the clock offset is estimated, {clock['offset_ms']:.3f} ms and "
                f"{clock['drift_ppm']:.3f} ppm, and subtracted from up_ms and down_ms; the split of the RTT into "
                f"the two is uncertain by {clock['uncertain_ms']:.3f} ms"
                + (f"; a clock was set {times} time(s)" if (times := len(clock["set_after_s"])) else "")
            )
    return notes


def _why_invalid(summary: dict[str, Any]) -> str | None:
    sent = sum(target.get("probes", target.get("rounds")) for target in summary["targets"])
    if summary["overruns"] > OVERRUNS_BOUND * sent:
        return (
            f"{summary['overruns']} packets were dropped at a full buffer of this machine: some loss is not the path's"
        )
    for target in summary["targets"]:
        overruns, refused = target.get("reflector_overruns") or 0, target.get("reflector_refused") or 0
        if overruns + refused > OVERRUNS_BOUND * target.get("probes", 0):
            return (
                f"{target['name']}: {overruns} datagrams were dropped at the reflector's full buffer, and {refused} "
                "probes were over its rate limit: some loss is not the path's"
            )
    if summary["skipped"] > SKIPPED_BOUND * (sent + summary["skipped"]):
        every_s = summary["every_s"]
        return f"{summary['skipped']} probes were not sent: this machine does not keep an interval of {every_s:g} s"
    return None


def finish_all(out: Path) -> list[MeasuredRun]:
    """Convert each recording below a folder for Runs that is not being written.

    Raises:
        UserError: There is none; or, after all others are converted, those that failed.
        StoreError: A write to the disk fails.
    """
    for left in out.glob(f"*/.*{recording.SUFFIX}{_DONE}"):
        shutil.rmtree(left)
    folders = recording.unfinished(out)
    if not folders:
        raise UserError(f"{out}: has no unfinished recording (looked for <site>/<start time>{recording.SUFFIX})")
    runs, failed = [], []
    for folder in folders:
        try:
            run = finish(folder)
        except UserError as error:
            failed.append(str(error))
            continue
        runs += [run] if run is not None else []
    if failed:
        made = f" ({len(runs)} others are converted)" if runs else ""
        raise UserError("; ".join(failed) + made)
    return runs


def main() -> int:
    """``python -m bentpipe.measurements.probing.conversion FOLDER``, at low priority beside a prober."""
    os.nice(19)
    try:
        finish(Path(sys.argv[1]))
    except BentpipeError as error:
        print(printable(f"warning: {error}"), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

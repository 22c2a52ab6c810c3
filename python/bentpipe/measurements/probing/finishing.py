"""From a recording to a measured Run: its tables in their units, and a summary of how it was measured."""

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
from bentpipe.measurements.probing.ledger import DUPLICATE, KERNEL_CAME, KERNEL_SENT, OUT_OF_ORDER
from bentpipe.measurements.probing.recording import Asked
from bentpipe.measurements.probing.spec import KINDS
from bentpipe.measurements.runs.store import MeasuredRun, SameMeasurementError, Source, read_measured, write_measured

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bentpipe.measurements.probing.engine import Counts

#: A Run is not valid if more than this share of probes found no room in a buffer of this machine, or were not sent in
#: their turn. Chosen here: a tenth of the loss that is usual on these paths, and a cadence that nobody would notice.
OVERRUNS_BOUND, SKIPPED_BOUND = 0.001, 0.01
#: Most events that the summary has.
_MOST_EVENTS = 1000
#: Behind the name of a recording whose Run is made, while it is removed.
_DONE = ".done"
_BOTH_STAMPS = KERNEL_SENT | KERNEL_CAME


def finish(folder: Path) -> MeasuredRun | None:
    """Makes the Run of a recording beside it, and removes the recording; None: there was nothing in it.

    Raises:
        UserError: It is being written, or is no recording.
        StoreError: The disk refuses; the recording stays.
    """
    with recording.taken(folder) as asked:
        run = _write(folder, asked)
        # In one step: of a recording that is removed in part another, shorter Run would be made.
        done = folder.with_name(f".{folder.name}{_DONE}")
        folder.rename(done)
    shutil.rmtree(done)
    return run


def _write(folder: Path, asked: Asked) -> MeasuredRun | None:
    raw = {name: recording.table(folder, name) for name in recording.LAYOUT.tables}
    probes, hops = raw["probes"], raw["hops"]
    if not probes.height and not hops.height:
        return None
    counts: Counts | None = json.loads(raw["counts"]["counts"][-1]) if raw["counts"].height else None
    probes, clocks = _one_way(probes, asked, counts)
    summary = _summary(asked, probes, hops, raw["events"], counts, clocks)
    names = [target.name for target in asked.spec.targets]
    addresses = [target.address for target in asked.spec.targets]
    whole = {
        "probes": _probes(probes, asked.site, names, KINDS[asked.spec.method]),
        "hops": _hops(hops, asked.site, addresses),
    }
    command = " ".join(["bentpipe probe", asked.spec.method, *names, f"--every {asked.spec.every_ns / 1e9:g}"])
    whole = {name: table for name, table in whole.items() if table.height}
    try:
        return write_measured(
            folder.parent.parent,
            whole,
            [Source(command, "bentpipe-probe", notes=_notes(clocks, asked), tables=tuple(whole))],
            site=asked.site,
            summary=summary,
            why_invalid=_why_invalid(summary),
        )
    except SameMeasurementError as error:
        there = read_measured(error.there)
        if json.loads(json.dumps(summary)).items() <= there.summary.items():
            return there  # this was done before, and ended before the recording was removed
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
    """Targets are addresses: that is how `path_segments` knows the end of a path."""
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
    probes: pl.DataFrame, asked: Asked, counts: Counts | None
) -> tuple[pl.DataFrame, dict[int, dict[str, Any]]]:
    """One-way delays with the offset of clocks that nobody vouches for taken out, and what was taken out."""
    if asked.spec.method != "owd":
        return probes, {}
    same = counts["same_clock"] if counts else []
    parts: list[pl.DataFrame] = []
    clocks: dict[int, dict[str, Any]] = {}
    for number in range(len(asked.spec.targets)):
        rows = probes.filter(pl.col("target") == number)
        known = rows.filter(pl.col("up_ns").is_not_null())
        if number < len(same) and same[number]:
            clocks[number] = {"known": "same"}
        elif asked.synchronised:
            clocks[number] = {"known": "synchronised"}
        elif known.height:
            # By number: this machine's clock may have been set, and then its times are in another order.
            known = known.sort("seq")
            first, every_s = known["seq"][0], asked.spec.every_ns / 1e9
            t_s = (known["seq"] - first).to_numpy() * every_s
            found = clock_offset.estimate(t_s, known["up_ns"].to_numpy() / 1e6, known["down_ns"].to_numpy() / 1e6)
            clocks[number] = {
                "known": "estimated",
                "offset_ms": found[0].offset_ms,
                "drift_ppm": found[0].drift_ppm,
                "uncertain_ms": max(one.uncertain_ms for one in found),
                "set_after_s": [one.from_s for one in found[1 : 1 + _MOST_EVENTS]],
            }
            off_ms = clock_offset.offsets_ms(found, (rows["seq"] - first).to_numpy() * every_s)
            by_ns = pl.Series(np.round(off_ms * 1e6).astype(np.int64))
            rows = rows.with_columns(pl.col("up_ns") - by_ns, pl.col("down_ns") + by_ns)
        parts.append(rows)
    return pl.concat(parts).sort("unix_ns", maintain_order=True), clocks


def _summary(
    asked: Asked,
    probes: pl.DataFrame,
    hops: pl.DataFrame,
    events: pl.DataFrame,
    counts: Counts | None,
    clocks: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    """What a reader of the tables cannot see in them."""
    late_ns = probes.filter(~_flag(DUPLICATE))["late_ns"] if probes.height else _rounds(hops)["late_ns"]
    jumps = events.filter(pl.col("kind") == "clock_jump")
    slept = events.filter(pl.col("kind") == "suspended")
    return {
        "method": asked.spec.method,
        "every_s": asked.spec.every_ns / 1e9,
        "asked_for_s": None if asked.spec.for_ns is None else asked.spec.for_ns / 1e9,
        "part": asked.part,
        "clock_jumps": jumps.height,
        "suspended": slept.height,
        "lateness_ms": _quantiles(late_ns.to_numpy() / 1e6),
        "skipped": sum(counts["skipped"]) if counts else 0,
        "overruns": counts["overruns"] if counts else 0,
        "targets": [_target(asked, number, probes, hops, counts, clocks) for number in range(len(asked.spec.targets))],
        "events": events.head(_MOST_EVENTS).drop("target").to_dicts(),
        "complete": counts is not None and bool(counts["over"]),
    }


def _target(
    asked: Asked,
    number: int,
    probes: pl.DataFrame,
    hops: pl.DataFrame,
    counts: Counts | None,
    clocks: dict[int, dict[str, Any]],
) -> dict[str, Any]:
    target = asked.spec.targets[number]
    here = {"name": target.name, "address": target.address, "port": target.port or None}
    known = {
        "skipped": counts["skipped"][number] if counts else 0,
        "late_answers": counts["late_answers"][number] if counts else 0,
    }
    if asked.spec.method == "trace":
        own = hops.filter(pl.col("target") == number)
        reached = own.filter(pl.col("address") == target.address)["unix_ns"].n_unique()
        return {**here, "rounds": _rounds(own).height, "reached": reached, **known}
    rows = probes.filter(pl.col("target") == number)
    sent = rows.filter(~_flag(DUPLICATE))
    lost = sent.filter(pl.col("rtt_ns").is_null())
    causes = lost["cause"].fill_null("no answer").value_counts(sort=True)
    answered = sent.filter(pl.col("rtt_ns").is_not_null())
    kernel = answered.filter((pl.col("flags") & _BOTH_STAMPS) == _BOTH_STAMPS).height
    found: dict[str, Any] = {
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
    if asked.spec.method == "owd":
        found |= {
            "lost_up": counts["lost_up"][number] if counts else None,
            "reflector_overruns": counts["far_overruns"][number] if counts else None,
            "reflector_refused": counts["far_refused"][number] if counts else None,
            "clocks": clocks.get(number),
        }
        for way in ("up", "down"):
            found[f"{way}_ms"] = _quantiles(answered[f"{way}_ns"].drop_nulls().to_numpy() / 1e6)
    return found


def _rounds(hops: pl.DataFrame) -> pl.DataFrame:
    return hops.unique(["unix_ns", "target"], keep="first", maintain_order=True)


def _quantiles(values: NDArray[np.float64]) -> dict[str, float | None]:
    """Interpolated, as `bentpipe.analysis.latency` has them."""
    levels = {"median": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    if not values.size:
        return dict.fromkeys(levels)
    found = np.quantile(values, list(levels.values()))
    return {name: float(value) for name, value in zip(levels, found, strict=True)}


def _notes(clocks: dict[int, dict[str, Any]], asked: Asked) -> list[str]:
    notes = [] if asked.part == 0 else [f"goes on where the Run before ended; part {asked.part}, counted from 0"]
    for number, found in clocks.items():
        if found["known"] == "estimated":
            notes.append(
                f"{asked.spec.targets[number].name}: the clocks' offset is estimated, {found['offset_ms']:.3f} ms and "
                f"{found['drift_ppm']:.3f} ppm, and taken out of up_ms and down_ms; how the RTT falls into the "
                f"two is known within {found['uncertain_ms']:.3f} ms"
                + (f"; a clock was set {times} time(s)" if (times := len(found["set_after_s"])) else "")
            )
    return notes


def _why_invalid(summary: dict[str, Any]) -> str | None:
    sent = sum(target.get("probes", target.get("rounds")) for target in summary["targets"])
    if summary["overruns"] > OVERRUNS_BOUND * sent:
        return f"{summary['overruns']} packets found a full buffer on this machine: some loss is not the path's"
    for target in summary["targets"]:
        overruns, refused = target.get("reflector_overruns") or 0, target.get("reflector_refused") or 0
        if overruns + refused > OVERRUNS_BOUND * target.get("probes", 0):
            return (
                f"{target['name']}: {overruns} datagrams found the reflector's buffer full, and {refused} probes were "
                "over its limit: some loss is not the path's"
            )
    if summary["skipped"] > SKIPPED_BOUND * (sent + summary["skipped"]):
        every_s = summary["every_s"]
        return f"{summary['skipped']} probes were not sent: this machine does not keep an interval of {every_s:g} s"
    return None


def finish_all(out: Path) -> list[MeasuredRun]:
    """Makes a Run of each recording below a folder for Runs that nobody writes.

    Raises:
        UserError: There is none, or, after all others are made, those that could not be.
        StoreError: The disk refuses.
    """
    for left in out.glob(f"*/.*{recording.SUFFIX}{_DONE}"):
        shutil.rmtree(left)
    folders = recording.unfinished(out)
    if not folders:
        raise UserError(f"{out}: no unfinished recording in it (looked for <site>/<start time>{recording.SUFFIX})")
    runs, failed = [], []
    for folder in folders:
        try:
            run = finish(folder)
        except UserError as error:
            failed.append(str(error))
            continue
        runs += [run] if run is not None else []
    if failed:
        made = f" ({len(runs)} others are made)" if runs else ""
        raise UserError("; ".join(failed) + made)
    return runs


def main() -> int:
    """``python -m bentpipe.measurements.probing.finishing FOLDER``, at leisure: a prober works beside it."""
    os.nice(19)
    try:
        finish(Path(sys.argv[1]))
    except BentpipeError as error:
        print(printable(f"warning: {error}"), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())

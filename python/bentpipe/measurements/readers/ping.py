"""Reader of ``ping``: its lines (`ping_lines`) as probes of a measurement, or as flows of a tool's output."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.blocks import blocks_of
from bentpipe.measurements.readers.measurement import Measurement, ReadHints
from bentpipe.measurements.readers.ping_lines import DUPLICATE, KINDS, NO_STAMP, REPLIED, Target, parse
from bentpipe.measurements.readers.probes import BEHIND, Answers, behind, echoes, series, silent_series, unwrapped
from bentpipe.measurements.readers.reading import Arrivals, Column, Flow, Reading


def measure(blocks: Iterable[bytes], where: str, hints: ReadHints) -> Measurement:
    """Return the probes of all targets in a text, given in blocks.

    Times are send times: the timestamp of ``-D`` minus the RTT. Replies with a damaged payload or without an RTT are
    lost probes. Several pings to one target without timestamps are put one after the other. One of several pings that
    got no reply becomes lost probes if its lines have timestamps, and is left out otherwise.

    Raises:
        UserError: See `parse`; or no reply, or no timestamps.
    """
    targets, notes = parse(blocks, where)
    tables: list[pl.DataFrame] = []
    clock_jumps, clock, counted = 0, "utc", False
    several = len(targets) > 1
    ends: dict[str, int] = {}
    while targets:
        target = targets.pop(0)
        place = f"{where}:{target.line}" if several else where
        name, answers = target.name, [_answers(target, place)]
        del target  # large, and no longer needed
        if (ends or targets) and np.isnan(answers[0].rtt_ms).all():
            if (silent := silent_series(answers[0])) is not None:
                tables.append(echoes(silent, name))
            else:
                notes.append(f"no reply from {shown(name)}, and no timestamps: left out")
            continue
        one = series(answers.pop(), hints, place)
        table = behind(one, ends.get(name))
        notes += [BEHIND] if one.counted and name in ends and BEHIND not in notes else []
        ends[name] = max(ends.get(name, 0), int(table["unix_ns"][-1]))
        tables.append(echoes(table, name))
        clock_jumps += one.clock_jumps
        counted |= one.counted
        clock = one.clock if one.clock != "utc" else clock
        notes += [note for note in one.notes if note not in notes]
    return Measurement({"probes": pl.concat(tables)}, clock, clock_jumps, tuple(notes), counted)  # type: ignore[arg-type]


def _answers(target: Target, where: str) -> Answers:
    for name in ("line", "host"):  # frees memory: there may be ten million lines
        del target.rows[name]
    stamps, rtt_ms, kind = (target.rows.pop(name) for name in ("stamp_ns", "rtt_ms", "kind"))
    again = kind == DUPLICATE
    answered = ((kind == REPLIED) | again) & ~np.isnan(rtt_ms)
    del kind
    whole = bool(answered.all())
    if not whole:
        rtt_ms = np.where(answered, rtt_ms, np.nan)
    timed = stamps != NO_STAMP
    without = int((~timed & answered).sum())
    if 0 < without < int(answered.sum()):
        raise UserError("some replies have a timestamp and others have none", where=where, expected="all or none")
    sent_ns = None
    if not without and timed.any():
        trips_ns = rtt_ms * 1e6
        np.round(trips_ns, out=trips_ns)
        sent_ns = stamps if whole else np.where(timed, stamps, 0)
        sent_ns -= (trips_ns if whole else np.nan_to_num(trips_ns)).astype(np.int64)
        del trips_ns
        if (sent_ns if whole else sent_ns[timed]).min() < 0:
            raise UserError("a reply's time is before 1970", where=where)
    return Answers(
        target.rows.pop("seq").astype(np.int64),
        sent_ns,
        rtt_ms,
        target.first,
        () if target.totals is None else (target.totals[0],),
        exact=True,
        span_s=target.span_s,
        again=again if again.any() else None,
    )


def read(data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """Parse one flow per heading (a shell may call ping repeatedly), with one sample per line with a sequence number.

    Samples: ``seq`` (unwrapped from 16 bits), ``t_s`` (the send time: the timestamp of ``-D``, else of `arrivals`,
    minus the RTT; without an RTT, the line's timestamp), ``rtt_ms``, ``kind`` (``reply``, ``duplicate``, ``corrupt``,
    ``unanswered`` with ``-O``, ``error``), ``says`` (an error's text). A lost probe has no row: without ``-O`` ping
    prints no line for it.

    Raises:
        UserError: See `parse`.
    """
    targets, notes = parse(blocks_of(data), where)
    ends = None if arrivals is None else np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
    flows = []
    for target in targets:
        arrived = [None if stamp == NO_STAMP else stamp for stamp in target.rows["stamp_ns"].tolist()]
        if arrivals is not None and ends is not None:
            at = [int(ends[line - 1]) if line <= ends.size else len(data) + 1 for line in target.rows["line"].tolist()]
            arrived = [arrivals.at(end) if stamp is None else stamp for stamp, end in zip(arrived, at, strict=True)]
        flows.append(_flow(target, arrived, where))
    summary = {"targets": [{"name": target.name, **target.rtt_summary} for target in targets]}
    return Reading("ping", None, flows, summary, notes)


def _flow(target: Target, arrived_ns: list[int | None], where: str) -> Flow:
    rows = target.rows
    rtt_ms = [None if np.isnan(rtt) else rtt for rtt in rows["rtt_ms"].tolist()]
    sent_ns = [
        None if at is None else at - round((rtt or 0.0) * 1e6) for at, rtt in zip(arrived_ns, rtt_ms, strict=True)
    ]
    seqs = unwrapped(rows["seq"].astype(np.int64), None).tolist()
    kinds, seen = [], set()
    for kind, seq in zip(rows["kind"].tolist(), seqs, strict=True):
        again = kind == REPLIED and seq in seen
        kinds.append(KINDS[DUPLICATE if again else kind])
        if kind == REPLIED:
            seen.add(seq)
    known = [sent for sent in sent_ns if sent is not None]
    start_ns = min(known, default=None)
    if start_ns is not None and (start_ns < 0 or max(known) - start_ns > 10**9 * 10**9):  # thirty years
        raise UserError(f"its times go from {start_ns} to {max(known)} ns since 1970", where=where)
    t_s: Column = [None if sent is None or start_ns is None else (sent - start_ns) / 1e9 for sent in sent_ns]
    columns: dict[str, Column] = {
        "seq": seqs,
        "t_s": t_s,
        "rtt_ms": list(rtt_ms),
        "kind": list(kinds),
        "says": [target.error_texts.get(line) for line in rows["line"].tolist()],
    }
    sent, received, duplicates, corrupt, errors = target.totals or (
        None,
        len(seen),
        kinds.count("duplicate"),
        kinds.count("corrupt"),
        kinds.count("error"),
    )
    counts = {
        "sent_packets": sent,
        "received_packets": received,
        "lost_packets": None if sent is None else sent - received,
        "duplicates": duplicates,
        "corrupted_packets": corrupt,
        "icmp_errors": errors,
    }
    return Flow(target.name, "ICMP", None, start_ns, samples=columns, counts=counts)

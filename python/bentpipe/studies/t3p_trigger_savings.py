"""Data that a triggered schedule saves against a flow that never ends (T3P, section 6.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from bentpipe.studies.study import Row
from bentpipe.studies.t3p_files import T3pTrigger
from bentpipe.studies.t3p_trigger_testbed import Pass, Schedule

_DAY_S = 86_400.0


@dataclass(frozen=True)
class Traffic:
    """Traffic of both schedules, by the counters of their runs.

    Attributes:
        rate_bps: Mean rate of random uploads on the link, both ways [bit/s]; None: none was done.
        header_bps: Rate at which the headers of their packets are stored [bit/s]; None: no captures.
        triggered_bps: Bytes of triggered uploads over the time of their schedule and a home [bit/s].
        share_of_time: Share of that time in which they ran.
    """

    rate_bps: float | None
    header_bps: float | None
    triggered_bps: float | None
    share_of_time: float | None

    @classmethod
    def of(cls, passes: Mapping[Schedule, Pass], upload_s: float, homes: int) -> Self:
        """Add up the counters of runs that were done."""
        done = {key: [each for each in one.uploads if each.state == "done"] for key, one in passes.items()}
        random_s = len(done["random"]) * upload_s
        captured = [each for each in done["random"] if each.header_bytes]
        whole_s = passes["triggered"].took_s * homes
        has_triggered = bool(done["triggered"]) and whole_s > 0
        return cls(
            8 * sum(each.own_bytes for each in done["random"]) / random_s if random_s else None,
            8 * sum(each.header_bytes for each in captured) / (len(captured) * upload_s) if captured else None,
            8 * sum(each.own_bytes for each in done["triggered"]) / whole_s if has_triggered else None,
            len(done["triggered"]) * upload_s / whole_s if has_triggered else None,
        )


def saving_rows(file: T3pTrigger, traffic: Traffic, basis: str) -> list[Row]:
    """Return the rows of section 6.2: what always, and what only the trigger's times would send and store in a day."""
    rate, headers, triggered, share = (
        traffic.rate_bps,
        traffic.header_bps,
        traffic.triggered_bps,
        traffic.share_of_time,
    )
    known = rate is not None and triggered is not None
    values = {
        "share": None if share is None else 100 * share,
        "rate": None if rate is None else rate / 1e6,
        "always": None if rate is None else rate * _DAY_S / 1e12,
        "saved": (rate - triggered) * _DAY_S / 1e12 if known else None,  # type: ignore[operator]
        "stored": None if headers is None else headers * _DAY_S / 1e9,
        "stored_saved": None if headers is None or share is None else headers * (1 - share) * _DAY_S / 1e9,
    }
    rows = [file.published[key].row(value, basis) for key, value in values.items()]
    published = file.published["saved"].value / file.published["always"].value
    ours = 1 - triggered / rate if known and rate else None  # type: ignore[operator]
    return [*rows, Row("part of the data that the trigger saves", "", published, ours, "section 6.2", basis)]

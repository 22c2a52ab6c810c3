"""The page of two races side by side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from bentpipe.files import atomic_write
from bentpipe.plots import style
from bentpipe.plots.worlds import plot_worlds
from bentpipe.report import charts
from bentpipe.report.render import environment
from bentpipe.report.rows import Figure
from bentpipe.runs.text import NONE, interval, number, plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from bentpipe.runs.pairing import Pairing, Scheme

HEADS = (
    "profile",
    "scheme",
    "n",
    "goodput [Mbit/s]",
    "A ÷ B",
    "95 % CI",
    "delay [ms]",
    "retransmitted [%]",
    "first flow [%]",
)
"""Columns of the table. Two values in a cell are of the first and the second race; the ratio is of goodput."""


ITEM_HEADS = ("profile", "scheme", "item", "n", "completed", "median [ms]", "A ÷ B", "95 % CI", "p95 [ms]")
"""Columns of the table of items. The ratio is of the median durations: below 1, items of the first race are faster."""


def item_rows(pairing: Pairing) -> list[list[str]]:
    """Return the rows of the table of items: one for each scheme and kind; none without items."""
    rows = []
    for scheme, row in zip(pairing.schemes, table_rows(pairing), strict=True):
        for each in scheme.items():
            completed, medians, tails = (
                " / ".join(number(scale * value) for value in pair)
                for pair, scale in ((each.completed, 1.0), (each.median_s, 1e3), (each.p95_s, 1e3))
            )
            ratio = NONE if each.ratio is None else f"{each.ratio.mean:.3f}"
            rows.append([*row[:2], each.kind, str(each.n), completed, medians, ratio, interval(each.ratio), tails])
    return rows


def table_rows(pairing: Pairing) -> list[list[str]]:
    """Return the table's rows, with the Experiment if there are several."""
    several = len({scheme.experiment for scheme in pairing.schemes}) > 1
    among = [scheme.name for scheme in pairing.schemes]
    rows = [cells(scheme, among) for scheme in pairing.schemes]
    return [
        [f"{row[0]}, {scheme.experiment}", *row[1:]] if several else row
        for scheme, row in zip(pairing.schemes, rows, strict=True)
    ]


def cells(scheme: Scheme, among: Iterable[str] = ()) -> list[str]:
    """Return one scheme's row of the table, with its name `among` the others."""

    def both(quantity: str, scale: float = 1.0) -> str:
        return " / ".join(NONE if math.isnan(value) else number(scale * value) for value in scheme.means(quantity))

    ratio = scheme.goodput_ratio()
    return [
        scheme.label,
        style.scheme_name(scheme.name, among),
        str(len(scheme.pairs)),
        both("goodput_bps", 1e-6),
        NONE if ratio is None else f"{ratio.mean:.3f}",
        interval(ratio),
        both("delay_ms"),
        both("retransmit_rate", 100.0),
        both("first_share", 100.0) if "+" in scheme.name else "",
    ]


def left_out(pairing: Pairing, names: Sequence[str]) -> list[str]:
    """List the Runs of either race that the comparison excludes, and other differences between the races."""
    lines = []
    for name, alone, invalid in zip(names, pairing.alone, pairing.invalid, strict=True):
        if alone:
            lines.append(f"{name}: {plural(alone, 'Run')} without a partner over the same path left out")
        if invalid:
            lines.append(f"{name}: {plural(invalid, 'Run')} not valid, left out")
    lines += [f"left out: {why}" for why in pairing.without]
    lines += [
        f"{name}: {plural(missing, 'second')} in which no packet was delivered left out of the delay"
        for name, missing in zip(names, pairing.seconds_without_delay(), strict=True)
        if missing
    ]
    if any(len(scheme.pairs) == 1 for scheme in pairing.schemes):
        lines.append("one pair of Runs of a scheme: variation between seeds is unknown (`seeds`)")
    if pairing.other_hosts:
        lines.append(
            f"the hosts' settings differ in {plural(pairing.other_hosts, 'pair')} (`hosts`, `host_timing` in run.json)"
        )
    return lines


def write_page(
    pairing: Pairing, names: tuple[str, str], page: Path, on_progress: Callable[[float], None] = lambda _: None
) -> None:
    """Write one self-contained page: the table, and the first seed of each scheme over time.

    Args:
        pairing: The races.
        names: The races' names.
        page: The file to write.
        on_progress: Receives the share done, 0 to 1.
    """
    shown = []
    most = charts.points_per_line(4 * len(pairing.schemes))
    for done, (scheme, row) in enumerate(zip(pairing.schemes, table_rows(pairing), strict=True)):
        first = scheme.pairs[0].runs
        picture = style.data_uri(plot_worlds(list(zip(names, first, strict=True)), warmup_s=first[0].warmup_s))
        caption = (
            "Goodput of each flow and one-way delay of all data, measured by the path's elements; seed "
            f"{first[0].seed}. Lines of B are dashed."
        )
        figure = Figure("", picture, caption, (charts.worlds(first, most),))
        shown.append({"cells": row, "figure": figure})
        on_progress((done + 1) / len(pairing.schemes))
    html = (
        environment("bentpipe.report", "pages")
        .get_template("compare.html")
        .render(
            heads=HEADS,
            schemes=shown,
            item_heads=ITEM_HEADS,
            items=item_rows(pairing),
            names=names,
            left_out=left_out(pairing, names),
        )
    )
    with atomic_write(page) as file:
        file.write(html.encode())

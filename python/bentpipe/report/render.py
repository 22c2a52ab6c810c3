"""Turns the report's rows into HTML: templates, formats of numbers, and the page's one script with its hash.

A page loads nothing. Its Content-Security-Policy allows one script by its SHA-256 and embedded pictures, so that markup
that got past the escaping could neither run nor fetch anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bentpipe.errors import printable
from bentpipe.experiments.flow_names import without_folders
from bentpipe.plots import style
from bentpipe.report.rows import Count, ItemCount, Reached, Value
from bentpipe.runs import text
from bentpipe.times import format_utc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.report.charts import Chart
    from bentpipe.report.rows import Cell

VENDOR = Path(__file__).with_name("vendor") / "uplot"
"""uPlot 1.6.32 (MIT, by Leon Sorokin) as the npm registry has it: the charts' drawing."""


def environment(package: str, folder: str, among: Iterable[str] = ()) -> Environment:
    """Return the templates of a package's folder; `among` are all schemes of a page.

    All inserted text is escaped, control characters are replaced.
    """
    templates = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    templates.filters |= {"shown": shown, "count": count, "utc_ms": utc_ms, "goodput": goodput, "chart": chart}
    templates.filters["short"] = partial(without_folders, among=tuple(among))
    templates.globals |= {"interactive": interactive}
    return templates


def _finalize(value: object) -> object:
    """Replace what no page should hold; markup is the template's own."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def shown(cell: Cell) -> tuple[str, str]:
    """Format a cell: its value, and the smaller text below."""
    match cell:
        case Value():
            spread = text.interval if cell.spread == "interval" else text.extremes
            return text.mean(cell.estimate, cell.scale), spread(cell.estimate, cell.scale)
        case Count():
            return text.count(cell.n, cell.valid, cell.runs)
        case ItemCount():
            return text.completed_of(cell.of), cell.of.kind
        case Reached():
            return f"{cell.reached} of {cell.of}", ""
    return "", ""


def count(value: float | None) -> str:
    """Format a number, or a dash if there is none."""
    return text.NONE if value is None else text.number(value)


def goodput(flows_bps: tuple[float, ...] | None) -> str:
    """Format the goodput of flows [Mbit/s]; ``+`` joins flows that share the path."""
    return text.NONE if flows_bps is None else " + ".join(text.number(bps * text.MBIT) for bps in flows_bps)


def utc_ms(unix_ns: int) -> str:
    """Format a time in UTC to the millisecond."""
    return format_utc(unix_ns // 1_000_000 * 1_000_000)


def chart(value: Chart) -> Markup:
    """Return a chart's data for a script element; `Chart.to_json` escapes it."""
    return Markup(value.to_json())


@lru_cache(maxsize=1)
def interactive() -> dict[str, Any]:
    """Return the page's script and style for charts, and the script's hash for the Content-Security-Policy."""
    pages = Path(__file__).with_name("pages")
    licence = (VENDOR / "LICENSE").read_text(encoding="utf-8").strip()
    drawing = (VENDOR / "uPlot.iife.min.js").read_text(encoding="utf-8").strip()
    colours = {
        "ink": style.SETTINGS["axes.labelcolor"],
        "grid": style.SETTINGS["grid.color"],
        "handover": style.HANDOVER,
        "slot": style.SLOT,
        "outage": style.OUTAGE,
        "loss": style.LOSS,
        "serving": style.SERVING,
    }
    charts = f"const STYLE = {json.dumps(colours)};\n{(pages / 'charts.js').read_text(encoding='utf-8')}"
    script = f"/* uPlot\n{licence}\n*/\n{drawing}\n{charts}"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    styles = (VENDOR / "uPlot.min.css", pages / "charts.css")
    sheet = "\n".join(file.read_text(encoding="utf-8").strip() for file in styles)
    return {"script": Markup(script), "style": Markup(sheet), "hash": f"sha256-{digest}"}

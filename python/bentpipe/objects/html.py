"""HTML of the objects in notebooks: a title, facts, a table and a small figure. All text is escaped."""

from __future__ import annotations

import base64
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING

from bentpipe.plots import style
from bentpipe.runs.text import NONE
from bentpipe.runs.text import number as format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.figure import Figure

MOST_ROWS = 12
"""Largest number of rows of a table. Chosen here: a screen shows them beside the figure."""

DPI = 64
"""Resolution of figures. Chosen here: a figure of nine inches takes some tens of kilobytes."""


def block(title: str, *parts: str) -> str:
    """Return the HTML of an object: its title in bold, then `parts`, which are HTML."""
    return f"<div><p><b>{escape(title)}</b></p>{''.join(parts)}</div>"


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Return pairs of name and value as a table of two columns."""
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in pairs)
    return f"<table><tbody>{rows}</tbody></table>"


def table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table; beyond `MOST_ROWS` rows only their number is given."""
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows[:MOST_ROWS])
    more = f"<p>{len(rows) - MOST_ROWS} more rows</p>" if rows[MOST_ROWS:] else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def image(figure: Figure, alternative: str) -> str:
    """Return a figure as an image of low resolution inside the page; `alternative` describes it in words."""
    data = BytesIO()
    with style.styled():
        figure.savefig(data, format="png", dpi=DPI, metadata=style.UNDATED["png"])
    encoded = base64.b64encode(data.getvalue()).decode("ascii")
    return f'<p><img alt="{escape(alternative)}" src="data:image/png;base64,{encoded}"></p>'


def number(value: float | None, scale: float = 1.0) -> str:
    """Format a number with three significant digits; a dash if there is none."""
    return NONE if value is None else format_number(scale * value)


def caption(text: str) -> str:
    """Return a paragraph above a table."""
    return f"<p>{escape(text)}</p>"

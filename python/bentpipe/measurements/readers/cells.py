"""Tables as text: rows, separators, headings, and cells as validated numbers."""

from __future__ import annotations

import re

import polars as pl

from bentpipe.errors import UserError, shown
from bentpipe.measurements.readers.blocks import lines_of

_LOST = ("", "-1", "-1.0", "nan", "null", "none", "*", "lost", "timeout", "-")
_ASIDE = r"^(?:$|#|(?i:sep)=.$)"
#: Most columns; chosen here.
_MOST_COLUMNS = 1000


class Cells:
    """The cells of a table, as text or validated numbers."""

    def __init__(self, table: pl.DataFrame, lines: pl.Series, where: str) -> None:
        """`lines` has the line number of each row."""
        self.table, self._lines, self._where = table, lines, where

    def text(self, place: int) -> pl.Series:
        """Return a column without surrounding blanks and quotes."""
        return self.table.to_series(place).str.strip_chars(" \t\"'")

    def number(
        self, place: int, quantity: str, low: float, high: float, *, lost: bool = False, gone: pl.Series | None = None
    ) -> pl.Series:
        """Return a column of numbers from `low` to `high`; null only where the cell marks a `lost` probe.

        One-way delays of unsynchronised clocks may be -1. With `gone`, -1 means lost only where `gone` is true.
        """
        text = self.text(place)
        if gone is not None:
            text = text.set(gone, "-1")
            missing = gone | text.str.to_lowercase().is_in([word for word in _LOST if not word.startswith("-1")])
        else:
            missing = text.str.to_lowercase().is_in(list(_LOST)) if lost else pl.repeat(False, text.len(), eager=True)
        values = text.set(missing, None).cast(pl.Float64, strict=False)
        bad = ~missing & ~values.is_between(low, high).fill_null(value=False)
        suffix = ", or -1 for a lost probe" if lost else ""
        self.refuse(bad, text, f"expected {quantity}, {low:g} to {high:g}{suffix}")
        return values

    def refuse(self, bad: pl.Series, text: pl.Series, expected: str) -> None:
        """Raise `UserError` for the first row that is `bad`."""
        if bad.any():
            row = int(bad.arg_max() or 0)
            raise UserError(f"{shown(text[row])}; {expected}", where=f"{self._where}:{self._lines[row]}")


def table_of(data: bytes, where: str) -> tuple[pl.DataFrame, list[str] | None, pl.Series]:
    """Return the cells as text, the heading (None: absent), and the line number of each row.

    Raises:
        UserError: `data` is not UTF-8 text, has no row, or has rows of different widths.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UserError(f"is not UTF-8 text (byte 0x{data[error.start]:02x})", where=f"{where}:{line}") from None
    rows = content_lines(lines_of(data).to_frame("text").with_row_index("line", 1))
    if not rows.height:
        raise UserError("the table has no row", where=where)
    first = str(rows["text"][0])
    separator = separator_of(first)
    fields = split_line(first, separator)
    heading = fields if has_names(fields) else None
    if heading is not None:
        rows = rows[1:]
    if not 2 <= len(fields) <= _MOST_COLUMNS or not rows.height:
        raise UserError(
            f"{len(fields)} column(s) and {rows.height} row(s)", where=where, expected="a table with a time and a value"
        )
    return cells_of(rows, separator, len(fields), where), heading, rows["line"]


def content_lines(rows: pl.DataFrame) -> pl.DataFrame:
    """Return lines (`line`, `text`) without surrounding blanks and without comments (`is_aside`)."""
    rows = rows.with_columns(pl.col("text").str.strip_chars("\r "))
    return rows.filter(~pl.col("text").str.contains(_ASIDE))


def cells_of(rows: pl.DataFrame, separator: str, width: int, where: str) -> pl.DataFrame:
    """Split rows (`line`, `text`) into cells. Raises `UserError` for the first row with another number of cells."""
    text = rows["text"]
    if separator == " ":
        text = text.str.replace_all(r"\s+", " ")
    cells = text.str.split(separator)
    counts = cells.list.len()
    wrong = counts != width
    if wrong.any():
        row = int(wrong.arg_max() or 0)
        raise UserError(
            f"{counts[row]} column(s)", where=f"{where}:{rows['line'][row]}", expected=f"{width}, as in the rows before"
        )
    return cells.list.to_struct(fields=[f"c{place}" for place in range(width)]).struct.unnest()


def separator_of(line: str) -> str:
    """Return the separator of a line's fields."""
    return next((mark for mark in ("\t", ",", ";") if mark in line), " ")


def split_line(line: str, separator: str) -> list[str]:
    """Return the fields of a line, without surrounding blanks."""
    return [field.strip() for field in (line.split() if separator == " " else line.split(separator))]


def is_heading(text: bytes) -> bool:
    """Return whether the first line of a table with this beginning is a heading."""
    lines = (line.decode("utf-8", "replace") for line in text.split(b"\n"))
    first = next((line for line in lines if not is_aside(line)), "").strip("\r ")
    return has_names(split_line(first, separator_of(first)))


def is_aside(line: str) -> bool:
    """Return whether a line is empty, a comment, or Excel's separator declaration (``sep=;``)."""
    return re.match(_ASIDE, line.strip("\r ")) is not None


def has_names(fields: list[str]) -> bool:
    """Return whether the first field of a line is a name: the line is a heading."""
    # pandas and R write an index as a first column without a name.
    unnamed = len(fields) > 2 and fields[0].strip("\"'") == ""
    return bool(fields) and bool(re.match(r"[\"']?[@A-Za-z_]", fields[1 if unnamed else 0]))

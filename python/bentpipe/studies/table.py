"""A study's TOML table: checked values, taken one by one; errors name file, key, value and expectation.

A study's file is part of the package, and only its study knows its keys. A user's files are records
(`bentpipe.records`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.records import parse_toml

#: Valid names of entries.
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")


class Table:
    """A TOML table with its path (``sites.toml: sites.london``) for messages.

    Values are taken with `text`, `number`, `integer`, ...; `done` then refuses keys that were not taken, so that a
    misspelt optional key is an error.
    """

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        """Wrap parsed TOML; `where` names it in messages."""
        self._data = data
        self._requested: set[str] = set()
        self.where = where

    @classmethod
    def parse(cls, text: str, where: str) -> Table:
        """Parse a whole file; `where` names it in messages."""
        return cls(parse_toml(text, where), where)

    def has(self, key: str) -> bool:
        """Return whether an optional key exists."""
        self._requested.add(key)
        return key in self._data

    def _take(self, key: str, expected: str) -> object:
        self._requested.add(key)
        if key not in self._data:
            raise UserError(f"{self.where}: key {key!r} is missing; expected {expected}")
        return self._data[key]

    def _bad(self, key: str, value: object, expected: str) -> UserError:
        return UserError(f"{self.where}: {key} is {shown(value)}; expected {expected}")

    def text(self, key: str) -> str:
        """Take a non-empty one-line string."""
        expected = "one line of text"
        value = self._take(key, expected)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._bad(key, value, expected)
        return value

    def choice(self, key: str, options: Iterable[str]) -> str:
        """Take one of the strings in `options`."""
        allowed = list(options)
        expected = " or ".join(repr(o) for o in allowed)
        value = self._take(key, expected)
        if not isinstance(value, str) or value not in allowed:
            raise self._bad(key, value, expected)
        return value

    def number(self, key: str, low: float, high: float) -> float:
        """Take a finite number with low ≤ number ≤ high."""
        expected = f"a number from {low:g} to {high:g}"
        value = self._take(key, expected)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise self._bad(key, value, expected)
        return float(value)

    def integer(self, key: str, low: int, high: int) -> int:
        """Take a whole number with low ≤ number ≤ high."""
        expected = f"a whole number from {low} to {high}"
        value = self._take(key, expected)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._bad(key, value, expected)
        return value

    def boolean(self, key: str) -> bool:
        """Take true or false."""
        expected = "true or false"
        value = self._take(key, expected)
        if not isinstance(value, bool):
            raise self._bad(key, value, expected)
        return value

    def texts(self, key: str) -> list[str]:
        """Take a list of strings."""
        expected = "a list of names"
        value = self._take(key, expected)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self._bad(key, value, expected)
        return value

    def integers(self, key: str, low: int, high: int) -> list[int]:
        """Take a list of whole numbers, each from low to high."""
        expected = f"a list of whole numbers from {low} to {high}"
        value = self._take(key, expected)
        if not isinstance(value, list) or any(type(v) is not int or not low <= v <= high for v in value):
            raise self._bad(key, value, expected)
        return value

    def numbers_or_nan(self, key: str, low: float, high: float) -> list[float]:
        """Take a list of numbers, each from low to high or ``nan`` (no value)."""
        expected = f"a list of numbers from {low:g} to {high:g} or nan"
        value = self._take(key, expected)
        if not isinstance(value, list):
            raise self._bad(key, value, expected)
        for v in value:
            if type(v) not in (int, float) or not (math.isnan(v) or low <= v <= high):
                raise self._bad(key, v, expected)
        return [float(v) for v in value]

    def table(self, key: str) -> Table:
        """Take a sub-table."""
        expected = "a table"
        value = self._take(key, expected)
        if not isinstance(value, dict):
            raise self._bad(key, value, expected)
        return Table(value, f"{self.where}: {key}")

    def tables(self, key: str) -> list[Table]:
        """Take a non-empty list of tables."""
        expected = "a list of tables"
        value = self._take(key, expected)
        if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
            raise self._bad(key, value, expected)
        return [Table(v, f"{self.where}: {key}[{i}]") for i, v in enumerate(value)]

    def named_tables(self, key: str) -> dict[str, Table]:
        """Take a non-empty table whose every value is a table: name → sub-table."""
        outer = self.table(key)
        if not outer._data:
            raise UserError(f"{self.where}: {key} is empty; expected at least one entry")
        return {name: outer.table(name) for name in outer._names()}

    def named_texts(self, key: str) -> dict[str, str]:
        """Take a table of one-line strings, name → text; empty if the key is absent."""
        if not self.has(key):
            return {}
        inner = self.table(key)
        return {name: inner.text(name) for name in inner._names()}

    def _names(self) -> Iterable[str]:
        for name in self._data:
            if not _NAME.match(name):
                raise UserError(f"{self.where}: name {shown(name)}; expected lower-case letters, digits, - and _")
        return self._data

    def named_values(self, key: str) -> dict[str, str]:
        """Take a table of numbers and one-line strings, as written; empty if the key is absent."""
        if not self.has(key):
            return {}
        inner = self.table(key)
        values = {}
        for name, value in inner._data.items():
            if type(value) not in (int, float, str) or not str(value).strip() or not str(value).isprintable():
                raise inner._bad(name, value, "a number or a name")
            values[name] = str(value)
        return values

    def done(self) -> None:
        """Refuse keys that were not taken."""
        for key in self._data:
            if key not in self._requested:
                raise UserError(f"{self.where}: unknown key {shown(key)}{did_you_mean(key, self._requested)}")

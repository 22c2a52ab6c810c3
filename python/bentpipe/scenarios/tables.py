"""Read TOML scenario files into checked values; errors name file, key, value and expectation.

The packaged files pass the same checks as a user's own, so that a mistake in either gives one clear line.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources

from bentpipe.errors import UserError, shown


def packaged_text(path: str) -> str:
    """Return the text of a file of this package, `path` relative to the ``scenarios`` folder."""
    return resources.files("bentpipe.scenarios").joinpath(path).read_text(encoding="utf-8")


def packaged_names(folder: str) -> list[str]:
    """Return the names (without ``.toml``) of the files in a folder of this package, sorted."""
    entries = resources.files("bentpipe.scenarios").joinpath(folder).iterdir()
    return sorted(e.name.removesuffix(".toml") for e in entries if e.name.endswith(".toml"))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known name, or an empty string if none is near."""
    near = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_name(kind: str, name: str, known: Iterable[str], hint: str, where: str = "") -> UserError:
    """Return the error for an unknown name, with the nearest known name and a hint.

    `where` is the file and entry with the name, if it comes from a file.
    """
    return UserError(f"{where + ': ' if where else ''}unknown {kind} {shown(name)}{did_you_mean(name, known)} ({hint})")


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
        try:
            return cls(tomllib.loads(text), where)
        except (
            ValueError,
            RecursionError,
        ) as error:  # tomllib: absurd numbers are a plain ValueError
            raise UserError(f"{where}: not valid TOML: {error}") from error

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

"""Reading a scenario file: TOML text to checked values, with errors that say file, key, what was found and wanted.

The packaged files go through the same checks as a user's own, so a slip in either gives one clear line.
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
    """Make the error for a name that is not in a list: it suggests the nearest one and says where the list is.

    `where` is the file and entry that hold the name, if it comes from a file.
    """
    return UserError(f"{where + ': ' if where else ''}unknown {kind} {shown(name)}{did_you_mean(name, known)} ({hint})")


#: Names that a file gives to its entries.
_NAME = re.compile(r"[a-z][a-z0-9_-]*\Z")


class Table:
    """One TOML table with the path that leads to it (``sites.toml: sites.london``), for messages.

    Values are taken with `text`, `number`, `integer`, ...; `done` then refuses keys nobody asked for, so that a
    misspelt optional key is an error and not a default.
    """

    def __init__(self, data: Mapping[str, object], where: str) -> None:
        """Wrap parsed TOML; `where` names it in messages."""
        self._data = data
        self._asked: set[str] = set()
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
        """Say whether an optional key is there."""
        self._asked.add(key)
        return key in self._data

    def _take(self, key: str, wanted: str) -> object:
        self._asked.add(key)
        if key not in self._data:
            raise UserError(f"{self.where}: key {key!r} is missing; wanted {wanted}")
        return self._data[key]

    def _bad(self, key: str, found: object, wanted: str) -> UserError:
        return UserError(f"{self.where}: {key} is {shown(found)}; wanted {wanted}")

    def text(self, key: str) -> str:
        """Take a non-empty one-line string."""
        wanted = "one line of text"
        value = self._take(key, wanted)
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._bad(key, value, wanted)
        return value

    def choice(self, key: str, options: Iterable[str]) -> str:
        """Take one of the strings in `options`."""
        allowed = list(options)
        wanted = " or ".join(repr(o) for o in allowed)
        value = self._take(key, wanted)
        if not isinstance(value, str) or value not in allowed:
            raise self._bad(key, value, wanted)
        return value

    def number(self, key: str, low: float, high: float) -> float:
        """Take a finite number with low ≤ number ≤ high."""
        wanted = f"a number from {low:g} to {high:g}"
        value = self._take(key, wanted)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
            raise self._bad(key, value, wanted)
        return float(value)

    def integer(self, key: str, low: int, high: int) -> int:
        """Take a whole number with low ≤ number ≤ high."""
        wanted = f"a whole number from {low} to {high}"
        value = self._take(key, wanted)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self._bad(key, value, wanted)
        return value

    def boolean(self, key: str) -> bool:
        """Take true or false."""
        wanted = "true or false"
        value = self._take(key, wanted)
        if not isinstance(value, bool):
            raise self._bad(key, value, wanted)
        return value

    def texts(self, key: str) -> list[str]:
        """Take a list of strings."""
        wanted = "a list of names"
        value = self._take(key, wanted)
        if not isinstance(value, list) or not all(isinstance(v, str) for v in value):
            raise self._bad(key, value, wanted)
        return value

    def integers(self, key: str, low: int, high: int) -> list[int]:
        """Take a list of whole numbers, each from low to high."""
        wanted = f"a list of whole numbers from {low} to {high}"
        value = self._take(key, wanted)
        if not isinstance(value, list) or any(type(v) is not int or not low <= v <= high for v in value):
            raise self._bad(key, value, wanted)
        return value

    def numbers_or_nan(self, key: str, low: float, high: float) -> list[float]:
        """Take a list of numbers, each from low to high or ``nan`` (no value)."""
        wanted = f"a list of numbers from {low:g} to {high:g} or nan"
        value = self._take(key, wanted)
        if not isinstance(value, list):
            raise self._bad(key, value, wanted)
        for v in value:
            if type(v) not in (int, float) or not (math.isnan(v) or low <= v <= high):
                raise self._bad(key, v, wanted)
        return [float(v) for v in value]

    def table(self, key: str) -> Table:
        """Take a sub-table."""
        wanted = "a table"
        value = self._take(key, wanted)
        if not isinstance(value, dict):
            raise self._bad(key, value, wanted)
        return Table(value, f"{self.where}: {key}")

    def tables(self, key: str) -> list[Table]:
        """Take a non-empty list of tables."""
        wanted = "a list of tables"
        value = self._take(key, wanted)
        if not isinstance(value, list) or not value or not all(isinstance(v, dict) for v in value):
            raise self._bad(key, value, wanted)
        return [Table(v, f"{self.where}: {key}[{i}]") for i, v in enumerate(value)]

    def named_tables(self, key: str) -> dict[str, Table]:
        """Take a non-empty table whose every value is a table: name → sub-table."""
        outer = self.table(key)
        if not outer._data:
            raise UserError(f"{self.where}: {key} is empty; wanted at least one entry")
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
                raise UserError(f"{self.where}: name {shown(name)}; wanted lower-case letters, digits, - and _")
        return self._data

    def named_values(self, key: str) -> dict[str, str]:
        """Take a table of numbers and one-line strings, as they are written; empty if the key is absent."""
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
        """Refuse keys that nothing asked for."""
        for key in self._data:
            if key not in self._asked:
                raise UserError(f"{self.where}: unknown key {shown(key)}{did_you_mean(key, self._asked)}")

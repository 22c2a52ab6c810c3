"""Schemes as users give them: text, or the class of a controller in Python."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bentpipe.errors import UserError, shown
from bentpipe.experiments.schemes import parse_scheme, parse_schemes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.plugin import App

SchemeLike = str | type
"""``cubic``, ``cubic+bbr`` (two flows that share the path), ``bbr:min_rtt_win_s=20``, or a controller's class."""


def scheme_name(value: SchemeLike, where: str) -> str:
    """Return a scheme in the form that Runs have it.

    Raises:
        UserError: An unknown controller or tunable, or a class that is defined in no file.
    """
    if isinstance(value, type):
        return parse_scheme(class_name(value, where))
    if isinstance(value, str):
        return parse_scheme(value)
    raise UserError(shown(value), where=where, expected="a controller's name or class")


def scheme_names(values: SchemeLike | Sequence[SchemeLike], where: str) -> list[str]:
    """Return schemes in order, without repetitions; text may have several between commas. Raises `UserError`."""
    if isinstance(values, str):
        return list(parse_schemes(values))
    if isinstance(values, type):
        return [scheme_name(values, where)]
    if not isinstance(values, Iterable):
        raise UserError(shown(values), where=where, expected="a list such as ['cubic', 'bbr', 'cubic+bbr']")
    names = list(dict.fromkeys(scheme_name(each, where) for each in values))
    if not names:
        raise UserError("none given", where=where, expected="at least one, such as 'cubic'")
    return names


def app_text(value: str | type[App], where: str) -> str:
    """Return an application as text; a class is named by its file. Raises `UserError`."""
    if isinstance(value, type):
        return class_name(value, where)
    if isinstance(value, str):
        return value
    raise UserError(shown(value), where=where, expected="text such as 'paced:2mbit', or an application's class")


def class_name(kind: type, where: str) -> str:
    """Return ``FILE:CLASS``, which names a class in another process too."""
    try:
        file = inspect.getsourcefile(kind)
    except (TypeError, OSError):
        file = None
    if file is None or not file.endswith(".py") or "." in kind.__qualname__:
        raise UserError(
            f"{kind.__qualname__} is not at the top of a .py file",
            where=where,
            expected="a class that another process can import; in a notebook, write it into a file first",
        )
    return f"{file}:{kind.__name__}"

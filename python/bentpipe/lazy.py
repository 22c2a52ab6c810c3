"""Lazy loading of a package's names, so that a command loads only the modules it needs."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a package's `__getattr__` (PEP 562).

    Args:
        package: Its name.
        homes: Public name → the module that defines it.
    """

    def find(name: str) -> Any:  # noqa: ANN401 - any object
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(homes[name]), name)
        setattr(sys.modules[package], name, value)  # later lookups bypass this function
        return value

    return find

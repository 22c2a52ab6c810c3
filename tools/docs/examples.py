"""Griffe extension: a docstring's section "Example" is shown as code, as its section "Examples" would be.

Griffe's Google style knows the plural only; the singular becomes a quotation in which brackets are links.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

HEADING = re.compile(r"^Example:(?=\n +>>> )", re.MULTILINE)


class Examples(griffe.Extension):
    """Renames the section of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - griffe's own
        """Rename it in the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = HEADING.sub("Examples:", obj.docstring.value)

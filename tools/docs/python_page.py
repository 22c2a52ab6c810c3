"""The page of Python names: every public name of `bentpipe`, then the modules that users meet beside it."""

from __future__ import annotations

import bentpipe

MODULES = (
    "bentpipe.plugin",
    "bentpipe.profiles.path",
    "bentpipe.runs.rows",
    "bentpipe.runs.store",
    "bentpipe.runs.summary",
    "bentpipe.experiments.experiment",
    "bentpipe.analysis.handovers",
    "bentpipe.errors",
)
"""Modules whose public names users meet beside those of `bentpipe` itself."""


def python_page() -> str:
    """Return the page in Markdown, with a directive of mkdocstrings for every name and module."""
    homes: dict[str, str] = bentpipe.__dict__["_HOMES"]
    lines = ["# Python", "", "Names of `bentpipe`, then of the modules that users meet beside it.", ""]
    lines += [
        f"::: {home}.{name}\n    options: {{heading_level: 2, inherited_members: true}}\n"
        for name, home in sorted(homes.items())
        if name != "__version__"
    ]
    lines += ["## `bentpipe.__version__`", "", "The version, as `bentpipe --version` prints it.", ""]
    lines += [f"::: {module}\n    options: {{heading_level: 2}}\n" for module in MODULES]
    return "\n".join(lines)

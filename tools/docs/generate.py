"""Pages that are made when the site is built: the start page, every command's help, the Python names, the claims."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mkdocs_gen_files
import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

import bentpipe  # noqa: E402 - the path above
from bentpipe.cli.main import app  # noqa: E402

MODULES = (
    "bentpipe.plugin",
    "bentpipe.profiles.path",
    "bentpipe.runs.store",
    "bentpipe.runs.summary",
    "bentpipe.experiments.experiment",
    "bentpipe.analysis.handovers",
    "bentpipe.errors",
)
"""Modules whose public names users meet beside those of `bentpipe` itself."""


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer brings its own Click
    """Every command with its full name, groups before their members."""
    yield name, group
    for child, command in sorted(getattr(group, "commands", {}).items()):
        if not command.hidden:
            yield from commands(command, f"{name} {child}")


def command_page() -> str:
    """The help of every command as tables."""
    lines = ["# Commands", "", "Generated from the command line's own help.", ""]
    for name, command in commands(typer.main.get_command(app), "bentpipe"):
        lines += [f"## {name}", "", plain(command.help or ""), ""]
        rows = [
            (", ".join(f"`{flag}`" for flag in [*option.opts, *option.secondary_opts]) or f"`{option.name}`", option)
            for option in command.params
            if not getattr(option, "hidden", False)
        ]
        if rows:
            lines += ["| option | meaning | default |", "|---|---|---|"]
            lines += [
                f"| {flags} | {cell(getattr(option, 'help', None) or '')} | {default(option)} |"
                for flags, option in rows
            ]
            lines.append("")
    return "\n".join(lines)


def default(option: Any) -> str:  # noqa: ANN401 - Typer brings its own Click
    """An option's default as the help shows it."""
    shown = getattr(option, "show_default", None)
    if option.required:
        return "required"
    if isinstance(shown, str):
        return cell(shown)
    return "" if option.default in (None, False, (), []) or callable(option.default) else f"`{option.default}`"


def cell(text: str) -> str:
    """Text that may stand in a table's cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def plain(text: str) -> str:
    """Help text as paragraphs; an example is code."""
    parts = [" ".join(part.replace("\b", "").split()) for part in text.split("\n\n")]
    return "\n\n".join(
        f"```\n{part}\n```" if part.startswith("bentpipe ") else part.replace("<", "&lt;") for part in parts
    )


def python_page() -> str:
    """Every public name of `bentpipe`, and the modules beside it."""
    homes = bentpipe.__dict__["_HOMES"]
    lines = ["# Python", "", "Names of `bentpipe`, then of the modules that users meet beside it.", ""]
    lines += [
        f"::: {home}.{name}\n    options: {{heading_level: 2}}\n"
        for name, home in sorted(homes.items())
        if not home.endswith("_native")
    ]
    lines += [f"::: {module}\n    options: {{heading_level: 2}}\n" for module in MODULES]
    return "\n".join(lines)


def write(uri: str, text: str) -> None:
    """Adds a page to the site."""
    with mkdocs_gen_files.open(uri, "w") as page:
        page.write(text)


write("index.md", (ROOT / "README.md").read_text(encoding="utf-8"))
write("reference/commands.md", command_page())
write("reference/python.md", python_page())
for readme in sorted((ROOT / "python" / "bentpipe" / "validation").glob("*/README.md")):
    write(f"validation/{readme.parent.name}.md", readme.read_text(encoding="utf-8"))

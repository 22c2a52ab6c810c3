"""Pages that are made when the site is built: start page, commands' help, Python names, JSON Schemas, claims."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mkdocs_gen_files
import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tools" / "docs")]

from python_page import python_page  # noqa: E402 - the path above

from bentpipe.cli.main import app  # noqa: E402
from bentpipe.experiments.experiment import Experiment  # noqa: E402
from bentpipe.experiments.file import ExperimentToml  # noqa: E402
from bentpipe.measurements.runs.store import MeasuredRecord  # noqa: E402
from bentpipe.records import Record, json_schema  # noqa: E402
from bentpipe.runs import rows  # noqa: E402
from bentpipe.runs.failed import FailedFile  # noqa: E402
from bentpipe.runs.manifest import RaceFile  # noqa: E402
from bentpipe.runs.run_record import RunRecord  # noqa: E402
from bentpipe.scenarios.fibre import FibreFile  # noqa: E402
from bentpipe.scenarios.ground import GatewaysFile, PopsFile  # noqa: E402
from bentpipe.scenarios.load_tests import LoadTestsFile  # noqa: E402
from bentpipe.scenarios.losses import LossFile  # noqa: E402
from bentpipe.scenarios.presets import PresetsFile  # noqa: E402
from bentpipe.scenarios.services import ServicesFile  # noqa: E402
from bentpipe.scenarios.shells import ConstellationFile  # noqa: E402
from bentpipe.scenarios.sites import SitesFile  # noqa: E402
from bentpipe.scenarios.traffic import TrafficFile  # noqa: E402
from bentpipe.studies.files import FILES as STUDY_FILES  # noqa: E402
from bentpipe.testbed.agent.results import RunRecord as TestbedRunRecord  # noqa: E402
from bentpipe.testbed.builtins.outcome import Outcome  # noqa: E402
from bentpipe.testbed.schemas.experiment import TestbedExperiment  # noqa: E402
from bentpipe.testbed.schemas.policy import HostPolicy  # noqa: E402


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


SCHEMAS: dict[str, tuple[type[Record], str]] = {
    "experiment-file": (ExperimentToml, "an Experiment file (TOML)"),
    "experiment": (Experiment, "an Experiment in `run.json`"),
    "run": (RunRecord, "`run.json` of a simulated or emulated Run"),
    "measured-run": (MeasuredRecord, "`run.json` of a measured Run"),
    "race": (RaceFile, "`race.json`"),
    "failed": (FailedFile, "`failed.json`"),
    "constellation": (ConstellationFile, "`constellations/NAME.toml`"),
    "sites": (SitesFile, "`sites.toml`"),
    "gateways": (GatewaysFile, "a gateway list (TOML)"),
    "pops": (PopsFile, "`pops.toml`"),
    "fibre": (FibreFile, "`fibre.toml`"),
    "presets": (PresetsFile, "`presets.toml`"),
    "services": (ServicesFile, "`services.toml`"),
    "traffic": (TrafficFile, "`traffic.toml`"),
    "loss": (LossFile, "`loss.toml`"),
    "load-tests": (LoadTestsFile, "`load_tests.toml`"),
    "testbed-experiment": (TestbedExperiment, "an experiment of the testbed (YAML)"),
    "testbed-policy": (HostPolicy, "the policy of a testbed's host (YAML)"),
    "testbed-builtin": (Outcome, "`builtin.json` of a result"),
    "testbed-run": (TestbedRunRecord, "`testbed.json` of a result"),
    **{f"study-{name}": (kind, f"`{kind.FILE}`") for name, kind in STUDY_FILES.items()},
}
"""The records of files by the names of their schemas, with what they describe."""


def schemas_page() -> str:
    """The list of the JSON Schemas."""
    lines = [
        "# JSON Schemas",
        "",
        "Generated from the records that check the files; a message about a wrong value names the same bounds.",
        "",
        "| schema | of |",
        "|---|---|",
    ]
    files = [(name, of) for name, (_, of) in SCHEMAS.items()]
    files.append(("row", "a line of `race --rows` ([live rows](../guides/live.md))"))
    return "\n".join([*lines, *(f"| [{name}](schemas/{name}.json) | {of} |" for name, of in files), ""])


def write(uri: str, text: str) -> None:
    """Adds a page to the site."""
    with mkdocs_gen_files.open(uri, "w") as page:
        page.write(text)


write("index.md", (ROOT / "README.md").read_text(encoding="utf-8"))
write("reference/commands.md", command_page())
write("reference/python.md", python_page())
write("reference/schemas.md", schemas_page())
for name, (record, _) in SCHEMAS.items():
    write(f"reference/schemas/{name}.json", json.dumps(json_schema(record), indent=2) + "\n")
write("reference/schemas/row.json", json.dumps(rows.json_schema(), indent=2) + "\n")
for readme in sorted((ROOT / "python" / "bentpipe" / "validation").glob("*/README.md")):
    write(f"validation/{readme.parent.name}.md", readme.read_text(encoding="utf-8"))

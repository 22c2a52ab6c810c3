"""Write the tables of the testbed's reference pages anew, from the records that check the files.

``python tools/docs/testbed_tables.py`` replaces what stands between ``<!-- table NAME -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from bentpipe.records import json_schema
from bentpipe.testbed.builtins.registry import BUILTINS as PROGRAMS
from bentpipe.testbed.schemas.builtins import BUILTINS
from bentpipe.testbed.schemas.experiment import TestbedExperiment
from bentpipe.testbed.schemas.policy import HostPolicy

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "docs" / "reference" / f"testbed-{name}.md" for name in ("experiments", "policy")]
BLOCK = re.compile(r"<!-- table (\S+) -->\n.*?<!-- end -->", re.DOTALL)


def tables() -> dict[str, str]:
    """Return the tables by name: ``experiment``, its parts by key, ``policy``, ``args-NAME``, ``builtins``."""
    experiment, policy = json_schema(TestbedExperiment), json_schema(HostPolicy)
    made = {"experiment": fields(experiment, experiment), "policy": fields(policy, policy)}
    for root in (experiment, policy):
        for name, part in root["$defs"].items():
            made[name] = fields(part, root)
    for name, record in BUILTINS.items():
        schema = json_schema(record)
        made[f"args-{name}"] = fields(schema, schema)
    made["builtins"] = builtins()
    return made


def fields(part: dict[str, Any], root: dict[str, Any]) -> str:
    """Return the table of a record's fields."""
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    required = part.get("required", [])
    for name, field in part["properties"].items():
        default = "required" if name in required else shown(field.get("default"))
        meaning = " ".join(field.get("description", "").replace("``", "`").split())
        lines.append(f"| `{name}` | {kind(field, root)} | {default} | {meaning} |")
    return "\n".join(lines)


def shown(value: object) -> str:
    """Return a default as YAML has it."""
    if value is None or value in ({}, [], ""):
        return ""
    if isinstance(value, dict):
        return "as below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, list):
        return "`[" + ", ".join(map(str, value)) + "]`"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def kind(field: dict[str, Any], root: dict[str, Any]) -> str:
    """Return what a field takes, in a few words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        target = root["$defs"][name]
        return f"mapping, as below ({name})" if "properties" in target else kind(target, root)
    if "anyOf" in field:
        kinds = [kind(each, root) for each in field["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if "const" in field or "enum" in field:
        return ", ".join(f"`{each}`" for each in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {kind(field.get('items', {}), root)}"
    return scalar(field)


def scalar(field: dict[str, Any]) -> str:
    """Return what a field without parts takes."""
    names = {"string": "text", "integer": "whole number", "number": "number", "boolean": "`true`, `false`"}
    name = names.get(field.get("type", ""), "mapping")
    low = field.get("minimum", field.get("exclusiveMinimum"))
    high = field.get("maximum", field.get("exclusiveMaximum"))
    if low is not None and high is not None:
        return f"{name}, {low:g} to {high:g}"
    return name if low is None else f"{name}, from {low:g}"


def builtins() -> str:
    """Return the table of what each built-in experiment needs."""
    lines = ["| name | server node | programs | Python packages |", "|---|---|---|---|"]
    for name, program in PROGRAMS.items():
        programs = ", ".join(f"`{each.partition('|')[0]}`" for each in program.programs)
        packages = ", ".join(f"`{each}`" for each in program.packages)
        lines.append(f"| `{name}` | {'yes' if BUILTINS[name].needs_server else 'no'} | {programs} | {packages} |")
    return "\n".join(lines)


def renewed(text: str) -> str:
    """Return a page with its tables made anew. Raises `KeyError`: no such table."""
    made = tables()
    return BLOCK.sub(lambda match: f"<!-- table {match[1]} -->\n{made[match[1]]}\n<!-- end -->", text)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")

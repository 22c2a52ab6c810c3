"""Errors that users meet have parts: place, problem, expected value, remedy; and they name parameters, not flags."""

import ast
import re
from pathlib import Path

import pytest
from object_profiles import dumbbell

import bentpipe as bp

PACKAGE = Path(bp.__file__).parent
MET_BY_USERS = ("objects", "experiments", "profiles", "runs", "measurements/readers")
IN_COMMAND = re.compile(
    r"bentpipe |^iperf3|--timestamp-format|^(--aqm|--gateway-cc|--mtu|--recovery)$|--json-stream|--json$"
)
"""Text in which a flag stands rightly: a command to type, another tool's option, or a Run's own options."""


def sources(*folders):
    for folder in folders:
        for file in sorted((PACKAGE / folder).rglob("*.py")):
            yield file, ast.parse(file.read_text(encoding="utf-8"))


def text_of(node):
    return "".join(
        part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
    )


def test_expected_values_and_remedies_are_parts_of_their_own():
    whole = [
        f"{file.relative_to(PACKAGE)}:{call.lineno}"
        for file, tree in sources(*MET_BY_USERS)
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "UserError" and not call.keywords
        if call.args and re.search("; (expected|try) ", text_of(call.args[0]))
    ]
    assert whole == []


def test_only_the_command_line_names_its_flags():
    named = [
        f"{file.relative_to(PACKAGE)}:{node.lineno}: {text}"
        for file, tree in sources(*MET_BY_USERS, "measurements", "analysis", "execution", "orbits", "tuning")
        for docstrings in [
            {
                id(each.value)
                for body in ast.walk(tree)
                if isinstance(getattr(body, "body", None), list)
                for each in body.body
                if isinstance(each, ast.Expr)
            }
        ]
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
        for text in [node.value]
        if re.search(r"(^|[ (`\"])--[a-z]", text) and not IN_COMMAND.search(text) and file.name not in COMMANDS
    ]
    assert named == []


COMMANDS = (
    "conversion.py",
    "owd.py",
    "inputs.py",
    "terminal_summary.py",
    "program.py",
    "made_on.py",
    "check.py",
    "plan.py",
)
"""Modules that print commands to type."""


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: bp.Experiment(dumbbell(), seeds=0), ("seeds", "0", "an integer of at least 1", "")),
        (
            lambda: bp.Experiment(dumbbell(), direction="left"),
            ("direction", "'left'", "up or down", ""),
        ),
        (
            lambda: bp.Comparison(1, 2),
            ("Comparison", "1", "two RunSets", "RunSet.read(FOLDER)"),
        ),
        (
            lambda: bp.Experiment(dumbbell(), "cubic", app="request:1kb"),
            ("app", "request:1kb", "two sizes, for example request:200bytes/100kb", ""),
        ),
    ],
)
def test_the_parts_of_an_error_in_python(make, parts):
    with pytest.raises(bp.UserError) as caught:
        make()
    error = caught.value
    assert (error.where, error.found, error.expected, error.hint) == parts

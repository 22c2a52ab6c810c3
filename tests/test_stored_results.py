"""Stored results of studies and claims say where they were made, at a commit that this history has."""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VALIDATION = ROOT / "python" / "bentpipe" / "validation"
CELLS = sorted((VALIDATION / "sim_vs_kernel" / "kernel").glob("*.json"))
RESULTS = sorted([*(ROOT / "docs" / "results").glob("*.json"), *({*VALIDATION.rglob("*.json")} - {*CELLS})])
NEEDED = {"commit", "machine", "processor", "kernel", "bentpipe"}


def git(*arguments):
    """Return the output of git in this checkout; None: it failed, or there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return None if done.returncode else done.stdout.strip()


def problem_of(file):
    """Return why a result's origin is not known; None: it is. The commit counts only where the history is whole."""
    made_on = json.loads(file.read_text(encoding="utf-8")).get("made_on") or {}
    if missing := sorted(key for key in NEEDED if not made_on.get(key)):
        return f"made_on has no {', '.join(missing)}"
    if made_on["commit"].endswith("-dirty"):
        return "made with changed files"
    if git("rev-parse", "--is-shallow-repository") != "false":
        pytest.skip("the commit needs git and a clone with the whole history")
    return None if git("merge-base", "--is-ancestor", made_on["commit"], "HEAD") is not None else "unknown commit"


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_stored_result_says_where_it_was_made(file):
    assert problem_of(file) is None


@pytest.mark.parametrize("file", CELLS, ids=lambda file: file.stem)
def test_each_run_of_a_kernel_cell_says_its_day_and_versions(file):
    runs = json.loads(file.read_text(encoding="utf-8"))["runs"]
    assert runs
    assert all({"bentpipe", "build", "kernel", "machine"} <= run["versions"].keys() and run["day"] for run in runs)

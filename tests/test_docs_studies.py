"""The tables of the studies' page are those of the stored results."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RESULTS = sorted((ROOT / "docs" / "results").glob("*.json"))


def test_the_studies_page_shows_the_stored_results():
    command = [sys.executable, ROOT / "tools/docs/study_tables.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_stored_result_has_its_rows_and_verdicts(file):
    result = json.loads(file.read_text(encoding="utf-8"))
    assert result["study"] == file.stem
    assert result["rows"]
    assert result["verdicts"]


def test_the_table_of_orders_reads_results_of_older_versions(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "docs"))
    tables = importlib.import_module("study_tables")
    assert len(list(tables.order_lines({"study": "old"}))) == 2  # the head alone

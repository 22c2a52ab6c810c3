"""Last results of validations: what `--json` prints says where it comes from, and what is kept is of claims we make."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bentpipe.runs.made_on import made_on
from bentpipe.validation import CLAIMS, Outcome, Row

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "python" / "bentpipe" / "validation"


def test_json_says_on_what_it_was_made():
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe", "validate", "slots", "--json"], capture_output=True, text=True, check=True
    )
    output = json.loads(done.stdout)
    assert [claim["claim"] for claim in output["claims"]] == ["slots"]
    assert output["made_on"] == made_on()
    assert output["made_on"]["kernel"].split()[0] in {"Linux", "Darwin"}
    assert output["made_on"]["processors"] >= 1


def test_the_commit_is_that_of_the_checkout(tmp_path, monkeypatch):
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commit = made_on()["commit"].removesuffix("-dirty")
    assert re.fullmatch(r"[0-9a-f]{12,}", commit)
    assert head.startswith(commit)
    # Installed into a folder of another project's checkout it is nobody's commit.
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.setattr("bentpipe.runs.made_on.__file__", str(tmp_path / "made_on.py"))
    assert made_on()["commit"] is None


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*/*.json")), ids=lambda file: f"{file.parent.name}/{file.name}")
def test_what_is_kept_is_of_its_folders_claims(file):
    claims = json.loads(file.read_text(encoding="utf-8"))["claims"]
    for claim in claims:
        assert CLAIMS[claim["claim"]][0].split(".")[0] == file.parent.name
        assert {"rows", "notes", "skipped", "holds"} <= claim.keys()


def test_a_check_that_compared_nothing_does_not_hold():
    within = Row("what", "1", "1", "0", True)
    assert Outcome("slots", rows=[within]).holds
    assert not Outcome("slots", rows=[within, Row("what", "2", "1", "0", False)]).holds
    assert not Outcome("slots").holds
    assert Outcome("slots", skipped="no data").holds is None


def test_a_check_without_a_judged_row_does_not_hold():
    reported = Row("what", "1", "", "reported, no limit", None)
    assert Outcome("slots", rows=[reported]).holds is False
    assert Outcome("slots", rows=[reported, Row("what", "1", "1", "0", True)]).holds is True


@pytest.mark.parametrize(("required", "code"), [("", 0), ("emu", 0), ("data", 1), ("emu,data", 1)])
def test_a_skipped_claim_fails_where_its_data_are_required(required, code):
    done = subprocess.run(
        [sys.executable, "-m", "bentpipe", "validate", "serving"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BENTPIPE_REQUIRE": required},
    )
    assert done.returncode == code, done.stderr
    assert "serving: skipped, needs the measurements" in done.stdout
    assert ("BENTPIPE_REQUIRE" in done.stdout) == bool(code)

"""Every example runs and prints what it promises, with the public names alone."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*.py"))
PUBLIC = re.compile(r"import bentpipe as bp|from bentpipe\.plugin import [\w, ]+")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "out")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) >= 3


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_imports_only_public_modules(script):
    lines = script.read_text(encoding="utf-8").splitlines()
    imports = [line for line in lines if re.match(r"\s*(from|import) bentpipe\b", line)]
    assert imports
    assert not [line for line in imports if not PUBLIC.fullmatch(line)]


def test_the_guide_prints_what_the_chat_prints(tmp_path):
    command = [sys.executable, str(EXAMPLES / "my_app.py"), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    guide = EXAMPLES.parent / "docs" / "guides" / "own-application.md"
    assert "\n".join(done.stdout.splitlines()[:2]) in guide.read_text(encoding="utf-8")


def test_the_chat_takes_part_in_a_race_with_a_tunable(tmp_path):
    from bentpipe.execution.racing import race
    from bentpipe.profiles.presets import preset_profile

    path = preset_profile("dumbbell:rate=20mbit,rtt=40ms", 20)
    counts = [
        race([path], ["cubic"], out=None, app=f"{EXAMPLES / 'my_app.py'}:Chat:think_s={think_s}").runs[0]
        for think_s in (0.2, 2)
    ]
    often, seldom = (run.applications().height for run in counts)
    assert often > 3 * seldom > 0

"""The first moments of the process: Ctrl-C is one line and 130 there too."""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STRUCK = """
import os, signal, sys
class Strike:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Strike())
sys.argv = ["bentpipe", "cc"]
from bentpipe.__main__ import main
main()
"""
"""Sends the process a real SIGINT at the moment when it begins to load a module."""


@pytest.mark.parametrize(
    "module",
    ["bentpipe.cli.main", "typer", "bentpipe.cli.errors", "bentpipe.cli.race", "bentpipe.cli.validate", "rich.table"],
)
def test_ctrl_c_while_modules_load_is_one_line(module):
    done = subprocess.run(
        [sys.executable, "-c", STRUCK.format(module=module)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_an_ignored_ctrl_c_stays_ignored():
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + STRUCK.format(module="typer"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_console_script_is_the_main_module():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"bentpipe": "bentpipe.__main__:main"}
    (entry_point,) = importlib.metadata.entry_points(group="console_scripts", name="bentpipe")
    assert callable(entry_point.load())

"""Units of systemd: systemd itself finds nothing wrong in them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bentpipe.errors import UserError
from bentpipe.testbed.units import UNITS, unit_text


@pytest.mark.parametrize("name", sorted(UNITS))
def test_a_unit_runs_this_installation(name: str) -> None:
    text = unit_text(name)
    assert f"ExecStart={sys.executable} -P -m bentpipe" in text
    assert "@" not in text
    assert "NoNewPrivileges=yes" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_reads_them(tmp_path: Path) -> None:
    files = []
    for name in UNITS:
        files.append(tmp_path / f"bentpipe-{name}.service")
        files[-1].write_text(unit_text(name))
    result = subprocess.run(
        ["systemd-analyze", "verify", *map(str, files)], capture_output=True, text=True, check=False
    )
    ours = [line for line in (result.stdout + result.stderr).splitlines() if "bentpipe" in line]
    assert ours == []


def test_another_unit_is_one_line() -> None:
    with pytest.raises(UserError, match="did you mean 'node'"):
        unit_text("nod")

"""A few kills of a testbed's programs; `bentpipe validate testbed-faults` makes a hundred of each."""

from __future__ import annotations

import os
import subprocess

from emulation import cannot

from bentpipe.testbed.namespaces import linux
from bentpipe.validation.testbed_faults import FAULTS, run_apart


def test_kills_lose_and_double_nothing() -> None:
    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        cannot("needs root")
    counts = run_apart(2, 5, quiet_s=2.0)
    assert {name: counts[name] for name in FAULTS} == {name: [] for name in FAULTS}
    assert counts["kills"] == [2, 2]
    left = subprocess.run(
        ["pgrep", "-fa", f"[.]testbed-faults-{os.getpid()}-"], capture_output=True, text=True, check=False
    )
    assert left.stdout == ""

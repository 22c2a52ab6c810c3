"""Some kills of a testbed's programs, and full disks; `bentpipe validate testbed-faults` makes a hundred of each."""

from __future__ import annotations

import os
import subprocess

from emulation import cannot

from bentpipe.testbed.namespaces import linux
from bentpipe.validation import postgresql
from bentpipe.validation.testbed_faults import run_all
from bentpipe.validation.testbed_faults.judging import FAULTS
from bentpipe.validation.testbed_faults.points import KINDS, POINTS

SHORT = {"orchestrator": 1, "agent": 1, "runner": 1, "upload": 1}


def test_kills_lose_and_double_nothing() -> None:
    if not linux.has_capability(linux.CAP_SYS_ADMIN):
        cannot("needs root")
    orders = [{"kills": SHORT, "seed": 5, "quiet_s": 4.0}]
    if postgresql.programs() is not None:
        orders.append({"kills": {"database": 2}, "seed": 5, "quiet_s": 4.0})
    for order, counts in zip(orders, run_all(orders), strict=True):
        assert {name: counts[name] for name in FAULTS} == {name: [] for name in FAULTS}, order
        assert sum(each["kills"] for each in counts["kills"]) == sum(order["kills"].values())
        assert counts["states"].get("done", 0) > 0
    left = subprocess.run(
        ["pgrep", "-fa", f"[.]testbed-faults-{os.getpid()}-"], capture_output=True, text=True, check=False
    )
    assert left.stdout == ""


def test_each_kind_has_points_with_names_of_their_own() -> None:
    names = [(point.kind, point.name) for point in POINTS]
    assert len(set(names)) == len(names)
    assert {kind for kind, _ in names} == set(KINDS)
    assert all(sum(kind == each for each, _ in names) >= 6 for kind in KINDS)

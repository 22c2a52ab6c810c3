"""The kernel's Multipath TCP over two emulated paths: what `bentpipe.execution.multipath` simulates."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.spec import EmulationError, Spec
from bentpipe.execution.multipath_peer import IPPROTO_MPTCP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from bentpipe._native import Profile

_PEER = [sys.executable, "-P", "-m", "bentpipe.execution.multipath_peer"]


@dataclass(frozen=True)
class KernelRun:
    """A run of the kernel's MPTCP, or of its TCP over one path.

    Attributes:
        goodput_bps: Goodput after the warm-up of bulk data [bit/s]; None: it had writes.
        completion_ms: Of each write, the time from when it was due until its last byte had arrived in order [ms].
        path_bytes: Bytes that arrived over each path.
        why_invalid: Why the emulation of the first path was disturbed; None: it was not.
        late: Share of packets that the second path delivered late.
    """

    goodput_bps: float | None
    completion_ms: NDArray[np.float64]
    path_bytes: tuple[int, int]
    why_invalid: str | None
    late: float


def why_no_mptcp() -> str | None:
    """Return why this machine cannot run `emulate_multipath`; None: it can."""
    if shutil.which("ip") is None:
        return "the program `ip` (iproute2) is missing"
    setting = Path("/proc/sys/net/mptcp/enabled")
    if not setting.exists():
        return "this kernel has no MPTCP (CONFIG_MPTCP)"
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP):
            return None
    except OSError as error:
        return f"MPTCP is off (sysctl net.mptcp.enabled=1): {error.strerror}"


def emulate_multipath(
    profiles: tuple[Profile, Profile],
    *,
    duration_s: float,
    start_s: float = 0.0,
    writes: Sequence[tuple[float, int]] = (),
    paths: Sequence[int] = (0, 1),
    warmup_s: float = 0.0,
    seed: int = 0,
) -> KernelRun:
    """Send data from the server to the terminal over two emulated paths, with the kernel's MPTCP and its scheduler.

    The second path opens the connection, and the server announces its address on the first, as a subflow joins it.

    Args:
        profiles: The two paths.
        duration_s: Duration [s].
        start_s: Start within the Profiles [s].
        writes: As in `simulate_multipath`; empty: bulk data.
        paths: The paths in use; one alone has plain TCP.
        warmup_s: Begin of bulk data that its goodput leaves out [s].
        seed: Seed of the per-packet draws.

    Raises:
        UserError: The machine has no namespaces.
        EmulationError: The programs failed.

    Example:
        >>> run = emulate_multipath((leo, fibre), duration_s=20.0)  # doctest: +SKIP
    """
    request = json.dumps(
        {
            "paths": list(paths),
            "duration_s": duration_s,
            "warmup_s": warmup_s,
            "writes": [list(each) for each in writes],
        }
    )
    program = {"command": [*_PEER, "client", request], "server": shlex.join([*_PEER, "server"]), "server_log": None}
    spec = Spec(
        workload={"program": program}, seed=seed, offset_s=start_s, at_end="hold", internet="none", beside=profiles[1]
    )
    with tempfile.TemporaryFile() as output:
        result = emulate(profiles[0], spec, stdout=output.fileno())
        output.seek(0)
        text = output.read().decode()
    if result.exit_code != 0 or not text.strip():
        raise EmulationError(f"the MPTCP client failed with exit code {result.exit_code}")
    received = json.loads(text)
    first, second = received["path_bytes"]
    beside = (result.done or {})["beside"]
    return KernelRun(
        goodput_bps=received.get("goodput_bps"),
        completion_ms=np.array(received.get("completion_ms", []), np.float64),
        path_bytes=(first, second),
        why_invalid=result.why_invalid,
        late=beside["late"] / max(1, beside["lateness_n"]),
    )

"""For tests of the built-in experiments: each as the process that a run has, and its server, on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.agent.listening import listening_ports
from bentpipe.testbed.builtins.outcome import FILE, Outcome
from bentpipe.testbed.builtins.registry import BUILTINS
from bentpipe.testbed.builtins.request import BuiltinRequest
from bentpipe.testbed.schemas.builtins import check_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator


def free_port() -> int:
    """A port that is free for TCP and UDP."""
    while True:
        with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            tcp.bind(("127.0.0.1", 0))
            port = int(tcp.getsockname()[1])
            with contextlib.suppress(OSError):
                udp.bind(("127.0.0.1", port))
                return port


@contextlib.contextmanager
def serving(name: str, args: dict[str, Any]) -> Iterator[dict[str, int]]:
    """The server of a built-in experiment; yields its ports."""
    builtin = BUILTINS[name]
    assert builtin.server is not None
    ports = {each: free_port() for each in builtin.ports}
    command = builtin.server(check_arguments(name, args), ports)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            end_s = time.monotonic() + 10
            while not set(ports.values()) <= listening_ports(process.pid):
                assert process.poll() is None
                assert time.monotonic() < end_s
                time.sleep(0.02)
            yield ports
        finally:
            process.terminate()


def run_builtin(
    folder: Path, name: str, args: dict[str, Any], *, server: str | None = None, ports: dict[str, int] | None = None
) -> Outcome:
    """Run it; its result is in ``folder/out``. The exit code must be 0."""
    done = start(folder, name, args, server=server, ports=ports)
    assert done.returncode == 0, done.stderr
    return Outcome.check(json.loads((folder / "out" / FILE).read_text()), FILE)


def start(
    folder: Path, name: str, args: dict[str, Any], *, server: str | None = None, ports: dict[str, int] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it, whatever its exit code is."""
    (folder / "out").mkdir(parents=True)
    request = BuiltinRequest(builtin=name, args=args, site="attic", server=server, ports=ports or {})
    (folder / "request.json").write_text(request.model_dump_json())
    return subprocess.run(
        [sys.executable, "-P", "-m", "bentpipe.testbed.builtins"],
        env={**os.environ, "BENTPIPE_INPUTS": str(folder), "BENTPIPE_OUTPUT": str(folder / "out")},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip

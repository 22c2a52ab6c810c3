"""What tests of the emulator share: whether this machine can emulate at all, and how a path for a test is made."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.spec import Spec
from bentpipe.execution.program import run_program
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import Run, find_runs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


PATHS_TO_SYSTEM_TOOLS = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

OPTIONAL = {"podman", "docker", "dockerd"}

ECHO = (
    "import socket; s=socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 7));\n"
    "while True: d, a = s.recvfrom(65535); s.sendto(d, a)"
)
SERVER = f'exec {sys.executable} -c "{ECHO}"'

#: Sends `n` packets of `size` bytes every `gap` seconds to the echo server; writes the RTTs [ms], null if
#: lost.
CLIENT = """
import json, socket, sys, time
n, gap, size, family = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_DGRAM)
to = socket.getaddrinfo((sys.argv[6:] or ["server"])[0], 7, s.family, s.type)[0][4]
s.settimeout(1.0)
rtts = []
for i in range(n):
    begin = time.monotonic()
    s.sendto(i.to_bytes(4, "big") + bytes(size - 4), to)
    try:
        while int.from_bytes(s.recv(65535)[:4], "big") != i:
            pass
        rtts.append((time.monotonic() - begin) * 1e3)
    except TimeoutError:
        rtts.append(None)
    time.sleep(gap)
json.dump(rtts, open(sys.argv[5], "w"))
"""


def require_emulation() -> None:
    """Skip the test where namespaces or TUN are missing; with "emu" in `BENTPIPE_REQUIRE` it fails instead."""
    if reason := _missing():
        cannot(f"no emulation on this machine: {reason}")


def can_emulate() -> bool:
    """Whether it can; where `BENTPIPE_REQUIRE` has "emu" a machine that cannot is a failure."""
    if (reason := _missing()) and "emu" in os.environ.get("BENTPIPE_REQUIRE", ""):
        cannot(f"no emulation on this machine: {reason}")
    return not reason


def cannot(reason: str) -> NoReturn:
    """Skip the test for what this machine lacks, or fail it where `BENTPIPE_REQUIRE` has "emu"."""
    if "emu" in os.environ.get("BENTPIPE_REQUIRE", ""):
        pytest.fail(f"BENTPIPE_REQUIRE asks for the emulator: {reason}", pytrace=False)
    pytest.skip(reason)


def in_own_network(script: str, *arguments: str, as_user: bool = False, timeout_s: float = 60) -> Any:
    """Run a script of the tests in a network namespace of its own; return the JSON of its last line.

    `as_user`: in a user namespace, too, which needs no root.
    """
    done = subprocess.run(
        ["unshare", "-Urn" if as_user else "-n", sys.executable, str(Path(__file__).with_name(script)), *arguments],
        capture_output=True, text=True, check=False, timeout=timeout_s,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
    )  # fmt: skip
    if done.returncode != 0 and done.stderr.startswith("unshare"):
        cannot(f"no namespaces on this machine: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def need(*tools: str) -> None:
    """`cannot` where one of these programs is missing; containers' engines are large, and always may be."""
    for tool in tools:
        if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{PATHS_TO_SYSTEM_TOOLS}") is None:
            reason = f"no `{tool}` on this machine"
            if tool in OPTIONAL:
                pytest.skip(reason)
            cannot(reason)


@functools.cache
def _missing() -> str | None:
    """Found by doing it; only what is the machine's counts, any other failure is raised."""
    profile = preset_profile("fibre", duration_s=5.0)
    command = [sys.executable, "-c", ""]
    try:
        emulate(
            profile, Spec(workload={"program": {"command": command, "server": None, "server_log": None}}, offset_s=0.0)
        )
    except UserError as error:
        return str(error)
    return None


def dumbbell_file(folder: Path) -> Path:
    """A file with a path for short tests: 10 Mbit/s, 30 ms there and back, for a minute."""
    require_emulation()
    file = folder / "P.parquet"
    write_profile(dumbbell_path(), file)
    return file


def dumbbell_path() -> Profile:
    """That path."""
    return preset_profile("dumbbell:rate=10mbit,rtt=30ms", 60.0, start_unix_ns=0, name="dumbbell")


def kept(out: Path) -> tuple[Run, Any]:
    """The one Run below `out`, and what its record says of the program's output."""
    (run,) = find_runs(out)
    return run, run.record.program_output


def bentpipe(
    *args: object,
    before: Sequence[str] = (),
    timeout_s: float = 60.0,
    env: Mapping[str, str] | None = None,
    encoding: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """The command line in a process of its own, behind `before`, which is for instance `ip netns exec NAME`."""
    command = [*before, sys.executable, "-m", "bentpipe", *map(str, args)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=timeout_s, env=env, encoding=encoding
    )


def echo(
    profile: Profile,
    tmp_path: Path,
    *,
    n: int = 5,
    gap: float = 0.01,
    size: int = 100,
    family: int = 4,
    **options: Any,
) -> tuple[list[float | None], EmulationResult]:
    """RTTs of `n` packets through `profile` [ms], None if lost; and the emulation."""
    file = tmp_path / "rtts.json"
    command = [sys.executable, "-c", CLIENT, str(n), str(gap), str(size), str(family), str(file)]
    result = run_program(profile, command, server=SERVER, **options)
    assert result.exit_code == 0
    return json.loads(file.read_text()), result.emulated


def python(code: str) -> list[str]:
    """The command that runs it."""
    return [sys.executable, "-c", code]


def rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Of a table's columns."""
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def wait_for(file: Path, child: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Until `child` has made `file`; one that ends before fails the test with what it said."""
    while not file.exists():
        assert child.poll() is None, child.stderr.read() if child.stderr else child.returncode
        time.sleep(0.01)

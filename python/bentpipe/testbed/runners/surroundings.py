"""What every runner gives a program: a user, an output folder, name servers, environment variables."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.runners import cgroups, uplink
from bentpipe.testbed.runners.base import RunnerError

if TYPE_CHECKING:
    from bentpipe.testbed.runners.request import RunRequest

FIRST_USER, USERS = 61184, 4336
"""Users of runs where the agent is the machine's root: the range of systemd's dynamic users."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def new_folder(root: Path, name: str, run_id: str) -> Path:
    """Make the folder for a run's state. Raises `UserError` if there is one."""
    folder = root / name
    try:
        folder.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        raise UserError(run_id, where="run_id", expected="one that no other run has") from None
    return folder


def run_user(name: str) -> int | None:
    """Return the user of a run by its name; None: this process may not become others."""
    is_root = os.geteuid() == 0 and Path("/proc/self/uid_map").read_text().split()[2] == "4294967295"
    return FIRST_USER + int(name[-8:], 16) % USERS if is_root else None


def make_output(request: RunRequest, user: int | None) -> Path:
    """Make the output folder, the user's; check the inputs. Raises `UserError` and `OSError`."""
    for file in request.inputs.values():
        if not file.is_file():
            raise UserError(str(file), where="inputs", expected="a file")
    output = request.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    if user is not None:
        os.chown(output, user, user)
    return output


def write_resolv_conf(request: RunRequest, folder: Path) -> str | None:
    """Write the file with the name servers; None: the emulation has its own."""
    if request.network.kind != "uplink":
        return None
    file = folder / "resolv.conf"
    file.write_text("".join(f"nameserver {each}\n" for each in request.network.nameservers))
    file.chmod(0o644)
    return str(file)


def environment(request: RunRequest, output: str, inputs: str) -> dict[str, str]:
    """Return the variables of the program; `output` and `inputs` are the paths inside."""
    variables = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb"}
    variables |= {"BENTPIPE_RUN": request.run_id, "BENTPIPE_OUTPUT": output, "BENTPIPE_INPUTS": inputs}
    return {**variables, **request.environment}


def sweep(tag: str, kept: set[str], folder: Path) -> set[str]:
    """Remove cgroups, interfaces, rules and folders whose names start with `tag`, except those in `kept`.

    Returns the names of the runs that were removed.
    """
    names = {*cgroups.sweep_cgroups(tag, kept)}
    if linux.has_capability(linux.CAP_NET_ADMIN):
        with contextlib.suppress(RunnerError):  # an agent that never had an uplink needs no nftables
            names |= {*uplink.sweep_links(tag, kept)}
    for entry in folder.iterdir() if folder.is_dir() else ():
        if entry.name.startswith(tag) and entry.name not in kept and entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
            names.add(entry.name)
    with contextlib.suppress(RunnerError):
        uplink.restore_forwarding(folder)
    return names

"""What the agent asks of a runner."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from bentpipe.errors import UserError
from bentpipe.records import Items, Record, Text

_DIGEST = re.compile(r"^[a-z0-9][a-z0-9._/:-]*@sha256:[0-9a-f]{64}$")
_INPUT = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$")


def _image(text: str) -> str:
    if not _DIGEST.match(text):
        raise UserError(repr(text), where="image", expected="name@sha256:… with 64 hexadecimal digits")
    return text


def _prefix(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        raise UserError(str(error), where="network", expected="a network such as 192.168.5.0/24") from error


def _address(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(text))
    except ValueError as error:
        raise UserError(str(error), where="nameservers", expected="an IPv4 address") from error


def _inputs(files: dict[str, Path]) -> dict[str, Path]:
    for name in files:
        if not _INPUT.match(name):
            raise UserError(repr(name), where="inputs", expected="file names of letters, digits, `.`, `_` and `-`")
    return files


def _environment(variables: dict[str, str]) -> dict[str, str]:
    for name, value in variables.items():
        if not name or "=" in name or "\0" in name + value:
            raise UserError(repr(name), where="environment", expected="names without `=`, values without zero bytes")
    return variables


Port = Annotated[int, Field(ge=1, le=65535)]


class Limits(Record):
    """What a run may use."""

    duration_s: Annotated[float, Field(gt=0)] = 60.0
    """Time from the gate to SIGTERM [s]."""

    grace_s: Annotated[float, Field(ge=0)] = 2.0
    """Time from SIGTERM to SIGKILL at the end of the duration [s]."""

    memory_bytes: Annotated[int, Field(ge=1 << 20)] = 512 << 20
    pids: Annotated[int, Field(ge=1)] = 256
    """Processes and threads."""

    cpus: Annotated[float, Field(gt=0)] | None = None
    """Processors; None: no limit."""

    output_bytes: Annotated[int, Field(ge=4096)] = 1 << 30
    scratch_bytes: Annotated[int, Field(ge=4096)] = 64 << 20
    """Size of /tmp and of /dev/shm, each."""

    up_bps: Annotated[int, Field(ge=8000)] | None = None
    """Cap of the rate that the run sends [bit/s]; None: none."""

    down_bps: Annotated[int, Field(ge=8000)] | None = None


class Together(Record):
    """What all runs of an agent may use together."""

    memory_bytes: Annotated[int, Field(ge=1 << 20)] | None = None
    """Memory; None: half of this machine's."""

    pids: Annotated[int, Field(ge=1)] = 4096
    """Processes and threads."""


class Uplink(Record):
    """The machine's own uplink, behind address translation. IPv4 only."""

    kind: Literal["uplink"] = "uplink"
    nameservers: Annotated[Items[Annotated[str, AfterValidator(_address)]], Field(max_length=3)] = (
        "1.1.1.1",
        "8.8.8.8",
    )
    tcp_ports: Items[Port] = ()
    """Ports of this machine that lead to the run: for servers."""

    udp_ports: Items[Port] = ()


class Emulated(Record):
    """The emulated path of a Profile; the Run that the emulator makes is stored."""

    kind: Literal["emulated"] = "emulated"
    profile: Path
    run_folder: Path
    """Folder for the emulator's Run."""

    server: Text | None = None
    """Shell command at the other end, which has the host name ``server``. It is the agent's, not the experiment's: it
    runs without a sandbox."""

    capture: bool = False
    seed: Annotated[int, Field(ge=0)] = 0


class KernelSetting(Record):
    """One call of the kernel service."""

    verb: Literal["cc.set", "sysctl.set", "qdisc.set", "offload.set"]
    values: dict[str, Any]
    optional: bool = False
    """Go on without it if the kernel does not have it."""


class RunRequest(Record):
    """One run: a program, its surroundings, its limits.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.testbed.runners.request import RunRequest
        >>> RunRequest(run_id="r1", label="node-7", command=("ping", "1.1.1.1"), output=Path("out")).limits.pids
        256
    """

    run_id: Text
    label: Text
    """The agent's: `Runner.sweep` removes what has it."""

    output: Path
    """Folder that the program may write; it is made if it is missing."""

    command: Items[str] = ()
    """Program and arguments; with an image: empty means the image's own."""

    image: Annotated[str, AfterValidator(_image)] | None = None
    environment: Annotated[dict[str, str], AfterValidator(_environment)] = Field(default={})
    inputs: Annotated[dict[str, Path], AfterValidator(_inputs)] = Field(default={})
    """Read-only files, by their name inside."""

    gate: Annotated[Text, Field(pattern=_INPUT.pattern)] | None = None
    """Name, among the inputs, of a pipe that the program reads when it is loaded: the gate is there, and
    `PreparedRun.start` writes its message into it. None: the program is not executed before the gate opens."""

    limits: Limits = Limits()
    together: Together = Together()
    """Limits of all runs with this label together, those of the newest request; control groups keep them."""

    network: Annotated[Uplink | Emulated, Field(discriminator="kind")] = Uplink()
    allowed: Items[Annotated[str, AfterValidator(_prefix)]] = ()
    """Private networks that the run may reach: what the host's policy grants. They win over `refused`."""

    refused: Items[Annotated[str, AfterValidator(_prefix)]] = ()
    """Networks that the run may not reach, beside private ones and those that this machine is connected to."""

    raw_sockets: bool = False
    """Grant CAP_NET_RAW."""

    settings: Items[KernelSetting] = ()

    def check_program(self, *, takes_image: bool) -> None:
        """Raise `UserError` unless the request has a program that the runner takes."""
        if takes_image and self.image is None:
            raise UserError("no image", where="image", expected="name@sha256:…", hint="another runner for commands")
        if not takes_image and self.image is not None:
            raise UserError("an image", where="image", expected="a command", hint="the docker runner")
        if not takes_image and not self.command:
            raise UserError("no program", where="command", expected="a program and its arguments")
        if takes_image and self.gate is not None:
            raise UserError("a gate in the program", where="gate", expected="none, with an image")
        if self.gate is not None and self.gate in self.inputs:
            raise UserError(repr(self.gate), where="gate", expected="a name that no input has")
        if any("\0" in word for word in self.command):
            raise UserError("a zero byte", where="command", expected="text")

"""The program of an end of a run, as a runner gets it."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.builtins.gate import GATE
from bentpipe.testbed.builtins.registry import BUILTINS
from bentpipe.testbed.builtins.request import FILE, BuiltinRequest, BuiltinStart
from bentpipe.testbed.runners.request import Emulated, KernelSetting, Limits, RunRequest, Together, Uplink

if TYPE_CHECKING:
    from bentpipe.testbed.agent.surroundings import RunPlan, Surroundings
    from bentpipe.testbed.schemas.experiment import KernelSettings, Program
    from bentpipe.testbed.schemas.policy import HostPolicy

EMULATED_SERVER = "server"
"""Name of the other end on an emulated path."""
EMULATED_PORT = 5201
"""First port of the server's programs on an emulated path."""
MARGIN_S = 30.0
"""Time beyond a run's own limit at which the runner ends it [s]."""


def make_request(
    plan: RunPlan,
    around: Surroundings,
    policy: HostPolicy,
    folder: Path,
    *,
    run_id: str = "",
    ports: dict[str, int],
    profile: Path | None,
) -> RunRequest:
    """Return the request for a client's end.

    Args:
        plan: The run; of a standby: one that has not its id and times yet.
        around: The node.
        policy: The host's policy.
        folder: Folder of the run.
        run_id: Id of the processes; empty: the run's.
        ports: Ports of the server; a built-in experiment gets them by `start_message`.
        profile: File of the Profile; None: the uplink.
    """
    work = plan.work
    network: Uplink | Emulated
    server = server_name(plan)
    if profile is not None:
        ports = emulated_ports(plan)
        command = _emulated_server(plan, ports)
        network = Emulated(
            profile=profile,
            run_folder=folder / "emulation",
            server=command,
            capture=work.capture is not None,
            seed=work.path.seed,
        )
    else:
        network = Uplink(nameservers=around.nameservers)
    program = work.program
    inputs: dict[str, Path] = {}
    environment = dict(program.env)
    if program.builtin is not None:
        command_line: tuple[str, ...] = (sys.executable, "-P", "-m", "bentpipe.testbed.builtins")
        inputs[FILE] = _write_request(
            folder,
            BuiltinRequest(builtin=program.builtin, args=program.args, site=around.node, server=server, ports=ports),
        )
    else:
        command_line = tuple(program.command)
        environment |= {f"BENTPIPE_PORT_{name.upper()}": str(port) for name, port in ports.items()}
        if server is not None:
            environment["BENTPIPE_SERVER"] = server
    arguments = program.arguments
    return RunRequest(
        run_id=run_id or plan.run,
        label=around.label,
        output=folder / "out",
        command=command_line,
        gate=None if program.builtin is None else GATE,
        image=program.image,
        environment=environment,
        inputs=inputs,
        limits=_limits(program, work.duration_s + MARGIN_S, policy),
        network=network,
        allowed=(*policy.reach_private, *around.extra_networks),
        refused=policy.refuse,
        together=together(policy),
        raw_sockets=arguments is not None and "CAP_NET_RAW" in arguments.capabilities,
        settings=kernel_settings(work.kernel),
    )


def together(policy: HostPolicy) -> Together:
    """Return what all runs of a node may use together."""
    return Together(memory_bytes=policy.memory_bytes, pids=policy.pids)


def server_name(plan: RunPlan) -> str | None:
    """Return the name or address of the server, as the run's program reaches it; None: there is none."""
    if plan.work.profile_sha256 is not None:
        return EMULATED_SERVER
    if plan.peer is None or plan.peer.address is None:
        return None
    return plan.peer.address.rpartition(":")[0].strip("[]")


def start_message(plan: RunPlan, ports: dict[str, int]) -> bytes:
    """Return what the program of a built-in experiment reads at its gate; nothing for others."""
    if plan.work.program.builtin is None:
        return b""
    ports = ports if plan.work.profile_sha256 is None else emulated_ports(plan)
    return BuiltinStart(server=server_name(plan), ports=ports).model_dump_json().encode()


def _limits(program: Program, duration_s: float, policy: HostPolicy) -> Limits:
    limits = Limits(duration_s=duration_s, up_bps=policy.rate, down_bps=policy.rate)
    if program.builtin is None:
        return limits
    builtin = BUILTINS[program.builtin]
    return limits.replace(memory_bytes=builtin.memory_bytes, pids=builtin.pids, scratch_bytes=builtin.scratch_bytes)


def emulated_ports(plan: RunPlan) -> dict[str, int]:
    """Return the ports of the server's programs on an emulated path."""
    name = plan.work.program.builtin
    names = BUILTINS[name].ports if name is not None else ()
    return {port: EMULATED_PORT + number for number, port in enumerate(names)}


def _emulated_server(plan: RunPlan, ports: dict[str, int]) -> str | None:
    import shlex

    program = plan.work.program
    if program.builtin is None or (server := BUILTINS[program.builtin].server) is None:
        return None
    return shlex.join(server(program.arguments, ports))


def make_server_request(
    plan: RunPlan, around: Surroundings, folder: Path, ports: dict[str, int], *, run_id: str = ""
) -> RunRequest:
    """Return the request for a server's end; `run_id` is the id of the processes, empty: of the run."""
    work = plan.work
    program = work.program
    protocols: tuple[str, ...] = ("tcp", "udp")
    gate = None
    if program.builtin is not None:
        builtin = BUILTINS[program.builtin]
        assert builtin.server is not None
        command, protocols = tuple(builtin.server(program.arguments, ports)), builtin.protocols
        gate = GATE if builtin.server_has_gate else None
    else:
        command = tuple(program.server_command)
    numbers = tuple(ports.values())
    return RunRequest(
        run_id=run_id or f"{plan.run}-server",
        label=around.label,
        output=folder / "out",
        command=command,
        gate=gate,
        image=program.image,
        environment={f"BENTPIPE_PORT_{name.upper()}": str(port) for name, port in ports.items()},
        limits=Limits(duration_s=work.duration_s + 2 * MARGIN_S),
        network=Uplink(
            nameservers=around.nameservers,
            tcp_ports=numbers if "tcp" in protocols else (),
            udp_ports=numbers if "udp" in protocols else (),
        ),
        allowed=around.extra_networks,
        refused=around.policy().refuse,
        together=together(around.policy()),
        settings=kernel_settings(work.kernel),
    )


def server_port_names(plan: RunPlan) -> tuple[str, ...]:
    """Return the names of the ports that a server's end needs."""
    name = plan.work.program.builtin
    return ("server",) if name is None else BUILTINS[name].ports


def _write_request(folder: Path, request: BuiltinRequest) -> Path:
    path = folder / FILE
    path.write_text(request.model_dump_json())
    return path


def python_folders() -> tuple[Path, ...]:
    """Return the folders that this Python, bentpipe and a browser need, for a sandbox that shows no more."""
    import bentpipe

    paths = {Path(sys.prefix), Path(sys.base_prefix), Path(bentpipe.__file__).parent.parent}
    paths |= {Path(path) for name, path in sysconfig.get_paths().items() if name in ("stdlib", "purelib", "platlib")}
    paths |= {Path("/etc/chromium.d"), Path("/etc/fonts")}  # Debian's Chromium does not start without the first
    usual = (Path("/usr"), Path("/lib"), Path("/bin"))
    return tuple(
        sorted(path for path in paths if path.is_dir() and not any(path.is_relative_to(each) for each in usual))
    )


def kernel_settings(kernel: KernelSettings) -> tuple[KernelSetting, ...]:
    """Return the calls of the kernel service."""
    settings = []
    if kernel.congestion_control is not None:
        settings.append(KernelSetting(verb="cc.set", values={"controller": kernel.congestion_control}))
    if kernel.qdisc is not None:
        values = {"kind": kernel.qdisc.kind, "options": dict(kernel.qdisc.options)}
        settings.append(KernelSetting(verb="qdisc.set", values=values, optional=kernel.qdisc.optional))
    if kernel.sysctl:
        settings.append(KernelSetting(verb="sysctl.set", values=dict(kernel.sysctl)))
    if kernel.offload:
        settings.append(KernelSetting(verb="offload.set", values={"offload": dict(kernel.offload)}))
    return tuple(settings)

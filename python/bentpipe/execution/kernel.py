"""A race on this machine's own TCP: the same Experiment, the same path, a real kernel at both ends, in real time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution.emulation.check import try_lateness
from bentpipe.execution.emulation.engine import Emulated, Spec, emulate
from bentpipe.execution.emulation.lateness import BOUND_MS
from bentpipe.experiments import linux
from bentpipe.experiments.plugins import is_python_controller
from bentpipe.profiles.presets import preset_profile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.runs.work import Work

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

TRIES = 3
"""How often a Run is begun before it stays not valid. Chosen here: what disturbs a machine for a moment (a program that
starts, a host that takes its processors away) is over by the third."""

TRIAL_PATH = "dumbbell:rate=100mbit,rtt=10ms,queue=1bdp"
"""Over which it is tried whether this machine keeps time: nothing that a small packet a millisecond would wait for."""


SIMULATED = ("ecn", "gro_segments", "wmem_segment_bytes")
"""Settings of a host that no kernel has of a network namespace, has as one with those of the flows, or has built in."""


def trial_path() -> Profile:
    """`TRIAL_PATH`, longer than any trial."""
    return preset_profile(TRIAL_PATH, 10.0, name="trial")


def too_late() -> str | None:
    """In one line, if this machine cannot keep time now; None: it can, as far as a second of small packets tells.

    Raises `UserError` where no emulation runs here.
    """
    late = try_lateness(trial_path())
    if late.ms is None or late.ms <= BOUND_MS:
        return None
    return (
        f"this machine does not keep time now: in a trial {late.rest} of {late.packets} packets were over "
        f"{late.ms:.3g} ms late (bound {BOUND_MS:g} ms), so Runs will hardly be valid; other work on it, or "
        "its host, takes the processors away; going on"
    )


def check(work: Sequence[Work]) -> None:
    """Refuse what this kernel, or one path with a host at each end, cannot run. Raises `UserError`."""
    try:
        available = AVAILABLE.read_text(encoding="ascii").split()
    except OSError as error:
        raise UserError(f"{AVAILABLE}: {error.strerror}; a race on the kernel needs Linux") from error
    for item in work:
        experiment = item.experiment
        if brought := [flow.controller for flow in experiment.flows if is_python_controller(flow.controller)]:
            raise UserError(f"--on-kernel: {brought[0]} is written in Python; wanted it in the simulator")
        if missing := [flow.controller for flow in experiment.flows if flow.controller not in available]:
            raise UserError(
                f"--cc: this kernel has no {missing[0]} (it has {', '.join(available)}); "
                f"{linux.how_to_have(missing[0])}"
            )
        if experiment.cross:
            raise UserError("--on-kernel: cross traffic; only the simulator has it: leave it out")
        if len(experiment.profiles) != 1:
            raise UserError(f"--on-kernel: {len(experiment.profiles)} Profiles in one Experiment; wanted one")
        if tuned := [flow for flow in experiment.flows if flow.options]:
            raise UserError(
                f"--on-kernel: {tuned[0].controller} with {next(iter(tuned[0].options))}: a kernel's controllers have "
                "no tunables of one connection; leave them out, or race in the simulator"
            )
        if len({flow.ecn for flow in experiment.flows}) > 1:
            raise UserError(
                "--on-kernel: flows with ecn and without: it is one setting of a kernel's namespace (tcp_ecn); wanted "
                "the same for every flow"
            )
        hosts = [_host(experiment, flow.sender) for flow in experiment.flows]
        hosts += [_host(experiment, flow.receiver) for flow in experiment.flows]
        if any(host != hosts[0] for host in hosts):
            raise UserError("--on-kernel: hosts that differ; wanted the same settings for every flow's ends")
        if hosts and hosts[0].get("fq"):
            raise UserError(
                "--on-kernel: hosts with fq; the emulated hosts have pfifo_fast before a TUN device, and none before a "
                "veth pair, whatever the kernel's default is; leave fq out, or race in the simulator"
            )
        if hosts and (own := [name for name in SIMULATED if name in hosts[0]]):
            raise UserError(
                f"--on-kernel: hosts with {own[0]}, which only the simulator can set; wanted it left out (what a flow "
                "asks for, `ecn` at the flow, holds in both)"
            )


def run_on_kernel(
    experiment: Experiment, path: Profile, heard: Callable[[float], None], capture: Path | None = None
) -> Emulated:
    """One Run. `heard` is told the share done, once a second; what it raises ends the Run.

    `capture` is a folder for what passes the two ends.
    """
    first = experiment.flows[0] if experiment.flows else None
    hosts = _host(experiment, first.sender) if first else {}
    spec = Spec(
        workload={"race": {"experiment": experiment.to_dict()}},
        seed=experiment.seed,
        role=experiment.profiles[0].role,
        offset_s=experiment.offset_ns / 1e9,
        at_end="hold",
        sample_step_ns=experiment.sample_step_ns,
        hosts=hosts or None,
        capture=capture,
    )
    windows = 0

    def on_line(line: Mapping[str, Any]) -> None:
        nonlocal windows
        windows += line["kind"] == "table" and line["table"] == "links"
        heard(min(1.0, windows * 1e9 / experiment.duration_ns))

    return emulate(path, spec, on_line=on_line)


def _host(experiment: Experiment, name: str | None) -> Mapping[str, Any]:
    return experiment.hosts.get(name, {}) if name is not None else {}

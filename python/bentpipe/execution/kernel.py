"""Races on this machine's own TCP: the same Experiment and path, a real kernel at both ends, in real time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.execution import captures
from bentpipe.execution.drawn import with_references
from bentpipe.execution.emulation.check import try_lateness
from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.lateness import BOUND_MS
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.spec import EmulationError, Spec
from bentpipe.execution.engine import Simulated
from bentpipe.experiments import linux
from bentpipe.experiments.apps import Call, Web
from bentpipe.experiments.experiment import NS_PER_S
from bentpipe.experiments.plugins import is_python_controller, python_plugins
from bentpipe.experiments.recovery import check_emulated
from bentpipe.experiments.schemes import needs_of
from bentpipe.kernel import controllers
from bentpipe.kernel.clock.daemon import clock_program
from bentpipe.measurements.dish.slots import SLOT_NS
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import aligned_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.execution.drawn import DrawnProfiles
    from bentpipe.execution.pools import OnShare, Tell
    from bentpipe.execution.rows import RunRows
    from bentpipe.experiments.experiment import Experiment, Host
    from bentpipe.experiments.plugins import OnLines
    from bentpipe.runs.work import Work

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

TRIES = 3
"""Largest number of attempts at a valid Run. Chosen here: a short disturbance (a program that starts, a host that takes
processors away) is over by the third."""

TRIAL_PATH = "dumbbell:rate=100mbit,rtt=10ms,queue=1bdp"
"""Preset of the path of a lateness trial: one small packet per millisecond meets no queue on it."""


SIMULATED = ("ecn", "gro_segments", "wmem_segment_bytes")
"""Settings of a host that a kernel cannot set per network namespace, sets per flow, or has built in."""


def trial_path() -> Profile:
    """Return `TRIAL_PATH`, longer than any trial."""
    return preset_profile(TRIAL_PATH, 10.0, name="trial")


def too_late() -> str | None:
    """Describe in one line that this machine is too late now; None: a second of small packets was on time.

    Raises:
        UserError: This machine cannot emulate.
    """
    late = try_lateness(trial_path())
    if late.ms is None or late.ms <= BOUND_MS:
        return None
    return (
        f"this machine is too late now: in a trial {late.rest} of {late.packets} packets were over "
        f"{late.ms:.3g} ms late (bound {BOUND_MS:g} ms), so Runs will hardly be valid; other work on it, or its host, "
        "takes the processors away; the race continues"
    )


def check(work: Sequence[Work]) -> None:
    """Check that this kernel, with one path and a host at each end, can run all work. Raises `UserError`."""
    try:
        available = AVAILABLE.read_text(encoding="ascii").split()
    except OSError as error:
        raise UserError(f"{AVAILABLE}: {error.strerror}; a race on the kernel needs Linux") from error
    for item in work:
        experiment = item.experiment
        if experiment.recovery is not None:
            check_emulated(experiment.recovery)
        if in_python := [flow.controller for flow in experiment.flows if is_python_controller(flow.controller)]:
            raise UserError(
                f"{in_python[0]} is a Python controller",
                where="on_kernel",
                expected="a kernel's",
                hint="the simulator",
            )
        of_kernel = {flow.controller: controllers.kernel_name(flow.controller) for flow in experiment.flows}
        if missing := [name for name, kernels in of_kernel.items() if kernels not in available]:
            raise UserError(
                f"this kernel has no {missing[0]} (it has {', '.join(available)}); "
                f"{linux.how_to_have(missing[0], controllers.available())}",
                where="schemes",
            )
        simulated = ["cross traffic"] if experiment.cross else []
        simulated += [] if experiment.host_timing == "linux-vm" else [f"host timing {experiment.host_timing}"]
        simulated += ["pings beside the flows"] if experiment.pings else []
        pages = [flow.app.web.http for flow in experiment.flows if isinstance(flow.app, Web)]
        simulated += ["HTTP/3"] if "3" in pages else []
        simulated += ["a call"] if any(isinstance(flow.app, Call) for flow in experiment.flows) else []
        if simulated:
            raise UserError(simulated[0], where="on_kernel", expected="none, only the simulator has it")
        if len(experiment.profiles) != 1:
            raise UserError(f"{len(experiment.profiles)} Profiles in one Experiment", where="on_kernel", expected="one")
        if tuned := [flow for flow in experiment.flows if flow.options]:
            raise UserError(
                f"{tuned[0].controller} with {next(iter(tuned[0].options))}",
                where="on_kernel",
                expected="no tunables, as a kernel has none per connection",
                hint="the simulator",
            )
        if len({flow.ecn for flow in experiment.flows}) > 1:
            raise UserError(
                "flows with and without ecn",
                where="on_kernel",
                expected="the same for every flow, as it is one setting of a kernel's namespace (tcp_ecn)",
            )
        hosts = [_host(experiment, flow.sender) for flow in experiment.flows]
        hosts += [_host(experiment, flow.receiver) for flow in experiment.flows]
        if any(host != hosts[0] for host in hosts):
            raise UserError("hosts that differ", where="on_kernel", expected="the same settings for every flow's ends")
        if hosts and hosts[0] is not None and hosts[0].fq:
            raise UserError(
                "hosts with fq",
                where="on_kernel",
                expected="none: emulated hosts have pfifo_fast before a TUN device, and no queue before a veth pair",
                hint="the simulator",
            )
        if hosts and (own := [name for name in SIMULATED if getattr(hosts[0], name, None) is not None]):
            raise UserError(
                f"hosts with {own[0]}",
                where="on_kernel",
                expected="none, only the simulator can set it (`ecn` of a flow works in both)",
            )


class Emulations:
    """The Runs of a race on the kernel. A Run that is not valid is repeated over the same path.

    If no try is valid, the last one that came to its end counts, and the machine's disturbance is not short: then each
    Run has one try until one is valid again.
    """

    def __init__(self, most_tries: int) -> None:
        """Take the largest number of tries of one Run."""
        self._most_tries = most_tries
        self._gave_up = False

    def run(
        self,
        item: Work,
        drawn: DrawnProfiles,
        on_share: OnShare,
        tell: Tell,
        captured: Path | None = None,
        rows: RunRows | None = None,
    ) -> Simulated:
        """Emulate one Run; `captured` is a folder for the packets at both ends.

        `rows` receives the rows of each try but the last row of the last try.

        Raises:
            EmulationError: The emulation ended early in every try.
            ControllerError: An application in Python failed; the message names it.
            UserError: This machine cannot emulate.
        """
        paths = drawn.take(item.bases, item.seed)
        experiment = with_references(item.experiment, paths)
        tries = 1 if self._gave_up else self._most_tries
        finished: EmulationResult | None = None
        for attempt in range(1, tries + 1):
            data = run_on_kernel(experiment, paths[0], on_share, captured, None if rows is None else rows.add)
            why = data.why_invalid
            if why is None:
                self._gave_up = False
                return Simulated(item, experiment, paths, data)
            if data.done is not None:
                finished = data
            if attempt < tries:
                if rows is not None:
                    rows.end(why)
                tell(f"{item.name}: not valid, run again ({attempt + 1} of {tries}): {why}")
        if finished is None:
            raise EmulationError(f"{item.name}: {why}")
        if finished is not data:
            captures.remove(captured)  # of the last try
        self._gave_up = True
        return Simulated(item, experiment, paths, finished)


def run_on_kernel(
    experiment: Experiment,
    path: Profile,
    on_progress: Callable[[float], None],
    capture: Path | None = None,
    on_rows: OnLines | None = None,
) -> EmulationResult:
    """Emulate one Run. `on_progress` receives the share done, at each message; an exception from it ends the Run.

    `capture` is a folder for the packets at both ends; `on_rows` receives the rows.
    """
    first = experiment.flows[0] if experiment.flows else None
    hosts = _host(experiment, first.sender) if first else None
    spec = Spec(
        workload={"race": {"experiment": experiment.to_dict()}},
        seed=experiment.seed,
        role=experiment.profiles[0].role,
        offset_s=experiment.offset_ns / 1e9,
        aligned_ns=_aligned_ns(experiment, path),
        at_end="hold",
        sample_step_ns=experiment.sample_step_ns,
        hosts=hosts,
        capture=capture,
        apps=tuple(plugin.name for plugin in python_plugins(experiment)),
    )
    share = 0.0

    def on_message(message: Mapping[str, Any]) -> None:
        nonlocal share
        if message["type"] == "link":
            share = min(1.0, message["t_s"] * 1e9 / experiment.duration_ns)
        on_progress(share)

    return emulate(path, spec, on_message=on_message, on_rows=on_rows)


def _aligned_ns(experiment: Experiment, path: Profile) -> int | None:
    """Return the period modulo which the machine's clock must be the Profile's [ns]; None: it need not be.

    It must be for a controller that follows the wall clock, and for those that read the handover clock, if a
    `bentpipe clock` keeps one: of a Profile it knows the phase in that period.
    """
    needs = {needs_of(flow.controller) for flow in experiment.flows} - {"none"}
    if needs and PathView(path).handovers() and clock_program() is not None:
        return aligned_ns(round(path.duration_s * NS_PER_S))
    return SLOT_NS if "clock" in needs else None


def _host(experiment: Experiment, name: str | None) -> Host | None:
    """Return the settings of a host; None: the defaults."""
    return None if name is None else experiment.hosts.get(name)

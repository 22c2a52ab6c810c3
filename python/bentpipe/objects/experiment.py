"""The Experiment: which flows run over which paths, for how long and how often."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from bentpipe.errors import UserError, shown
from bentpipe.execution import plan as planning
from bentpipe.execution import racing
from bentpipe.execution.engine import RunsInterruptedError
from bentpipe.experiments import experiment as ex
from bentpipe.experiments.apps import app_name, parse_app
from bentpipe.experiments.file import ExperimentFile, read_experiment
from bentpipe.experiments.flow_names import without_folders
from bentpipe.experiments.recovery import parse_recoveries, parse_recovery
from bentpipe.objects import arguments
from bentpipe.objects.experiment_sweeps import Sweeps
from bentpipe.objects.flow import Flow
from bentpipe.objects.network import Network
from bentpipe.objects.profile import Profile, profile_of
from bentpipe.objects.profile_view import DIRECTIONS
from bentpipe.objects.run import Run
from bentpipe.objects.run_set import ExperimentInterruptedError, RunSet
from bentpipe.objects.schemes import app_text, scheme_names
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs.failed import by_scheme
from bentpipe.runs.text import plural
from bentpipe.scenarios.load_tests import find_load_test
from bentpipe.scenarios.traffic import find_traffic

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe import _native
    from bentpipe.objects.arguments import DurationLike, FileLike
    from bentpipe.objects.schemes import SchemeLike
    from bentpipe.plugin import App
    from bentpipe.profiles.table import Direction
    from bentpipe.runs.rows import Row

    OnProgress = Callable[[float], object]
    OnRow = Callable[[Row], object]
    PathLike = Profile | FileLike

SCHEMES = ("reno", "cubic", "bbr")
"""Schemes of an Experiment without any, as of `bentpipe race`."""


NAMES = {"aqm": "queue=", "cc": "schemes=", "duration_s": "duration=", "out": "simulate(out=…)", "seed": "seeds="}
"""Arguments for options of `bentpipe race` with other names."""


class Experiment(Sweeps):
    """Schemes raced over one or several Profiles, or given flows over a `Network`; one Run for each seed.

    Args:
        paths: A Profile or the file of one, a list of them (each is raced on its own), or a `Network`.
        schemes: What to race: ``cubic``; ``cubic+bbr`` is two flows that share the path; a controller's class.
            Default: reno, cubic and bbr.
        flows: Flows instead of schemes: of other directions, sizes and times, or over several paths.
        direction: Direction of the data of schemes: ``down`` (default: to the terminal) or ``up``. Not with `flows`.
        queue: Queue discipline that replaces the Profiles' own: drop_tail, codel, fq_codel, red or step, with
            parameters as in ``codel:target_ms=5``, of one direction as in ``down=fq_codel``; several in a list.
        seeds: Number of seeds N: one Run for each of 0 … N−1. Seed 0 uses the Profile as given; others redraw its
            random processes.
        duration: Duration of a Run; default: that of the shortest Profile.
        phase: Offset in the Profile at which a Run begins; default: drawn from the seed, within a 15 s slot.
        traffic: Cross traffic on each path: ``peak`` or ``off-peak``; default: none. Not with `flows`.
        app: Application of every flow of the schemes, as for ``race --app`` (``request:200bytes/100kb``), or a class of
            your own; default: always data. Not with `flows`, whose flows have their own.
        warmup: Time that steady-state figures exclude; default: 10 s, or a quarter of a short Run. Only with `flows`.
        hosts: Settings of hosts by name, which flows use (``docs/reference/experiment.md``). Only with `flows`.
        name: Name of the Experiment. Only with `flows`.
        host_timing: Model of the time that simulated hosts take: ``linux-vm`` (default: as measured on a virtual
            machine) or ``ideal`` (none).
        test: A test of latency under load, after flent: ``rrul``, ``tcp_down``, ``tcp_up`` or ``latency_under_load``.
            It decides the flows of each scheme and sends pings beside them. Not with `flows`,
            `direction`, `traffic` or `app`.
        recovery: Schemes of loss recovery inside the network, as ``race --recovery`` (``none,satguard``): each has Runs
            of its own, with one-way delays; with `flows` one scheme; default: none, without them.

    Raises:
        UserError: An argument of a wrong type or out of range, or an unknown name.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=6)
        >>> race = bp.Experiment(path, schemes=["cubic", "bbr"], queue="fq_codel", seeds=2)
        >>> len(race.simulate())
        4
    """

    def __init__(
        self,
        paths: PathLike | Sequence[PathLike] | Network,
        schemes: SchemeLike | Sequence[SchemeLike] | None = None,
        *,
        flows: Sequence[Flow] | None = None,
        direction: Direction | None = None,
        queue: str | Sequence[str] = (),
        seeds: int = 1,
        duration: DurationLike | None = None,
        phase: DurationLike | None = None,
        traffic: str | None = None,
        app: str | type[App] | None = None,
        warmup: DurationLike | None = None,
        hosts: Mapping[str, Mapping[str, Any]] | None = None,
        name: str | None = None,
        host_timing: ex.HostTiming = "linux-vm",
        test: str | None = None,
        recovery: str | None = None,
        **unknown: Never,
    ) -> None:
        """Check the arguments; nothing runs yet."""
        arguments.refuse_others(unknown, "Experiment", NAMES)
        self._network = paths if isinstance(paths, Network) else None
        self._paths = _profiles(paths)
        self._seeds = arguments.integer(seeds, "seeds", 1)
        self._queues = arguments.texts(queue, "queue")
        for rule in self._queues:
            parse_queue(rule, "queue")
        self._direction: Direction = "down"
        if direction is not None:
            self._direction = arguments.choice(direction, "direction", DIRECTIONS)
        self._duration_s = None if duration is None else arguments.seconds(duration, "duration")
        self._phase_s = None if phase is None else arguments.seconds(phase, "phase")
        self._traffic = None if traffic is None else find_traffic(arguments.text(traffic, "traffic")).name
        self._app = "bulk" if app is None else app_text(app, "app")
        parse_app(self._app)
        self._host_timing = arguments.choice(host_timing, "host_timing", ex.HOST_TIMINGS)
        self._test = None if test is None else find_load_test(arguments.text(test, "test"), "test").name
        self._recovery = None if recovery is None else arguments.text(recovery, "recovery")
        if self._recovery is not None:
            parse_recoveries(self._recovery)
        decided = {"flows": flows, "direction": direction, "traffic": traffic, "app": app}
        if test is not None and (also := [name for name, value in decided.items() if value is not None]):
            raise UserError(
                f"given with {also[0]}", where="test", expected="one of them, as the test decides its flows"
            )
        self._schemes: list[str] = []
        self._file: ExperimentFile | None = None
        if flows is None:
            if self._network is not None and self._network.native is None:
                raise UserError(
                    "none given", where="flows", expected="flows over the paths of the Network", hint="flows=[Flow(…)]"
                )
            for where, value in (("warmup", warmup), ("hosts", hosts), ("name", name)):
                if value is not None:
                    raise UserError("given without flows", where=where, expected="it only with flows=[Flow(…)]")
            self._schemes = scheme_names(SCHEMES if schemes is None else schemes, "schemes")
            self._check_span(self._shortest_s if self._duration_s is None else self._duration_s)
        else:
            given = {"schemes": schemes, "traffic": traffic, "app": app}
            if others := [name for name, value in given.items() if value is not None]:
                raise UserError(f"given with {others[0]}", where="flows", expected="one of them")
            if direction is not None:
                raise UserError(
                    "given with flows", where="direction", expected="each Flow's own", hint="Flow(…, direction=…)"
                )
            self._file = self._with_flows(flows, warmup, hosts or {}, name or "flows")

    @classmethod
    def read(cls, file: FileLike, *, seeds: int = 1) -> Experiment:
        """Read an Experiment from a TOML file (``docs/reference/experiment.md``); Profiles are relative to it.

        Args:
            file: The file.
            seeds: Number of seeds, from the file's own on.

        Raises:
            UserError: The message names file, field, problem and expected value.

        Example:
            >>> from pathlib import Path
            >>> import bentpipe as bp
            >>> files = bp.Profile.preset("dumbbell", duration=6, name="home").write("D.parquet")
            >>> text = '''
            ... name = "mine"
            ... duration_s = 6
            ... profiles = [{role = "home", file = "D.parquet"}]
            ... flows = [{controller = "cubic"}]
            ... '''
            >>> Path("mine.toml").write_text(text) > 0
            True
            >>> bp.Experiment.read("mine.toml", seeds=2)
            <Experiment: '1 flows (cubic)' over 'home', seeds 2>
        """
        read = read_experiment(arguments.file(file, "file"))
        experiment = cls.__new__(cls)
        experiment._network = Network({role: Profile.read(path) for role, path in read.files.items()})
        experiment._paths = list(experiment._network.paths.values())
        experiment._seeds = arguments.integer(seeds, "seeds", 1)
        experiment._schemes, experiment._queues, experiment._file = [], [], read
        experiment._direction, experiment._traffic, experiment._app = "down", None, "bulk"
        experiment._host_timing, experiment._test = read.experiment.host_timing, None
        experiment._recovery = None
        experiment._duration_s = read.experiment.duration_ns / 1e9
        experiment._phase_s = read.experiment.offset_ns / 1e9
        return experiment

    def _with_flows(
        self,
        flows: Sequence[Flow],
        warmup: DurationLike | None,
        hosts: Mapping[str, Mapping[str, Any]],
        name: str,
    ) -> ExperimentFile:
        if self._network is None:
            if len(self._paths) != 1:
                raise UserError(f"{len(self._paths)} Profiles", where="paths", expected="one, or a Network, with flows")
            self._network = Network({ex.ROLE: self._paths[0]})
        given = list(flows) if isinstance(flows, Sequence) and not isinstance(flows, str) else [flows]
        for each in given:
            if not isinstance(each, Flow):
                raise UserError(shown(each), where="flows", expected="a Flow, such as Flow('cubic')")
        if not given:
            raise UserError("none given", where="flows", expected="at least one Flow")
        settings = {
            each: host if isinstance(host, ex.Host) else ex.Host.check(host, f"hosts: {each}")
            for each, host in arguments.mapping(hosts, "hosts").items()
        }
        roles = list(self._network)
        duration_s = self._shortest_s - (self._phase_s or 0.0) if self._duration_s is None else self._duration_s
        self._check_span(duration_s)
        experiment = ex.Experiment(
            name=arguments.text(name, "name"),
            seed=0,
            duration_ns=planning.seconds_to_ns(duration_s, "duration", ex.SAMPLE_STEP_NS / 1e9),
            profiles=tuple(ex.ProfileRef(role=role, name=self._network[role].name, hash="") for role in roles),
            flows=tuple(flow.to_record(roles, list(settings)) for flow in given),
            offset_ns=planning.seconds_to_ns(self._phase_s or 0.0, "phase"),
            host_timing=self._host_timing,
            hosts=settings,
            queues=tuple(parse_queue(text) for text in self._queues),
            recovery=None if self._recovery is None else parse_recovery(self._recovery),
        )
        if warmup is not None:
            warmup_ns = planning.seconds_to_ns(arguments.seconds(warmup, "warmup"), "warmup")
            experiment = experiment.replace(warmup_ns=warmup_ns)
        return ExperimentFile(experiment, {role: Path() for role in roles})

    @property
    def _shortest_s(self) -> float:
        return min(path.duration_s for path in self._paths)

    def _check_span(self, duration_s: float) -> None:
        """Refuse a Run that is longer than the shortest Profile, or shorter than a sample."""
        shortest = min(self._paths, key=lambda path: path.duration_s)
        planning.check_span(
            shortest.name,
            round(shortest.duration_s * ex.NS_PER_S),
            planning.seconds_to_ns(duration_s, "duration", ex.SAMPLE_STEP_NS / 1e9),
            planning.seconds_to_ns(self._phase_s or 0.0, "phase"),
            where="duration",
        )

    @property
    def paths(self) -> list[Profile]:
        """Its Profiles."""
        return list(self._paths)

    @property
    def schemes(self) -> list[str]:
        """Its schemes; none for an Experiment of flows."""
        return list(self._schemes)

    @property
    def seeds(self) -> int:
        """Number of its seeds."""
        return self._seeds

    def simulate(
        self,
        out: FileLike | None = None,
        *,
        hook_trace: bool = False,
        jobs: int | None = None,
        fresh: bool = False,
        on_progress: OnProgress | None = None,
        on_row: OnRow | None = None,
    ) -> RunSet:
        """Simulate every Run, on all cores; the same Experiment gives the same Runs on every machine.

        Args:
            out: Folder for the Runs, each stored as soon as it is finished; a second call runs the rest only.
                Default: the Runs stay in memory.
            hook_trace: Store the calls of each flow's controller in each Run, for `bentpipe.replay`; needs `out`.
            jobs: Number of parallel Runs; it does not affect results. Default: all cores.
            fresh: Run again and replace the Runs in `out`.
            on_progress: Called with the share done, 0 to 1.
            on_row: Called with each row of the Runs in progress (`bentpipe.runs.rows`); simulations wait for it.

        Returns:
            The Runs, by Profile, seed and scheme.

        Warns:
            UserWarning: A Profile has no service or no capacity limit, or some Runs failed in a Python controller or
                application; `RunSet.failed` lists these.

        Raises:
            UserError: A Run is impossible, or `out` holds other Runs.
            ControllerError: All Runs failed in a Python controller.
            ExperimentInterruptedError: Ctrl-C; its `runs` has the finished Runs.
            BentpipeError: The disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=6)
            >>> bp.Experiment(path, schemes=["cubic", "bbr"]).simulate(out="out/race").schemes
            ['cubic', 'bbr']
        """
        threads = None if jobs is None else arguments.integer(jobs, "jobs", 1)
        folder = None if out is None else arguments.file(out, "out")
        return self._race(folder, on_progress, on_row, jobs=threads, fresh=fresh, hook_trace=hook_trace)

    def emulate(
        self,
        out: FileLike | None = None,
        *,
        careful: bool = True,
        capture: bool = False,
        fresh: bool = False,
        on_progress: OnProgress | None = None,
        on_row: OnRow | None = None,
    ) -> RunSet:
        """Run with this machine's own TCP, in real time, one Run after the other.

        Args:
            out: Folder for the Runs, as in `simulate`. Default: the Runs stay in memory.
            careful: Measure this machine's lateness first, and repeat Runs that are not valid.
            capture: Store the packets of both ends in each Run, as pcapng; needs `out`.
            fresh: Run again and replace the Runs in `out`.
            on_progress: Called with the share done, 0 to 1.
            on_row: Called with each row of the Run in progress, as in `simulate`; if it falls far behind, rows are
                dropped and a `DroppedRow` says how many.

        Warns:
            UserWarning: This machine is too late, a Run is not valid, or some Runs failed in a Python application;
                `RunSet.failed` lists these.

        Raises:
            UserError: A Run is impossible, or this machine cannot emulate (`bentpipe.check_kernel`).
            ControllerError: All Runs failed in a Python application.
            ExperimentInterruptedError: Ctrl-C; its `runs` has the finished Runs.
            BentpipeError: An emulation stopped early, or the disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=6)
            >>> bp.Experiment(path, schemes=["cubic", "bbr"]).emulate(out="out/kernel").schemes  # doctest: +SKIP
            ['cubic', 'bbr']
        """
        folder = None if out is None else arguments.file(out, "out")
        options = {"careful": careful, "fresh": fresh, "on_kernel": True, "capture": capture}
        return self._race(folder, on_progress, on_row, **options)

    def _race(
        self,
        out: Path | None,
        on_progress: OnProgress | None,
        on_row: OnRow | None,
        **options: Any,  # noqa: ANN401
    ) -> RunSet:
        """Run on disk or in memory, with the options of `racing.race`."""
        report = arguments.callback(on_progress, "on_progress")
        options["on_progress"] = lambda progress: report(progress.share)
        options["on_rows"] = arguments.row_callback(on_row, "on_row")
        options |= {"out": out, "seeds": self._seeds}
        try:
            if self._file is not None:
                result = racing.run_experiment(self._file, self._contents(), **options)
            else:
                result = racing.race(
                    self._contents(),
                    self._schemes,
                    direction=self._direction,
                    duration_s=self._duration_s,
                    phase_s=self._phase_s,
                    queues=self._queues,
                    traffic=self._traffic,
                    app=self._app,
                    host_timing=self._host_timing,
                    test=self._test,
                    recovery=self._recovery,
                    **options,
                )
        except RunsInterruptedError as stop:
            raise ExperimentInterruptedError(stop, in_memory=out is None) from stop
        if result.failed:
            text = f"{plural(len(result.failed), 'Run')} of {len(result.runs) + len(result.failed)} failed"
            lines = "; ".join(by_scheme(result.failed))
            warnings.warn(f"{text} (listed in `failed` of the RunSet): {lines}", UserWarning, 3)
        return RunSet((Run(run) for run in result.runs), failed=result.failed)

    def _contents(self) -> list[_native.Profile | _native.Network]:
        """Return what is raced: the network of a constellation, or Profiles."""
        if self._network is not None and self._network.native is not None:
            return [self._network.native]
        return [path.native for path in self._paths]

    def __repr__(self) -> str:
        """Return one line: schemes or flows, Profiles and seeds."""
        flows = [] if self._file is None else [without_folders(flow.controller) for flow in self._file.experiment.flows]
        raced = ", ".join(map(without_folders, self._schemes)) or f"{len(flows)} flows ({', '.join(flows)})"
        raced += "" if self._test is None else f", test {self._test}"
        names = ", ".join(path.name for path in self._paths)
        return f"<Experiment: {shown(raced)} over {shown(names)}, seeds {self._seeds}>"

    def _repr_html_(self) -> str:
        """Return a table and a small figure of its first path for notebooks."""
        from bentpipe.objects import html

        flows = () if self._file is None else self._file.experiment.flows
        heads = ("flow", "direction", "path", "start [s]", "app")
        rows = [
            (without_folders(each.controller), each.direction, each.profile, each.start_ns / 1e9, app_name(each.app))
            for each in flows
        ]
        pairs = [
            ("Profiles", ", ".join(path.name for path in self._paths)),
            ("schemes", ", ".join(map(without_folders, self._schemes)) or "–"),
            *([] if self._test is None else [("test", self._test)]),
            ("queue", ", ".join(self._queues) or "the Profiles' own"),
            *([] if self._app == "bulk" else [("app", without_folders(self._app))]),
            ("duration", "that of the shortest Profile" if self._duration_s is None else f"{self._duration_s:g} s"),
            ("seeds", self._seeds),
        ]
        path = self._paths[0]
        return html.block(
            "Experiment",
            html.facts(pairs),
            html.table(heads, rows) if rows else "",
            html.image(path.plot(), f"Delay, capacity and loss of {path.name}"),
        )


def _profiles(paths: PathLike | Sequence[PathLike] | Network) -> list[Profile]:
    if isinstance(paths, Network):
        return list(paths.paths.values())
    if isinstance(paths, Sequence) and not isinstance(paths, str):
        if not paths:
            raise UserError("none given", where="paths", expected="at least one Profile")
        return [profile_of(path, "paths") for path in paths]
    return [profile_of(paths, "paths")]

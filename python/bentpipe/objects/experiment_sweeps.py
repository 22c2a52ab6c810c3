"""Sweeps over the Runs of an Experiment: tuning and fairness, each with its stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bentpipe.errors import UserError, shown
from bentpipe.objects import arguments
from bentpipe.objects.profile import Profile, profile_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe import _native
    from bentpipe.experiments import experiment as ex
    from bentpipe.fairness import Fairness
    from bentpipe.objects.arguments import FileLike
    from bentpipe.objects.network import Network
    from bentpipe.profiles.table import Direction
    from bentpipe.tuning.search import Tuned

    OnProgress = Callable[[float], object]
    PathLike = Profile | FileLike


class Sweeps:
    """Methods of an Experiment that summarise many Runs without their tables; `Experiment` adds the Runs."""

    _paths: list[Profile]
    _network: Network | None
    _schemes: list[str]
    _queues: list[str]
    _direction: Direction
    _duration_s: float | None
    _phase_s: float | None
    _seeds: int
    _traffic: str | None
    _app: str
    _host_timing: ex.HostTiming
    _recovery: str | None
    _test: str | None

    def tune(
        self,
        grid: Mapping[str, Sequence[object]],
        *,
        out: FileLike,
        max_rtt_inflation: float = 0.10,
        fresh_paths: Sequence[PathLike] = (),
        on: str | None = None,
        jobs: int | None = None,
        agreed: bool = False,
        on_progress: OnProgress | None = None,
    ) -> Tuned:
        """Score a grid of the controller's tunables by goodput gain and RTT inflation over its defaults.

        Args:
            grid: Values of each tunable: ``{"loss_thresh": [0.02, 0.08]}``.
            out: Folder for results; stored ones are reused.
            max_rtt_inflation: Largest RTT inflation of the best point (p95 and mean), as a share.
            fresh_paths: Profiles on which only the best point is scored; default: other seeds.
            on: A Dask scheduler, ``tcp://host:8786``; default: this machine.
            jobs: Number of threads; default: all cores.
            agreed: Run a grid that takes more than one core hour.
            on_progress: Called with the share done, 0 to 1.

        Raises:
            UserError: The Experiment does not race exactly one controller, or an argument is wrong.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=6)
            >>> race = bp.Experiment(path, schemes=["bbr2"])
            >>> tuned = race.tune({"loss_thresh": [0.02, 0.08]}, out="out/tuned")
            >>> len(tuned.cells)
            2
        """
        from bentpipe.tuning.grid import parse_grid
        from bentpipe.tuning.search import tune

        scheme = self._only_scheme("tune", "one controller, such as schemes=['bbr2']")
        self._refuse("tune", queue=self._queues, traffic=self._traffic, phase=self._phase_s, **self._special())
        axes = [_axis(name, values) for name, values in arguments.mapping(grid, "grid").items()]
        report = arguments.callback(on_progress, "on_progress")
        return tune(
            self._natives(),
            parse_grid(scheme, axes),
            out=arguments.file(out, "out"),
            direction=self._direction,
            duration_s=self._duration_s,
            seeds=self._seeds,
            most_inflation=arguments.number(max_rtt_inflation, "max_rtt_inflation"),
            fresh_paths=[profile_of(path, "fresh_paths").native for path in fresh_paths],
            on=arguments.optional_text(on, "on"),
            threads=None if jobs is None else arguments.integer(jobs, "jobs", 1),
            agreed=agreed,
            on_progress=lambda each: report(each.share),
        )

    def fairness(
        self,
        *,
        out: FileLike,
        on: str | None = None,
        jobs: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> Fairness:
        """Measure how the flows of the Experiment's only scheme share the path: shares and Jain's index by time scale.

        Args:
            out: Folder for results; stored ones are reused.
            on: A Dask scheduler, ``tcp://host:8786``; default: this machine.
            jobs: Number of threads; default: all cores.
            on_progress: Called with the share done, 0 to 1.

        Raises:
            UserError: The Experiment does not race exactly one scheme of several flows, or an argument is wrong.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=6)
            >>> race = bp.Experiment(path, schemes=["cubic+cubic+bbr"])
            >>> [(group.scheme, group.count) for group in race.fairness(out="out/fairness").groups]
            [('cubic', 2), ('bbr', 1)]
        """
        from bentpipe.fairness import fairness, parse_groups

        scheme = self._only_scheme("fairness", "one scheme of several flows, such as schemes=['cubic+cubic+bbr']")
        self._refuse("fairness", queue=self._queues, traffic=self._traffic, phase=self._phase_s, **self._special())
        report = arguments.callback(on_progress, "on_progress")
        counts: dict[str, int] = {}
        for part in scheme.split("+"):
            counts[part] = counts.get(part, 0) + 1
        return fairness(
            self._natives(),
            parse_groups(",".join(f"{count}x{part}" for part, count in counts.items())),
            out=arguments.file(out, "out"),
            direction=self._direction,
            duration_s=self._duration_s,
            seeds=self._seeds,
            on=arguments.optional_text(on, "on"),
            threads=None if jobs is None else arguments.integer(jobs, "jobs", 1),
            on_progress=lambda each: report(each.share),
        )

    def _only_scheme(self, method: str, expected: str) -> str:
        if len(self._schemes) != 1:
            raise UserError(f"the Experiment races {len(self._schemes)} schemes", where=method, expected=expected)
        return self._schemes[0]

    def _special(self) -> dict[str, object]:
        special = {"host_timing": self._host_timing != "linux-vm", "app": self._app != "bulk"}
        return {**special, "test": self._test, "recovery": self._recovery}

    def _refuse(self, method: str, **values: object) -> None:
        for name, value in values.items():
            if value:
                raise UserError(f"the Experiment has {name}", where=method, expected="an Experiment without it")

    def _natives(self) -> list[_native.Profile]:
        if self._network is not None:
            raise UserError("a Network", where="paths", expected="Profiles")
        return [path.native for path in self._paths]


def _axis(name: str, values: object) -> str:
    """Return a tunable and its values in the syntax of ``tune --grid``."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise UserError(f"{name} is {shown(values)}", where="grid", expected="a list of values")
    return f"{name}={','.join(str(value) for value in values)}"

"""The RunSet: the Runs of an Experiment, their summary over seeds, figures and report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, overload

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.execution.engine import RunsInterruptedError
from bentpipe.experiments.flow_names import without_folders
from bentpipe.objects import arguments
from bentpipe.objects.items import items_table
from bentpipe.objects.latency import latency_table
from bentpipe.objects.profile import Profile
from bentpipe.objects.profile_selection import is_over
from bentpipe.objects.run import Run
from bentpipe.objects.schemes import SchemeLike, class_name
from bentpipe.objects.summary import summary_table
from bentpipe.runs import record, store
from bentpipe.runs.apart import distinguish
from bentpipe.runs.commands import by_command
from bentpipe.runs.failed import by_scheme, read_failed
from bentpipe.runs.latency import latencies
from bentpipe.runs.manifest import place_of
from bentpipe.runs.summary import left_out, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import polars as pl

    from bentpipe.objects.comparison import Comparison
    from bentpipe.objects.figures import RunPlots
    from bentpipe.runs.failed import FailedRun


class ExperimentInterruptedError(RunsInterruptedError):
    """Ctrl-C in `Experiment.simulate` or `.emulate`: its Runs so far are not lost.

    Attributes:
        runs: The finished Runs, marked as unfinished. In a notebook: ``sys.last_value.runs``.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
        >>> try:
        ...     runs = bp.Experiment(path, schemes=["cubic"]).simulate()
        ... except bp.ExperimentInterruptedError as stop:
        ...     runs = stop.runs
        >>> len(runs)
        1
    """

    def __init__(self, stop: RunsInterruptedError, *, in_memory: bool) -> None:
        """Take the Runs of the interrupted race."""
        count, total = len(stop.finished), stop.total
        message = (
            f"interrupted: {count} of {total} Runs are finished, in `runs` of this error" if in_memory else str(stop)
        )
        super().__init__(stop.stored, total, message)
        self.runs = RunSet(map(Run, stop.finished), failed=stop.failed, unfinished=total - count - len(stop.failed))


class RunSet:
    """Runs in order: index, iterate, filter, summarise, draw and report them.

    ``runs["bbr", 0]`` is the Run of a scheme and a seed, ``runs["bbr"]`` the Runs of a scheme, ``runs[0]`` the first
    Run. A controller in Python is named by its class, ``runs[Mine]``, or ``runs["mine.py:Mine"]``.
    `Experiment.simulate` and `.emulate` make a RunSet; `RunSet.read` reads one from a folder.

    Attributes:
        failed: Runs that failed in a Python controller or application, with time and reason. They have no tables, so
            they are not among the Runs, but selections keep them, and `summary`, `write` and `report` count or list
            them.
        unfinished: Number of Runs that are missing because the Experiment was interrupted.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
        >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"], seeds=2).simulate()
        >>> len(runs), runs.schemes, runs["bbr", 1].seed
        (4, ['cubic', 'bbr'], 1)
    """

    def __init__(self, runs: Iterable[Run], *, failed: Sequence[FailedRun] = (), unfinished: int = 0) -> None:
        """Take Runs in their order. Raises `UserError` for anything else."""
        if not isinstance(runs, Iterable):
            raise UserError(shown(runs), where="RunSet", expected="Runs", hint="RunSet.read(FOLDER)")
        self._runs = list(runs)
        for each in self._runs:
            if not isinstance(each, Run):
                raise UserError(shown(each), where="RunSet", expected="a Run", hint="RunSet.read(FOLDER)")
        self.failed = tuple(failed)
        self.unfinished = unfinished

    @classmethod
    def read(cls, folder: arguments.FileLike) -> RunSet:
        """Read every Run of races and programs below a folder, sorted by path.

        Warns:
            UserWarning: A damaged Run is left out.

        Raises:
            UserError: There is none, or it is of another format.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"]).simulate(out="out/two")
            >>> bp.RunSet.read("out/two").schemes
            ['bbr', 'cubic']
        """
        root = arguments.file(folder, "folder")
        runs = store.find_runs(root)
        stored = {place_of(run) for run in runs}
        return cls(map(Run, runs), failed=[run for run in read_failed(root) if run.place not in stored])

    @property
    def schemes(self) -> list[str]:
        """Its schemes, in order of first occurrence."""
        return list(dict.fromkeys(run.scheme for run in self._runs))

    @property
    def seeds(self) -> list[int]:
        """Its seeds, sorted."""
        return sorted({run.seed for run in self._runs})

    @property
    def labels(self) -> list[str]:
        """The names of its Profiles, in order of first occurrence."""
        return list(dict.fromkeys(run.label for run in self._runs))

    def __len__(self) -> int:
        """Return the number of Runs."""
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        """Iterate over the Runs."""
        return iter(self._runs)

    @overload
    def __getitem__(self, key: int | tuple[SchemeLike, int] | tuple[Profile | str, SchemeLike, int]) -> Run: ...

    @overload
    def __getitem__(self, key: SchemeLike | slice) -> RunSet: ...

    def __getitem__(self, key: object) -> Run | RunSet:
        """Return one Run by its number, ``(scheme, seed)`` or ``(profile, scheme, seed)``, or the Runs of a scheme.

        A slice keeps the failed Runs of its schemes on its Profiles.

        Raises:
            UserError: There is no such Run, or several are.
        """
        if isinstance(key, slice):
            chosen = self._runs[key]
            kinds = {(run.label, run.scheme) for run in chosen}
            return RunSet(chosen, failed=[run for run in self.failed if (run.profile, run.scheme) in kinds])
        if isinstance(key, int) and not isinstance(key, bool):
            if not -len(self._runs) <= key < len(self._runs):
                raise UserError(
                    f"there are {len(self._runs)} Runs", where=f"runs[{key}]", expected=f"0 to {len(self._runs) - 1}"
                )
            return self._runs[key]
        if isinstance(key, (str, type)):
            return self.filter(scheme=self._scheme(key))
        if isinstance(key, tuple) and len(key) in (2, 3) and isinstance(key[-2], (str, type)):
            return self._one(key)
        raise UserError(f"runs[{shown(key)}]", expected="a scheme, (scheme, seed), (profile, scheme, seed) or a number")

    def _scheme(self, given: SchemeLike) -> str:
        """Return the scheme of some Runs from its text or class. Raises `UserError` if there is none."""
        scheme, known = self._named(given), self._known()
        if scheme not in known:
            near = did_you_mean(scheme, known)
            raise UserError(
                f"no such scheme{near}", where=f"runs[{shown(scheme)}]", expected=f"one of {', '.join(known)}"
            )
        return scheme

    def _named(self, given: SchemeLike) -> str:
        """Return a scheme as Runs have it, from its text, its text as tables show it, or its class."""
        scheme = class_name(given, "scheme") if isinstance(given, type) else arguments.text(given, "scheme")
        known = self._known()
        if scheme in known:
            return scheme
        short = [each for each in known if scheme in (without_folders(each), without_folders(each, known))]
        if isinstance(given, type):  # its file may have been given by another path
            short = [each for each in known if without_folders(each) == without_folders(scheme)]
        return short[0] if len(short) == 1 else scheme

    def _known(self) -> list[str]:
        return list(dict.fromkeys([*self.schemes, *(run.scheme for run in self.failed)]))

    def _one(self, key: tuple[Any, ...]) -> Run:
        *profile, scheme, seed = key
        mine = self.filter(scheme=self._scheme(scheme), profile=profile[0] if profile else None)
        matches = [run for run in mine if run.seed == seed]
        if not matches and (why := next((run.why for run in mine.failed if run.seed == seed), None)):
            raise UserError(f"the Run failed: {why}", where=f"runs[{shown(key)}]")
        if not matches:
            seeds = ", ".join(map(str, mine.seeds)) or "none"
            raise UserError(f"no such Run; its seeds are {seeds}", where=f"runs[{shown(key)}]")
        if len(matches) > 1:
            raise UserError(
                f"{len(matches)} Runs over {', '.join(RunSet(matches).labels)}",
                where=f"runs[{shown(key)}]",
                expected="one",
                hint="(profile, scheme, seed) or filter(…)",
            )
        return matches[0]

    def filter(
        self,
        where: Callable[[Run], bool] | None = None,
        *,
        scheme: SchemeLike | None = None,
        seed: int | None = None,
        profile: Profile | str | None = None,
        world: Literal["simulated", "emulated"] | None = None,
        valid: bool | None = None,
    ) -> RunSet:
        """Return the Runs that meet every condition, with the failed Runs of the same scheme, seed, Profile and world.

        Args:
            where: A function of a Run; it is not asked about failed Runs.
            scheme: The scheme, or a controller's class.
            seed: The seed.
            profile: The Profile, which is compared by its content, or its name in `labels`.
            world: ``simulated`` or ``emulated``.
            valid: Whether the Run is valid; a failed Run is not.

        Raises:
            UserError: A condition of a wrong type.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"], seeds=2).simulate()
            >>> len(runs.filter(scheme="bbr")), len(runs.filter(lambda run: run.seed > 0, valid=True))
            (2, 2)
        """
        conditions: dict[str, object] = {
            "scheme": None if scheme is None else self._named(scheme),
            "seed": None if seed is None else arguments.integer(seed, "seed"),
            "world": None if world is None else arguments.choice(world, "world", ("simulated", "emulated")),
            "valid": valid,
        }
        over = None if profile is None else is_over(profile, "profile")
        if where is not None and not callable(where):
            raise UserError(shown(where), where="where", expected="a function of a Run")
        runs = [
            run
            for run in self._runs
            if all(value is None or getattr(run, name) == value for name, value in conditions.items())
            and (over is None or over(run.stored))
            and (where is None or where(run))
        ]
        conditions["valid"] = None
        failed = [
            run
            for run in self.failed
            if valid is not True
            and all(value is None or getattr(run, name) == value for name, value in conditions.items())
            and (profile is None or _is_failed_over(profile, run))
        ]
        return RunSet(runs, failed=failed)

    def summary(self) -> pl.DataFrame:
        """Return one row for each Profile, scheme, world and flow: means over seeds with 95 % confidence intervals.

        Experiments of one name that differ in more than the seed, as in their queue, have rows of their own, and
        `experiment` names the difference. Each command of `Profile.run` has rows of its own as scheme ``$ COMMAND``,
        without its idle connections.

        Returns:
            `profile`, `scheme`, `controller`; each of `bentpipe.objects.summary.ESTIMATES` with its mean, ``…_low`` and
            ``…_high`` (null: no interval, as of one result; items of several kinds, see `items`); `time_to_90_s` and
            `overshoot` of the start-up; `jain`, the fairness index of the scheme (null: its flows
            differ in path, direction or time); `experiment`, `world`, `flow`, `direction`, `path` (in a Network); of
            the pings over the flow's path `ping_idle_ms` and `ping_loaded_ms`, the median RTT idle and under the
            heaviest load, and `ping_lost`, the share lost under it (null: no pings, see `latency`); `n` (results that
            count), `valid`, `runs` and `failed`. Only valid Runs count, and Runs of a path on which the seed has no
            effect count once. A scheme without a valid Run has one row without figures. `share` is of the goodput of
            the flows of the same path, direction and time (null: there is no other, or one of another time overlaps).

        Raises:
            UserError: Two valid Runs of one Experiment have the same seed.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "cubic+bbr"], seeds=3).simulate()
            >>> runs.summary()["scheme", "controller"].rows()
            [('cubic', 'cubic'), ('cubic+bbr', 'cubic'), ('cubic+bbr', 'bbr')]
        """
        return summary_table([run.stored for run in self._runs], self.failed)

    def items(self) -> pl.DataFrame:
        """Return one row for each flow and kind of its application's items, such as requests.

        Returns:
            `profile`, `scheme`, `controller`, `kind`; `items` (began), `completed`, and the quantiles of their
            durations `median_s` and `p95_s`, means over seeds, each with the ends of its 95 % confidence interval;
            `experiment`, `world`, `flow`, `direction` and `n`, as in `summary`.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic"], app="request:200bytes/10kb,n=20").simulate()
            >>> runs.items()["kind", "completed"].rows()
            [('request', 20.0)]
        """
        return items_table(summarise(distinguish(by_command(run.stored for run in self._runs))))

    def latency(self) -> pl.DataFrame:
        """Return one row for each Profile, scheme, path and load of a test: pings and goodput, means over seeds.

        Returns:
            `profile`, `scheme`, `path`, `load` (``idle``, ``down``, ``up``, ``both``); the quantiles of the pings' RTT
            `rtt_p50_ms`, `rtt_p95_ms` and `rtt_p99_ms`, and of its excess over the RTT of the path alone at that time
            `excess_p50_ms` and `excess_p95_ms`; `lost` (a share), `rtts_per_min`, and the goodput of all flows together
            `down_bps` and `up_bps`, each with the ends of its 95 % confidence interval; `experiment`, `world`, `n`,
            `valid` and `runs`, as in `summary`.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=15)
            >>> runs = bp.Experiment(path, schemes=["cubic"], test="rrul").simulate()
            >>> runs.latency()["load"].to_list()
            ['idle', 'both']
        """
        return latency_table(latencies(distinguish(by_command(run.stored for run in self._runs))))

    def to_polars(self) -> pl.DataFrame:
        """Return one row for each flow of every Run: its identity and figures.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"], seeds=2).simulate()
            >>> runs.to_polars()["scheme", "seed"].rows()
            [('cubic', 0), ('bbr', 0), ('cubic', 1), ('bbr', 1)]
        """
        return record.results_table(run.stored for run in self._runs)

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Return the table of `to_polars` as a pandas DataFrame. Raises `UserError` without ``bentpipe[pandas]``."""
        from bentpipe.objects.frames import to_pandas

        return to_pandas(self.to_polars())

    @property
    def plot(self) -> RunPlots:
        """Its figures: ``runs.plot.timeline()``."""
        from bentpipe.objects.figures import RunPlots

        return RunPlots([run.stored for run in self._runs])

    def report(self, page: arguments.FileLike, *, on_progress: Callable[[float], object] | None = None) -> Path:
        """Write a self-contained HTML page about the Runs, with its figures and a table of results beside it.

        They are ``figures`` and ``results.csv`` of ``report.html``, ``NAME-figures`` and ``NAME-results.csv`` of
        another page, so that pages of one folder do not share them.

        Args:
            page: The file to write, which ends in .html.
            on_progress: Called with the share done, 0 to 1.

        Returns:
            The page.

        Raises:
            UserError: There is no Run, or the name is that of no page.
            StoreError: The disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"], seeds=2).simulate()
            >>> runs.report("out/report.html").name
            'report.html'
        """
        from bentpipe.report.build import write_page

        self._not_empty("report")
        report = arguments.callback(on_progress, "on_progress")
        return write_page(
            [run.stored for run in self._runs],
            arguments.page(page, "page"),
            failed=self.failed,
            unfinished=self.unfinished,
            on_progress=report,
        )

    def compare(self, other: RunSet) -> Comparison:
        """Compare these Runs with others over the same paths, Run by Run: simulator and kernel, or two builds.

        Raises:
            UserError: No Run has a partner over the same path.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"], seeds=2).simulate()
            >>> runs.compare(runs)
            <Comparison of 'A' and 'B': 4 pairs of Runs>
        """
        from bentpipe.objects.comparison import Comparison

        return Comparison(self, other)

    def write(self, folder: arguments.FileLike) -> Path:
        """Store Runs that are in memory below a folder, with their Profiles, as `simulate(out=folder)` would.

        Raises:
            UserError: A Run is on disk already, the folder holds another Run in its place, or two Runs have one place
                (as of Experiments that differ in their queue) or different Profiles of one name.
            StoreError: The disk cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> runs = bp.Experiment(path, schemes=["cubic", "bbr"], seeds=2).simulate()
            >>> folder = runs.write("out/stored")
            >>> len(bp.RunSet.read(folder))
            4
        """
        from bentpipe.runs.memory import store_runs

        self._not_empty("write")
        return store_runs([run.stored for run in self._runs], arguments.file(folder, "folder"), self.failed)

    def _not_empty(self, method: str) -> None:
        if not self._runs:
            failed = f", and {len(self.failed)} failed ({self.failed[0].why})" if self.failed else ""
            raise UserError(f"there is no Run in this set{failed}", where=method, expected="at least one")

    def __repr__(self) -> str:
        """Return one line: number of Runs, schemes and Profiles."""
        failed = f", {len(self.failed)} failed" if self.failed else ""
        invalid = sum(not run.valid for run in self._runs)
        not_valid = f", {invalid} not valid" if invalid else ""
        names = [without_folders(each, self.schemes) for each in self.schemes]
        schemes, labels = (shown(", ".join(each)) for each in (names, self.labels))
        unfinished = f", unfinished: {self.unfinished} missing" if self.unfinished else ""
        return f"<RunSet of {len(self._runs)} Runs: {schemes} over {labels}{not_valid}{failed}{unfinished}>"

    def _repr_html_(self) -> str:
        """Return a table and a small figure for notebooks."""
        from bentpipe.objects import html
        from bentpipe.runs.text import result_tables

        stored = distinguish(by_command(run.stored for run in self._runs))
        try:
            summaries = summarise(stored)
        except UserError as error:  # a notebook shows any set
            return html.block(repr(self)[1:-1], html.caption(str(error)))
        parts = [html.caption(f"failed: {line}") for line in by_scheme(self.failed)]
        for results in result_tables(summaries, left_out(stored)):
            parts += [html.caption(results.title), html.table(results.columns, results.rows)]
        if any(run.valid and run.stored.flows for run in self._runs):
            parts.append(html.image(self.plot.overview(), "Goodput of every scheme"))
        return html.block(repr(self)[1:-1], *parts)


def _is_failed_over(profile: Profile | str, run: FailedRun) -> bool:
    """Tell whether a failed Run was over a Profile, as `is_over` does for others."""
    if isinstance(profile, Profile):
        return profile.content_hash in run.profile_hashes
    return run.profile == store.safe_name(profile)

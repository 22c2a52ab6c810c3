"""The Comparison of two sets of Runs over the same paths: simulator and kernel, or two builds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, shown
from bentpipe.objects import arguments
from bentpipe.objects.profile import Profile
from bentpipe.objects.profile_selection import is_over, no_such_profile
from bentpipe.objects.run_set import RunSet
from bentpipe.report import compare
from bentpipe.runs.pairing import pair_up
from bentpipe.runs.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.runs.pairing import Scheme

WORLDS = {"simulated": "simulated", "emulated": "this kernel"}
"""Name of a set of Runs by its world, as in figures."""


class Comparison:
    """Two sets of Runs, paired over the same paths.

    Attributes:
        names: The names of the two sets; default: their worlds, or A and B if both have the same.
        notes: Runs that are left out, and other differences, one line each.

    Raises:
        UserError: No Run has a partner over the same path; the message says which property differs.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
        >>> race = bp.Experiment(path, schemes=["cubic", "bbr"])
        >>> bp.Comparison(race.simulate(), race.simulate()).to_polars()["scheme", "goodput_ratio"].rows()
        [('cubic', 1.0), ('bbr', 1.0)]
    """

    def __init__(self, first: RunSet, second: RunSet, *, names: tuple[str, str] | None = None) -> None:
        """Pair the Runs."""
        sets = (first, second)
        for each in sets:
            if not isinstance(each, RunSet):
                raise UserError(shown(each), where="Comparison", expected="two RunSets", hint="RunSet.read(FOLDER)")
            if not len(each):
                raise UserError("a set has no Run", where="Comparison", expected="Runs over the same paths")
        self._sets = sets
        self._pairing = pair_up(*([run.stored for run in each] for each in sets))
        if names is None:
            worlds = [WORLDS.get(each[0].world, each[0].world) for each in sets]
            self.names: tuple[str, str] = ("A", "B") if worlds[0] == worlds[1] else (worlds[0], worlds[1])
        else:
            if not isinstance(names, tuple) or len(names) != 2:
                raise UserError(shown(names), where="names", expected="two names, such as ('before', 'after')")
            self.names = (arguments.text(names[0], "names"), arguments.text(names[1], "names"))
        failed = [
            f"{name}: {plural(len(each.failed), 'Run')} failed, left out"
            for name, each in zip(self.names, sets, strict=True)
            if each.failed
        ]
        self.notes: tuple[str, ...] = (*failed, *compare.left_out(self._pairing, self.names))

    @property
    def schemes(self) -> tuple[Scheme, ...]:
        """The schemes of both sets, by Profile, each with its paired Runs and figures."""
        return self._pairing.schemes

    def to_polars(self) -> pl.DataFrame:
        """Return one row for each Experiment, Profile and scheme: figures of the first set (`…_a…`) and the second.

        `goodput_ratio` is first ÷ second, with the ends of its 95 % confidence interval; null: there is none.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> race = bp.Experiment(path, schemes=["cubic", "bbr"])
            >>> comparison = bp.Comparison(race.simulate(), race.simulate(), names=("before", "after"))
            >>> comparison.to_polars()["scheme", "n", "goodput_ratio"].rows()
            [('cubic', 1, 1.0), ('bbr', 1, 1.0)]
        """
        import polars as pl

        rows = []
        for scheme in self._pairing.schemes:
            plain = scheme.to_dict()
            row: dict[str, Any] = {
                "experiment": scheme.experiment,
                "profile": scheme.label,
                "scheme": scheme.name,
                "n": len(scheme.pairs),
            }
            for name in ("goodput_bps", "delay_ms", "retransmit_rate", "first_share"):
                stem, _, unit = name.rpartition("_") if name.endswith(("_bps", "_ms")) else (name, "", "")
                for side, value in zip("ab", plain[name], strict=True):
                    row[f"{stem}_{side}{f'_{unit}' if unit else ''}"] = value
            rows.append(row | {name: plain[name] for name in plain if name.startswith("goodput_ratio")})
        return pl.DataFrame(rows, infer_schema_length=None)

    def items(self) -> pl.DataFrame:
        """Return one row for each Experiment, Profile, scheme and kind of items (requests, transfers, …) of both sets.

        `completed_a` and `completed_b` are the complete items of a Run, `median_a_s` … the quantiles of their
        durations. `median_ratio` is the median of the first set ÷ that of the second, with the ends of its 95 %
        confidence interval; null: there is none.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> race = bp.Experiment(path, schemes=["cubic"], app="request:200bytes/10kb,n=20")
            >>> bp.Comparison(race.simulate(), race.simulate()).items()["kind", "median_ratio"].rows()
            [('request', 1.0)]
        """
        import polars as pl

        columns = {"completed": "completed_{}", "median_s": "median_{}_s", "p95_s": "p95_{}_s"}
        schema: dict[str, type[pl.DataType]] = dict.fromkeys(("experiment", "profile", "scheme", "kind"), pl.String)
        schema |= {"n": pl.Int64}
        schema |= dict.fromkeys([column.format(side) for column in columns.values() for side in "ab"], pl.Float64)
        schema |= dict.fromkeys(("median_ratio", "median_ratio_low", "median_ratio_high"), pl.Float64)
        rows = []
        for scheme in self._pairing.schemes:
            named = {"experiment": scheme.experiment, "profile": scheme.label, "scheme": scheme.name}
            for each in scheme.items():
                plain = each.to_dict()
                for name, column in columns.items():
                    plain |= {column.format(side): value for side, value in zip("ab", plain[name], strict=True)}
                rows.append({name: (named | plain)[name] for name in schema})
        return pl.DataFrame(rows, schema=schema, orient="row")

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Return the table of `to_polars` as a pandas DataFrame. Raises `UserError` without ``bentpipe[pandas]``."""
        from bentpipe.objects.frames import to_pandas

        return to_pandas(self.to_polars())

    def plot(self, scheme: str | None = None, *, profile: Profile | str | None = None, ax: AxesLike = None) -> Figure:
        """Plot goodput and one-way delay of both sets over time, for the first seed of a scheme.

        Args:
            scheme: The scheme; default: the first.
            profile: The Profile or its name; default: the first.
            ax: Four axes: goodput of both, then delay of both.

        Raises:
            UserError: There is no such scheme.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> race = bp.Experiment(path, schemes=["cubic", "bbr"])
            >>> comparison = bp.Comparison(race.simulate(), race.simulate(), names=("before", "after"))
            >>> comparison.plot("bbr").savefig("bbr.png")
        """
        from bentpipe.plots.worlds import plot_worlds

        known = [each.name for each in self._pairing.schemes]
        labels = list(dict.fromkeys(each.label for each in self._pairing.schemes))
        name = None if scheme is None else arguments.choice(scheme, "scheme", known)
        schemes = self._pairing.schemes
        if profile is not None:
            over = is_over(profile, "profile")
            schemes = tuple(each for each in schemes if over(each.pairs[0].runs[0]))
            if not schemes:
                raise no_such_profile(profile, labels)
        match = next((each for each in schemes if name is None or each.name == name), None)
        if match is None:
            raise UserError(f"{scheme} was not compared over {profile}; see to_polars()", where="plot")
        runs = match.pairs[0].runs
        return plot_worlds(list(zip(self.names, runs, strict=True)), warmup_s=runs[0].warmup_s, ax=ax)

    def report(self, page: arguments.FileLike, *, on_progress: Callable[[float], object] | None = None) -> Path:
        """Write one self-contained HTML page: the table, and the first seed of each scheme over time.

        Args:
            page: The file to write, which ends in .html.
            on_progress: Called with the share done, 0 to 1.

        Raises:
            UserError: The name is that of no page, or the file cannot be written.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> race = bp.Experiment(path, schemes=["cubic", "bbr"])
            >>> comparison = bp.Comparison(race.simulate(), race.simulate(), names=("before", "after"))
            >>> comparison.report("compare.html").name
            'compare.html'
        """
        path = arguments.page(page, "page")
        compare.write_page(self._pairing, self.names, path, arguments.callback(on_progress, "on_progress"))
        return path

    def __repr__(self) -> str:
        """Return one line: both sets and the number of pairs."""
        pairs = sum(len(scheme.pairs) for scheme in self._pairing.schemes)
        return f"<Comparison of {shown(self.names[0])} and {shown(self.names[1])}: {pairs} pairs of Runs>"

    def _repr_html_(self) -> str:
        """Return a table and a small figure for notebooks."""
        from bentpipe.objects import html

        return html.block(
            repr(self)[1:-1],
            html.table(compare.HEADS, compare.table_rows(self._pairing)),
            *([html.table(compare.ITEM_HEADS, items)] if (items := compare.item_rows(self._pairing)) else []),
            *(html.caption(note) for note in self.notes),
            html.image(self.plot(), "Goodput and delay of both sets over time"),
        )

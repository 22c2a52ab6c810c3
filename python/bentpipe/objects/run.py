"""The Run: what happened in one run of an Experiment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

from bentpipe.errors import UserError, shown
from bentpipe.experiments.flow_names import without_folders
from bentpipe.objects import arguments
from bentpipe.runs import record, store
from bentpipe.runs.latency import pings
from bentpipe.runs.memory import MemoryRun

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from bentpipe.objects.figures import RunPlots
    from bentpipe.objects.profile import Profile
    from bentpipe.runs.run_record import RunRecord

TableName = Literal["samples", "links", "events"]


class Run:
    """A Run: its Experiment, tables and figures, in memory or on disk.

    An `Experiment` or a `RunSet` makes it; `Run.read` reads one from its folder.

    Example:
        >>> import bentpipe as bp
        >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
        >>> run = bp.Experiment(path, schemes=["cubic"]).simulate()["cubic", 0]
        >>> run.scheme, run.seed, run.valid
        ('cubic', 0, True)
    """

    def __init__(self, stored: store.Run) -> None:
        """Wrap a Run of `bentpipe.runs`; users call `Experiment.simulate`, `RunSet.read` or `Run.read`."""
        if not isinstance(stored, store.Run):
            raise UserError(shown(stored), where="Run", expected="Run.read(FOLDER), or the Run of a RunSet")
        self._stored = stored

    @classmethod
    def read(cls, folder: arguments.FileLike) -> Run:
        """Read the Run in a folder with a `run.json`.

        Raises:
            UserError: The folder has no Run of a race, or the Run is damaged.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"]).simulate(out="out/runs")[0]
            >>> bp.Run.read(run.folder).content_hash == run.content_hash
            True
        """
        path = arguments.file(folder, "folder")
        if path.is_dir() and not (path / "run.json").exists():
            hint = "RunSet.read for a folder of Runs" if store.run_folders(path) else ""
            raise UserError(
                "no run.json in it", where=str(path), expected="the folder of a Run (`Run.folder`)", hint=hint
            )
        return cls(store.read_run(path))

    @property
    def stored(self) -> store.Run:
        """The Run of `bentpipe.runs`, for functions of bentpipe's inner packages."""
        return self._stored

    @property
    def folder(self) -> Path | None:
        """Its folder; None: it is in memory only."""
        return None if isinstance(self._stored, MemoryRun) else self._stored.path

    @property
    def record(self) -> RunRecord:
        """Its `run.json`: Experiment, Profiles, versions, summary (``docs/reference/run.md``)."""
        return self._stored.record

    @property
    def experiment(self) -> str:
        """Name of its Experiment."""
        return self._stored.experiment

    @property
    def label(self) -> str:
        """Name of its Profile in the Experiment; several are joined by ``+``."""
        return self._stored.label

    @property
    def world(self) -> str:
        """Its world: ``simulated`` or ``emulated``."""
        return self._stored.world

    @property
    def scheme(self) -> str:
        """Its controllers with their tunables: ``bbr``, ``cubic+bbr``, ``bbr:min_rtt_win_s=20``."""
        return self._stored.scheme

    @property
    def seed(self) -> int:
        """Seed of its path's random processes and of its own."""
        return self._stored.seed

    @property
    def duration_s(self) -> float:
        """Duration [s]."""
        return self._stored.duration_s

    @property
    def warmup_s(self) -> float:
        """Duration of the warm-up, which steady-state figures exclude [s]."""
        return self._stored.warmup_s

    @property
    def start(self) -> datetime:
        """Start on the Profile's clock (UTC)."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._stored.start_unix_ns // 1000)

    @property
    def valid(self) -> bool:
        """Whether its figures count: an emulated Run does not if the machine was too busy."""
        return self.record.valid

    @property
    def why_invalid(self) -> str | None:
        """The reason if it is not valid."""
        return self.record.why_invalid

    @property
    def content_hash(self) -> str:
        """Hash of tables and summary: equal simulated Runs have equal hashes on every machine."""
        return self.record.content_hash

    @cached_property
    def profile(self) -> Profile:
        """The path that it had: its Profile as realised with its seed.

        Raises:
            UserError: It has several Profiles, or the file of its Profile is not beside it.
        """
        from bentpipe.objects.profile import Profile
        from bentpipe.runs.path import raced_path

        path = raced_path(self._stored)
        if path is None:
            raise UserError(
                "its one Profile is not known", where=f"{self!r}", expected="`profiles` beside the Runs of a race"
            )
        return Profile(path.view.profile)

    def summary(self) -> pl.DataFrame:
        """Return one row for each flow: path, goodput, RTT, retransmits, start-up; nested fields are ``startup_…``.

        `path` is the name of the flow's path in a `Network`; with one Profile it is ``path``.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"]).simulate()[0]
            >>> run.summary()["goodput_bps"][0] > 9e6
            True
        """
        return record.results_table([self._stored])

    def samples(self) -> pl.DataFrame:
        """Return goodput, RTT, window and losses of each flow every 0.1 s (``docs/reference/run.md``).

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"]).simulate()["cubic", 0]
            >>> run.samples()["t_s", "goodput_bytes", "rtt_latest_ms"].shape
            (40, 3)
        """
        return self._stored.samples()

    def links(self) -> pl.DataFrame:
        """Return capacity, backlog, drops and delay of each hop and flow every second.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"]).simulate()["cubic", 0]
            >>> run.links()["direction"].unique().sort().to_list()
            ['down', 'up']
        """
        return self._stored.links()

    def events(self) -> pl.DataFrame:
        """Return handovers, outages, losses and changes of the controllers' state.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"]).simulate()["cubic", 0]
            >>> "recovery_entered" in run.events()["kind"].to_list()
            True
        """
        return self._stored.events()

    def applications(self) -> pl.DataFrame | None:
        """Return the items of the applications: transfers, messages, requests; None: there are none.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"], app="request:200bytes/20kb,n=3").simulate()[0]
            >>> run.applications().height
            3
        """
        return self._stored.applications()

    def pings(self) -> pl.DataFrame:
        """Return the pings of a test, or of an Experiment file with pings: one row for each that was answered or lost.

        Returns:
            `t_s` (when it was sent, since the Run began), `path` (role of its Profile), `rtt_ms` (null: lost), `lost`.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=15)
            >>> run = bp.Experiment(path, schemes=["cubic"], test="tcp_down").simulate()["cubic", 0]
            >>> pings = run.pings()
            >>> pings.height, round(pings["rtt_ms"][0], 2)
            (300, 40.13)
        """
        return pings(self._stored)

    def to_polars(self, table: TableName = "samples") -> pl.DataFrame:
        """Return a table by its name.

        Example:
            >>> import bentpipe as bp
            >>> path = bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4)
            >>> run = bp.Experiment(path, schemes=["cubic"]).simulate()["cubic", 0]
            >>> run.to_polars("events").equals(run.events())
            True
        """
        name = arguments.choice(table, "table", get_args(TableName))
        return {"samples": self.samples, "links": self.links, "events": self.events}[name]()

    def to_pandas(self, table: TableName = "samples") -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Return a table as a pandas DataFrame. Raises `UserError` without ``bentpipe[pandas]``."""
        from bentpipe.objects.frames import to_pandas

        return to_pandas(self.to_polars(table))

    @property
    def plot(self) -> RunPlots:
        """Its figures: ``run.plot.timeline()``."""
        from bentpipe.objects.figures import RunPlots

        return RunPlots([self._stored])

    def __repr__(self) -> str:
        """Return one line: scheme, seed, Profile and goodput."""
        valid = "" if self.valid else ", not valid"
        scheme = without_folders(self.scheme)
        return f"<Run {scheme!r}, seed {self.seed}, {self.world} over {self.label!r}{self._rates()}{valid}>"

    def _rates(self) -> str:
        rates = [flow.get("goodput_bps") for flow in self._stored.flows]
        known = [f"{rate / 1e6:.1f}" for rate in rates if rate is not None]
        return f": {' + '.join(known)} Mbit/s" if known else ""

    def _repr_html_(self) -> str:
        """Return a table and a small figure for notebooks."""
        from bentpipe.objects import html

        pairs = [
            ("Profile", self.label),
            ("world", self.world),
            ("duration", f"{self.duration_s:g} s, warm-up {self.warmup_s:g} s"),
            ("valid", "yes" if self.valid else f"no: {self.why_invalid}"),
        ]
        heads = ("flow", "direction", "goodput [Mbit/s]", "RTT median [ms]", "RTT p95 [ms]", "retransmitted")
        rows = [
            (
                without_folders(name),
                flow["direction"],
                html.number(flow["goodput_bps"], 1e-6),
                html.number(flow["rtt_median_ms"]),
                html.number(flow["rtt_p95_ms"]),
                html.number(flow["retransmits"]),
            )
            for name, flow in zip(self._stored.names, self._stored.flows, strict=True)
        ]
        figure = html.image(self.plot.goodput(), "Goodput over time") if self.valid and self._stored.flows else ""
        return html.block(
            f"{without_folders(self.scheme)}, seed {self.seed}", html.facts(pairs), html.table(heads, rows), figure
        )

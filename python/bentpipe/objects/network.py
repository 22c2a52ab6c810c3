"""The Network: several paths that are used at once, and that may share hops."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.objects import arguments
from bentpipe.objects.profile import Profile, profile_of
from bentpipe.profiles.table import profile_from_frame, profile_to_frame

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl
    from matplotlib.figure import Figure

    from bentpipe import _native
    from bentpipe.objects.arguments import DurationLike, TimeLike
    from bentpipe.plots.canvas import AxesLike
    from bentpipe.scenarios.places import PlaceLike


class Network:
    """Paths by name; flows of an `Experiment` choose one. A hop that several paths share is one queue for them all.

    Made of Profiles, or of a constellation (`make`), in which paths share satellites and links.

    Example:
        >>> import bentpipe as bp
        >>> home, office = (bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4, name=n) for n in "ho")
        >>> network = bp.Network({"home": home, "office": office}).share(home.hops[0], as_="cell")
        >>> flows = [bp.Flow("cubic", path="home"), bp.Flow("bbr", path="office")]
        >>> run = bp.Experiment(network, flows=flows).simulate()[0]
        >>> run.summary()["goodput_bps"].sum() < 10.1e6
        True
    """

    native: _native.Network | None
    """The network in the native module, if `make` or `read` made it; its paths then share links, not only hops."""

    def __init__(self, paths: Mapping[str, Profile | arguments.FileLike]) -> None:
        """Take Profiles, or their files, by name. Raises `UserError` for anything else."""
        self.native = None
        given = arguments.mapping(paths, "paths")
        if not given:
            raise UserError("none given", where="paths", expected="at least one Profile by name")
        self._paths = {name: profile_of(path, f"paths[{name!r}]") for name, path in paths.items()}

    @classmethod
    def make(
        cls,
        pairs: str | Sequence[tuple[PlaceLike, PlaceLike]],
        *,
        start: TimeLike | None = None,
        duration: DurationLike = 300.0,
        elements: arguments.FileLike | None = None,
        constellation: str | None = None,
        policy: str | None = None,
        isl_bps: int = 10**9,
        gsl_bps: int = 10**9,
        queue: DurationLike = 0.0132,
        gap: DurationLike = 0.05,
        loss: str | None = None,
        isl_loss: float = 0.0,
        seed: int = 0,
        name: str | None = None,
    ) -> Network:
        """Make the network of a constellation: a path for each pair of a terminal and a ground station.

        In each slot of 15 s every place takes a satellite, and every path the shortest route between its two satellites
        over the links of the constellation. Each link exists once, whoever uses it.

        Args:
            pairs: ``"SYD-NYC,LON-JNB"``, or pairs of places in the forms of `Profile.make`.
            start: Start; default: 2026-05-10T09:00:00Z. Needed with `elements`.
            duration: Duration, above 0 and at most 31 days.
            elements: A file of orbital elements. Not with `constellation`.
            constellation: A name of `bentpipe.constellations`; default: starlink-s1.
            policy: A name of `bentpipe.policies`, for the satellite of each place; default: nearest. ``least-delay``
                takes both ends of each path's shortest route.
            isl_bps: Capacity of links between satellites [bit/s].
            gsl_bps: Capacity of links to the ground [bit/s].
            queue: Limit of each queue, as time at its link's capacity.
            gap: How long a place has no link at a handover, at most 5 s.
            loss: Loss environment of the terminals' links, of `bentpipe.losses`; default: no loss.
            isl_loss: Probability that a packet is lost in a link between satellites.
            seed: Seed of the loss, and of policies that draw.
            name: The network's name; default: its pairs.

        Raises:
            UserError: An argument of a wrong type or out of range, an unknown name, an unreadable file, or a pair
                without a route at any time.

        Example:
            >>> import bentpipe as bp
            >>> network = bp.Network.make("SYD-NYC,LON-JNB", duration=15, loss="satguard", seed=1)
            >>> list(network)
            ['SYD-NYC', 'LON-JNB']
        """
        from bentpipe.profiles.networks import make as making

        made = making.make_network(
            making.parse_pairs(pairs) if isinstance(pairs, str) else making.pairs_of(pairs),
            start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
            duration_s=arguments.seconds(duration, "duration"),
            elements=None if elements is None else arguments.file(elements, "elements"),
            constellation=arguments.optional_text(constellation, "constellation"),
            policy=arguments.optional_text(policy, "policy"),
            capacity_bps={
                "isl": arguments.integer(isl_bps, "isl_bps", 1),
                "gsl": arguments.integer(gsl_bps, "gsl_bps", 1),
            },
            queue_s=arguments.seconds(queue, "queue"),
            gap_s=arguments.seconds(gap, "gap"),
            loss=arguments.optional_text(loss, "loss"),
            isl_loss=arguments.number(isl_loss, "isl_loss"),
            seed=arguments.integer(seed, "seed"),
            name=arguments.optional_text(name, "name"),
        )
        return cls._of(made)

    @classmethod
    def read(cls, file: arguments.FileLike) -> Network:
        """Read a network from a Parquet file that `write` or ``bentpipe network make`` wrote.

        Raises:
            UserError: The file is missing, damaged, of a newer format, or no Network.

        Example:
            >>> import bentpipe as bp
            >>> file = bp.Network.make("LON-JNB", duration=15).write("N.parquet")
            >>> bp.Network.read(file)
            <Network of 1 paths: 'LON-JNB'>
        """
        from bentpipe.profiles.parquet import read_network

        return cls._of(read_network(arguments.file(file, "file")))

    @classmethod
    def _of(cls, native: _native.Network) -> Network:
        network = cls.__new__(cls)
        network.native = native
        network._paths = {name: Profile(path) for name, path in zip(native.path_names, native.profiles(), strict=True)}
        return network

    def write(self, file: arguments.FileLike) -> Path:
        """Write the network to a Parquet file (``docs/reference/profile-format.md``); return its path.

        Raises:
            UserError: `file` cannot be written, or the network is one of Profiles: write each of them.

        Example:
            >>> import bentpipe as bp
            >>> bp.Network.make("LON-JNB", duration=15).write("N.parquet").name
            'N.parquet'
        """
        from bentpipe.profiles.parquet import write_network

        target = arguments.file(file, "file")
        if self.native is None:
            raise UserError("the Network is one of Profiles", where="write", expected="each Profile's own `write`")
        write_network(self.native, target)
        return target

    def summary(self, at: DurationLike = 0.0) -> dict[str, Any]:
        """Return the paths at a time, and the links that several use, as ``bentpipe network show --json`` has them.

        Raises:
            UserError: The time is outside the network's duration, or the network is one of Profiles.

        Example:
            >>> import bentpipe as bp
            >>> bp.Network.make("SYD-NYC", duration=15).summary()["paths"][0]["name"]
            'SYD-NYC'
        """
        from bentpipe.profiles.networks.show import summarise

        if self.native is None:
            raise UserError("the Network is one of Profiles", where="summary", expected="each Profile's own `summary`")
        return summarise(self.native, arguments.seconds(at, "at"))

    def write_map(
        self, file: arguments.FileLike, at: DurationLike = 0.0, *, elements: arguments.FileLike | None = None
    ) -> Path:
        """Write one page with satellites, links in use and their load at a time; return its path. It loads nothing.

        Args:
            file: The page (``.html``).
            at: Time in the network.
            elements: The file of elements that the network was made from; built-in constellations need none.

        Raises:
            UserError: The time is outside the network's duration, the elements are missing or other ones, `file` cannot
                be written, or the network is one of Profiles.

        Example:
            >>> import bentpipe as bp
            >>> bp.Network.make("LON-JNB", duration=15).write_map("map.html").name
            'map.html'
        """
        from bentpipe.report.network_map import write_map

        target = arguments.file(file, "file")
        if self.native is None:
            raise UserError("the Network is one of Profiles", where="write_map", expected="one of a constellation")
        orbits = None if elements is None else arguments.file(elements, "elements")
        write_map(self.native, target, arguments.seconds(at, "at"), elements=orbits)
        return target

    @property
    def paths(self) -> Mapping[str, Profile]:
        """The Profiles by name."""
        return dict(self._paths)

    def share(self, hop: str, *, as_: str) -> Network:
        """Return the Network in which all paths with the hop `hop` share it: one queue, with its rate and limit.

        Args:
            hop: Name of the hop (`Profile.hops`).
            as_: Name of the shared queue.

        Raises:
            UserError: Fewer than two paths have the hop. The simulator refuses hops whose capacity or queue differ,
                and hops with handovers or outages.

        Example:
            >>> import bentpipe as bp
            >>> home, office = (bp.Profile.preset("dumbbell", duration=4, name=name) for name in ("home", "office"))
            >>> network = bp.Network({"home": home, "office": office}).share("bottleneck", as_="cell")
            >>> network
            <Network of 2 paths: 'home, office', sharing cell>
        """
        arguments.text(hop, "hop")
        arguments.text(as_, "as_")
        if self.native is not None:
            raise UserError("its paths share their links already", where="share", expected="a Network of Profiles")
        users = [name for name, path in self._paths.items() if hop in path.hops]
        if len(users) < 2:
            known = list(dict.fromkeys(each for path in self._paths.values() for each in path.hops))
            near = did_you_mean(hop, known)
            raise UserError(
                f"{shown(hop)}{near}: {len(users)} paths have it", where="hop", expected="a hop of two or more"
            )
        return Network(
            {name: _sharing(path, hop, as_) if name in users else path for name, path in self._paths.items()}
        )

    def to_polars(self) -> pl.DataFrame:
        """Return one row for each hop of every path: `path`, `profile`, `hop`, `shared` (null: its own).

        Example:
            >>> import bentpipe as bp
            >>> home, office = (bp.Profile.preset("dumbbell", duration=4, name=name) for name in ("home", "office"))
            >>> network = bp.Network({"home": home, "office": office}).share("bottleneck", as_="cell")
            >>> network.to_polars()["path", "shared"].rows()
            [('home', 'cell'), ('office', 'cell')]
        """
        import polars as pl

        rows = [
            {"path": name, "profile": path.name, "hop": hop["name"], "shared": hop["shared_id"]}
            for name, path in self._paths.items()
            for hop in path.metadata["hops"]
        ]
        return pl.DataFrame(rows, schema=dict.fromkeys(("path", "profile", "hop", "shared"), pl.String))

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Return the table of `to_polars` as a pandas DataFrame. Raises `UserError` without ``bentpipe[pandas]``."""
        from bentpipe.objects.frames import to_pandas

        return to_pandas(self.to_polars())

    def plot(self, ax: AxesLike = None) -> Figure:
        """Plot the one-way delay of every path, both directions together (RTT), over time; return the Figure.

        Example:
            >>> import bentpipe as bp
            >>> home, office = (bp.Profile.preset("dumbbell", duration=4, name=name) for name in ("home", "office"))
            >>> network = bp.Network({"home": home, "office": office}).share("bottleneck", as_="cell")
            >>> network.plot().savefig("network.png")
        """
        from bentpipe.plots.network import plot_network

        return plot_network({name: path.native for name, path in self._paths.items()}, ax=ax)

    def __getitem__(self, name: str) -> Profile:
        """Return the Profile of a path. Raises `UserError` for an unknown name."""
        return self._paths[arguments.choice(name, "path", list(self._paths))]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the paths."""
        return iter(self._paths)

    def __len__(self) -> int:
        """Return the number of paths."""
        return len(self._paths)

    def __repr__(self) -> str:
        """Return one line with the names of the paths."""
        shared = sorted(set(self.to_polars()["shared"].drop_nulls()))
        sharing = f", sharing {', '.join(shared)}" if shared else ""
        return f"<Network of {len(self)} paths: {shown(', '.join(self._paths))}{sharing}>"

    def _repr_html_(self) -> str:
        """Return a table and a small figure for notebooks."""
        from bentpipe.objects import html

        table = self.to_polars().with_columns(shared=self.to_polars()["shared"].fill_null("–"))
        return html.block(
            repr(self)[1:-1], html.table(table.columns, table.rows()), html.image(self.plot(), "RTT of every path")
        )


def _sharing(path: Profile, hop: str, name: str) -> Profile:
    metadata = path.metadata
    for each in metadata["hops"]:
        if each["name"] == hop:
            each["shared_id"] = name
    return Profile(profile_from_frame(profile_to_frame(path.native), json.dumps(metadata)))

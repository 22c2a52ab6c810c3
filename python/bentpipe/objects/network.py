"""The Network: several paths that are used at once, and that may share hops."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.objects import arguments
from bentpipe.objects.profile import Profile, profile_of
from bentpipe.profiles.table import profile_from_frame, profile_to_frame

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from bentpipe.plots.canvas import AxesLike


class Network:
    """Paths by name; flows of an `Experiment` choose one. A hop that several paths share is one queue for them all.

    Example:
        >>> import bentpipe as bp
        >>> home, office = (bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=4, name=n) for n in "ho")
        >>> network = bp.Network({"home": home, "office": office}).share(home.hops[0], as_="cell")
        >>> flows = [bp.Flow("cubic", path="home"), bp.Flow("bbr", path="office")]
        >>> run = bp.Experiment(network, flows=flows).simulate()[0]
        >>> run.summary()["goodput_bps"].sum() < 10.1e6
        True
    """

    def __init__(self, paths: Mapping[str, Profile | arguments.FileLike]) -> None:
        """Take Profiles, or their files, by name. Raises `UserError` for anything else."""
        given = arguments.mapping(paths, "paths")
        if not given:
            raise UserError("none given", where="paths", expected="at least one Profile by name")
        self._paths = {name: profile_of(path, f"paths[{name!r}]") for name, path in paths.items()}

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

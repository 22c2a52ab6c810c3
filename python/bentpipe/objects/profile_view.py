"""What a Profile contains: properties, figures, tables and plots. `Profile` adds how it is made and used."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from bentpipe import _native
from bentpipe.errors import UserError, shown
from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import polars as pl
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike, NDArray

    from bentpipe.plots.canvas import AxesLike
    from bentpipe.profiles.table import Direction

DIRECTIONS: tuple[Direction, ...] = ("up", "down")
"""Up is from the terminal to the Internet."""


class ProfileView:
    """The content of a Profile of the native module; it never changes."""

    __slots__ = ("_agreement", "_native", "_notes")

    def __init__(
        self, native: _native.Profile, *, notes: Sequence[str] = (), agreement: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Wrap a Profile of the native module; users call `make`, `preset`, `measured` or `read`."""
        if not isinstance(native, _native.Profile):
            raise UserError(
                shown(native),
                where="Profile",
                expected="Profile.make, .preset, .measured or .read instead of Profile(…)",
            )
        self._native = native
        self._agreement = tuple(agreement)
        self._notes = tuple(notes)

    @property
    def native(self) -> _native.Profile:
        """The Profile of the native module, for functions of bentpipe's inner packages."""
        return self._native

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed or left out when it was made from a measurement or a foreign file, one line each.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.measured("ping.txt").notes[0]
            "no statistics of '192.0.2.1': ping was killed"
        """
        return self._notes

    @property
    def name(self) -> str:
        """Its name."""
        return self._native.name

    @property
    def duration_s(self) -> float:
        """Duration [s]."""
        return self._native.duration_s

    @property
    def start(self) -> datetime:
        """Start (UTC), to the microsecond."""
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._native.start_unix_ns // 1000)

    @property
    def seed(self) -> int | None:
        """Seed of its random processes; None: it has none."""
        return self._native.seed

    @property
    def content_hash(self) -> str:
        """SHA-256 of its content (hex): equal Profiles have equal hashes on every machine."""
        return self._native.content_hash()

    @property
    def metadata(self) -> dict[str, Any]:
        """Hops, routes, events and provenance (``docs/reference/profile-format.md``)."""
        document: dict[str, Any] = json.loads(self._native.metadata_json())
        return document

    @property
    def hops(self) -> list[str]:
        """The names of its hops."""
        return [str(hop["name"]) for hop in self.metadata["hops"]]

    def delay_ms(self, direction: Direction, at_s: ArrayLike) -> NDArray[np.float64]:
        """Return the one-way delay of a lone small packet [ms] at times since the start [s]; shape as `at_s`.

        NaN where it is not known or no path exists. Queues add to it in a Run.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.preset("dumbbell:rtt=40ms", duration=10).delay_ms("up", [0, 5]).tolist()
            [20.0, 20.0]
        """
        times = _floats(at_s, "at_s")
        return self._native.delay_ms(arguments.choice(direction, "direction", DIRECTIONS), times.ravel()).reshape(
            times.shape
        )

    def ping(self, sent: ArrayLike, *, size: int = 84, seed: int = 0) -> NDArray[np.float64]:
        """Return the RTTs [ms] of echo requests through the simulated links; NaN: lost.

        Args:
            sent: Send times [s since the start]; shape (n,).
            size: Packet size [bytes] with the IP header.
            seed: Seed of the per-packet draws.

        Raises:
            UserError: A time is outside the Profile.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.preset("dumbbell:rtt=40ms", duration=10).ping([1.0, 2.0]).round().tolist()
            [40.0, 40.0]
        """
        from bentpipe.profiles.pings import ping

        return ping(
            self._native,
            _floats(sent, "sent").ravel(),
            size_bytes=arguments.integer(size, "size", 1),
            seed=arguments.integer(seed, "seed"),
        )

    def summary(self) -> dict[str, Any]:
        """Return its figures, as `bentpipe profile show --json` prints them (``docs/reference/cli.md``).

        Delay, capacity and loss by direction, RTT, hops, handovers, outages and provenance.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.preset("dumbbell:rate=10mbit,rtt=40ms", duration=10).summary()["rtt_ms"]["median"]
            40.0
        """
        from bentpipe.profiles.show import summarise

        return summarise(self._native)

    def slots(self) -> pl.DataFrame:
        """Return one row for each slot of a computed Profile: start, satellite, gateway, PoP; no rows for others.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.make(site="louvain", to="london", duration=30).slots().height
            3
        """
        import polars as pl

        from bentpipe.profiles.origin import slots

        return pl.DataFrame(slots(self.metadata))

    def agreement(self) -> pl.DataFrame:
        """Return the statistics of the measured ping and of a ping over this Profile: two rows.

        Raises:
            UserError: The Profile was not made by `measured` in this process.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.measured("ping.txt").agreement()["ping"].to_list()
            ['measured', 'simulated']
        """
        import polars as pl

        if not self._agreement:
            raise UserError(
                f"{self.name!r} has no measured ping", where="agreement", expected="one of Profile.measured"
            )
        return pl.DataFrame(list(self._agreement))

    def to_polars(self) -> pl.DataFrame:
        """Return all series as one long table: ``t_s, hop, direction, kind, value, valid``.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.preset("dumbbell", duration=1).to_polars()["kind"].unique().sort().to_list()
            ['capacity_bps', 'delay_s']
        """
        from bentpipe.profiles.table import profile_to_frame

        return profile_to_frame(self._native)

    def to_pandas(self) -> Any:  # noqa: ANN401 - a pandas.DataFrame, which is an extra
        """Return the table of `to_polars` as a pandas DataFrame. Raises `UserError` without ``bentpipe[pandas]``."""
        from bentpipe.objects.frames import to_pandas

        return to_pandas(self.to_polars())

    def plot(self, ax: AxesLike = None) -> Figure:
        """Plot one-way delay, capacity and loss over time, with handovers; return the Figure.

        Example:
            >>> import bentpipe as bp
            >>> bp.Profile.make(site="louvain", to="london", duration=30).plot().savefig("path.png")
        """
        from bentpipe.plots.profile import plot_profile

        return plot_profile(self._native, ax=ax)

    def __eq__(self, other: object) -> bool:
        """Tell whether another Profile has the same content."""
        return isinstance(other, ProfileView) and self.content_hash == other.content_hash

    def __hash__(self) -> int:
        """Return a hash of the content."""
        return hash(self.content_hash)

    def __repr__(self) -> str:
        """Return one line: name, start and duration."""
        return f"<Profile {self.name!r}: {self.duration_s:g} s from {self.start:%Y-%m-%dT%H:%M:%SZ}>"

    def _repr_html_(self) -> str:
        """Return a table and a small figure for notebooks."""
        from bentpipe.objects import html
        from bentpipe.profiles.show import as_rows

        pairs, rows, heads = as_rows(self.summary())
        return html.block(
            self.name,
            html.facts(pairs),
            html.table(heads, rows),
            html.image(self.plot(), "One-way delay, capacity and loss over time"),
        )


def _floats(values: ArrayLike, where: str) -> NDArray[np.float64]:
    try:
        return np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise UserError(shown(values), where=where, expected="numbers") from None

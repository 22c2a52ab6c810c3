"""Options of commands that make a Profile before they use it: ``run``, ``shell`` and ``race --site …``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bentpipe.cli import options
from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe._native import Profile

Site = Annotated[str | None, options.place(label="Make the Profile of this terminal")]
To = Annotated[str | None, options.place(label="With --site, the server")]
Start = Annotated[
    str | None,
    typer.Option(
        help="With --site, the Profile's start: ISO-8601, UTC unless it has an offset. [default: 2026-05-10T09:00:00Z]",
        show_default=False,
    ),
]
Loss = Annotated[
    str | None,
    typer.Option(
        help="With --site, the loss environment of `bentpipe loss`: busy (a flow fills the path), idle (only pings), … "
        "[default: busy]",
        show_default=False,
    ),
]
Elements = Annotated[
    Path | None,
    typer.Option(
        help="With --site, orbital elements: TLE, OMM (CSV, JSON, XML), plain or gzipped; needs --start. [default: "
        "built-in Starlink]",
        show_default=False,
    ),
]
Gateways = Annotated[
    Path | None,
    typer.Option(
        help="With --site, a gateway list (TOML, see docs/reference/scenarios.md). [default: Starlink's gateways of "
        "2024]",
        show_default=False,
    ),
]
Isl = Annotated[
    str | None,
    typer.Option(
        help="With --site, inter-satellite links: auto (where no satellite above the terminal sees a gateway), never "
        "or always. [default: auto]",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class MadeProfile:
    """The options of a Profile that a command makes, for `options.shared`."""

    site: Site = None
    to: To = None
    start: Start = None
    loss: Loss = None
    elements: Elements = None
    gateways: Gateways = None
    isl: Isl = None

    def given(self) -> list[str]:
        """Return the flags that were given."""
        return [f"--{name}" for name, value in vars(self).items() if value is not None]

    def refuse_without_site(self, others: Mapping[str, object] | None = None) -> None:
        """Refuse options of a made Profile if there is none; `others` are further ones by their flags."""
        given = [*self.given(), *(flag for flag, value in (others or {}).items() if value is not None)]
        if self.site is None and given:
            raise UserError(
                f"{given[0]}: belongs to a Profile that --site makes; expected --site too, or no {given[0]}"
            )

    def make(self, duration_s: float) -> Profile:
        """Make the Profile and print it in one line."""
        from bentpipe.cli.console import note, progress
        from bentpipe.profiles.make import make_profile
        from bentpipe.profiles.show import describe
        from bentpipe.times import parse_utc

        if self.site is None or self.to is None:
            raise UserError(
                "--site needs --to, the place of the server; expected a name of `bentpipe sites`, or lat,lon"
            )
        with progress("making the Profile") as advance:
            made = make_profile(
                self.site,
                self.to,
                start_unix_ns=None if self.start is None else parse_utc(self.start, "--start"),
                duration_s=duration_s,
                elements=self.elements,
                gateways=self.gateways,
                isl=self.isl,
                loss=self.loss,
                on_progress=advance,
            )
        note(describe(made))
        return made

"""The uploads of T3P's section 5: one path for all its studies, a Profile of it for each test."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.scenarios.sites import Place
from bentpipe.scenarios.tables import Table, packaged_text
from bentpipe.studies.counterfactual import Counterfactual, take_counterfactuals
from bentpipe.studies.scenario import take_place
from bentpipe.studies.study import OnProgress
from bentpipe.studies.t3p import load_terminals
from bentpipe.times import parse_utc

HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Uplink:
    """What ``scenarios/studies/t3p-uplink.toml`` says.

    Attributes:
        terminal: Where the dish stands.
        server: The other end.
        first: The day of the first test (UTC).
        hours: Of a day's tests (UTC).
        tests: How many.
        duration_s: Of each [s].
        seed: Test number N is drawn with this and N.
        counterfactuals: What its path might have had and ours has not.
    """

    terminal: Place
    server: Place
    first: str
    hours: Sequence[int]
    tests: int
    duration_s: float
    seed: int
    counterfactuals: Sequence[Counterfactual]

    def paths(
        self,
        count: int,
        duration_s: float,
        *,
        skip: int = 0,
        terminal: Place | None = None,
        server: Place | None = None,
        parameters: Mapping[str, Any] | None = None,
        on_progress: OnProgress = lambda _: None,
    ) -> list[Any]:
        """A Profile for each of `count` tests, `skip` tests left out before them; elsewhere where that is given."""
        return uplink_paths(
            terminal or self.terminal,
            server or self.server,
            starts_of_tests(self.first, self.hours, count, skip),
            duration_s,
            seed=self.seed + skip,
            parameters=parameters,
            on_progress=on_progress,
        )

    @property
    def text(self) -> str:
        """One line for a result's basis."""
        hours = ", ".join(map(str, self.hours))
        return f"{self.terminal.name} to {self.server.name}, at {hours} h UTC from {self.first[:10]} on"


def load_uplink() -> Uplink:
    """The path of section 5, the same for all its studies."""
    where = "studies/t3p-uplink.toml"
    table = Table.parse(packaged_text(where), where)
    terminals = load_terminals()
    found = Uplink(
        terminal=terminals[table.choice("terminal", terminals)],
        server=take_place("server", table.table("server")),
        first=table.text("first"),
        hours=table.integers("hours", 0, 23),
        tests=table.integer("tests", 1, 1000),
        duration_s=table.number("duration_s", 10, 6000),
        seed=table.integer("seed", 0, 10**6),
        counterfactuals=take_counterfactuals(table),
    )
    table.done()
    return found


def starts_of_tests(first: str, hours: Sequence[int], count: int, skip: int = 0) -> list[int]:
    """When tests begin [ns since 1970]: at the same hours of each day; `skip` leaves out that many before the first."""
    begin = parse_utc(first)
    return [
        begin + ((number // len(hours)) * 24 + hours[number % len(hours)]) * HOUR_NS
        for number in range(skip, skip + count)
    ]


def uplink_paths(
    terminal: Place,
    server: Place,
    starts_unix_ns: Sequence[int],
    duration_s: float,
    *,
    seed: int,
    parameters: Mapping[str, Any] | None = None,
    on_progress: OnProgress = lambda _: None,
) -> list[Any]:
    """A Profile for each start, each drawn with a seed of its own: `seed` and the test's number."""
    paths = []
    for number, start in enumerate(starts_unix_ns):
        with warnings.catch_warnings():
            # The study's file says where the server stands; that its way is a great circle is said there.
            warnings.simplefilter("ignore", UnpublishedRouteWarning)
            path = make_profile(
                terminal,
                server,
                start_unix_ns=start,
                duration_s=duration_s,
                seed=seed + number,
                name=f"{terminal.name}-{server.name}-{number}",
                parameters=parameters,
            )
        paths.append(path)
        on_progress((number + 1) / len(starts_unix_ns))
    return paths

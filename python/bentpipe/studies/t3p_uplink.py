"""The upload path of T3P's section 5, shared by its studies, with one Profile per test."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bentpipe.errors import UserError, shown
from bentpipe.profiles.make import UnpublishedRouteWarning, make_profile
from bentpipe.scenarios.sites import Place
from bentpipe.studies.counterfactual import Counterfactual, counterfactuals_of
from bentpipe.studies.study import OnProgress
from bentpipe.studies.t3p import load_terminals
from bentpipe.studies.t3p_files import T3pUplink
from bentpipe.times import parse_utc

HOUR_NS = 3600 * 10**9


@dataclass(frozen=True)
class Uplink:
    """Content of ``scenarios/studies/t3p-uplink.toml``.

    Attributes:
        terminal: Place of the terminal.
        server: Place of the server.
        first: Day of the first test (UTC).
        hours: Hours of a day's tests (UTC).
        tests: Number of tests.
        duration_s: Duration of a test [s].
        seed: Test number N has this seed plus N.
        counterfactuals: Changes to the path.
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
        """Make a Profile for each of `count` tests after the first `skip`; places given replace the file's."""
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
        """Describe the path in one line for a result's basis."""
        hours = ", ".join(map(str, self.hours))
        return f"{self.terminal.name} to {self.server.name}, at {hours} h UTC from {self.first[:10]} on"


def load_uplink() -> Uplink:
    """Read the path of section 5."""
    file, terminals = T3pUplink.load(), load_terminals()
    if file.terminal not in terminals:
        problem = f"terminal is {shown(file.terminal)}"
        raise UserError(problem, where=file.FILE, expected=" or ".join(map(repr, terminals)))
    return Uplink(
        terminal=terminals[file.terminal],
        server=file.server.place("server"),
        first=file.first,
        hours=file.hours,
        tests=file.tests,
        duration_s=file.duration_s,
        seed=file.seed,
        counterfactuals=counterfactuals_of(file.counterfactual),
    )


def starts_of_tests(first: str, hours: Sequence[int], count: int, skip: int = 0) -> list[int]:
    """Return the tests' start times [ns since 1970], at the same hours of each day, after the first `skip` tests."""
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
    """Make a Profile for each start; its seed is `seed` plus the test's number."""
    paths = []
    for number, start in enumerate(starts_unix_ns):
        with warnings.catch_warnings():
            # The study's file gives the server's place and states that the route is a great circle.
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

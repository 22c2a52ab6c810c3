"""Experiments of named tests: pings over the whole Run, and flows of one controller in the test's loads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError, shown
from bentpipe.experiments import experiment as ex
from bentpipe.experiments.schemes import ecn_of, flows_of
from bentpipe.scenarios.load_tests import find_load_test

if TYPE_CHECKING:
    from bentpipe.scenarios.load_tests import LoadTest

LEAST_LOAD_NS = 5 * ex.NS_PER_S
"""Shortest load of a test [ns]. Chosen here: what follows a change within two seconds belongs to no load
(`crates/profile/src/run/latency.rs`), so three seconds remain."""

PREFIX = "test-"
"""Beginning of the name of a test's Experiments in a race."""


def directions_of(test: str) -> list[ex.Direction]:
    """Return the directions of a test's flows. Raises `UserError` if there is no such test."""
    loads = find_load_test(test, "test").loads
    return list(dict.fromkeys(direction for load in loads for direction in load.directions))


def with_test(experiment: ex.Experiment, test: str, scheme: str) -> ex.Experiment:
    """Return an Experiment with the flows, pings and warm-up of a test, over its first Profile.

    Args:
        experiment: The Experiment; its own flows and pings are replaced.
        test: Name of the test.
        scheme: One controller with its tunables, as `bentpipe.experiments.parse_schemes` returns it.

    Raises:
        UserError: The test is unknown, the Run is too short for its loads, or the scheme has several controllers.
    """
    load_test = find_load_test(test, "test")
    idle_ns = round(load_test.idle_s * ex.NS_PER_S)
    _check(load_test, scheme, experiment.duration_ns, idle_ns)
    profile = experiment.profiles[0].role
    load_ns = (experiment.duration_ns - 2 * idle_ns) // len(load_test.loads)
    ((controller, options),), (ecn,) = flows_of(scheme), ecn_of(scheme)
    flows = [
        ex.Flow(
            controller=controller,
            options=options,
            ecn=ecn,
            direction=direction,
            profile=profile,
            start_ns=idle_ns + number * load_ns,
            stop_ns=idle_ns + (number + 1) * load_ns,
        )
        for number, load in enumerate(load_test.loads)
        for direction in load.directions
    ]
    pings = ex.Pings(profile=profile, every_ns=round(load_test.ping_every_ms * 1e6), bytes=load_test.ping_bytes)
    return experiment.replace(
        flows=tuple(flows), pings=(pings,), warmup_ns=ex.default_warmup_ns(load_ns), test=load_test.name
    )


def _check(test: LoadTest, scheme: str, duration_ns: int, idle_ns: int) -> None:
    least_s = (2 * idle_ns + LEAST_LOAD_NS * len(test.loads)) / 1e9
    if duration_ns / 1e9 < least_s:
        raise UserError(
            f"{duration_ns / 1e9:g} s",
            where="duration_s",
            expected=f"at least {least_s:g} s for the test {test.name}, of which {2 * test.idle_s:g} s are idle",
            hint="a longer Profile",
        )
    if len(flows_of(scheme)) > 1:
        raise UserError(
            f"{shown(scheme)} in the test {test.name}",
            where="schemes",
            expected="one controller for all flows of a test, without +",
        )

"""Helpers of the dish tests: Profiles with satellites or outages, and simulated terminals."""

import contextlib
import functools
import json

from bentpipe.measurements.dish.clocks import SetClock, WallClock
from bentpipe.measurements.dish.simulation.environment import DishEnvironment
from bentpipe.measurements.dish.simulation.server import serve
from bentpipe.measurements.dish.simulation.terminal import LocalTransport, Terminal
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.table import profile_from_frame, profile_to_frame
from bentpipe.times import parse_utc

START = parse_utc("2026-05-10T09:00:12Z")  # a slot edge
SECOND = 10**9


@functools.cache
def profile():
    return make_profile("melbourne", "london", start_unix_ns=START, duration_s=60.0)


@functools.cache
def profile_with_outages():
    """Seconds 20 to 24 obstructed, 31 to 33 without downlink."""
    plain = profile()
    metadata = json.loads(plain.metadata_json())
    stays = {"queue": "keep", "in_flight": "deliver", "order": "clamp"}
    for at_s, length_s, kind in ((20, 4, "obstruction"), (31, 2, "outage")):
        hops = [r["hops"] for r in metadata["routes"] if r["at_ns"] <= at_s * SECOND][-1]
        metadata["events"].append(
            {
                "at_ns": at_s * SECOND,
                "interruption_ns": length_s * SECOND,
                "hop": hops[0],
                "kind": kind,
                "up": stays,
                "down": stays,
            }
        )
    metadata["events"].sort(key=lambda event: event["at_ns"])
    return profile_from_frame(profile_to_frame(plain), json.dumps(metadata))


@functools.cache
def world(outages=False):
    return DishEnvironment(profile_with_outages() if outages else profile())


def at(seconds, **options):
    """A terminal whose clock stands so long after its Profile's start, and the clock."""
    clock = SetClock(START + round(seconds * SECOND))
    outages = options.pop("outages", False)
    options = {"uptime_s": 1800, **options}
    return Terminal(world(outages), clock, start_unix_ns=START, **options), clock


def local(terminal):
    return LocalTransport(terminal)


@contextlib.contextmanager
def served(terminal=None, port=0):
    server = serve(terminal or Terminal(world(), WallClock()), port=port)
    try:
        yield server
    finally:
        server.stop()

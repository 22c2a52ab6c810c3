"""Options of Profiles that are made from measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from bentpipe.objects import arguments
from bentpipe.profiles.measured.capacity import read_capacity
from bentpipe.profiles.measured.make import FromPings
from bentpipe.scenarios.units import parse_queue

if TYPE_CHECKING:
    from collections.abc import Sequence

Silence = Literal["gap", "lost"]
"""Meaning of intervals without probes: not measured, or all probes lost."""

Times = Literal["probe", "reply"]
"""Whether timestamps are send times or reply times."""


def profile_options(
    *,
    site: str | None = None,
    target: str | None = None,
    kind: str | None = None,
    capacity: str | Sequence[str],
    queue: str,
    split: float,
    silent: Silence,
    times: Times | None,
    name: str | None,
) -> FromPings:
    """Return the options of `Profile.measured` in the form of `bentpipe.profiles.measured`.

    Raises:
        UserError: A value of a wrong type or out of range.
    """
    return FromPings(
        site=arguments.optional_text(site, "site"),
        target=arguments.optional_text(target, "target"),
        kind=arguments.optional_text(kind, "kind"),
        split=arguments.number(split, "split"),
        silent_is_lost=arguments.choice(silent, "silent", get_args(Silence)) == "lost",
        capacities=[read_capacity(each) for each in arguments.texts(capacity, "capacity")],
        queue=parse_queue(arguments.text(queue, "queue"), "queue"),
        name=arguments.optional_text(name, "name"),
        times=None if times is None else arguments.choice(times, "times", get_args(Times)),
    )

"""The file of a host: what experiments may do at its node. It stays at the node and wins over the orchestrator."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from bentpipe.errors import UserError, shown
from bentpipe.records import Items, Record
from bentpipe.testbed.schemas.quantities import BitRate, ByteBudget, Duration

SCHEMA = "bentpipe.policy/1"
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)\Z")
RunnerName = Literal["process", "bubblewrap", "docker"]


class Sharing(Record):
    """What others may see of the node."""

    telemetry: bool = True
    """The terminal's telemetry, live and beside each run."""
    obstruction_maps: bool = True
    """The terminal's obstruction maps."""
    place_blur_km: float = Field(default=1.0, ge=0.1, le=500)
    """How far the published place may be from the true one [km]."""


class ScavengerLevels(Record):
    """When the household's traffic makes the node yield."""

    enabled: bool = True
    """Whether it yields at all."""
    down: BitRate = 500_000
    """Least residual towards the household."""
    up: BitRate = 200_000
    """Least residual from the household."""
    own_share: float = Field(default=0.1, ge=0, le=1)
    """Least residual as a share of the experiment's own traffic."""
    quiet: Duration = 60.0
    """Time below these levels before an experiment may run again."""


class HostPolicy(Record):
    r"""Limits that a host sets for its node.

    Example:
        >>> policy = HostPolicy.from_yaml("schema: bentpipe.policy/1\nhours: ['22:00-06:30']", "file")
        >>> policy.allows_at(minute_of_day=23 * 60), policy.allows_at(minute_of_day=12 * 60)
        (True, False)
    """

    schema_name: Literal["bentpipe.policy/1"] = Field(alias="schema")
    """Format of the file."""
    paused: bool = False
    """Whether nothing runs."""
    hours: Items[str] = ()
    """Local times of day at which experiments may run, as ``22:00-06:30``; default: all day."""
    bytes: Items[ByteBudget] = ()
    """Budgets; each one holds."""
    rate: BitRate | None = None
    """Highest rate of an experiment in each direction."""
    max_parallel: int = Field(default=4, ge=1, le=32)
    """Experiments of class ``normal`` at a time."""
    max_background: int = Field(default=8, ge=0, le=100)
    """Experiments of class ``background`` at a time."""
    runners: Items[RunnerName] = ("docker", "bubblewrap")
    """Runners that may be used, in this order."""
    builtins: Items[str] | None = None
    """Built-in experiments that may run; default: all."""
    images: Literal["none", "reviewed"] = "reviewed"
    """Containers that may run: none, or those that the testbed reviewed."""
    kernel: Items[str] = ("cc.set", "qdisc.set", "sysctl.set", "offload.set", "counters", "reset")
    """Verbs of the kernel service that experiments may use."""
    captures: bool = True
    """Whether packets may be captured: only those of experiments ever are."""
    reach_private: Items[str] = ()
    """Private networks that experiments may reach, as ``192.168.7.0/24``; default: none, neither terminal nor home."""
    refuse: Items[str] = ()
    """Networks that experiments may not reach, as your router's public address, ``203.0.113.7/32``. Private networks
    and those that this host is connected to need no line; `reach_private` wins. The list is not sent to the testbed."""
    feed_urls: Items[str] = ()
    """URLs that feeds of triggers may ask, as of the weather."""
    triggers: bool = True
    """Whether triggers may start experiments."""
    share: Sharing = Sharing()
    """What others may see."""
    scavenger: ScavengerLevels = ScavengerLevels()
    """When the node yields."""
    memory_bytes: int | None = Field(default=None, ge=64 << 20)
    """Memory of all runs together [bytes]; default: half of the host's. Needs control groups (the agent as root)."""
    pids: int = Field(default=4096, ge=64)
    """Processes and threads of all runs together; the same."""
    disk_bytes: int = Field(default=5_000_000_000, ge=100_000_000)
    """Disk for results that wait (three quarters) and telemetry [bytes]; calendar and journal are not counted."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, values: Any) -> Any:  # noqa: ANN401 - whatever came
        """Take what nodes reported before ``signed`` was removed: it never ran a container."""
        if not isinstance(values, dict) or "signers" not in values:
            return values
        kept = {key: value for key, value in values.items() if key != "signers"}
        return kept | {"images": "none"} if kept.get("images") == "signed" else kept

    @model_validator(mode="after")
    def _check(self) -> Self:
        for hours in self.hours:
            if _HOURS.match(hours) is None:
                raise UserError(shown(hours), where="hours", expected="HH:MM-HH:MM")
        for where, networks in (("reach_private", self.reach_private), ("refuse", self.refuse)):
            for network in networks:
                try:
                    length = ip_network(network).prefixlen
                except ValueError as error:
                    raise UserError(f"{shown(network)}: {error}", where=where, expected="a network") from None
                if where == "refuse" and length == 0:
                    raise UserError(
                        shown(network), where=where, expected="a part of the Internet", hint="paused: true for none"
                    )
        return self

    @classmethod
    def from_yaml(cls, text: str, where: str) -> Self:
        """Make it of a file's text; `where` names the file. Raises `UserError`."""
        from bentpipe.testbed.schemas.yaml_text import parse_yaml

        values = parse_yaml(text, where)
        if isinstance(values, dict) and (values.get("images") == "signed" or "signers" in values):
            raise UserError("signed images are no choice any more", where=where, expected="images: none or reviewed")
        return cls.check(values, where)

    def to_report(self) -> Self:
        """Return what the testbed may know of it: not the household's own addresses."""
        return self.replace(refuse=())

    def allows_at(self, minute_of_day: int, duration_s: float = 0) -> bool:
        """Return whether experiments may run from a local minute of the day (0 to 1439), for up to a day [s].

        Example:
            >>> policy = HostPolicy.check({"schema": "bentpipe.policy/1", "hours": ["22:00-06:30"]}, "policy")
            >>> policy.allows_at(6 * 60, duration_s=1800), policy.allows_at(6 * 60, duration_s=1860)
            (True, False)
        """
        begin, end = minute_of_day, minute_of_day + max(duration_s / 60, 1)
        spans = self.spans(range(-1, 3))
        return not spans or any(first <= begin and end <= last for first, last in spans)

    def spans(self, days: range) -> list[tuple[int, int]]:
        """Return begin and end of the hours of some days in minutes after day 0 began; those that touch are one.

        Example:
            >>> policy = HostPolicy.check({"schema": "bentpipe.policy/1", "hours": ["18:00-02:00"]}, "policy")
            >>> policy.spans(range(2))
            [(1080, 1560), (2520, 3000)]
        """
        spans: list[tuple[int, int]] = []
        minutes = self.minutes()
        for begin, end in sorted((day * 1440 + first, day * 1440 + last) for day in days for first, last in minutes):
            if spans and begin <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(end, spans[-1][1])
            else:
                spans.append((begin, end))
        return spans

    def minutes(self) -> list[tuple[int, int]]:
        """Return begin and end of the hours in minutes after midnight; an end above 1440 is of the next day.

        Example:
            >>> HostPolicy.check({"schema": "bentpipe.policy/1", "hours": ["22:00-06:30"]}, "policy").minutes()
            [(1320, 1830)]
        """
        spans = []
        for match in filter(None, map(_HOURS.match, self.hours)):
            begin, end = int(match[1]) * 60 + int(match[2]), int(match[3]) * 60 + int(match[4])
            spans.append((begin, end if begin < end else end + 1440))
        return spans

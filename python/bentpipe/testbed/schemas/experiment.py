"""The file of an experiment: which nodes, which program, when, and within which limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, model_validator

from bentpipe.errors import UserError, shown
from bentpipe.records import Items, Record, Text
from bentpipe.testbed.schemas.builtins import LIGHT, LIGHT_BPS, Arguments, PingArguments, check_arguments
from bentpipe.testbed.schemas.identifiers import ImageReference, Label
from bentpipe.testbed.schemas.quantities import ByteBudget, Duration, Instant, Size

SCHEMA = "bentpipe.experiment/1"
BookingClass = Literal["exclusive", "normal", "background"]
"""``exclusive``: alone on its nodes; ``normal``: beside others, up to the node's limit;
``background``: light, beside all."""


class NodeSelection(Record):
    """Which nodes run it: all that have the names, or the tags; at most so many."""

    names: Items[Label] = ()
    """Names of nodes."""
    tags: Items[Label] = ()
    """Tags that a node must all have."""
    max: int = Field(default=10, ge=1, le=10_000)
    """Most nodes; of more that fit, those with the least experiments."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.names) == bool(self.tags):
            raise UserError("names and tags", expected="one of the two")
        return self


class ServerSelection(Record):
    """Which server node takes part."""

    name: Label | None = None
    """Its name."""
    near: Literal["node"] | None = None
    """``node``: the one nearest to each client."""
    tags: Items[Label] = ()
    """Tags that it must have."""


class Program(Record):
    """What runs at the client: a built-in experiment, or a container."""

    builtin: str | None = None
    """A name of `bentpipe.testbed.schemas.builtins.BUILTINS`."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Its arguments."""
    image: ImageReference | None = None
    """A container image by digest."""
    command: Items[str] = ()
    """Command in the container; default: the image's."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment in the container."""
    server_command: Items[str] = ()
    """Command of the same image at the server node; default: no server."""
    duration: Duration | None = None
    """Longest time of a run of a container; a built-in experiment states its own."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.builtin is None) == (self.image is None):
            raise UserError("builtin and image", expected="one of the two")
        if self.builtin is not None:
            if self.command or self.env or self.server_command or self.duration is not None:
                raise UserError("command, env, server_command or duration", expected="an image with them")
            check_arguments(self.builtin, self.args)
        elif self.args:
            raise UserError("args", expected="a built-in experiment with them; try command")
        elif self.duration is None or not 1 <= self.duration <= 86_400:
            raise UserError("duration", expected="the longest time of a run, 1 s to 1 day, with an image")
        return self

    @property
    def arguments(self) -> Arguments | None:
        """Checked arguments; None: a container."""
        return None if self.builtin is None else check_arguments(self.builtin, self.args)

    @property
    def longest_s(self) -> float:
        """Longest time of a run [s]."""
        arguments = self.arguments
        return float(self.duration or 0) if arguments is None else arguments.longest_s()

    @property
    def needs_server(self) -> bool:
        """Whether a server node takes part."""
        arguments = self.arguments
        return bool(self.server_command) if arguments is None else arguments.needs_server


class PathSelection(Record):
    """The path of the traffic: the node's uplink, or an emulated Profile."""

    profile: Text | None = None
    """Name of an uploaded Profile; default: the uplink."""
    seed: int = Field(default=1, ge=0, le=2**31)
    """Seed of the emulation."""


class QdiscSetting(Record):
    """Queueing discipline of the run's interface."""

    kind: str = Field(pattern=r"^[a-z0-9_]{1,15}$")
    """Kind, as tc(8) names it."""
    options: dict[str, int | str] = Field(default_factory=dict)
    """Its parameters."""
    optional: bool = False
    """Whether the run goes on where the kernel lacks it."""


class KernelSettings(Record):
    """Settings of the kernel in the run's network namespace."""

    congestion_control: str | None = Field(default=None, pattern=r"^[a-z0-9_-]{1,15}$")
    """Default congestion controller."""
    qdisc: QdiscSetting | None = None
    """Queueing discipline."""
    sysctl: dict[str, int | str] = Field(default_factory=dict)
    """Of the listed ones."""
    offload: dict[str, bool] = Field(default_factory=dict)
    """Offloads of the interface."""


class Schedule(Record):
    """When it runs: now, at a time, every so often, by a cron line, or on a trigger."""

    at: Instant | None = None
    """Once, at this time; the first time with `every`."""
    every: Duration | None = None
    """Time between two starts."""
    cron: str | None = Field(default=None, max_length=100)
    """Cron line of five fields."""
    timezone: str = "UTC"
    """Time zone of the cron line."""
    trigger: str | None = None
    """Condition on the node's signals (CEL)."""
    window: Duration = 1.0
    """Length of the condition's windows."""
    for_windows: int = Field(default=1, ge=1, le=36_000, alias="for")
    """Windows in sequence that it must hold for."""
    cooldown: Duration = 60.0
    """Least time between two firings."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds = [name for name in ("every", "cron", "trigger") if getattr(self, name) is not None]
        if len(kinds) > 1:
            raise UserError(" and ".join(kinds), expected="one of at, every, cron, trigger")
        if self.at is not None and kinds not in ([], ["every"]):
            raise UserError(f"at and {kinds[0]}", expected="one of the two; at goes with every")
        if self.every is not None and self.every < 10:
            raise UserError(f"every {self.every:g} s", expected="at least 10 s")
        if self.cron is not None:
            check_cron(self.cron, self.timezone)
        if self.trigger is not None:
            from bentpipe.triggers.trigger import Trigger

            Trigger(self.trigger, None, window_s=self.window, for_windows=self.for_windows, cooldown_s=self.cooldown)
        return self


def check_cron(line: str, timezone: str) -> None:
    """Check a cron line of five fields and its time zone. Raises `UserError`."""
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(shown(timezone), where="timezone", expected="a name such as Europe/Madrid") from None
    from datetime import UTC, datetime

    from cronsim import CronSim, CronSimError

    if len(line.split()) != 5:
        raise UserError(f"{len(line.split())} fields", where="cron", expected="five: minute hour day month weekday")
    try:
        next(CronSim(line, datetime.now(UTC)))
    except (CronSimError, StopIteration) as error:
        reason = str(error) or "it never comes"
        raise UserError(f"{shown(line)}: {reason}", where="cron", expected="a line such as 0 3 * * *") from None


def _schedule(value: object) -> object:
    if value == "now":
        return {}
    return value


class Limits(Record):
    """What the experiment may use."""

    bytes: ByteBudget | None = None
    """Bytes of each node in a sliding period: used by runs that ended, expected of others; default: the host's."""
    bytes_per_run: Size | None = None
    """Bytes of one run, at which it is ended; default: twice what its program expects, at least 10 MB."""
    runs: int | None = Field(default=None, ge=1, le=1_000_000)
    """Runs at each node; default: one with ``now`` and ``at``, else no limit until `until`."""
    until: Instant | None = None
    """When it ends; default: 30 days."""
    slip: Duration = 300.0
    """How much later than due a run may start."""


class ScavengerRule(Record):
    """What becomes of a run when the household uses its link."""

    mode: Literal["reschedule", "end"] = "reschedule"
    """``reschedule``: once more later; ``end``: not again."""
    max_preemptions: int = Field(default=5, ge=1, le=100)
    """Preemptions after which a run is not tried again."""


class CaptureRule(Record):
    """Packet captures of a run."""

    ends: Literal["client", "server", "both"] = "both"
    """Where."""
    snap_bytes: int = Field(default=128, ge=40, le=2000)
    """Bytes kept of each packet."""


class TestbedExperiment(Record):
    """An experiment for the testbed.

    Example:
        >>> text = '''
        ... schema: bentpipe.experiment/1
        ... name: ping-home
        ... nodes: {names: [attic]}
        ... run: {builtin: ping, args: {target: 192.0.2.1, seconds: 10}}
        ... '''
        >>> TestbedExperiment.from_yaml(text, "file").name
        'ping-home'
    """

    __test__ = False  # for pytest: this is no class of tests

    schema_name: Literal["bentpipe.experiment/1"] = Field(alias="schema")
    """Format of the file."""
    name: Label
    """Name; unique among its owner's."""
    description: str = Field(default="", max_length=2000)
    """For people."""
    nodes: NodeSelection
    """Client nodes."""
    server: ServerSelection | None = None
    """Server node."""
    run: Program
    """Program."""
    path: PathSelection = PathSelection()
    """Path."""
    kernel: KernelSettings = KernelSettings()
    """Kernel settings."""
    booking_class: BookingClass = Field(default="normal", alias="class")
    """What it tolerates beside it."""
    priority: int = Field(default=0, ge=-100, le=100)
    """A higher one takes the place of a lower one that has not begun."""
    when: Annotated[Schedule, BeforeValidator(_schedule)] = Schedule()
    """When."""
    limits: Limits = Limits()
    """Limits."""
    scavenger: ScavengerRule = ScavengerRule()
    """Preemption."""
    capture: CaptureRule | None = None
    """Captures; default: none."""
    catch_up: Literal["none", "last", "all"] = "last"
    """Runs that were due while a node was off: none, the last, or all of them."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.needs_server_node and self.server is None:
            raise UserError("key 'server' is missing", expected="a server node, as {near: node}")
        arguments = self.run.arguments
        if isinstance(arguments, PingArguments) and arguments.target is None and self.path.profile is None:
            raise UserError("key 'target' is missing", where="run: args", expected="a host, unless there is a path")
        if self.booking_class == "background":
            if self.run.builtin not in LIGHT or arguments is None:
                raise UserError("class background", expected=f"one of {', '.join(sorted(LIGHT))} with it")
            rate_bps = arguments.expected_bytes() * 8 / max(arguments.longest_s(), 1)
            if rate_bps > LIGHT_BPS:
                raise UserError(f"class background with {rate_bps:.0f} bit/s", expected=f"at most {LIGHT_BPS}")
        return self

    @property
    def needs_server_node(self) -> bool:
        """Whether a server node takes part: an emulated path has its own other end."""
        return self.run.needs_server and self.path.profile is None

    @classmethod
    def from_yaml(cls, text: str, where: str) -> Self:
        """Make it of a file's text; `where` names the file. Raises `UserError`."""
        from bentpipe.testbed.schemas.yaml_text import parse_yaml

        return cls.check(parse_yaml(text, where), where)

    @property
    def is_repeated(self) -> bool:
        """Whether it has more than one start."""
        return any((self.when.every, self.when.cron, self.when.trigger))

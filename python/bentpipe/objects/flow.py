"""A flow of an Experiment: a controller over a path, with its start, its end and its application."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import UserError, shown
from bentpipe.execution.plan import seconds_to_ns
from bentpipe.experiments import apps
from bentpipe.experiments import experiment as ex
from bentpipe.experiments.schemes import ECN_MODES, ecn_of, flows_of
from bentpipe.objects import arguments
from bentpipe.objects.schemes import app_text, scheme_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.objects.arguments import DurationLike
    from bentpipe.plugin import App
    from bentpipe.profiles.table import Direction


@dataclass(frozen=True)
class Flow:
    """A flow: a controller under an application.

    Attributes:
        controller: A name of `bentpipe.controllers` with tunables (``bbr:min_rtt_win_s=20``), or a class of your own.
        path: Name of its path in a `Network`; default: the only or the first one.
        direction: ``down`` (to the terminal) or ``up``.
        start: Start, since the run's start.
        stop: End; default: the run's end.
        app: Application, as for ``race --app`` (``transfers:20mb,n=1``), or a class of your own; default: always data.
        ecn: Requested ECN mode: ``off``, ``classic`` or ``accurate``; default: that in the controller's text.
        sender: Name of the sending host in the Experiment's `hosts`; default: a Linux server.
        receiver: Name of the receiving host.

    Raises:
        UserError: A value of a wrong type or out of range, or an unknown name.

    Example:
        >>> import bentpipe as bp
        >>> bp.Flow("cubic", direction="up", start="5s", app="transfers:20mb,n=1").direction
        'up'
    """

    controller: str | type
    _: KW_ONLY
    path: str | None = None
    direction: Direction = "down"
    start: DurationLike = 0.0
    stop: DurationLike | None = None
    app: str | type[App] = "bulk"
    ecn: Literal["off", "classic", "accurate"] | None = None
    sender: str | None = None
    receiver: str | None = None

    def __post_init__(self) -> None:
        """Check all that needs neither Network nor hosts."""
        path = arguments.optional_text(self.path, "path")
        hosts = [arguments.text(getattr(self, end), end) for end in ("sender", "receiver") if getattr(self, end)]
        self.to_record([path or ex.ROLE], hosts)

    def to_record(self, paths: Sequence[str], hosts: Sequence[str]) -> ex.Flow:
        """Return the flow as the Experiment's record has it.

        Raises:
            UserError: A value of a wrong type or out of range, or a path or host that is not among these names.
        """
        scheme = scheme_name(self.controller, "controller")
        if len(flows := flows_of(scheme)) != 1:
            raise UserError(f"{shown(scheme)} is {len(flows)} flows", where="controller", expected="one controller")
        ((controller, options),) = flows
        return ex.Flow(
            controller=controller,
            direction=arguments.choice(self.direction, "direction", ex.DIRECTIONS),
            profile=paths[0] if self.path is None else arguments.choice(self.path, "path", paths),
            options=options,
            start_ns=_nanoseconds(self.start, "start"),
            stop_ns=None if self.stop is None else _nanoseconds(self.stop, "stop"),
            app=apps.parse_app(app_text(self.app, "app"), "app"),
            sender=None if self.sender is None else arguments.choice(self.sender, "sender", hosts),
            receiver=None if self.receiver is None else arguments.choice(self.receiver, "receiver", hosts),
            ecn=ecn_of(scheme)[0] if self.ecn is None else arguments.choice(self.ecn, "ecn", ECN_MODES),
        )


def _nanoseconds(value: DurationLike, where: str, least_s: float = 0.0) -> int:
    return seconds_to_ns(arguments.seconds(value, where), where, least_s)

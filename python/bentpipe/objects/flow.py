"""A flow of an Experiment: a controller over a path, with its start, its end and its data."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

from bentpipe.errors import UserError, shown
from bentpipe.execution.plan import seconds_to_ns
from bentpipe.experiments import experiment as ex
from bentpipe.experiments.schemes import ECN_MODES, ecn_of, flows_of
from bentpipe.objects import arguments
from bentpipe.objects.schemes import scheme_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe.objects.arguments import DurationLike
    from bentpipe.profiles.table import Direction


@dataclass(frozen=True)
class Flow:
    """A flow: always with data to send, unless it has `size` or writes at a constant rate.

    Attributes:
        controller: A name of `bentpipe.controllers` with tunables (``bbr:min_rtt_win_s=20``), or a class of your own.
        path: Name of its path in a `Network`; default: the only or the first one.
        direction: ``down`` (to the terminal) or ``up``.
        start: Start, since the run's start.
        stop: End; default: the run's end.
        size: Bytes to transfer.
        write: Bytes of each write of an application with a constant rate; with `every`.
        every: Interval between writes.
        ecn: Requested ECN mode: ``off``, ``classic`` or ``accurate``; default: that in the controller's text.
        sender: Name of the sending host in the Experiment's `hosts`; default: a Linux server.
        receiver: Name of the receiving host.

    Example:
        >>> import bentpipe as bp
        >>> bp.Flow("cubic", direction="up", start="5s", size=20_000_000).direction
        'up'
    """

    controller: str | type
    _: KW_ONLY
    path: str | None = None
    direction: Direction = "down"
    start: DurationLike = 0.0
    stop: DurationLike | None = None
    size: int | None = None
    write: int | None = None
    every: DurationLike | None = None
    ecn: Literal["off", "classic", "accurate"] | None = None
    sender: str | None = None
    receiver: str | None = None

    def to_record(self, paths: Sequence[str], hosts: Sequence[str]) -> ex.Flow:
        """Return the flow as the Experiment's record has it.

        Raises:
            UserError: A value of a wrong type or out of range, or a path or host that is not among these names.
        """
        scheme = scheme_name(self.controller, "controller")
        if len(flows := flows_of(scheme)) != 1:
            raise UserError(f"controller: {shown(scheme)} is {len(flows)} flows; expected one controller")
        ((controller, options),) = flows
        return ex.Flow(
            controller=controller,
            direction=arguments.choice(self.direction, "direction", ex.DIRECTIONS),
            profile=paths[0] if self.path is None else arguments.choice(self.path, "path", paths),
            options=options,
            start_ns=_nanoseconds(self.start, "start"),
            stop_ns=None if self.stop is None else _nanoseconds(self.stop, "stop"),
            application=self._application(),
            sender=None if self.sender is None else arguments.choice(self.sender, "sender", hosts),
            receiver=None if self.receiver is None else arguments.choice(self.receiver, "receiver", hosts),
            ecn=ecn_of(scheme)[0] if self.ecn is None else arguments.choice(self.ecn, "ecn", ECN_MODES),
        )

    def _application(self) -> ex.Application:
        if self.size is not None:
            if self.write is not None or self.every is not None:
                raise UserError("size: given with write or every; expected a size, or writes at a constant rate")
            return ex.Transfer(bytes=arguments.integer(self.size, "size", 1))
        if self.write is None and self.every is None:
            return "bulk"
        if self.write is None or self.every is None:
            raise UserError("write, every: only one is given; expected both, such as write=1200, every='20ms'")
        every_ns = _nanoseconds(self.every, "every", least_s=1e-9)
        return ex.Paced(paced=ex.Writes(write_bytes=arguments.integer(self.write, "write", 1), every_ns=every_ns))


def _nanoseconds(value: DurationLike, where: str, least_s: float = 0.0) -> int:
    return seconds_to_ns(arguments.seconds(value, where), where, least_s)

"""Active measurements of a path from this machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from bentpipe.errors import UserError
from bentpipe.measurements.probing.recording import ProbeRequest
from bentpipe.measurements.probing.session import Session
from bentpipe.measurements.probing.spec import Method, Spec, look_up
from bentpipe.objects import arguments
from bentpipe.objects.measurement import Measurement, read

if TYPE_CHECKING:
    from bentpipe.objects.arguments import DurationLike, FileLike

PORTS = {"ping": 0, "tcp": 443, "owd": 8712, "trace": 0}
"""Default port of each method."""


def probe(
    hosts: str | Sequence[str],
    out: FileLike,
    *,
    method: Method = "ping",
    duration: DurationLike | None = None,
    every: DurationLike = 1.0,
    port: int | None = None,
    site: str = "here",
    ip: int | None = None,
    synchronised: bool = False,
    on_note: Callable[[str], object] | None = None,
) -> Measurement:
    """Probe hosts in real time and store a measured Run: until Ctrl-C, or for `duration`.

    Args:
        hosts: Names or addresses, probed in turn.
        out: Folder for the Run. What a killed prober left there, `finish_probe` makes a Run of.
        method: ``ping`` (ICMP echo), ``tcp`` (handshakes), ``owd`` (one-way delays against a `Reflector`) or ``trace``
            (traceroutes). None needs root where `net.ipv4.ping_group_range` allows ICMP.
        duration: Duration; default: until Ctrl-C.
        every: Interval between probes to one host.
        port: Port of tcp and owd; default: 443 and 8712.
        site: Name of this site in the Run.
        ip: Use only IP version 4 or 6.
        synchronised: owd: both clocks are synchronised, so that no offset is estimated.
        on_note: Called with notes, one line each.

    Returns:
        The measurement.

    Raises:
        UserError: No permission, no reflector, an unknown host, or nothing was sent.
        StoreError: The disk cannot be written.

    Example:
        >>> import socket
        >>> import bentpipe as bp
        >>> with socket.create_server(("127.0.0.1", 0)) as server:
        ...     port = server.getsockname()[1]
        ...     measured = bp.probe("127.0.0.1", "out/probe", method="tcp", port=port, duration=0.5, every="100ms")
        >>> measured.tables
        ['probes']
    """
    kind = arguments.choice(method, "method", get_args(Method))
    if ip not in (None, 4, 6):
        raise UserError(f"{ip!r}", where="ip", expected="4 or 6")
    chosen_port = PORTS[kind] if port is None else arguments.integer(port, "port", 1)
    spec = Spec(
        kind,
        look_up(arguments.texts(hosts, "hosts"), kind, chosen_port, ip),
        _nanoseconds(every, "every"),
        None if duration is None else _nanoseconds(duration, "duration"),
    )
    request = ProbeRequest(arguments.text(site, "site"), spec, synchronised)
    session = Session(request, arguments.file(out, "out"), arguments.callback(on_note, "on_note"))
    run = session.run()
    if run is None:
        raise UserError("ended before the first probe; nothing is stored", where="probe")
    return read(run.path)


def finish_probe(out: FileLike) -> list[Path]:
    """Make Runs from the records that killed probers left below a folder; return the Runs' folders.

    Example:
        >>> import bentpipe as bp
        >>> [bp.read(run).tables for run in bp.finish_probe("out/killed")]  # doctest: +SKIP
        [['probes']]
    """
    from bentpipe.measurements.probing.conversion import finish_all

    return [run.path for run in finish_all(arguments.file(out, "out"))]


def _nanoseconds(value: DurationLike, where: str) -> int:
    nanoseconds = round(arguments.seconds(value, where) * 1e9)
    if nanoseconds <= 0:
        raise UserError(f"{value}", where=where, expected="more than 0 s")
    return nanoseconds

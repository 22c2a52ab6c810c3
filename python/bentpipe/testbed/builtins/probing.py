"""``ping``, ``tcp-ping``, ``traceroute``: bentpipe's own probers."""

from __future__ import annotations

import sys
import tempfile
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.builtins.outcome import NetworkFailureError
from bentpipe.testbed.builtins.tools import keep
from bentpipe.testbed.schemas.builtins import PingArguments, TcpPingArguments, TracerouteArguments

if TYPE_CHECKING:
    from bentpipe.measurements.probing.spec import Method
    from bentpipe.testbed.builtins.request import Context


def start_prober(context: Context) -> None:
    """Start the prober before the gate: it then waits for what to probe."""
    from bentpipe.measurements.probing.session import start_engine

    context.prober = start_engine()


def ping(arguments: PingArguments, context: Context) -> None:
    """Send ICMP echo requests."""
    target = arguments.target or context.request.server
    if target is None:
        raise UserError("no target", where="ping", expected="target, or an emulated path")
    _probe(context, "ping", [target], every_s=arguments.every, for_s=arguments.seconds)


def tcp_ping(arguments: TcpPingArguments, context: Context) -> None:
    """Make TCP handshakes."""
    host, _, port = arguments.target.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(arguments.target, where="target", expected="HOST:PORT")
    _probe(context, "tcp", [host.strip("[]")], port=int(port), every_s=arguments.every, for_s=arguments.seconds)


def traceroute(arguments: TracerouteArguments, context: Context) -> None:
    """Find routes."""
    for_s = 3.0 * arguments.rounds
    _probe(context, "trace", list(arguments.targets), every_s=3.0, for_s=for_s)


def _probe(
    context: Context, method: Method, targets: list[str], *, port: int = 0, every_s: float, for_s: float
) -> None:
    from bentpipe.measurements.probing.recording import ProbeRequest
    from bentpipe.measurements.probing.session import Session
    from bentpipe.measurements.probing.spec import Spec, look_up

    try:
        resolved = look_up(targets, method, port, None)
    except UserError as error:  # no such name, or no route
        raise NetworkFailureError(str(error)) from None
    spec = Spec(method, resolved, round(every_s * 1e9), round(for_s * 1e9))
    with tempfile.TemporaryDirectory() as folder:
        request = ProbeRequest(context.request.site, spec, synchronised=False)
        run = Session(request, folder, lambda line: print(line, file=sys.stderr), engine=context.prober).run()
        if run is None:
            raise NetworkFailureError("ended before its first probe")
        keep(run, context.output)

"""``irtt``: RTTs and one-way delays between the node and its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.testbed.builtins.outcome import NetworkFailureError
from bentpipe.testbed.builtins.tools import measured, run_tool
from bentpipe.testbed.schemas.builtins import IrttArguments

if TYPE_CHECKING:
    from bentpipe.measurements.runs.store import MeasuredRun
    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import Arguments

PORTS = ("irtt",)


def client(arguments: IrttArguments, context: Context) -> None:
    """Send packets."""
    send(context, arguments.every, arguments.seconds, arguments.size)


def send(context: Context, every_s: float, seconds: float, size_bytes: int) -> MeasuredRun:
    """Send packets to the server's irtt, which returns each one; return the measured Run."""
    name, port = context.server("irtt")
    host = f"[{name}]" if ":" in name else name
    output = context.raw / "irtt.json"
    command = ["irtt", "client", "-i", f"{every_s * 1e6:.0f}us", "-d", f"{seconds:g}s"]
    command += ["-l", str(size_bytes), "-q", "-o", str(output), f"{host}:{port}"]
    code, message = run_tool(command)
    if not output.exists():
        raise NetworkFailureError(f"irtt: {message or f'ended with {code} and wrote nothing'}")
    return measured(context, [output])


def server(_: Arguments, ports: dict[str, int]) -> list[str]:
    """Return the command of the server."""
    return ["irtt", "server", "-b", f":{ports['irtt']}", "-d", "0", "-i", "1ms"]

"""``irtt``: RTTs and one-way delays between the node and its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.builtins.tools import measured, run_tool
from bentpipe.testbed.schemas.builtins import IrttArguments

if TYPE_CHECKING:
    from bentpipe.testbed.builtins.request import Context

PORTS = ("irtt",)


def client(arguments: IrttArguments, context: Context) -> None:
    """Send packets."""
    request = context.request
    if request.server is None:
        raise UserError("no server", where="irtt", expected="a server node")
    host = f"[{request.server}]" if ":" in request.server else request.server
    output = context.raw / "irtt.json"
    command = ["irtt", "client", "-i", f"{arguments.every * 1000:g}ms", "-d", f"{arguments.seconds:g}s"]
    command += ["-l", str(arguments.size), "-q", "-o", str(output), f"{host}:{request.ports.get('irtt', 2112)}"]
    code = run_tool(command)
    if not output.exists():
        raise UserError(f"irtt ended with {code} and wrote nothing", where="irtt", expected="a server that answers")
    measured(context, [output])


def server(_: IrttArguments, ports: dict[str, int]) -> list[str]:
    """Return the command of the server."""
    return ["irtt", "server", "-b", f":{ports['irtt']}", "-d", "0", "-i", "1ms"]

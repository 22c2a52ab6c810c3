"""``iperf3``: a transfer between the node and its server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.builtins.outcome import NetworkFailureError
from bentpipe.testbed.builtins.tools import measured, run_tool
from bentpipe.testbed.schemas.builtins import Iperf3Arguments

if TYPE_CHECKING:
    from bentpipe.testbed.builtins.request import Context

PORTS = ("iperf3",)


def client(arguments: Iperf3Arguments, context: Context) -> None:
    """Transfer."""
    host, port = context.server("iperf3")
    command = ["iperf3", "-J", "-c", host, "-p", str(port)]
    command += ["-t", f"{arguments.seconds:g}", "-i", f"{arguments.interval:g}", "-P", str(arguments.streams)]
    command += ["--connect-timeout", "5000"]
    if arguments.direction == "down":
        command += ["-R"]
    if arguments.udp is not None:
        command += ["-u", "-b", str(arguments.udp)]
    elif arguments.bitrate is not None:
        command += ["-b", str(arguments.bitrate)]
    if arguments.controller is not None:
        command += ["-C", arguments.controller]
    if arguments.omit:
        command += ["-O", f"{arguments.omit:g}"]
    output = context.raw / "iperf3.json"
    code, message = run_tool(command, output)
    try:
        document = json.loads(output.read_bytes())
    except ValueError:
        raise UserError(f"iperf3 ended with {code} and wrote no JSON: {message}", where="iperf3") from None
    if document.get("intervals"):
        measured(context, [output])
    if "error" in document:
        raise NetworkFailureError(f"iperf3: {document['error']}")


def server(_: Iperf3Arguments, ports: dict[str, int]) -> list[str]:
    """Return the command of the server."""
    return ["iperf3", "-s", "-p", str(ports["iperf3"])]

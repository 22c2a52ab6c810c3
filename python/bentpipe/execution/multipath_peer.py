"""The programs of `bentpipe.execution.multipath_kernel` inside an emulation: they exchange data over Multipath TCP.

``python -m bentpipe.execution.multipath_peer server`` and ``… client REQUEST``, with the request as JSON. The client
requests, the server sends, and the client prints when each write was complete, as JSON.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any

from bentpipe.net_dev import interface_bytes

PORT = 5262
#: `IPPROTO_MPTCP` (Linux 5.6); Python knows it from 3.13 on.
IPPROTO_MPTCP = 262
#: Devices of the two paths.
DEVICES = ("bentpipe", "bentpipe1")
#: Bytes of a write of bulk data, and of a read.
CHUNK = 1 << 18
#: Wait for the second subflow before the data begin [s].
JOIN_S = 1.0


def main() -> None:
    """Run the peer that the first argument names."""
    if sys.argv[1] == "server":
        _serve()
    else:
        sys.stdout.write(json.dumps(_receive(json.loads(sys.argv[2]))) + "\n")


def _address(device: str) -> str:
    lines = subprocess.run(
        ["ip", "-4", "-o", "addr", "show", "dev", device], capture_output=True, text=True, check=True
    ).stdout
    return lines.split(" inet ")[1].split("/")[0]


def _mptcp(*words: str) -> None:
    subprocess.run(["ip", "mptcp", *words], check=True, capture_output=True)


def _serve() -> None:
    """Announce the first path's address, and send to one client what it requests."""
    _mptcp("limits", "set", "subflow", "2", "add_addr_accepted", "2")
    _mptcp("endpoint", "add", _address(DEVICES[0]), "dev", DEVICES[0], "signal")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", PORT))
        listener.listen()
        while True:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as stream:
                request = json.loads(stream.readline())
                try:
                    _send(connection, request)
                except (BrokenPipeError, ConnectionResetError):
                    continue  # the client has what it wanted


def _send(connection: socket.socket, request: dict[str, Any]) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    start_ns = request["start_ns"]
    if not request["writes"]:
        data = bytes(CHUNK)
        while time.monotonic_ns() < start_ns + request["duration_s"] * 1e9:
            connection.sendall(data)
        return
    for at_s, size in request["writes"]:
        wait_s = start_ns / 1e9 + at_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        connection.sendall(bytes(size))


def _receive(request: dict[str, Any]) -> dict[str, Any]:
    """Request data over the paths that the request names, and note when they arrive."""
    paths = request["paths"]
    protocol = IPPROTO_MPTCP if len(paths) > 1 else 0
    if protocol:
        _mptcp("limits", "set", "subflow", "2", "add_addr_accepted", "2")
    # The other end of a path has the address before ours; of two paths, the second one opens the connection.
    own = _address(DEVICES[paths[-1]])
    server = f"{own.rsplit('.', 1)[0]}.1"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol) as connection:
        connection.connect((server, PORT))
        start_ns = time.monotonic_ns() + round(JOIN_S * 1e9)
        order = {"start_ns": start_ns, "duration_s": request["duration_s"], "writes": request["writes"]}
        connection.sendall(json.dumps(order).encode() + b"\n")
        before = _received_bytes()
        result = (
            _bulk(connection, request, start_ns) if not request["writes"] else _writes(connection, request, start_ns)
        )
        result["path_bytes"] = [after - first for after, first in zip(_received_bytes(), before, strict=True)]
    return result


def _bulk(connection: socket.socket, request: dict[str, Any], start_ns: int) -> dict[str, Any]:
    """Count what arrives between the warm-up and the end."""
    buffer = bytearray(CHUNK)
    begin_ns, end_ns = start_ns + request["warmup_s"] * 1e9, start_ns + request["duration_s"] * 1e9
    count = 0
    while count := connection.recv_into(buffer):
        if time.monotonic_ns() >= begin_ns:
            break
    total = 0
    while count and time.monotonic_ns() < end_ns:
        count = connection.recv_into(buffer)
        total += count
    return {"goodput_bps": total * 8 / ((end_ns - begin_ns) / 1e9)}


def _writes(connection: socket.socket, request: dict[str, Any], start_ns: int) -> dict[str, Any]:
    """Return when each write was complete, from when it was due [ms]."""
    buffer, completion_ms, received, end = bytearray(CHUNK), [], 0, 0
    connection.settimeout(request["duration_s"])
    writes = iter(request["writes"])
    at_s, size = next(writes)
    end += size
    while count := connection.recv_into(buffer):
        now_ns = time.monotonic_ns()
        received += count
        while received >= end:
            completion_ms.append((now_ns - start_ns - at_s * 1e9) / 1e6)
            following = next(writes, None)
            if following is None:
                return {"completion_ms": completion_ms}
            at_s, size = following
            end += size
    return {"completion_ms": completion_ms}


def _received_bytes() -> list[int]:
    return [interface_bytes(device)[0] for device in DEVICES]


if __name__ == "__main__":
    main()

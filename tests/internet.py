"""An Internet for tests: ``python internet.py`` in a network and mount namespace of its own, until its input ends.

The namespace's loopback device has addresses that are not loopback's, with servers on them: TCP (80: a page of random
bytes; 81: answers with the hash of all it gets once the other side has ended; 82: resets), UDP (7: echo), and on the
machine's true loopback a resolver and a service that nobody else may reach.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from emulation import need

V4, V4_OTHER, V6 = "192.0.2.10", "192.0.2.11", "2001:db8::10"
NO_ROUTE, NOBODY, NO_ROUTE_V6 = "203.0.113.1", "198.51.100.1", "2001:db8:1::1"
NAME = "page.example"
PAGE = random.Random(0).randbytes(10_000_000)
SECRET_PORT = 4444


@contextlib.contextmanager
def machine_with_one():
    """What goes before a command so that it runs on a machine that has this Internet."""
    need("ip", "unshare", "nsenter", "mount")
    plain = os.geteuid() != 0
    unshare = ["unshare", "--net", "--mount", *(["--map-root-user"] if plain else [])]
    command = [*unshare, sys.executable, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        user = ["--user", "--preserve-credentials"] if plain else []
        yield ["nsenter", "--target", str(process.pid), "--net", "--mount", *user]
        process.stdin.close()


def main() -> None:
    """Set up, say so, wait."""
    for line in (
        "link set lo up",
        f"addr add {V4}/32 dev lo",
        f"addr add {V4_OTHER}/32 dev lo",
        f"-6 addr add {V6}/128 dev lo nodad",
        f"route add unreachable {NOBODY}/32",
    ):
        subprocess.run(["ip", *line.split()], check=True)
    Path("/proc/sys/net/ipv4/ping_group_range").write_text("0 0", encoding="ascii")
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write("nameserver 127.0.0.53\n")
        conf.flush()
        subprocess.run(["mount", "--bind", conf.name, "/etc/resolv.conf"], check=True)
        for port, serve in ((80, _page), (81, _hash), (82, _reset)):
            _tcp(("::", port), serve)
        _tcp(("127.0.0.1", SECRET_PORT), _page)
        _udp(("::", 7), lambda data: data)
        _tcp(("127.0.0.53", 53), _answer_over_tcp)
        _udp(("127.0.0.53", 53), _answer)
        print("ready", flush=True)
        sys.stdin.read()


def _tcp(address, serve) -> None:
    listener = socket.create_server(address, family=_family(address), dualstack_ipv6=address[0] == "::", backlog=64)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection) -> None:
        with contextlib.suppress(OSError), connection:
            serve(connection)

    threading.Thread(target=accept, daemon=True).start()


def _udp(address, answer) -> None:
    server = socket.socket(_family(address), socket.SOCK_DGRAM)
    server.bind(address)

    def serve() -> None:
        while True:
            data, client = server.recvfrom(65536)
            server.sendto(answer(data), client)

    threading.Thread(target=serve, daemon=True).start()


def _family(address):
    return socket.AF_INET6 if ":" in address[0] else socket.AF_INET


def _page(connection) -> None:
    connection.sendall(PAGE)


def _hash(connection) -> None:
    whole = hashlib.sha256()
    while data := connection.recv(1 << 16):
        whole.update(data)
    connection.sendall(whole.hexdigest().encode())


def _reset(connection) -> None:
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _answer_over_tcp(connection) -> None:
    (length,) = struct.unpack("!H", connection.recv(2, socket.MSG_WAITALL))
    answer = _answer(connection.recv(length, socket.MSG_WAITALL))
    connection.sendall(struct.pack("!H", len(answer)) + answer)


def _answer(query: bytes) -> bytes:
    """RFC 1035: `NAME` has two addresses, no other name has one."""
    end = query.index(0, 12) + 5
    name, kind = query[12 : end - 4], struct.unpack("!H", query[end - 4 : end - 2])[0]
    wanted = b"".join(bytes([len(label)]) + label.encode() for label in NAME.split(".")) + b"\0"
    data = {1: socket.inet_pton(socket.AF_INET, V4), 28: socket.inet_pton(socket.AF_INET6, V6)}.get(kind)
    known = name.lower() == wanted
    result = known and data is not None
    header = query[:2] + struct.pack("!5H", 0x8180 if known else 0x8183, 1, int(result), 0, 0)
    record = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(data)) + data if result else b""
    return header + query[12:end] + record


if __name__ == "__main__":
    main()

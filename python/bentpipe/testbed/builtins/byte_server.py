"""The server of ``video``: ``python -m bentpipe.testbed.builtins.byte_server PORT`` sends ``/bytes/N`` over HTTP."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from bentpipe.testbed.builtins.gate import wait_at_gate

PIECE = os.urandom(1 << 18)
"""Random bytes, sent over and over, which no proxy compresses."""
LARGEST_BYTES = 10**9


class Server(ThreadingHTTPServer):
    """Listens on all addresses, IPv6 too where the machine has it."""

    daemon_threads = True
    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def __init__(self, port: int) -> None:
        """Listen; `serve_forever` answers."""
        super().__init__(("::" if self.address_family == socket.AF_INET6 else "0.0.0.0", port), Handler)

    def server_bind(self) -> None:
        """Take IPv4 on the same socket."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


class Handler(BaseHTTPRequestHandler):
    """Answers a client's requests over one connection."""

    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Send bytes."""
        match = re.fullmatch(r"/bytes/(\d{1,10})", self.path)
        left = int(match[1]) if match else 0
        is_known = match is not None and left <= LARGEST_BYTES
        self.send_response(200 if is_known else 404)
        left = left if is_known else 0
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(left))
        self.end_headers()
        with contextlib.suppress(OSError):  # the client is gone
            while left:
                piece = PIECE[:left]
                self.wfile.write(piece)
                left -= len(piece)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    wait_at_gate()
    Server(int(sys.argv[1])).serve_forever()

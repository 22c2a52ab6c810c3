"""How much memory this machine's kernel allows for each segment when a send buffer grows."""

from __future__ import annotations

import socket
import struct

SO_MEMINFO = 55
"""`asm-generic/socket.h`; nine counters, the fourth is the send buffer's size (`SK_MEMINFO_SNDBUF`)."""

INITIAL_SEGMENTS = 20
"""A new connection of Reno has room for two initial windows (`tcp_sndbuf_expand`)."""

MSS_BYTES = 1460
"""Of 1500-byte packets over IPv4: what an emulated host announces."""


def wmem_segment_bytes() -> int | None:
    """Asked of a connection over loopback.

    It depends on how the kernel was built: 4352 with drivers for wireless networks, 2304 without (x86-64). None: the
    kernel does not tell, or `net.ipv4.tcp_wmem` begins with more room than that.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as end:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MSS_BYTES)
            end.connect(listener.getsockname())
            counters = struct.unpack("9I", end.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))
    except (OSError, AttributeError, struct.error):
        return None
    per_segment, rest = divmod(counters[3], INITIAL_SEGMENTS)
    return per_segment if rest == 0 and per_segment > MSS_BYTES else None

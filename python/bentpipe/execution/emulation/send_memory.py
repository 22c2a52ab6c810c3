"""Memory per segment that this machine's kernel allows when a send buffer grows."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

SO_MEMINFO = 55
"""`asm-generic/socket.h`; nine counters, the fourth is the send buffer's size (`SK_MEMINFO_SNDBUF`)."""

INITIAL_SEGMENTS = 20
"""A new connection of Reno has room for two initial windows (`tcp_sndbuf_expand`)."""

MSS_BYTES = 1460
"""MSS of an emulated host: 1500-byte packets over IPv4 [bytes]."""


TCP_WMEM = Path("/proc/sys/net/ipv4/tcp_wmem")

SKB_BYTES = range(192, 513)
"""Sizes of `struct sk_buff`, besides a power of two for data, headers and `skb_shared_info` (256 on x86-64) [bytes]."""


def wmem_segment_bytes() -> int | None:
    """Measure the memory per segment with a connection over loopback [bytes].

    It depends on the kernel's build: 4352 with drivers for wireless networks, 2304 without (x86-64). None: unknown,
    since the kernel does not report it, or `net.ipv4.tcp_wmem` starts above it or ends below it.
    """
    try:
        _, begin, most = (int(word) for word in TCP_WMEM.read_text(encoding="ascii").split())
        size = _sndbuf()
    except (OSError, AttributeError, ValueError, struct.error):
        return None
    per_segment, rest = divmod(size, INITIAL_SEGMENTS)
    data = 1 << max(per_segment.bit_length() - 1, 0)
    is_plausible = rest == 0 and per_segment > MSS_BYTES and per_segment - data in SKB_BYTES
    return per_segment if is_plausible and begin < size < most else None


def _sndbuf() -> int:
    """Return the send buffer of a new connection [bytes]."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as end:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, MSS_BYTES)
        end.connect(listener.getsockname())
        return int(struct.unpack("9I", end.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36))[3])

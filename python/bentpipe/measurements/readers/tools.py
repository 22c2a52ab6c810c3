"""The programs whose output is read flow by flow: how each is known, and what reads it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from bentpipe.files import unpacked
from bentpipe.measurements.readers import curl, iperf3, irtt, ping
from bentpipe.measurements.readers.reading import Arrivals, Reading

_GZIP = b"\x1f\x8b"

Reader = Callable[[bytes, str, Arrivals | None], Reading]

TOOLS: Mapping[str, tuple[Callable[[bytes], bool], Reader]] = MappingProxyType(
    {
        "iperf3": (iperf3.is_iperf3, iperf3.read),
        "irtt": (irtt.is_irtt, irtt.read),
        "curl": (curl.is_curl, curl.read),
        "ping": (ping.is_ping, ping.read),
    }
)
"""By tool: whether the beginning of a text (`HEAD_BYTES` of it) is its output, and what reads it."""

HEAD_BYTES = 4096
"""As much as is needed to know a tool by. Chosen: every tool's first keys stand in the first kilobyte."""


MOST_BYTES = 128 << 20
"""Most that a text may have, as it is or unpacked. Chosen here: two hours of irtt every 60 ms."""


def recognise(data: bytes) -> str | None:
    """The tool of `TOOLS` that printed `data`, plain or gzipped; None: none of them."""
    head = data[:HEAD_BYTES]
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return None
    return next((tool for tool, (is_it, _) in TOOLS.items() if is_it(head)), None)


def read(tool: str, data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """What `tool` printed, plain or gzipped; `where` names it in messages.

    Raises:
        UserError: It is not the tool's, cut off where that cannot be said, or absurd; the place is named.
    """
    if data.startswith(_GZIP):
        return TOOLS[tool][1](unpacked(data, where, MOST_BYTES), where, None)
    return TOOLS[tool][1](data, where, arrivals)

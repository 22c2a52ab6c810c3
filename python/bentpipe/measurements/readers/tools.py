"""The programs whose output is parsed flow by flow: how each is recognised and read."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from bentpipe.files import unpacked
from bentpipe.measurements.readers import curl, iperf3, irtt, ping, ping_lines
from bentpipe.measurements.readers.reading import Arrivals, Reading

_GZIP = b"\x1f\x8b"

Reader = Callable[[bytes, str, Arrivals | None], Reading]

TOOLS: Mapping[str, tuple[Callable[[bytes], bool], Reader]] = MappingProxyType(
    {
        "iperf3": (iperf3.is_iperf3, iperf3.read),
        "irtt": (irtt.is_irtt, irtt.read),
        "curl": (curl.is_curl, curl.read),
        "ping": (ping_lines.is_ping, ping.read),
    }
)
"""Tool → (whether a text that begins with these bytes, up to `HEAD_BYTES`, is its output; parser)."""

HEAD_BYTES = 4096
"""Bytes used to recognise a tool. Chosen: every tool's first keys are in the first kilobyte."""


MOST_BYTES = 128 << 20
"""Largest text accepted, before and after decompression [bytes]. Chosen here: two hours of irtt every 60 ms."""


def recognise(data: bytes) -> str | None:
    """Return the tool of `TOOLS` that printed `data`, plain or gzipped; None: unknown."""
    head = data[:HEAD_BYTES]
    if head.startswith(_GZIP):
        try:
            head = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        except zlib.error:
            return None
    return next((tool for tool, (matches, _) in TOOLS.items() if matches(head)), None)


def read(tool: str, data: bytes, where: str, arrivals: Arrivals | None = None) -> Reading:
    """Parse the output of `tool`, plain or gzipped; `where` names it in messages.

    Raises:
        UserError: The text is not the tool's output, is truncated where that is fatal, or has impossible values; the
            place is named.
    """
    if data.startswith(_GZIP):
        return TOOLS[tool][1](unpacked(data, where, MOST_BYTES), where, None)
    return TOOLS[tool][1](data, where, arrivals)

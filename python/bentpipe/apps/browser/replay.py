"""A page of made content: each object has the recorded size and kind, and leads to the same others."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.apps.web.page import Page

DOMAIN = "page.test"
"""Domain of the hosts, of a kind that never exists (RFC 2606)."""

HEADER_BYTES = 200
"""About what a response's header takes; the body is shorter than the recorded response by this."""

TYPES: Mapping[str, str] = {
    "document": "text/html; charset=utf-8",
    "style": "text/css",
    "script": "text/javascript",
    "image": "image/png",
    "other": "application/octet-stream",
}
"""Media types by kind of object."""


@dataclass(frozen=True)
class Replay:
    """The objects of a page as a server has them: kinds and bodies by number; the first is the document."""

    kinds: tuple[str, ...]
    bodies: tuple[bytes, ...]

    @staticmethod
    def of(page: Page, port: int) -> Replay:
        """Make the content of a page whose hosts have this port. Objects without a predecessor follow the document."""
        graph = [
            [
                f"https://{host_name(each.host)}:{port}/{number}",
                each.kind,
                0 if each.after is None else each.after,
                each.compute_ns / 1e6,
            ]
            for number, each in enumerate(page.objects)
        ]
        sizes = [max(0, each.response_bytes - HEADER_BYTES) for each in page.objects]
        kinds = ("document", *(each.kind for each in page.objects[1:]))
        bodies = [_document(graph, sizes[0])]
        bodies += [_body(kinds[number], sizes[number], number) for number in range(1, len(kinds))]
        return Replay(kinds, tuple(bodies))


def host_name(host: int) -> str:
    """Return the name of a page's host by its number."""
    return f"h{host}.{DOMAIN}"


def _document(graph: list[list[object]], size: int) -> bytes:
    loader = files(__package__).joinpath("loader.js").read_text(encoding="utf-8")
    # The JSON is inside a script element, which `</` would end.
    names = json.dumps(graph).replace("</", "<\\/")
    head = "<!doctype html><html><head><title>page</title></head><body><h1>A page of made content</h1>"
    text = f"{head}<script>const GRAPH = {names};\n{loader}</script></body></html>"
    return _padded(text.encode(), b"<!--", b"-->", size)


def _body(kind: str, size: int, number: int) -> bytes:
    if kind == "image":
        return _image(number).ljust(size, b"\0")  # decoders ignore what follows the image
    if kind in ("style", "script"):
        return _padded(b"", b"/*", b"*/", size)
    return bytes(size)


def _padded(text: bytes, opening: bytes, closing: bytes, size: int) -> bytes:
    filler = size - len(text) - len(opening) - len(closing)
    return text if filler < 0 else text + opening + b"." * filler + closing


def _image(number: int) -> bytes:
    """Return a PNG of one colour, 22 × 6 pixels (RFC 2083)."""
    red, green, blue = (40 + number * step % 200 for step in (37, 71, 113))
    rows = (b"\0" + bytes((red, green, blue)) * 22) * 6
    header = struct.pack(">IIBBBBB", 22, 6, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )

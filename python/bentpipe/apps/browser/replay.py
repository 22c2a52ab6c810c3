"""A page of made content: each object has the recorded size and kind, and leads to the same others."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import repeat
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


CHUNK_BYTES = 256 << 10
"""Most filler that is sent at once: more than most objects, and little memory."""

_FILLERS: Mapping[bytes, bytes] = {filler: filler * CHUNK_BYTES for filler in (b".", b"\0")}
"""The filler of all bodies, by its byte."""


@dataclass(frozen=True)
class Body:
    """The content of an object, which may be larger than memory.

    Attributes:
        begin: How it begins.
        filler: The byte after that, one of `_FILLERS`.
        count: How many of them there are.
        end: How it ends.
    """

    begin: bytes = b""
    filler: bytes = b"\0"
    count: int = 0
    end: bytes = b""

    @property
    def size(self) -> int:
        """Its size [bytes]."""
        return len(self.begin) + self.count + len(self.end)

    def chunks(self) -> Iterator[bytes]:
        """Yield it in order; a small one is one chunk.

        Example:
            >>> list(Body(b"/*", b".", 3, b"*/").chunks())
            [b'/*...*/']
        """
        whole, rest = divmod(self.count, CHUNK_BYTES)
        filler = _FILLERS[self.filler]
        if whole == 0:
            yield self.begin + filler[:rest] + self.end
            return
        yield self.begin + filler[:rest]
        yield from repeat(filler, whole)
        if self.end:
            yield self.end


@dataclass(frozen=True)
class Replay:
    """The objects of a page as a server has them: kinds and bodies by number; the first is the document."""

    kinds: tuple[str, ...]
    bodies: tuple[Body, ...]

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


def _document(graph: list[list[object]], size: int) -> Body:
    loader = files(__package__).joinpath("loader.js").read_text(encoding="utf-8")
    # The JSON is inside a script element, which `</` would end.
    names = json.dumps(graph).replace("</", "<\\/")
    head = "<!doctype html><html><head><title>page</title></head><body><h1>A page of made content</h1>"
    text = f"{head}<script>const GRAPH = {names};\n{loader}</script></body></html>"
    return _padded(text.encode(), b"<!--", b"-->", size)


def _body(kind: str, size: int, number: int) -> Body:
    if kind == "image":
        image = _image(number)
        return Body(image, count=max(0, size - len(image)))  # decoders ignore what follows the image
    if kind in ("style", "script"):
        return _padded(b"", b"/*", b"*/", size)
    return Body(count=size)


def _padded(text: bytes, opening: bytes, closing: bytes, size: int) -> Body:
    count = size - len(text) - len(opening) - len(closing)
    return Body(text) if count < 0 else Body(text + opening, b".", count, closing)


def _image(number: int) -> bytes:
    """Return a PNG of one colour, 22 × 6 pixels (RFC 2083)."""
    red, green, blue = (40 + number * step % 200 for step in (37, 71, 113))
    rows = (b"\0" + bytes((red, green, blue)) * 22) * 6
    header = struct.pack(">IIBBBBB", 22, 6, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )

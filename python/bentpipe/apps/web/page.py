"""A web page as a graph: objects, and which object leads to which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["document", "style", "script", "image", "other"]


@dataclass(frozen=True)
class PageObject:
    """An object of a page.

    Attributes:
        url: Its address, for people.
        host: Number of its host in `Page.hosts`.
        request_bytes: Size of the request [bytes].
        response_bytes: Size of the response, with its header [bytes].
        after: Number of the object that leads to it; None: it is wanted when the load begins.
        compute_ns: Time between the arrival of that object, or the begin, and the request [ns].
        kind: What it is: ``document``, ``style``, ``script``, ``image`` or ``other``.
    """

    url: str
    host: int
    request_bytes: int
    response_bytes: int
    after: int | None
    compute_ns: int
    kind: Kind = "other"


@dataclass(frozen=True)
class Page:
    """A page.

    Attributes:
        name: Its name.
        hosts: Names of its hosts.
        objects: Its objects; each comes after the one that leads to it.
        left_out: Entries of the file that are not fetched over the network, or had no response.
        unsized: Objects whose size the file does not have: they have no body here.
    """

    name: str
    hosts: tuple[str, ...]
    objects: tuple[PageObject, ...]
    left_out: int = 0
    unsized: int = 0

    @property
    def bytes(self) -> int:
        """Size of all responses [bytes]."""
        return sum(each.response_bytes for each in self.objects)

    @property
    def depth(self) -> int:
        """Number of objects on the longest way from one that leads to another."""
        depths: list[int] = []
        for each in self.objects:
            depths.append(1 if each.after is None else depths[each.after] + 1)
        return max(depths, default=0)

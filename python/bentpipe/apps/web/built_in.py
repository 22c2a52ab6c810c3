"""A built-in page, for a machine without HAR files."""

from __future__ import annotations

from dataclasses import dataclass

from bentpipe.apps.web.page import Kind, Page, PageObject

NAME = "median"
"""Its name, where a page is expected."""

REQUEST_BYTES, HEADER_BYTES = 400, 300


@dataclass(frozen=True)
class _Kind:
    """Objects of one kind: how many, their bytes in total, what leads to them and after which computation."""

    name: str
    count: int
    bytes: int
    after: str
    compute_ms: int
    kind: Kind


_KINDS = (
    _Kind("css", 8, 80_000, "html", 5, "style"),
    _Kind("js", 24, 640_000, "html", 10, "script"),
    _Kind("font", 4, 140_000, "css", 10, "other"),
    _Kind("image", 22, 1_240_000, "html", 20, "image"),
    _Kind("late", 12, 509_300, "js", 40, "image"),
)
"""Chosen here, so that the page has the published number of requests and bytes; the publication gives no graph."""

HTML_BYTES = 42_727
HOSTS = 13


def median_page() -> Page:
    """Return a page with the bytes and requests of the median one for desktops: 2,652 kB, 71 requests.

    Source of both: HTTP Archive, Web Almanac 2024, "Page weight". Its kinds, hosts and graph are chosen here: a
    document leads to style sheets, scripts and images, scripts to what comes late, style sheets to fonts, on 13 hosts;
    sizes of a kind are in the ratio 1 : 2 : … of its objects.

    Example:
        >>> page = median_page()
        >>> len(page.objects), page.bytes // 1000, page.depth
        (71, 2652, 3)
    """
    objects = [PageObject("https://host-0/", 0, REQUEST_BYTES, HTML_BYTES, None, 0, "document")]
    first: dict[str, int] = {"html": 0}
    counts = {"html": 1} | {kind.name: kind.count for kind in _KINDS}
    for kind in _KINDS:
        first[kind.name] = len(objects)
        weights = kind.count * (kind.count + 1) // 2
        body_bytes = kind.bytes - kind.count * HEADER_BYTES
        for i in range(kind.count):
            host = 0 if kind.name == "css" else (len(objects) * 5) % HOSTS
            size = body_bytes * (i + 1) // weights + HEADER_BYTES
            after = first[kind.after] + i % counts[kind.after]
            url = f"https://host-{host}/{kind.name}-{i}"
            compute_ns = kind.compute_ms * 1_000_000
            objects.append(PageObject(url, host, REQUEST_BYTES, size, after, compute_ns, kind.kind))
    return Page(NAME, tuple(f"host-{i}" for i in range(HOSTS)), tuple(objects))

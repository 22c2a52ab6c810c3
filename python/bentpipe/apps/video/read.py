"""Videos by what users give: the built-in one's name, a folder with files of sizes, or a DASH manifest."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from bentpipe.apps.video.description import (
    CHUNK_S,
    PENSIEVE_KBPS,
    VideoDescription,
    check_video,
    generated_sizes,
    pensieve,
)
from bentpipe.errors import UserError, shown

if TYPE_CHECKING:
    import os

BUILT_IN = "pensieve"
"""Name of the built-in video."""

_MOST_BYTES = 10_000_000
_DURATION = re.compile(r"PT(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?")


def read_video(video: str | os.PathLike[str]) -> VideoDescription:
    """Return a video.

    Args:
        video: ``pensieve`` (bitrates and length of that video, generated sizes); a folder with ``video_size_0``, …
            of Pensieve's simulator (one size in bytes a line); or a DASH manifest with a ``SegmentTemplate``. Sizes
            are those of its segments where these lie beside it, and otherwise generated around its bandwidths.

    Raises:
        UserError: Unreadable, or nothing that can be played.

    Example:
        >>> read_video("pensieve").name
        'pensieve'
    """
    path = Path(video)
    try:
        if path.is_dir():
            return check_video(_sizes(path))
        if path.exists():
            return check_video(_manifest(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(getattr(error, "strerror", None) or "is no text", where=str(path), expected="a video") from None
    if str(video) == BUILT_IN:
        return pensieve()
    raise UserError(f"no video {shown(str(video))}", expected=f"{BUILT_IN}, a folder with video_size_0, … or an MPD")


def _text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        raise UserError("has over 10 MB", where=str(path), expected="a video")
    return path.read_text(encoding="utf-8")


def _sizes(folder: Path) -> VideoDescription:
    """Read the files of Pensieve's simulator; their bitrates are those that the sizes have on average."""
    files = sorted(folder.glob("video_size_*"), key=lambda file: (len(file.name), file.name))
    if not files:
        raise UserError("has no file video_size_0", where=str(folder), expected="sizes of chunks, one file per quality")
    sizes = []
    for file in files:
        lines = _text(file).split()
        if not all(line.isascii() and line.isdigit() and len(line) < 14 for line in lines) or not lines:
            raise UserError("has a line that is no size", where=str(file), expected="one size in bytes a line")
        sizes.append(tuple(map(int, lines)))
    rates = tuple(_nominal(sum(chunks) * 8 / (len(chunks) * CHUNK_S)) for chunks in sizes)
    return VideoDescription(folder.name, rates, tuple(sizes), CHUNK_S)


def _nominal(mean_bps: float) -> int:
    """Return the bitrate of the Pensieve video within 2 % of a mean, or the mean."""
    near = (kbps * 1000 for kbps in PENSIEVE_KBPS if abs(kbps * 1000 - mean_bps) < 0.02 * kbps * 1000)
    return next(near, round(mean_bps))


def _manifest(path: Path) -> VideoDescription:
    try:
        root = ElementTree.fromstring(_text(path))
    except ElementTree.ParseError as error:
        raise UserError(f"is no XML: {error}", where=str(path), expected="a DASH manifest") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    sets = [each for each in root.iter("AdaptationSet") if _is_video(each)]
    template = next(
        (each.find(".//SegmentTemplate") for each in sets if each.find(".//SegmentTemplate") is not None), None
    )
    if root.tag != "MPD" or not sets or template is None:
        raise UserError("has no video with a SegmentTemplate", where=str(path), expected="a DASH manifest with one")
    chunk_s = _number(template, "duration", path) / _number(template, "timescale", path, 1.0)
    total_s = _duration(root.get("mediaPresentationDuration", ""), path)
    if not 0.1 <= chunk_s <= 60:
        raise UserError(f"segments of {chunk_s:g} s", where=str(path), expected="0.1 s to 60 s")
    chunks = min(math.ceil(total_s / chunk_s - 1e-9), 100_001)
    tracks = sorted(sets[0].iter("Representation"), key=lambda track: _number(track, "bandwidth", path))
    rates = tuple(int(_number(track, "bandwidth", path)) for track in tracks)
    sizes = tuple(_beside(path, template, track, chunks) for track in tracks)
    if all(sizes):
        return VideoDescription(path.stem, rates, sizes, chunk_s)
    return VideoDescription(path.stem, rates, generated_sizes(rates, chunks, chunk_s), chunk_s, is_generated=True)


def _is_video(element: ElementTree.Element) -> bool:
    kinds = [each.get("mimeType", each.get("contentType", "")) for each in (element, *element.iter("Representation"))]
    return any(kind.startswith("video") for kind in kinds)


def _number(element: ElementTree.Element, name: str, path: Path, default: float | None = None) -> float:
    text = element.get(name)
    if text is None and default is not None:
        return default
    if text is None or not (text.isascii() and text.isdigit() and 0 < len(text) < 14 and int(text)):
        raise UserError(f"{name} is {shown(text or '')}", where=str(path), expected="a whole number from 1 on")
    return float(text)


def _duration(text: str, path: Path) -> float:
    match = _DURATION.fullmatch(text)
    total_s = (
        sum(float(part or 0) * unit for part, unit in zip(match.groups(), (3600, 60, 1), strict=True)) if match else 0.0
    )
    if not 0 < total_s < math.inf:
        raise UserError(
            f"mediaPresentationDuration is {shown(text)}", where=str(path), expected="a duration, such as PT193.6S"
        )
    return total_s


def _beside(path: Path, template: ElementTree.Element, track: ElementTree.Element, chunks: int) -> tuple[int, ...]:
    """Return the sizes of a track's segments; empty: they are not beside the manifest."""
    media, start = template.get("media", ""), template.get("startNumber", "1")
    if not (start.isascii() and start.isdigit() and len(start) < 14):
        raise UserError(f"startNumber is {shown(start)}", where=str(path), expected="a whole number")
    first = int(start)
    names = {"RepresentationID": track.get("id", ""), "Bandwidth": track.get("bandwidth", "")}
    for key, value in names.items():
        media = media.replace(f"${key}$", value)
    folder = path.parent.resolve()
    sizes = []
    for number in range(first, first + chunks):
        file = (folder / media.replace("$Number$", str(number))).resolve()
        if not file.is_relative_to(folder) or not file.is_file():
            return ()
        sizes.append(file.stat().st_size)
    return tuple(sizes)

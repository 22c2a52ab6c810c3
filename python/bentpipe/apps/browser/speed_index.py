"""The Speed Index of a load, from pictures of the page while it is drawn."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np


def speed_index_ms(pictures: Sequence[tuple[float, bytes]]) -> float | None:
    """Return the integral over time of the share that is not drawn yet [ms]; None: fewer than two pictures.

    The share drawn in a picture is how far its histogram of colours has come from the first picture's to the last's
    (WebPageTest, "Speed Index"). `pictures`: time since the load began [ms] and a JPEG, in order. What changes before
    the load counts as its beginning.

    Example:
        >>> from PIL import Image
        >>> def picture(level):
        ...     file = io.BytesIO()
        ...     Image.new("RGB", (8, 8), (level, level, level)).save(file, "JPEG")
        ...     return file.getvalue()
        >>> speed_index_ms([(0.0, picture(255)), (400.0, picture(0))])
        400.0
    """
    counts = [(max(0.0, at_ms), _histogram(picture)) for at_ms, picture in pictures]
    if len(counts) < 2:
        return None
    first, last = counts[0][1], counts[-1][1]
    whole = float(np.abs(last - first).sum())
    index, before_ms, drawn = 0.0, 0.0, 0.0
    for at_ms, histogram in counts:
        index += (at_ms - before_ms) * (1 - drawn)
        before_ms = at_ms
        drawn = 1.0 if whole == 0 else max(0.0, 1 - float(np.abs(last - histogram).sum()) / whole)
    return index


def _histogram(picture: bytes) -> np.ndarray:
    """Return the counts of each of 256 levels of the three colours."""
    from PIL import Image

    with Image.open(io.BytesIO(picture)) as image:
        return np.asarray(image.convert("RGB").histogram(), dtype=np.int64)

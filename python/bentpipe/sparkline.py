"""Small curves of block characters for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None]) -> str:
    """Return a bar for each value, from zero to the largest; blank where there is no value.

    Example:
        >>> sparkline([0, 1, None, 2])
        '▁▄ █'
    """
    top = max((v for v in values if v is not None and math.isfinite(v)), default=0.0) or 1.0
    return "".join(
        _BARS[min(7, max(0, int(v / top * 7.999)))] if v is not None and math.isfinite(v) else " " for v in values
    )

"""Identify the serving satellite of a terminal from its obstruction maps or from RTTs.

Use `read_maps` and `by_map`, or `read_pings` and `by_rtt`; ``docs/concepts/serving.md`` describes the method.
"""

from __future__ import annotations

from bentpipe.measurements.serving.inputs import Maps, read_maps, read_pings
from bentpipe.measurements.serving.matching import Answer, by_map
from bentpipe.measurements.serving.rtt import by_rtt

__all__ = ["Answer", "Maps", "by_map", "by_rtt", "read_maps", "read_pings"]

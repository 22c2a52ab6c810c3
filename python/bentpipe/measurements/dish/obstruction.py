"""The obstruction map of a terminal, and the direction of each pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.dish.wire import Message

Floats = NDArray[np.float64]

#: Pixels on a side of every map seen so far.
SIDE = 123
#: Zenith angle at the rim [deg] of every map seen so far.
RIM_DEG = 80.0
#: Pixels from the centre to the rim: half the side, so that the rim touches the map's edges. Published analyses take 62
#: (LEOViz); a fit of 1167 pixels to the known satellites (SatInView, Louvain, July 2024) gives 61.3.
RIM_PIXELS = 61.5
#: Largest number of pixels on a side; chosen here: larger than any map seen, small enough for memory.
MAX_SIDE = 4096


@dataclass(frozen=True, slots=True)
class ObstructionMap:
    """An obstruction map: polar, with the zenith in the middle.

    Attributes:
        quality: Shape (rows, columns): negative where not observed, else 0 (blocked) to 1 (clear).
        max_theta_deg: Zenith angle at the rim; None if the firmware does not report it.
        frame: FRAME_EARTH: north is up and east is right. FRAME_UT: relative to the terminal. FRAME_UNKNOWN.
    """

    quality: NDArray[np.float32]
    max_theta_deg: float | None
    frame: str


def parse_map(message: Message) -> ObstructionMap:
    """Parse a `DishGetObstructionMapResponse`.

    Raises:
        UserError: The number of values is not rows times columns, or the map is too large.
    """
    rows, columns, size = message.num_rows, message.num_cols, len(message.snr)
    if rows * columns != size or max(rows, columns) > MAX_SIDE:
        raise UserError(f"the obstruction map has {size} values for {rows} x {columns} pixels; expected as many")
    frames = message.DESCRIPTOR.fields_by_name["map_reference_frame"].enum_type.values_by_number
    frame = frames.get(message.map_reference_frame)
    return ObstructionMap(
        np.asarray(message.snr, dtype=np.float32).reshape(rows, columns),
        message.max_theta_deg if message.HasField("max_theta_deg") else None,
        frame.name if frame is not None else str(message.map_reference_frame),
    )


def directions_to_pixels(azimuth_deg: Floats, elevation_deg: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return row and column of directions in a FRAME_EARTH map; the caller removes those below the rim."""
    radius = (90.0 - elevation_deg) * RIM_PIXELS / RIM_DEG
    azimuth = np.radians(azimuth_deg)
    middle = (SIDE - 1) / 2
    row = np.rint(middle - radius * np.cos(azimuth)).astype(np.int64)
    column = np.rint(middle + radius * np.sin(azimuth)).astype(np.int64)
    return row, column

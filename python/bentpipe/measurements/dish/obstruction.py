"""The obstruction map: what the terminal has seen of its sky, and which pixel is which direction."""

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
#: (LEOViz); a fit of 1167 pixels to the satellites that were there (SatInView, Louvain, July 2024) gives 61.3.
RIM_PIXELS = 61.5
#: Most pixels on a side that are believed; chosen here, above any map seen and small enough for any memory.
MOST_SIDE = 4096


@dataclass(frozen=True, slots=True)
class ObstructionMap:
    """A map: polar, the zenith in the middle.

    Attributes:
        quality: Shape (rows, columns): negative where nothing was seen yet, else 0 (blocked) to 1 (clear).
        max_theta_deg: Zenith angle at the rim; None where the firmware does not say.
        frame: FRAME_EARTH: north is up and east is right. FRAME_UT: relative to the terminal. FRAME_UNKNOWN.
    """

    quality: NDArray[np.float32]
    max_theta_deg: float | None
    frame: str


def map_of(message: Message) -> ObstructionMap:
    """The record of a `DishGetObstructionMapResponse`.

    Raises:
        UserError: It has not as many values as rows times columns.
    """
    rows, columns, found = message.num_rows, message.num_cols, len(message.snr)
    if rows * columns != found or max(rows, columns) > MOST_SIDE:
        raise UserError(f"the obstruction map has {found} values for {rows} x {columns} pixels; wanted as many")
    frames = message.DESCRIPTOR.fields_by_name["map_reference_frame"].enum_type.values_by_number
    frame = frames.get(message.map_reference_frame)
    return ObstructionMap(
        np.asarray(message.snr, dtype=np.float32).reshape(rows, columns),
        message.max_theta_deg if message.HasField("max_theta_deg") else None,
        frame.name if frame is not None else str(message.map_reference_frame),
    )


def pixels_of(azimuth_deg: Floats, elevation_deg: Floats) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of directions in a FRAME_EARTH map; those below the rim are to be left out by the caller."""
    radius = (90.0 - elevation_deg) * RIM_PIXELS / RIM_DEG
    azimuth = np.radians(azimuth_deg)
    middle = (SIDE - 1) / 2
    row = np.rint(middle - radius * np.cos(azimuth)).astype(np.int64)
    column = np.rint(middle + radius * np.sin(azimuth)).astype(np.int64)
    return row, column

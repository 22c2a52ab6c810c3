"""Recordings of a terminal: Parquet segments that survive power cuts, and their reader."""

from __future__ import annotations

from bentpipe.measurements.dish.recording.reading import maps, rebuild_maps, scan_recording

__all__ = ["maps", "rebuild_maps", "scan_recording"]

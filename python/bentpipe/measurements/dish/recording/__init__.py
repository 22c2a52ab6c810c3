"""Recordings: what a terminal said, in Parquet segments that survive power cuts, and reading them again."""

from __future__ import annotations

from bentpipe.measurements.dish.recording.reading import drawn, maps, scan_recording

__all__ = ["drawn", "maps", "scan_recording"]

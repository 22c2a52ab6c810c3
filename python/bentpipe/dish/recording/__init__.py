"""Recordings: what a terminal said, in Parquet segments that survive power cuts, and reading them again."""

from __future__ import annotations

from bentpipe.dish.recording.reading import maps, scan_recording

__all__ = ["maps", "scan_recording"]

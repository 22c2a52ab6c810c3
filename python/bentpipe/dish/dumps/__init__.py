"""What other tools, and our own recorder, keep of a terminal, as tables of a recording."""

from __future__ import annotations

from bentpipe.dish.dumps.recordings import is_recording, measure_recording
from bentpipe.readers.formats import Format

__all__ = ["FORMATS", "is_recording", "measure_recording"]

FORMATS: dict[str, Format] = {}

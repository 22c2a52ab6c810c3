"""What downloaded results lack, as the nodes that made them say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def missing_parts(folder: Path) -> tuple[str, ...]:
    """Return the notes of both ends of a run's result: which parts are not in it, and why.

    Args:
        folder: Folder of the run, as `bentpipe exp results` stores it.

    Example:
        >>> from pathlib import Path
        >>> missing_parts(Path("nowhere"))
        ()
    """
    notes: list[str] = []
    for place in (folder, folder / "server"):
        try:
            record = json.loads((place / "testbed.json").read_bytes())
        except (OSError, ValueError, RecursionError):  # a node may have sent anything
            continue
        lines = record.get("notes") if isinstance(record, dict) else None
        notes += [each[:500] for each in lines if isinstance(each, str)] if isinstance(lines, list) else []
    return tuple(notes)

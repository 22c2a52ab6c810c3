"""Measurements in real time that a claim stores as it goes, so that the same command continues after a pause."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def measured(
    file: Path, settings: Mapping[str, object], measure: Callable[[], list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the rows of a measurement: those of `file` if it has them for these settings, else new ones.

    Args:
        file: Where the rows are stored; its folder is made.
        settings: What the measurement depends on, as JSON has it.
        measure: Makes the rows.
    """
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        if before["settings"] == dict(settings):
            rows: list[dict[str, Any]] = before["rows"]
            return rows
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not measured yet, or cut short
    rows = measure()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"settings": dict(settings), "rows": rows}, indent=1), encoding="utf-8")
    return rows

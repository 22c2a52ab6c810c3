"""Choices of an adaptive player's policy, for players that fetch chunks themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe._native import VideoChoices

if TYPE_CHECKING:
    from bentpipe.experiments.videos import VideoApp


__all__ = ["VideoChoices", "new_choices"]


def new_choices(app: VideoApp) -> VideoChoices:
    """Return the choices of a player: `choose` before each chunk, `arrived` after it."""
    return VideoChoices(app.model_dump_json())

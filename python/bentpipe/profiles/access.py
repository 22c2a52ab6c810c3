"""The access model: from a serving schedule and its geometry to a Profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bentpipe import _native
from bentpipe._native import Profile


def default_parameters() -> dict[str, Any]:
    """The frozen table of parameters; what is fitted: `bentpipe/validation/access_model/README.md`."""
    table: dict[str, Any] = json.loads(_native.access_parameters())
    return table


def build_profile(
    name: str,
    schedule: str,
    ground: str,
    parameters: Mapping[str, Any],
    seed: int,
    origin: Mapping[str, Any] | None = None,
) -> Profile:
    """A Profile from a serving schedule and its ground legs.

    Args:
        name: Its name.
        schedule: JSON, as `bentpipe.orbit.schedule` gives it.
        ground: JSON: what each gateway of the schedule has behind it.
        parameters: Those that differ from `default_parameters`.
        seed: Decides everything that is drawn.
        origin: Which satellites, by which rules, for the provenance; see `bentpipe.profiles.origin`.

    Raises:
        UserError: An unknown parameter, one out of its range, or a schedule with holes.
    """
    return _native.build_profile(name, schedule, ground, json.dumps(dict(parameters)), json.dumps(origin), seed)

"""The access model: from a serving schedule and its geometry to a Profile."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bentpipe import _native
from bentpipe._native import Profile
from bentpipe.scenarios.tables import unknown_name


def default_parameters() -> dict[str, Any]:
    """The frozen table of parameters; what is fitted: `bentpipe/validation/access_model/README.md`."""
    table: dict[str, Any] = json.loads(_native.access_parameters())
    return table


def loss_process(name: str) -> dict[str, Any]:
    """Return the parameters under `loss` of a named loss process: `loaded` (the default) or `idle`.

    `loaded` is that of a path that a flow fills, `idle` that of one that carries pings.

    Raises:
        UserError: An unknown name.
    """
    known: dict[str, dict[str, Any]] = json.loads(_native.access_loss_processes())
    if name not in known:
        raise unknown_name("loss process", name, known, f"known: {', '.join(known)}")
    return known[name]


def with_loss_process(parameters: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Return `parameters` over those of a loss process; unchanged for None.

    Raises:
        UserError: An unknown name.
    """
    if name is None:
        return dict(parameters)
    return {**parameters, "loss": loss_process(name) | dict(parameters.get("loss", {}))}


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

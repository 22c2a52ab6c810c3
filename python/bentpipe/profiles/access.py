"""The access model: computes a Profile from a serving schedule and its geometry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bentpipe import _native
from bentpipe._native import Profile
from bentpipe.errors import unknown_name


def default_parameters() -> dict[str, Any]:
    """Return the default parameters of the access model.

    `bentpipe/validation/access_model/README.md` says which of them are fitted.
    """
    table: dict[str, Any] = json.loads(_native.access_parameters())
    return table


def loss_process(name: str) -> dict[str, Any]:
    """Return the parameters under `loss` of a named loss process: `loaded` (the default) or `idle`.

    `loaded` is the loss of a path that a flow fills; `idle` is the loss of a path that carries only pings.

    Raises:
        UserError: An unknown name.
    """
    known: dict[str, dict[str, Any]] = json.loads(_native.access_loss_processes())
    if name not in known:
        raise unknown_name("loss process", name, known, f"known: {', '.join(known)}")
    return known[name]


def loss_process_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of the loss process with these `parameters`; ``own`` for other parameters.

    Example:
        >>> loss_process_name(loss_process("idle"))
        'idle'
    """
    known: dict[str, dict[str, Any]] = json.loads(_native.access_loss_processes())
    return next((name for name, its in known.items() if its == parameters), "own")


def with_loss_process(parameters: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Return `parameters` with the `loss` entries of a loss process as defaults; unchanged for None.

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
    """Compute a Profile from a serving schedule and its ground legs.

    Args:
        name: The Profile's name.
        schedule: Serving schedule as JSON, from `bentpipe.orbit.schedule`.
        ground: Ground legs as JSON: PoP and fibre delays behind each gateway of the schedule.
        parameters: Parameters that differ from `default_parameters`.
        seed: Seed of all random draws.
        origin: Satellites and selection rules, for the provenance; see `bentpipe.profiles.origin`.

    Raises:
        UserError: An unknown parameter, one out of its range, or a schedule with holes.
    """
    return _native.build_profile(name, schedule, ground, json.dumps(dict(parameters)), json.dumps(origin), seed)

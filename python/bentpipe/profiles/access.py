"""The access model: computes a Profile from a serving schedule and its geometry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from bentpipe import _native
from bentpipe._native import Profile
from bentpipe.errors import UserError, shown
from bentpipe.scenarios.losses import OWN, find_loss, load_losses


def default_parameters() -> dict[str, Any]:
    """Return the default parameters of the access model.

    `bentpipe/validation/access_model/README.md` says which of them are fitted.
    """
    table: dict[str, Any] = json.loads(_native.access_parameters())
    return table


def loss_process(name: str) -> dict[str, Any]:
    """Return the parameters under `loss` of a loss environment, of `bentpipe.scenarios.losses`.

    Raises:
        UserError: An unknown name.
    """
    return find_loss(name).process()


def loss_name(parameters: Mapping[str, Any]) -> str:
    """Return the name of the loss environment with these `parameters`; ``own`` for other parameters.

    Example:
        >>> loss_name(loss_process("idle"))
        'idle'
    """
    return next((name for name, its in load_losses().items() if its.process() == parameters), OWN)


def with_loss(parameters: Mapping[str, Any], name: str | None) -> dict[str, Any]:
    """Return `parameters` with the `loss` entries of a loss environment as defaults.

    Unchanged for None: the native defaults are those of `bentpipe.scenarios.losses.DEFAULT_LOSS`.

    Raises:
        UserError: An unknown name; a `loss` that is not a table.
    """
    if name is None:
        return dict(parameters)
    changed = parameters.get("loss", {})
    if not isinstance(changed, Mapping):
        raise UserError(shown(changed), where="parameters: loss", expected="a table of loss parameters")
    return {**parameters, "loss": loss_process(name) | dict(changed)}


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

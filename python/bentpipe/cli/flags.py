"""Flags of the command line in errors: the library names the parameters of its functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from bentpipe.errors import BentpipeError, UserError, one_line

if TYPE_CHECKING:
    from collections.abc import Mapping

FLAGS = {
    "agreed": "--yes",
    "app": "--app",
    "at": "--at",
    "at_end": "--at-end",
    "capacity": "--capacity",
    "capture": "--capture",
    "data": "--data",
    "delay": "--delay",
    "direction": "--direction",
    "duration": "--duration",
    "duration_s": "--duration",
    "every": "--every",
    "flows": "--flows",
    "format": "--format",
    "fresh": "--fresh",
    "fresh_paths": "--fresh",
    "gap_s": "--gap",
    "gateways": "--gateways",
    "grid": "--grid",
    "horizon": "--horizon",
    "host_timing": "--host-timing",
    "http": "--http",
    "isl": "--isl",
    "isl_loss": "--isl-loss",
    "jobs": "--jobs",
    "kind": "--kind",
    "loss": "--loss",
    "method": "--method",
    "models": "--models",
    "most_inflation": "--max-rtt-inflation",
    "mtu": "--mtu",
    "nodes": "--nodes",
    "offset_s": "--offset",
    "oidc_client": "--oidc-client",
    "oidc_groups": "--oidc-groups",
    "oidc_issuer": "--oidc-issuer",
    "oidc_secret_file": "--oidc-secret-file",
    "oidc_url": "--oidc-url",
    "on": "--on",
    "on_kernel": "--on-kernel",
    "out": "-o",
    "pause": "--pause",
    "phase": "--phase",
    "phase_s": "--phase",
    "policy": "--policy",
    "port": "--port",
    "preset": "--preset",
    "queue": "--queue",
    "queues": "--aqm",
    "quick": "--quick",
    "recovery": "--recovery",
    "run_bytes": "--run-bytes",
    "run_seconds": "--run-seconds",
    "scheme": "--cc",
    "schemes": "--cc",
    "seed": "--seed",
    "seeds": "--seeds",
    "silent": "--silent",
    "site": "--site",
    "start": "--start",
    "step": "--step",
    "target": "--target",
    "test": "--test",
    "threads": "--jobs",
    "times": "--times",
    "traffic": "--traffic",
    "trials": "--trials",
    "tunables": "--cc-opt",
    "units": "--units",
    "web_port": "--web-port",
}
"""Parameter of a library function → flag of the commands that call it."""

_QUOTED = re.compile(r"`([a-z_]+)`")


def with_flags(text: str) -> str:
    """Replace parameters in backquotes by their flags.

    Example:
        >>> with_flags("holds another Run; try another `out`, or `fresh`")
        'holds another Run; try another -o, or --fresh'
    """
    return _QUOTED.sub(lambda match: FLAGS.get(match[1], match[0]), text)


def message(error: BentpipeError) -> str:
    """Return the message of an error with flags for parameters."""
    if not isinstance(error, UserError):
        return with_flags(str(error))
    return with_flags(one_line(error.found, place(error.where), error.expected, error.hint))


def renamed(error: UserError, names: Mapping[str, str]) -> UserError:
    """Return the error with the flag of a command whose name for a parameter is its own.

    Example:
        >>> str(renamed(UserError("0 s", where="duration_s"), {"duration_s": "--for"}))
        '--for: 0 s'
    """
    other = UserError(
        error.found,
        where=names.get(error.where, error.where),
        expected=error.expected,
        hint=error.hint,
        code=error.code,
    )
    for note in getattr(error, "__notes__", ()):
        other.add_note(note)
    return other


def place(where: str) -> str:
    """Return the place of an error; a parameter becomes its flag."""
    first, colon, rest = where.partition(": ")
    return FLAGS.get(first, first) + colon + rest


def usage(text: str) -> dict[str, object]:
    """Return an error of the command line itself as commands with ``--json`` print it."""
    return as_json(UserError(text, code="usage"))


def as_json(error: BentpipeError) -> dict[str, object]:
    """Return an error as commands with ``--json`` print it."""
    parts = {"where": "", "found": str(error), "expected": "", "hint": ""}
    if isinstance(error, UserError):
        parts = {name: getattr(error, name) for name in parts} | {"where": place(error.where)}
    named = {name: with_flags(text) for name, text in parts.items()}
    return {"code": error.code, **named, "message": message(error), "exit_code": error.exit_code}

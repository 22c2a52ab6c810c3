"""Schemes of loss recovery inside the network by name, with their tunables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.errors import UserError, shown
from bentpipe.experiments.experiment import Recovery

if TYPE_CHECKING:
    from collections.abc import Iterable


def recovery_schemes() -> list[dict[str, Any]]:
    """List the schemes of loss recovery inside the network: status, description, source, and tunables.

    Example:
        >>> import bentpipe as bp
        >>> [scheme["name"] for scheme in bp.recovery_schemes()]
        ['linkguardian', 'mpep', 'none', 'satguard', 'tambur']
    """
    return _native.recovery_schemes()


def parse_recoveries(text: str, where: str = "recovery") -> tuple[Recovery, ...]:
    """Parse ``none,satguard:tries=2,hold=longest`` into schemes, in order, without repetitions.

    A tunable between two commas belongs to the scheme before it.

    Raises:
        UserError: A name is unknown (with the nearest name), or a value is out of range (with range and unit).

    Example:
        >>> parse_recoveries("none,satguard:tries=2")[1]
        Recovery(scheme='satguard', options={'tries': 2.0})
    """
    return tuple(_unique(_parse(part, where) for part in split_recoveries(text)))


def split_recoveries(text: str) -> list[str]:
    """Split schemes at the commas that are not between the tunables of one.

    Example:
        >>> split_recoveries("none,satguard:tries=2,hold=longest")
        ['none', 'satguard:tries=2,hold=longest']
    """
    parts: list[str] = []
    for part in text.split(","):
        if parts and "=" in part and ":" not in part:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return [part.strip() for part in parts]


def parse_recovery(text: str, where: str = "recovery") -> Recovery:
    """Parse one scheme. Raises `UserError` as `parse_recoveries` does, and for several.

    Example:
        >>> parse_recovery("satguard:tries=2").options
        {'tries': 2.0}
    """
    schemes = parse_recoveries(text, where)
    if len(schemes) != 1:
        raise UserError(f"{len(schemes)} schemes", where=where, expected="one")
    return schemes[0]


def parse_path_recovery(text: str, where: str = "recovery") -> Recovery:
    """Parse one scheme for an emulated path. Raises `UserError`, also for a scheme that changes the transports."""
    recovery = parse_recovery(text, where)
    check_emulated(recovery, where)
    return recovery


def check_emulated(recovery: Recovery, where: str = "recovery") -> None:
    """Check that the emulator has a scheme: one inside the network. Raises `UserError`."""
    inside = [scheme["name"] for scheme in recovery_schemes() if not scheme["at_hosts"]]
    if recovery.scheme not in inside:
        problem = f"{recovery.scheme} changes the transports, and only the simulator has it"
        raise UserError(problem, where=where, expected=" or ".join(inside))


def recovery_name(recovery: Recovery) -> str:
    """Return a scheme as users write it: its name, and the tunables that are set."""
    options = ",".join(f"{name}={_plain(value)}" for name, value in sorted(recovery.options.items()))
    return f"{recovery.scheme}:{options}" if options else recovery.scheme


def _plain(value: float | str) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parse(text: str, where: str) -> Recovery:
    name, _, assignments = text.partition(":")
    options: dict[str, float | str] = {}
    for assignment in filter(None, assignments.split(",")):
        tunable, equals, value = assignment.partition("=")
        if not equals:
            raise UserError(f"{shown(assignment)} has no value", where=where, expected="for example tries=2")
        options[tunable] = _checked(where, name, tunable, value)
    _checked(where, name)
    return Recovery(scheme=name, options=options)


def _checked(where: str, name: str, tunable: str | None = None, value: str = "") -> float | str:
    try:
        return _native.read_recovery_tunable(name, tunable, value)
    except UserError as error:
        raise error.within(where) from None


def _unique(recoveries: Iterable[Recovery]) -> list[Recovery]:
    unique: list[Recovery] = []
    for recovery in recoveries:
        if recovery not in unique:
            unique.append(recovery)
    return unique

"""Syntax of schemes: ``cubic``, ``cubic+bbr`` (two flows on one path), ``bbr:min_rtt_win_s=20`` (with tunables).

A Python controller is named by its file and class: ``./mine.py:Mine``, ``./mine.py:Mine:gain=2``. ``ecn`` is written
like a tunable but belongs to the connection: it is the flow's ECN mode (``docs/concepts/queues.md``).
"""

from __future__ import annotations

from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Literal

from bentpipe import _native
from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.experiments import linux, plugins
from bentpipe.experiments.flow_names import split_flow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Written = Mapping[str, Mapping[str, str]]
    """Unparsed tunables, by controller."""


EcnMode = Literal["off", "classic", "accurate"]

ECN_MODES: tuple[EcnMode, ...] = ("off", "classic", "accurate")
"""ECN modes of a flow: none, RFC 3168, or accurate ECN with counted marks (RFC 9768)."""

ECN_SWITCHES = ("ecn_enable", "ecn_low")
"""Tunables of BBRv2 and BBRv3 with which they respond to the share of marks. ``ecn=on`` sets them too."""


@cache
def _controllers() -> dict[str, dict[str, Any]]:
    return {str(entry["name"]): entry for entry in _native.controllers()}


def known_controllers() -> list[str]:
    """Return the names in the simulator's registry."""
    return list(_controllers())


def deployable_controllers() -> list[str]:
    """Return those that a host could run: not the ones that know the path to come, which only studies use."""
    return [name for name, entry in _controllers().items() if entry["needs"] != "future"]


def needs_of(controller: str) -> str:
    """Return what a controller must be told about its path, as `bentpipe cc` shows it; ``none`` for one in Python.

    Example:
        >>> from bentpipe.experiments.schemes import needs_of
        >>> needs_of("cubic"), needs_of("satcp")
        ('none', 'schedule')
    """
    return str(_controllers().get(controller, {"needs": "none"})["needs"])


def parse_schemes(text: str, everywhere: Written | None = None) -> tuple[str, ...]:
    """Parse ``reno,cubic+bbr`` into a tuple of schemes of known controllers, in order, without repetitions.

    A tunable between two commas belongs to the flow before it. `everywhere` are tunables of every flow of a controller.
    """
    parts: list[str] = []
    for part in text.split(","):
        first = part.partition("+")[0]
        open_list = bool(parts) and split_flow(parts[-1].rpartition("+")[2])[1] is not None
        if open_list and "=" in first and ":" not in first:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    if not all(part.strip() for part in parts):
        nothing = "nothing between two commas or at an end" if len(parts) > 1 else "no controller"
        raise UserError(f"{shown(text)} names {nothing}", where="schemes", expected="for example cubic,bbr,cubic+bbr")
    schemes = tuple(dict.fromkeys(parse_scheme(part, everywhere) for part in parts))
    raced = {controller for scheme in schemes for controller, _ in flows_of(scheme)}
    if idle := [controller for controller in everywhere or {} if controller not in raced]:
        raise UserError(f"{idle[0]} is not raced; `schemes` names {', '.join(schemes)}", where="tunables")
    return schemes


def parse_scheme(scheme: str, everywhere: Written | None = None) -> str:
    """Normalise a scheme to the name that Runs have: known controllers, each with its tunables sorted by name.

    Raises:
        UserError: A name is unknown (with the nearest name), or a value is out of range (with range and unit).
    """
    flows = []
    for part in scheme.split("+"):
        controller, options = _named(part)
        if not controller:
            known = ", ".join(known_controllers())
            raise UserError(
                f"{shown(scheme)} names nothing on one side of its +", where="schemes", expected=f"one of {known}"
            )
        check_controller(controller, "schemes")
        own = {} if options is None else _assignments(options, f"schemes: {controller}")
        try:
            flows.append(_written(controller, {**(everywhere or {}).get(controller, {}), **own}))
        except UserError as error:
            raise error.within("schemes") from None
    return "+".join(flows)


def parse_options(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Parse ``--cc-opt bbr:min_rtt_win_s=20,probe_rtt_mode_ms=100``, by controller; each at most once."""
    tunables: dict[str, dict[str, str]] = {}
    for text in texts:
        controller, options = _named(text)
        check_controller(controller, "tunables")
        if controller in tunables:
            raise UserError(
                f"{controller} is given twice; to race one controller with two settings write them in `schemes`, for "
                f"example {controller},{controller}:{options}",
                where="tunables",
            )
        tunables[controller] = _assignments(options or "", f"tunables: {controller}")
        try:
            _written(controller, tunables[controller])
        except UserError as error:
            raise error.within("tunables") from None
    return tunables


def check_controller(controller: str, where: str) -> None:
    """Refuse a controller that is neither in the registry nor in Python, with the nearest name."""
    if plugins.is_python_controller(controller):
        plugins.find_python_controller(controller)
        return
    names = [*known_controllers(), *plugins.plugin_names()]
    if controller in linux.CONTROLLERS and controller not in names:
        error = UserError(
            f"{controller} is a controller of Linux that bentpipe does not have",
            where=where,
            expected=f"one of {', '.join(names)}, also with `on_kernel`",
            hint="a program, which can use this kernel's",
        )
        error.add_note(f'bentpipe run P.parquet --server "iperf3 -s" -- iperf3 -c server -C {controller}')
        raise error
    if controller not in names:
        raise UserError(
            f"no controller {shown(controller)}{did_you_mean(controller, names)} (there are "
            f"{', '.join(names)}; bentpipe cc describes them)",
            where=where,
        )


def flows_of(scheme: str) -> list[tuple[str, dict[str, float | str]]]:
    """Return controller and tunables of each flow of a scheme normalised by `parse_scheme`."""
    return [
        (controller, {name: read_tunable(controller, name, value) for name, value in values.items() if name != "ecn"})
        for controller, values in _parts(scheme)
    ]


def ecn_of(scheme: str) -> list[EcnMode]:
    """Return the ECN mode of each flow of a scheme normalised by `parse_scheme`: one of `ECN_MODES`."""
    return [next(mode for mode in ECN_MODES if mode == values.get("ecn", "off")) for _, values in _parts(scheme)]


def scheme_of(flows: Iterable[tuple[str, Mapping[str, float | str]]], ecn: Iterable[str] = ()) -> str:
    """Return the scheme of an Experiment's flows: the inverse of `flows_of` and `ecn_of` (default: no ECN)."""
    parts = []
    for (controller, options), mode in zip(flows, chain(ecn, repeat("off")), strict=False):
        named = {name: _as_text(value) for name, value in options.items()}
        parts.append(_written(controller, named if mode == "off" else {**named, "ecn": mode}, answers=False))
    return "+".join(parts)


def _parts(scheme: str) -> list[tuple[str, dict[str, str]]]:
    split = [split_flow(part) for part in scheme.split("+")]
    return [(controller, _assignments(options, controller) if options else {}) for controller, options in split]


def read_tunable(controller: str, name: str, text: str) -> float | str:
    """Parse the value of a controller's tunable: a number, or the name of a choice. Raises `UserError`."""
    if plugins.is_python_controller(controller):
        return plugins.read_python_tunable(controller, name, text)
    return _native.read_tunable(controller, name, text)


def _named(part: str) -> tuple[str, str | None]:
    """Split a user's flow into controller and tunables; only file names are case-sensitive."""
    name, options = split_flow(part)
    return (name if plugins.is_python_controller(name) else name.lower()), options


def _assignments(text: str, where: str) -> dict[str, str]:
    """Parse ``a=1,b=2`` into a mapping; no name may repeat."""
    values: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UserError(f"{shown(part)} is no tunable", where=where, expected="tunable=value, see `bentpipe cc`")
        if name in values:
            raise UserError(f"{name} is given twice", where=where, expected="it once")
        values[name] = value
    return values


def _written(controller: str, options: Mapping[str, str], *, answers: bool = True) -> str:
    """Normalise a flow to the name that Runs have. `answers`: with ECN, switch on the controller's response to it."""
    given = dict(options)
    mode = _ecn_mode(controller, given.pop("ecn", "off"))
    if answers and mode != "off" and (switch := _ecn_switch(controller)) is not None:
        given.setdefault(switch, "1")
    values = {name: read_tunable(controller, name, text) for name, text in given.items()}
    texts = {name: _as_text(value) for name, value in values.items()}
    if mode != "off":
        texts["ecn"] = mode
    return controller + (":" if texts else "") + ",".join(f"{name}={texts[name]}" for name in sorted(texts))


def _ecn_switch(controller: str) -> str | None:
    tunables = _controllers().get(controller, {"tunables": ()})["tunables"]  # a Python controller has no such switch
    return next((str(each["name"]) for each in tunables if each["name"] in ECN_SWITCHES), None)


def _ecn_mode(controller: str, text: str) -> str:
    """Parse ``ecn=…``; ``on``: accurate ECN if the controller uses the count of marks, else classic."""
    if text == "on":
        return "classic" if _ecn_switch(controller) is None else "accurate"
    if text not in ECN_MODES:
        raise UserError(
            f"ecn is {shown(text)}",
            where=controller,
            expected=f"on, {', '.join(ECN_MODES[:-1])} or {ECN_MODES[-1]}",
        )
    return text


def _as_text(value: float | str) -> str:
    """Format a value: the name of a choice, or a number without a plus sign."""
    if isinstance(value, str):
        return value
    return repr(int(value) if value == int(value) and abs(value) < 2**53 else value).replace("+", "")

"""What is raced: ``cubic``, ``cubic+bbr`` (two flows on one path), ``bbr:min_rtt_win_s=20`` (with tunables).

A controller in Python is named by its file and class: ``./mine.py:Mine``, ``./mine.py:Mine:gain=2``. ``ecn`` stands
among the tunables, but is the connection's: what its flow asks for (``docs/concepts/queues.md``).
"""

from __future__ import annotations

from functools import cache
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.errors import UserError, shown
from bentpipe.experiments import linux, plugins
from bentpipe.experiments.flow_names import split_flow
from bentpipe.scenarios.tables import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Written = Mapping[str, Mapping[str, str]]
    """Tunables as they were written, by controller."""


ECN_MODES = ("off", "classic", "accurate")
"""What a flow may ask for: nothing, RFC 3168, or counted marks (RFC 9768)."""

ECN_SWITCHES = ("ecn_enable", "ecn_low")
"""Tunables that let a controller answer marks by their share: BBRv2's, BBRv3's. ``ecn=on`` sets them, too."""


@cache
def _controllers() -> dict[str, dict[str, Any]]:
    return {str(entry["name"]): entry for entry in _native.controllers()}


def known_controllers() -> list[str]:
    """Names in the simulator's registry."""
    return list(_controllers())


def parse_schemes(text: str, everywhere: Written | None = None) -> tuple[str, ...]:
    """``reno,cubic+bbr`` as a tuple of schemes, each of known controllers, in order, without repetitions.

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
        raise UserError(f"--cc: {shown(text)} names {nothing}; wanted for example cubic,bbr,cubic+bbr")
    schemes = tuple(dict.fromkeys(parse_scheme(part, everywhere) for part in parts))
    raced = {controller for scheme in schemes for controller, _ in flows_of(scheme)}
    if idle := [controller for controller in everywhere or {} if controller not in raced]:
        raise UserError(f"--cc-opt: {idle[0]} is not raced; --cc names {', '.join(schemes)}")
    return schemes


def parse_scheme(scheme: str, everywhere: Written | None = None) -> str:
    """A scheme as Runs name it: known controllers, each with its tunables in the order of their names.

    Raises `UserError` with the nearest name for what is not known, with range and unit for what is out of range.
    """
    flows = []
    for part in scheme.split("+"):
        controller, options = _named(part)
        if not controller:
            there = ", ".join(known_controllers())
            raise UserError(f"--cc: {shown(scheme)} names nothing on one side of its +; there are {there}")
        check_controller(controller, "--cc")
        own = {} if options is None else _assignments(options, f"--cc: {controller}")
        flows.append(_written(controller, {**(everywhere or {}).get(controller, {}), **own}))
    return "+".join(flows)


def parse_options(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """What ``--cc-opt bbr:min_rtt_win_s=20,probe_rtt_mode_ms=100`` says, by controller; each at most once."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        controller, options = _named(text)
        check_controller(controller, "--cc-opt")
        if controller in found:
            raise UserError(
                f"--cc-opt: {controller} stands twice; to race one controller with two settings write them "
                f"in --cc, for example --cc {controller},{controller}:{options}"
            )
        found[controller] = _assignments(options or "", f"--cc-opt: {controller}")
        _written(controller, found[controller])
    return found


def check_controller(controller: str, where: str) -> None:
    """Refuse one that is neither in the registry nor in Python, with the nearest name."""
    if plugins.is_python_controller(controller):
        plugins.find_python_controller(controller)
        return
    names = [*known_controllers(), *plugins.plugin_names()]
    if controller in linux.CONTROLLERS and controller not in names:
        error = UserError(
            f"{where}: {controller} is one of Linux's that bentpipe has not, and a race, on the kernel too, is of "
            f"those that it has ({', '.join(names)}); a program can have it, if this kernel does"
        )
        error.add_note(f'bentpipe run P.parquet --server "iperf3 -s" -- iperf3 -c server -C {controller}')
        raise error
    if controller not in names:
        raise UserError(
            f"{where}: no controller {shown(controller)}{did_you_mean(controller, names)} (there are "
            f"{', '.join(names)}; bentpipe cc describes them)"
        )


def flows_of(scheme: str) -> list[tuple[str, dict[str, float]]]:
    """Controller and tunables of each flow of a scheme that `parse_scheme` wrote."""
    return [
        (controller, {name: read_tunable(controller, name, value) for name, value in values.items() if name != "ecn"})
        for controller, values in _parts(scheme)
    ]


def ecn_of(scheme: str) -> list[str]:
    """What each flow of a scheme that `parse_scheme` wrote asks for: one of `ECN_MODES`."""
    return [values.get("ecn", "off") for _, values in _parts(scheme)]


def scheme_of(flows: Iterable[tuple[str, Mapping[str, float]]], ecn: Iterable[str] = ()) -> str:
    """The scheme of an Experiment's flows: the reverse of `flows_of` and `ecn_of` (left out: none asks for ECN)."""
    parts = []
    for (controller, options), mode in zip(flows, chain(ecn, repeat("off")), strict=False):
        named = {name: _as_text(controller, name, value) for name, value in options.items()}
        parts.append(_written(controller, named if mode == "off" else {**named, "ecn": mode}, answers=False))
    return "+".join(parts)


def _parts(scheme: str) -> list[tuple[str, dict[str, str]]]:
    split = [split_flow(part) for part in scheme.split("+")]
    return [(controller, _assignments(options, controller) if options else {}) for controller, options in split]


def read_tunable(controller: str, name: str, text: str) -> float:
    """The value of a controller's tunable: a number, or the name of a choice. Raises `UserError`."""
    if plugins.is_python_controller(controller):
        return plugins.read_python_tunable(controller, name, text)
    return _native.read_tunable(controller, name, text)


def _named(part: str) -> tuple[str, str | None]:
    """Controller and tunables of a flow as a user wrote it: capitals count in a file's name alone."""
    name, options = split_flow(part)
    return (name if plugins.is_python_controller(name) else name.lower()), options


def _assignments(text: str, where: str) -> dict[str, str]:
    """``a=1,b=2`` as a mapping; no name twice."""
    found: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UserError(f"{where}: {shown(part)} is no tunable; wanted tunable=value, as `bentpipe cc` lists them")
        if name in found:
            raise UserError(f"{where}: {name} stands twice")
        found[name] = value
    return found


def _written(controller: str, options: Mapping[str, str], *, answers: bool = True) -> str:
    """A flow as Runs name it. `answers`: one that asks for ECN has a controller that answers it, where it can."""
    given = dict(options)
    mode = _ecn_mode(controller, given.pop("ecn", "off"))
    if answers and mode != "off" and (switch := _ecn_switch(controller)) is not None:
        given.setdefault(switch, "1")
    values = {name: read_tunable(controller, name, text) for name, text in given.items()}
    texts = {name: _as_text(controller, name, value) for name, value in values.items()}
    if mode != "off":
        texts["ecn"] = mode
    return controller + (":" if texts else "") + ",".join(f"{name}={texts[name]}" for name in sorted(texts))


def _ecn_switch(controller: str) -> str | None:
    tunables = _controllers().get(controller, {"tunables": ()})["tunables"]  # one in Python has none of ours
    return next((str(each["name"]) for each in tunables if each["name"] in ECN_SWITCHES), None)


def _ecn_mode(controller: str, text: str) -> str:
    """What ``ecn=…`` asks for; ``on``: counted marks where the controller makes use of the count."""
    if text == "on":
        return "classic" if _ecn_switch(controller) is None else "accurate"
    if text not in ECN_MODES:
        raise UserError(
            f"{controller}: ecn is {shown(text)}; wanted on, {', '.join(ECN_MODES[:-1])} or {ECN_MODES[-1]}"
        )
    return text


def _as_text(controller: str, name: str, value: float) -> str:
    """A value as it is written: the name of a choice, or a number without a plus in it."""
    known = _controllers().get(controller, {"tunables": ()})
    tunable = next((each for each in known["tunables"] if each["name"] == name), None)
    if tunable is not None and tunable["choices"] is not None and value in range(len(tunable["choices"])):
        return str(tunable["choices"][int(value)])
    return repr(int(value) if value == int(value) and abs(value) < 2**53 else value).replace("+", "")

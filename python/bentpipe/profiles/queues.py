"""Parse queue disciplines: ``fq_codel``, ``down=codel:target_ms=10``, ``sat:*/up=step:threshold_ms=1``.

`docs/concepts/queues.md` describes their behaviour. This module has their parameters with defaults, ranges and sources,
and makes the record that the simulator and the emulator read (`QueueRule` in `crates/profile/src/queue.rs`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.profiles.queue_rules import QueueRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bentpipe._native import Profile

DIRECTIONS = ("up", "down")

NS_PER_MS = 1_000_000

PROBABILITY_ONE = 1_000_000_000
"""Probabilities are integers in units of 1e-9, as in the simulator."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a discipline: unit, default (None: another parameter replaces it) and accepted values."""

    name: str
    unit: str
    default: float | None
    least: float
    most: float
    meaning: str
    source: str
    whole: bool = False
    switch: bool = False

    def read(self, text: str, where: str) -> float:
        """Parse the value that a user wrote."""
        if self.switch and text in ("on", "off"):
            return float(text == "on")
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not self.least <= value <= self.most or (self.whole and value != int(value)):
            raise UserError(f"{self.name} is {shown(text)}", where=where, expected=self.allowed)
        return value

    @property
    def allowed(self) -> str:
        """Accepted values, as text."""
        if self.switch:
            return "on or off"
        kind = "a whole number" if self.whole else "a number"
        return f"{kind} from {self.least:g} to {self.most:g}" + (f" {self.unit}" if self.unit else "")


@dataclass(frozen=True)
class Discipline:
    """A queue discipline with its parameters."""

    name: str
    meaning: str
    source: str
    parameters: tuple[Parameter, ...]


def _ms(name: str, default: float | None, meaning: str, source: str) -> Parameter:
    return Parameter(name, "ms", default, 0.001, 1_000_000, meaning, source)


def _count(name: str, unit: str, default: float | None, most: float, meaning: str, source: str) -> Parameter:
    return Parameter(name, unit, default, 1, most, meaning, source, whole=True)


_TARGET = _ms("target_ms", 5, "acceptable standing delay", "RFC 8289 §4.4, RFC 8290 §5.2")
_INTERVAL = _ms(
    "interval_ms", 100, "how long the target may be exceeded: a worst-case RTT", "RFC 8289 §4.3, RFC 8290 §5.2"
)
_ECN = Parameter("ecn", "", 1, 0, 1, "mark ECN-capable packets instead of dropping them", "RFC 8290 §5.2", switch=True)

LIMITS = (
    _ms("limit_ms", None, "size, as time at the current capacity", "the Profile's own size"),
    _count("limit_bytes", "bytes", None, 2**53, "size", "the Profile's own size"),
    _count("limit_packets", "packets", None, 2**53, "size", "the Profile's own size"),
)
"""Of every discipline; at most one of them."""

DISCIPLINES = (
    Discipline("drop_tail", "first in, first out; drops packets that do not fit", "–", ()),
    Discipline(
        "codel",
        "drops or marks by queueing delay, at increasing rate until the delay is below the target",
        "RFC 8289",
        (_TARGET, _INTERVAL, _ECN),
    ),
    Discipline(
        "fq_codel",
        "a CoDel queue for each flow, served in turn, new flows first",
        "RFC 8290",
        (
            _TARGET,
            _INTERVAL,
            _ECN,
            _count("flows", "queues", 1024, 65_536, "queues that flows are hashed to", "RFC 8290 §5.2"),
            Parameter(
                "quantum_bytes",
                "bytes",
                1514,
                64,
                2**24,
                "bytes from one queue before the next queue is served",
                "RFC 8290 §5.2",
                whole=True,
            ),
        ),
    ),
    Discipline(
        "red",
        "drops or marks with a probability that rises with the average length",
        "Floyd and Jacobson 1993; Linux red",
        (
            _ms(
                "min_ms", 5, "average length below which no packet is marked or dropped", "chosen here: CoDel's target"
            ),
            _ms(
                "max_ms",
                15,
                "average length above which all packets are marked or dropped",
                "Floyd 1997: three times min",
            ),
            Parameter("max_p", "", 0.1, 1e-9, 1, "probability just below max", "Floyd 1997"),
            Parameter(
                "weight_log",
                "",
                9,
                0,
                24,
                "the average moves by 2^-weight_log of the difference",
                "Floyd and Jacobson 1993: 0.002",
                whole=True,
            ),
            _ECN,
        ),
    ),
    Discipline(
        "step",
        "marks all packets beyond a threshold; drops those that are not ECN-capable",
        "RFC 8257; Linux ce_threshold",
        (
            _ms(
                "threshold_ms",
                5,
                "queueing delay, measured when a packet leaves the queue",
                "chosen here: CoDel's target; DCTCP's C·RTT/7 is 6 ms at an RTT of 40 ms",
            ),
            _count("threshold_packets", "packets", None, 2**53, "backlog when a packet arrives", "RFC 8257 §3.1"),
            _count("threshold_bytes", "bytes", None, 2**53, "backlog when a packet arrives", "RFC 8257 §3.1"),
        ),
    ),
)


def parse_queue(text: str, where: str = "queues") -> QueueRule:
    """Parse a queue rule ``[[HOP/]up|down|HOP=]DISCIPLINE[:parameter=value,…]``.

    Args:
        text: The rule.
        where: Prefix of error messages.

    Returns:
        The rule as the simulator reads it.

    Raises:
        UserError: An unknown name, with the nearest known one; or a value out of range, with range and unit.

    Example:
        >>> parse_queue("down=codel:target_ms=10").direction
        'down'
    """
    place, discipline = _split(text)
    hop, direction = _place(place, where)
    name, colon, written = discipline.partition(":")
    match = next((each for each in DISCIPLINES if each.name == name.strip()), None)
    if match is None:
        names = [each.name for each in DISCIPLINES]
        hint = did_you_mean(name.strip(), names)
        raise UserError(f"no queue discipline {shown(name)}{hint} (there are {', '.join(names)})", where=where)
    given = _given(match, written, f"{where}: {match.name}") if colon else {}
    rule = {
        "discipline": _record(match, given, f"{where}: {match.name}"),
        "hop": hop,
        "direction": direction,
        "limit": _length("limit", given),
    }
    return QueueRule.check(rule, where)


def with_queues(profile: Profile, texts: Iterable[str]) -> Profile:
    """Return the same path with other queues.

    Args:
        profile: The path.
        texts: Rules as `parse_queue` reads them; of several rules for one queue the last holds.

    Raises:
        UserError: A rule is invalid, or matches no hop with a capacity.
    """
    return profile.with_queues("path", json.dumps([parse_queue(text).to_dict() for text in texts]))


def _split(text: str) -> tuple[str, str]:
    """Split a rule into the place and the discipline with its parameters."""
    known = {each.name for each in DISCIPLINES}
    if text.partition(":")[0].strip() in known:
        return "", text
    place, equals, discipline = text.partition("=")
    # `traget:target_ms=5` is an unknown discipline, not a place.
    return (place.strip(), discipline.strip()) if equals and not _is_number(discipline) else ("", text)


def _is_number(text: str) -> bool:
    first = text.partition(",")[0].strip()
    try:
        float(first)
    except ValueError:
        return first in ("on", "off")
    return True


def _place(place: str, where: str) -> tuple[str | None, str | None]:
    if not place:
        return None, None
    hop, slash, direction = place.rpartition("/")
    if not slash:
        return (None, place) if place in DIRECTIONS else (place, None)
    if direction not in DIRECTIONS:
        raise UserError(f"{shown(direction)} is no direction", where=where, expected="up or down after the hop's name")
    return hop, direction


def _given(discipline: Discipline, written: str, where: str) -> dict[str, float]:
    known = {each.name: each for each in (*discipline.parameters, *LIMITS)}
    given: dict[str, float] = {}
    for part in written.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not (name and equals and value):
            raise UserError(
                f"{shown(part)} is no parameter", where=where, expected=f"parameter=value of {', '.join(known)}"
            )
        if name not in known:
            raise UserError(f"no parameter {shown(name)}{did_you_mean(name, known)} ({', '.join(known)})", where=where)
        if name in given:
            raise UserError(f"{name} is given twice; keep one", where=where)
        given[name] = known[name].read(value, where)
    for stem in ("limit", "threshold"):
        if len(twice := [name for name in given if name.startswith(f"{stem}_")]) > 1:
            raise UserError(" and ".join(twice), where=where, expected="one of them")
    return given


def _record(discipline: Discipline, given: Mapping[str, float], where: str) -> str | dict[str, Any]:
    """Return the discipline as the simulator reads it."""
    values = {each.name: each.default for each in discipline.parameters} | dict(given)

    def ns(name: str) -> int:
        return round((values[name] or 0.0) * NS_PER_MS)

    def codel() -> dict[str, Any]:
        if ns("interval_ms") < ns("target_ms"):
            raise UserError("interval_ms is below target_ms", where=where, expected="at least as much")
        return {"target_ns": ns("target_ms"), "interval_ns": ns("interval_ms"), "ecn": bool(values["ecn"])}

    if discipline.name == "codel":
        return {"codel": codel()}
    if discipline.name == "fq_codel":
        whole = {name: int(values[name] or 0) for name in ("flows", "quantum_bytes")}
        return {"fq_codel": {"codel": codel(), **whole}}
    if discipline.name == "red":
        if ns("max_ms") <= ns("min_ms"):
            raise UserError("max_ms is not above min_ms", where=where)
        return {
            "red": {
                "min": {"time_ns": ns("min_ms")},
                "max": {"time_ns": ns("max_ms")},
                "max_probability_ppb": max(1, round((values["max_p"] or 0.0) * PROBABILITY_ONE)),
                "weight_log": int(values["weight_log"] or 0),
                "ecn": bool(values["ecn"]),
            }
        }
    if discipline.name == "step":
        return {"step": {"threshold": _length("threshold", given) or {"time_ns": ns("threshold_ms")}}}
    return discipline.name


def _length(stem: str, given: Mapping[str, float]) -> dict[str, int] | None:
    """Return the size or threshold, if one is given."""
    if f"{stem}_ms" in given:
        return {"time_ns": max(1, round(given[f"{stem}_ms"] * NS_PER_MS))}
    for unit in ("packets", "bytes"):
        if f"{stem}_{unit}" in given:
            return {unit: int(given[f"{stem}_{unit}"])}
    return None

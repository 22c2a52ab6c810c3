"""Parse rates, times and queue limits: ``100mbit``, ``19.5ms``, ``1bdp``.

Prefixes are powers of ten, as in tc(8) for rates: 1 kbit is 1000 bit/s, 1 kb is 1000 bytes. Values are exact fractions,
and must be whole numbers of bit/s, nanoseconds or bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from bentpipe.errors import UserError, did_you_mean, shown

_RATES = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
_BYTES = {"bytes": 1, "kb": 10**3, "mb": 10**6}
_SIZES = {**_BYTES, "gb": 10**9}

#: Largest rate accepted [bit/s]: 1 Tbit/s. Chosen here: beyond any link a transport study uses.
MAX_RATE_BPS = 10**12
#: Longest time accepted [ns]: 60 s. Chosen here: longer than any RTT or queue on the Earth.
MAX_TIME_NS = 60 * 10**9
#: Largest size accepted [bytes]: 1 PB. Chosen here: more than any path carries in a Run.
MAX_SIZE_BYTES = 10**15
#: Largest queue accepted [bytes]: 1 TB, and [packets] and [bdp]: a million. Chosen here, to catch slips.
MAX_QUEUE_BYTES = 10**12
MAX_QUEUE_COUNT = 10**6

_PROBABILITY = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,12})?(?:e-[0-9]{1,2})?)(%?)\Z")
_QUANTITY = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,12})?)([a-z]+)\Z")


@dataclass(frozen=True, slots=True)
class QueueLimit:
    """A queue limit in its original unit.

    Attributes:
        kind: ``"bytes"``, ``"packets"``, ``"time"`` or ``"bdp"`` (multiples of rate x RTT).
        amount: In bytes, packets, nanoseconds or multiples; exact.

    """

    kind: Literal["bytes", "packets", "time", "bdp"]
    amount: Fraction

    def bdp_bytes(self, rate_bps: int, rtt_ns: int) -> int:
        """Return the limit in bytes for kind ``"bdp"``: amount x rate x RTT, rounded down, at least 1."""
        if self.kind != "bdp":
            raise ValueError(f"queue limit is in {self.kind}, not in bdp")
        return max(1, int(self.amount * rate_bps * rtt_ns / (8 * 10**9)))


def parse_rate_bps(text: str, where: str) -> int:
    """Read a rate such as ``100mbit`` as bit/s; `where` names the value in messages. Raise `UserError`."""
    amount, unit = _split(text, where, _RATES, "a rate such as 100mbit")
    return _whole(amount * _RATES[unit], MAX_RATE_BPS, text, where, "1bit to 1000gbit")


def parse_time_ns(text: str, where: str) -> int:
    """Read a time such as ``19.5ms`` as nanoseconds; otherwise as `parse_rate_bps`."""
    amount, unit = _split(text, where, _TIMES, "a time such as 40ms")
    return _whole(amount * _TIMES[unit], MAX_TIME_NS, text, where, "1ns to 60s")


def parse_size_bytes(text: str, where: str) -> int:
    """Read a size such as ``100kb`` as bytes; otherwise as `parse_rate_bps`."""
    amount, unit = _split(text, where, _SIZES, "a size such as 100kb")
    return _whole(amount * _SIZES[unit], MAX_SIZE_BYTES, text, where, "1bytes to 1000000gb")


def parse_probability(text: str, where: str) -> float:
    """Read a probability such as ``0.001``, ``1e-3`` or ``0.1%``: 0 to 1; otherwise as `parse_rate_bps`."""
    match = _PROBABILITY.match(text)
    if match is None:
        raise UserError(f"{shown(text)} is not a probability", where=where, expected="for example 0.001, 1e-3 or 0.1%")
    value = Fraction(match[1]) / (100 if match[2] else 1)
    if value > 1:
        raise UserError(f"{shown(text)} is out of range", where=where, expected="0 to 1")
    return float(value)


def parse_queue(text: str, where: str) -> QueueLimit:
    """Read a queue limit such as ``1bdp``, ``250packets``, ``64kb`` or ``100ms``; otherwise as `parse_rate_bps`."""
    units = {**_BYTES, **_TIMES, "packets": 1, "bdp": 1}
    amount, unit = _split(text, where, units, "a queue limit such as 1bdp, 250packets, 64kb or 100ms")
    if unit in _BYTES:
        return QueueLimit(
            "bytes", Fraction(_whole(amount * _BYTES[unit], MAX_QUEUE_BYTES, text, where, "1bytes to 1000000mb"))
        )
    if unit in _TIMES:
        return QueueLimit("time", Fraction(_whole(amount * _TIMES[unit], MAX_TIME_NS, text, where, "1ns to 60s")))
    if unit == "packets":
        return QueueLimit(
            "packets", Fraction(_whole(amount, MAX_QUEUE_COUNT, text, where, "1packets to 1000000packets"))
        )
    if not 0 < amount <= MAX_QUEUE_COUNT:
        raise UserError(f"{shown(text)} is out of range", where=where, expected="above 0bdp to 1000000bdp")
    return QueueLimit("bdp", amount)


def _split(text: str, where: str, units: dict[str, int], expected: str) -> tuple[Fraction, str]:
    match = _QUANTITY.match(text.strip().lower())
    if match is None:
        raise UserError(f"{shown(text)} is not a number with a unit", where=where, expected=expected)
    if match[2] not in units:
        known = ", ".join(units)
        raise UserError(
            f"unknown unit {shown(match[2])}{did_you_mean(match[2], units)} ({known})", where=where, expected=expected
        )
    return Fraction(match[1]), match[2]


def _whole(value: Fraction, high: int, text: str, where: str, expected: str) -> int:
    if not 1 <= value <= high:
        raise UserError(f"{shown(text)} is out of range", where=where, expected=expected)
    if value.denominator != 1:
        raise UserError(
            f"{shown(text)} is finer than the smallest unit", where=where, expected=f"a whole number of it, {expected}"
        )
    return int(value)

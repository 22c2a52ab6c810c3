"""Expressions of triggers: numbers, comparisons, logic, and functions over windows; nothing else of CEL.

CEL has no product of an int and a double, so every number becomes a double, and the signal in a window function becomes
its name: ``2 * mean(latency_ms, 10)`` is compiled as ``2.0 * mean("latency_ms", 10.0)``. Lists, fields and macros are
refused, so evaluation takes a time that is bounded by the expression's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.triggers.language import FUNCTIONS, Expression
from bentpipe.triggers.windows import run

if TYPE_CHECKING:
    from collections.abc import Collection

LONGEST = 1000
"""Longest expression [characters]."""
DEEPEST = 40
"""Deepest nesting of parentheses."""
MOST_WINDOWS = 36_000
"""Most windows that a function may look back: an hour of windows of 0.1 s."""

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<text>'[^'\\]*'|\"[^\"\\]*\")|(?P<operator>&&|\|\||[<>=!]=|[-+*/%<>!?:(),])"
)
_TIME = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|min|h)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_WORDS = frozenset({"true", "false"})


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def compile_expression(text: str, signals: Collection[str] | None = None, window_s: float = 1.0) -> Expression:
    """Check and compile an expression.

    Args:
        text: The expression.
        signals: Names of the signals that there are; None: any.
        window_s: Length of a window [s], which turns times into numbers of windows.

    Raises:
        UserError: Not an expression, an unknown signal or function, or too long; with the column.

    Example:
        >>> sorted(compile_expression("a > 2 * mean(b, '5s')").signals)
        ['a', 'b']
    """
    tokens = _tokens(text)
    rewritten, used, sizes = _rewrite(text, tokens, window_s)
    if signals is not None and (unknown := [token for token in used if token.text not in signals]):
        name, known = unknown[0].text, sorted(signals)
        raise _error(unknown[0].at, f"unknown signal {shown(name)}{did_you_mean(name, known)}", ", ".join(known))
    if not used:
        raise _error(0, "uses no signal", "a condition on a signal, as latency_ms > 100")
    try:
        import cel
    except ImportError:
        raise UserError(
            "needs common-expression-language", where="trigger", hint="pip install 'bentpipe[triggers]'"
        ) from None
    try:
        program = cel.compile(rewritten)
    except ValueError as error:
        message = str(error).partition("ERROR: <input>:")[2].partition(" expecting")[0].partition("\n")[0]
        reason = message.partition(": ")[2].partition(": ")[2] or "it does not parse"
        raise UserError(f"{shown(text)}: {reason}", where="trigger", expected="a condition, as x > 100") from None
    names = frozenset(token.text for token in used)
    expression = Expression(text, names, max(sizes, default=0), sum(sizes), program)
    _check_result(expression)
    return expression


def _check_result(expression: Expression) -> None:
    """Refuse an expression whose result is no truth value."""
    result = run(expression, dict.fromkeys(expression.signals, 1.0), lambda *_: 1.0)
    if not isinstance(result, bool):
        kind = "a number" if isinstance(result, float) else "no value"
        raise UserError(f"{shown(expression.text)} is {kind}", where="trigger", expected="a condition, as x > 100")


def _tokens(text: str) -> list[_Token]:
    if len(text) > LONGEST:
        raise UserError(f"{len(text)} characters", where="trigger", expected=f"at most {LONGEST}")
    tokens, at, depth = [], 0, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _error(at, f"{shown(text[at])} is not allowed", "numbers, signals, functions, + - * / %, conditions")
        if match.lastgroup != "space":
            tokens.append(_Token(str(match.lastgroup), match.group(), at))
            depth += {"(": 1, ")": -1}.get(match.group(), 0)
            if depth > DEEPEST:
                raise _error(at, "parentheses are too deep", f"at most {DEEPEST}")
        at = match.end()
    return tokens


def _rewrite(text: str, tokens: list[_Token], window_s: float) -> tuple[str, list[_Token], list[int]]:
    """Return the text for CEL, the tokens of signals, and the number of windows that each function looks back."""
    parts: list[str] = []
    used: list[_Token] = []
    sizes: list[int] = []
    number = 0
    while number < len(tokens):
        token = tokens[number]
        is_call = number + 1 < len(tokens) and tokens[number + 1].text == "("
        if token.kind == "name" and is_call:
            call, signal, windows, number = _call(text, tokens, number, window_s)
            parts.append(call)
            used.append(signal)
            sizes.append(windows)
            continue
        if token.kind == "text":
            raise _error(token.at, f"{token.text} stands alone", "times only as the last value of a function")
        if token.kind == "number":
            parts.append(_number(token))
        else:
            parts.append(token.text)
            if token.kind == "name" and token.text not in _WORDS:
                used.append(token)
        number += 1
    return " ".join(parts), used, sizes


def _call(text: str, tokens: list[_Token], number: int, window_s: float) -> tuple[str, _Token, int, int]:
    """Return a window function for CEL, its signal, its number of windows, and the place of the next token."""
    function = tokens[number]
    if function.text not in FUNCTIONS:
        known = sorted(FUNCTIONS)
        raise _error(
            function.at,
            f"unknown function {shown(function.text)}{did_you_mean(function.text, known)}",
            ", ".join(known),
        )
    wanted = ["(", "name", ",", "number", ",", "size", ")"]
    if function.text != "quantile":
        wanted[3:5] = []
    following = tokens[number + 1 : number + 1 + len(wanted)]
    for want, token in zip(wanted, [*following, *[_Token("", "", len(text))] * len(wanted)], strict=False):
        fits = want in (token.text, token.kind) or (want == "size" and token.kind in ("number", "text"))
        if not fits:
            example = "quantile(x, 0.95, 10)" if function.text == "quantile" else f"{function.text}(x, 10)"
            raise _error(token.at, f"{function.text} with {shown(token.text) if token.text else 'no end'}", example)
    signal, size = following[1], following[-2]
    windows = _windows(size, window_s)
    call = f'{function.text}("{signal.text}", '
    if function.text == "quantile":
        level = float(following[3].text)
        if not 0 <= level <= 1:
            raise _error(following[3].at, f"quantile of {level:g}", "a level from 0 to 1")
        call += f"{level!r}, "
    return f"{call}{float(windows)!r})", signal, windows, number + 1 + len(wanted)


def _windows(size: _Token, window_s: float) -> int:
    if size.kind == "number":
        windows = float(size.text)
        if windows != windows // 1:  # infinity too: that is NaN
            raise _error(size.at, f"{size.text} windows", "a whole number of windows, or a time as '5s'")
    else:
        match = _TIME.fullmatch(size.text[1:-1].strip())
        if match is None:
            raise _error(size.at, f"{size.text} is no time", "a time as '5s', '500ms' or '2m'")
        windows = max(1.0, float(np.round(float(match[1]) * _SECONDS[match[2]] / window_s)))
    if not 1 <= windows <= MOST_WINDOWS:
        raise _error(size.at, f"{windows:g} windows", f"1 to {MOST_WINDOWS}")
    return int(windows)


def _number(token: _Token) -> str:
    value = float(token.text)
    if value in (float("inf"), float("-inf")):
        raise _error(token.at, f"{token.text} is too large", "a number")
    return repr(value)


def _error(at: int, problem: str, expected: str) -> UserError:
    return UserError(f"column {at + 1}: {problem}", where="trigger", expected=expected)

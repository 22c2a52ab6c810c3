"""States of runs on pages: a letter and a colour each, so that nobody needs to see colours."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from bentpipe.testbed.dashboard.formats import plain


@dataclass(frozen=True)
class StateMark:
    """How a state looks.

    Attributes:
        state: State.
        letter: Its letter.
        tone: Class of its colour: ``wait``, ``run``, ``good``, ``bad``, ``yield`` or ``off``.
    """

    state: str
    letter: str
    tone: str


LEGEND = (
    StateMark("planned", "P", "wait"),
    StateMark("assigned", "A", "wait"),
    StateMark("preparing", "B", "run"),
    StateMark("ready", "Y", "run"),
    StateMark("running", "R", "run"),
    StateMark("uploading", "U", "run"),
    StateMark("done", "D", "good"),
    StateMark("failed", "F", "bad"),
    StateMark("missed", "M", "bad"),
    StateMark("lost", "L", "bad"),
    StateMark("preempted", "E", "yield"),
    StateMark("canceled", "C", "off"),
)
"""All states of a run."""

_MARKS = {mark.state: mark for mark in LEGEND}


def mark_of(state: str) -> StateMark:
    """Return the mark of a state.

    Example:
        >>> mark_of("done").letter, mark_of("of another version").letter
        ('D', '?')
    """
    return _MARKS.get(state, StateMark(plain(state), "?", "off"))


def badge(state: str) -> Markup:
    """Return a state with its letter and colour.

    Example:
        >>> badge("done")
        Markup('<span class="state good"><b aria-hidden="true">D</b> done</span>')
    """
    mark = mark_of(state)
    return Markup('<span class="state {}"><b aria-hidden="true">{}</b> {}</span>').format(
        mark.tone, mark.letter, mark.state
    )

"""Claim: whatever users, nodes and time do, the testbed's calendar stays sound, on SQLite and on PostgreSQL."""

from __future__ import annotations

import importlib.util
import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.validation import Outcome, Row, postgresql

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 10_000
"""Steps on each database (issue 20)."""
SEED = 20
"""Seed of the first batch of steps; each further batch has the next."""
EXAMPLES, STEPS_EACH = 10, 50
"""Calendars of a batch, and most steps of each."""


def take_steps(
    url_of: Callable[[int], str], least: int, on_step: Callable[[int], None], examples: int = EXAMPLES
) -> tuple[int, str]:
    """Take at least `least` steps, and check the calendar after each.

    Args:
        url_of: URL of an empty database for the calendar of that number.
        least: Least steps.
        on_step: Called with the number of steps so far.
        examples: Calendars of a batch.

    Returns:
        Steps that were taken, and what the first unsound calendar has; empty: all were sound.
    """
    from hypothesis import HealthCheck, Phase, seed, settings
    from hypothesis.stateful import run_state_machine_as_test

    from bentpipe.validation.testbed_calendar.machine import CalendarMachine

    numbers, steps = itertools.count(), 0

    def on_check() -> None:
        nonlocal steps
        steps += 1
        on_step(steps)

    chosen = settings(
        max_examples=examples,
        stateful_step_count=STEPS_EACH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with tempfile.TemporaryDirectory(prefix="bentpipe-calendar-") as folder:

        def machine() -> CalendarMachine:
            return CalendarMachine(url_of(next(numbers)), Path(folder), on_check)

        factory: Any = machine  # its type names classes alone; any callable does
        for number in itertools.count(SEED):
            if steps >= least:
                break
            try:
                run_state_machine_as_test(seed(number)(factory), settings=chosen)
            except AssertionError as error:
                return steps, f"batch {number}: {' '.join(str(error).split())[:300] or 'unsound'}"
    return steps, ""


def check(_: Path | None, on_progress: Callable[[float], None]) -> Outcome:
    """Take ten thousand steps on each database; an hour."""
    if importlib.util.find_spec("hypothesis") is None:
        return Outcome("testbed-calendar", skipped="needs hypothesis (pip install hypothesis)")
    if postgresql.programs() is None:
        return Outcome("testbed-calendar", skipped="needs PostgreSQL (apt install postgresql)")
    rows: list[Row] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="bentpipe-calendar-") as folder, postgresql.server() as server:
        urls: dict[str, Callable[[int], str]] = {
            "SQLite": lambda number: f"sqlite:///{folder}/{number}.db",
            "PostgreSQL": lambda _: server.new_database(),
        }
        for index, (name, url_of) in enumerate(urls.items()):
            begin = index / len(urls)

            def on_step(count: int, begin: float = begin) -> None:
                on_progress(begin + min(0.5, count / STEPS / 2))

            steps, problem = take_steps(url_of, STEPS, on_step)
            rows.append(Row(f"{name}: unsound calendars", str(int(bool(problem))), "0", "none", not problem))
            rows.append(Row(f"{name}: steps", str(steps), str(STEPS), "at least", bool(problem) or steps >= STEPS))
            notes += [f"{name}: {problem}"] if problem else []
    on_progress(1.0)
    return Outcome("testbed-calendar", rows, notes)

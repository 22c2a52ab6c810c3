"""The run page: both ends' events beside each other, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.testbed.schemas.agent_protocol import WITHOUT_TERMINAL

if TYPE_CHECKING:
    from bentpipe.testbed.schemas.experiment_views import EventView, RunDetail


@dataclass(frozen=True)
class Moment:
    """Something that an end reported.

    Attributes:
        at_ms: When [ms since 1970].
        since_start_s: Time since the run's start [s].
        end: ``client``, ``server`` or empty.
        node: Node that reported it.
        state: New state; empty: another event.
        text: It, in words.
        late_s: How much later it arrived [s].
    """

    at_ms: int
    since_start_s: float
    end: str
    node: str
    state: str
    text: str
    late_s: float


def moments(run: RunDetail) -> list[Moment]:
    """Return the events of a run in sequence."""
    ends = {each.node: each.end for each in run.ends}
    return [
        Moment(
            event.at_ms,
            (event.at_ms - run.start_at_ms) / 1000,
            str(event.body.get("end") or ends.get(event.node, "")),
            event.node,
            str(event.body.get("state", "")) if event.kind == "state" else "",
            _words(event),
            max(0.0, (event.received_at_ms - event.at_ms) / 1000),
        )
        for event in run.events
    ]


def ran_s(run: RunDetail) -> float | None:
    """Return how long the client's end ran [s]; None: it is unknown."""
    started = [each.at_ms for each in run.events if each.body.get("state") == "running"]
    over = [each.at_ms for each in run.events if each.body.get("state") in ("uploading", "done", "failed", "preempted")]
    return (min(over) - min(started)) / 1000 if started and over and min(over) > min(started) else None


def telemetry_words(run: RunDetail) -> str:
    """Say whether the terminal's telemetry is in the results, and why it is not."""
    client = [each for each in run.ends if each.end == "client"]
    files = [file for each in client for file in each.files if file.startswith(("terminal/", "dish_"))]
    if files:
        return f"The terminal's telemetry is in the client's results: {len(files)} file{'s' if len(files) > 1 else ''}."
    notes = [str(each.body.get("text", "")) for each in run.events if each.kind == "note"]
    reasons = [text.removeprefix(WITHOUT_TERMINAL).strip() for text in notes if text.startswith(WITHOUT_TERMINAL)]
    if reasons:
        return f"The results have no telemetry of a terminal: {reasons[-1]}."
    if not any(each.files for each in client):
        return ""
    return "The results have no telemetry of a terminal, and the node did not say why."


def _words(event: EventView) -> str:
    body = event.body
    if event.kind == "state":
        return str(body.get("reason", ""))
    if event.kind == "run":
        return f"the node made this run itself ({body.get('cause', '')}, attempt {body.get('attempt', 1)})"
    if event.kind == "firing":
        return "the trigger fired"
    return str(body.get("text", event.kind))

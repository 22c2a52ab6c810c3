"""Rows of a Run, as they leave the simulator or the emulator while the Run goes on: typed records of lines of JSON.

A row has the columns of its table (``docs/reference/run.md``): names end in their units, counters are cumulative, None
is unknown. Rows of one Run come in order of time, except that an event of a path comes with the first sample after it.
Each row names its Run, so that the rows of a whole race can share one file.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from bentpipe.experiments.flow_names import without_folders
from bentpipe.records import Items, Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.runs.work import Work

FORMAT = 1
"""Version of the format: `HeaderRow.format`. It grows when a type or a field gets another meaning or is removed, not
when one is added."""


class RunKey(Record):
    """The Run of a row: no other Run of its race has the same."""

    experiment: str
    """Name of the Experiment."""
    profile: str
    """Label of the Profile in the race; of several, joined by ``+``."""
    scheme: str
    """The scheme, or the program's name."""
    seed: int
    """The seed."""

    @classmethod
    def of(cls, item: Work) -> RunKey:
        """Return the key of a planned Run."""
        return cls(experiment=item.experiment.name, profile=item.label, scheme=item.scheme, seed=item.seed)

    def __str__(self) -> str:
        """Return it in words."""
        return f"{without_folders(self.scheme)}, seed {self.seed}, on {self.profile}"


class _Row(Record):
    run: RunKey
    """The Run."""


class PathHeader(Record):
    """A path of a Run."""

    role: str
    """Role in the Experiment, which links and flows have as `profile`."""
    profile: str
    """Name of the Profile."""
    start_unix_ns: int
    """Wall clock of the Profile at the start of the Run [ns since 1970]."""
    hops: Items[str]
    """Names of the hops, from the terminal on."""


class HeaderRow(_Row):
    """The first row of a Run. A second one of the same Run begins another try of it."""

    type: Literal["header"] = "header"
    """Type of the row."""
    format: Literal[1]
    """Version of the format."""
    world: Literal["simulated", "emulated"]
    """The driver."""
    experiment: str
    """Name of the Experiment."""
    duration_s: float | None
    """Duration of the Run [s]; None: until its program ends."""
    sample_step_s: float
    """Time between two samples of a flow [s]."""
    paths: Items[PathHeader]
    """Its paths."""


class FlowRow(_Row):
    """A flow that later rows refer to by its number. A later row of the same number replaces it.

    A program's flows are numbered by their first packets; the Run's tables number them as its Experiment does.
    """

    type: Literal["flow"] = "flow"
    """Type of the row."""
    flow: int
    """Its number."""
    profile: str
    """Role of its path."""
    direction: Literal["up", "down"]
    """Direction of its data."""
    controller: str
    """Congestion controller of its sender."""
    start_s: float
    """When it starts, since the start of the Run [s]."""


class SampleRow(_Row):
    """State of a flow's sender: a row of `samples`."""

    type: Literal["sample"] = "sample"
    """Type of the row."""
    t_s: float
    """Time since the start of the Run [s]."""
    flow: int
    """Number of the flow."""
    goodput_bytes: int
    """Bytes delivered in order so far."""
    rtt_latest_ms: float | None
    """Most recent RTT sample [ms]; always None in an emulation."""
    rtt_smoothed_ms: float | None
    """Smoothed RTT [ms]."""
    rtt_min_ms: float | None
    """Minimum RTT in the sender's window [ms]."""
    rtt_var_ms: float | None
    """Mean deviation of the RTT [ms]."""
    cwnd_bytes: int
    """Congestion window [bytes]."""
    inflight_bytes: int
    """Bytes in flight."""
    pacing_bps: float | None
    """Pacing rate [bit/s]; None: not paced."""
    delivery_bps: float | None
    """Delivery rate [bit/s]."""
    retransmits: int
    """Segments retransmitted so far."""
    losses: int
    """Segments marked lost so far; always 0 in an emulation, whose kernel does not count them."""
    marks: int
    """CE marks echoed so far."""
    state: str
    """Congestion control state: open, disorder, cwr, recovery or loss."""
    cwnd_limited_s: float
    """Time limited by the congestion window so far [s]."""
    receiver_limited_s: float
    """Time limited by the receive window so far [s]."""
    sender_limited_s: float
    """Time limited by the application or the send buffer so far [s]."""


class LinkRow(_Row):
    """Traffic on a hop in a window of one second: a row of `links`."""

    type: Literal["link"] = "link"
    """Type of the row."""
    t_s: float
    """End of the window [s]."""
    profile: str
    """Role of the path."""
    hop: str
    """Name of the hop; ``no_route``: packets that found no route."""
    direction: Literal["up", "down"]
    """Direction."""
    flow: int
    """Number of the flow; -1: all flows; -2: cross traffic."""
    capacity_bps: float | None
    """Capacity at the end of the window [bit/s]; None: unlimited."""
    backlog_bytes: int
    """Bytes that wait at the end of the window."""
    backlog_max_bytes: int
    """Peak backlog in the window [bytes]."""
    delivered_bytes: int
    """Bytes that left the hop so far; 0 in rows of a single flow, as all counters of drops."""
    drops_queue: int
    """Tail drops so far."""
    drops_loss: int
    """Random losses so far."""
    drops_event: int
    """Packets dropped by handovers and outages so far."""
    drops_aqm: int
    """AQM drops so far."""
    drops_no_route: int
    """Packets that found no route so far."""
    marks_law: int
    """Packets marked by the queue's control law so far."""
    marks_threshold: int
    """Packets marked beyond a threshold so far."""
    delay_n: int
    """Packets that left the hop in the window."""
    delay_mean_ms: float | None
    """Mean time of these packets in the hop [ms]."""
    delay_p50_ms: float | None
    """Median of that time [ms]."""
    delay_p95_ms: float | None
    """95th percentile of that time [ms]."""
    delay_max_ms: float | None
    """Maximum of that time [ms]."""


class EventRow(_Row):
    """An event of the path or of a flow: a row of `events`."""

    type: Literal["event"] = "event"
    """Type of the row."""
    t_s: float
    """Time of the event [s]."""
    flow: int
    """Number of the flow; -1: the path."""
    kind: str
    """Kind of the event, such as handover or rto."""
    detail: str
    """Description for people."""


class ApplicationRow(_Row):
    """An item of an application with everything known of it. A later row of the same flow and number replaces it."""

    type: Literal["application"] = "application"
    """Type of the row."""
    flow: int
    """Number of the flow."""
    kind: str
    """Kind of the item, such as request; empty: unknown."""
    id: int
    """Number of the item in its flow."""
    start_s: float | None
    """When it began [s]."""
    first_byte_s: float | None
    """When its first byte arrived [s]."""
    completed_s: float | None
    """When it was complete [s]."""
    bytes: int
    """Its size; 0: unknown."""


class DroppedRow(_Row):
    """Rows of an emulation before this one were dropped, because their reader was too slow."""

    type: Literal["dropped"] = "dropped"
    """Type of the row."""
    rows: int
    """Their number."""


class EndRow(_Row):
    """The last row of a Run, once it is stored or has failed, or of a try of it."""

    type: Literal["end"] = "end"
    """Type of the row."""
    valid: bool
    """Whether the Run is valid; an invalid one may be tried again, and a failed one is not valid."""
    why_invalid: str | None
    """Why it is not: the disturbance of an emulation, or the error with which the Run failed."""


Row = HeaderRow | FlowRow | SampleRow | LinkRow | EventRow | ApplicationRow | DroppedRow | EndRow


@cache
def _adapter() -> TypeAdapter[Row]:
    return TypeAdapter(Annotated[Row, Field(discriminator="type")])


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a row."""
    return _adapter().json_schema()


def parse_rows(lines: bytes) -> Iterator[Row]:
    """Yield the rows of lines of JSON."""
    for line in lines.splitlines():
        yield _adapter().validate_json(line)


class RunLines:
    """Adds the Run to lines of JSON that its driver wrote without it."""

    def __init__(self, run: RunKey) -> None:
        """Take the Run."""
        self._begin = b'{"run":' + json.dumps(run.to_dict()).encode() + b","

    def add(self, lines: bytes) -> bytes:
        """Return the lines with the Run in each; a line of JSON has no line end inside."""
        return b"".join(self._begin + line[1:] + b"\n" for line in lines.split(b"\n") if line)

    def dropped(self, rows: int) -> bytes:
        """Return the line of a `DroppedRow`."""
        return self.add(json.dumps({"type": "dropped", "rows": rows}).encode())

    def end(self, why_invalid: str | None) -> bytes:
        """Return the line of an `EndRow`."""
        return self.add(json.dumps({"type": "end", "valid": why_invalid is None, "why_invalid": why_invalid}).encode())

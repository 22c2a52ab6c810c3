"""Named points at which a testbed's programs are killed: before, after or during a call of one of their functions.

The programs themselves know nothing of it: `bentpipe.validation.testbed_faults.wrapped` wraps the functions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["orchestrator", "agent", "runner", "upload", "database"]
KINDS: tuple[Kind, ...] = ("orchestrator", "agent", "runner", "upload", "database")
"""What is killed (issue 20)."""

AGENT, RUNNERS = "bentpipe.testbed.agent.", "bentpipe.testbed.runners."
ORCHESTRATOR, UPLOADS = "bentpipe.testbed.orchestrator.", "bentpipe.testbed.orchestrator.services.uploads:"


@dataclass(frozen=True)
class Point:
    """A place in a program.

    Attributes:
        kind: What is killed there.
        name: What has happened, and what has not.
        program: Program in which the function is called.
        place: The function, as ``module:name``.
        moment: When, beside the call. ``half``: when half of the work is done; ``during``: 0 to 2 ms after it began.
        victim: What gets SIGKILL: the program itself, a process of a run, or one of the database server's.
        most_calls: The kill comes with one of so many calls.
        needs_result: Whether only calls count whose result is true.
        at_agent_start: Whether it is reached only when an agent starts: one is killed for it.
    """

    kind: Kind
    name: str
    program: Literal["agent", "orchestrator"]
    place: str
    moment: Literal["before", "after", "half", "during"]
    victim: Literal["itself", "first process", "process 1", "its program", "postmaster", "backend", "helper"] = "itself"
    most_calls: int = 1
    needs_result: bool = False
    at_agent_start: bool = False


def _agent(name: str, place: str, moment: Literal["before", "after"], most_calls: int = 1) -> Point:
    return Point("agent", name, "agent", AGENT + place, moment, most_calls=most_calls)


def _runner(name: str, place: str, moment: Literal["before", "after"]) -> Point:
    return Point("runner", name, "agent", RUNNERS + place, moment)


def _process(victim: Literal["first process", "process 1", "its program"]) -> Point:
    place = AGENT + "client_end:ClientEnd._check"
    return Point("runner", f"during the run: {victim}", "agent", place, "before", victim, most_calls=8)


def _upload(
    program: Literal["agent", "orchestrator"],
    name: str,
    place: str,
    moment: Literal["before", "after", "half"],
    most_calls: int = 1,
) -> Point:
    return Point("upload", name, program, place, moment, most_calls=most_calls)


def _orchestrator(
    name: str,
    place: str,
    moment: Literal["before", "after", "during"],
    most_calls: int = 1,
    *,
    needs_result: bool = False,
    at_agent_start: bool = False,
) -> Point:
    place = place if place.startswith("sqlalchemy") else ORCHESTRATOR + place
    return Point(
        "orchestrator",
        name,
        "orchestrator",
        place,
        moment,
        most_calls=most_calls,
        needs_result=needs_result,
        at_agent_start=at_agent_start,
    )


def _database(
    name: str,
    place: str,
    moment: Literal["before", "after", "during"],
    victim: Literal["postmaster", "backend", "helper"],
) -> Point:
    place = place if place.startswith("sqlalchemy") else ORCHESTRATOR + place
    return Point("database", f"{name}: {victim}", "orchestrator", place, moment, victim, most_calls=4)


COMMIT = "sqlalchemy:commit"
"""Stands for the commit of a transaction in SQLAlchemy."""
FINISH = "context:Transaction.finish"

POINTS: tuple[Point, ...] = (
    _agent("before anything runs", "agent:Agent.run", "before"),
    _agent("an event is written, and not sent", "store:AgentStore.add_event", "after", 6),
    _agent("events are sent, and not dropped", "connection:Orchestrator.events", "after", 3),
    _agent("the wanted state is fetched, and not stored", "store:AgentStore.set_wanted", "before"),
    _agent("the wanted state is stored, and not followed", "store:AgentStore.set_wanted", "after"),
    _agent("a run's state is written, and not its event", "store:AgentStore.set_run", "after", 6),
    _agent("a run is prepared, and waits", "client_end:ClientEnd._prepare", "after"),
    _agent("the program ended, and there is no result", "client_end:gather", "before"),
    _agent("the result is made, and not in the spool", "client_end:gather", "after"),
    _agent("the result is half in the spool", "spool:write_private", "before"),
    _agent("the result is in the spool, and its state not written", "spool:Spool.add", "after"),
    _runner("the namespace is made, and not connected", "sandboxed:new_network", "after"),
    _runner("the namespace is connected, and empty", "uplink:connect", "after"),
    _runner("the program is loaded, and waits", "run:SandboxedRun.launch", "after"),
    _runner("everything is ready, the gate is closed", "run:SandboxedRun.start", "before"),
    _runner("the gate is open, and the state not written", "run:SandboxedRun.start", "after"),
    _runner("the program ended, its namespace is there", "run:SandboxedRun._remove", "before"),
    _runner("the namespace is removed, and no result made", "run:SandboxedRun._remove", "after"),
    _process("first process"),
    _process("process 1"),
    _process("its program"),
    _upload("agent", "the node asked how much arrived", AGENT + "connection:Orchestrator.offset", "after"),
    _upload("agent", "a part arrived, the node does not know", AGENT + "connection:Orchestrator.put", "after", 4),
    _upload("agent", "all arrived, nothing is committed", AGENT + "connection:Orchestrator.commit", "before"),
    _upload("agent", "committed, and still in the spool", AGENT + "connection:Orchestrator.commit", "after"),
    _upload("orchestrator", "half a part is written", UPLOADS + "_append", "half", 3),
    _upload("orchestrator", "a part is written, and not answered", UPLOADS + "_append", "after", 3),
    _upload("orchestrator", "checked, and not in the store", UPLOADS + "_verify", "after"),
    _upload("orchestrator", "some files are in the store", ORCHESTRATOR + "storage:Storage.put", "after", 3),
    _upload("orchestrator", "all are in the store, and not believed", UPLOADS + "Uploads._believe", "before"),
    _upload("orchestrator", "believed, and not answered", UPLOADS + "Uploads._believe", "after"),
    _orchestrator("an event is taken, and not committed", "services.events:_take", "after", 5),
    _orchestrator("events are committed, and not answered", "services.events:take_events", "after", 2),
    _orchestrator("bookings are written, and not committed", "services.planner:insert_bookings", "after"),
    _orchestrator("a plan is carried on, and not committed", "services.planner:plan_ahead", "after", needs_result=True),
    _orchestrator("a transaction ends, and is not written", FINISH, "before", 6),
    _orchestrator("a transaction is written, and not committed", FINISH, "after", 6),
    _orchestrator("a commit has begun", COMMIT, "during", 6),
    _orchestrator("a transaction is committed, nobody knows", "node_table:NodeTable.set_versions", "before", 6),
    _orchestrator("a calendar is read, and not assigned", "services.desired_states:_assign", "before"),
    _orchestrator("a calendar is assigned, and not sent", "services.desired_states:_assign", "after"),
    _orchestrator(
        "a start of an agent is noted, and not committed", "services.boots:enter", "after", at_agent_start=True
    ),
    _orchestrator("heartbeats wait to be stored", "services.heartbeats:Heartbeats.flush", "before", 2),
    _database("a transaction ends, and is not written", FINISH, "before", "postmaster"),
    _database("a transaction is written, and not committed", FINISH, "after", "postmaster"),
    _database("a commit has begun", COMMIT, "during", "postmaster"),
    _database("a transaction is committed, nobody knows", "node_table:NodeTable.set_versions", "before", "postmaster"),
    _database("a transaction is written, and not committed", FINISH, "after", "backend"),
    _database("a commit has begun", COMMIT, "during", "backend"),
    _database("a transaction is written, and not committed", FINISH, "after", "helper"),
)
"""All points."""


def point_of(kind: str, name: str) -> Point:
    """Return a point.

    Example:
        >>> point_of("runner", "during the run: process 1").victim
        'process 1'
    """
    return next(each for each in POINTS if (each.kind, each.name) == (kind, name))

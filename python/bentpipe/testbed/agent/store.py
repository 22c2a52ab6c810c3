"""What survives a kill: the wanted state, events that have not arrived, runs, bytes used. One SQLite file.

One connection, ``synchronous=FULL``: what a method wrote is on the disk when it returns.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from bentpipe.errors import UserError
from bentpipe.testbed.schemas.agent_protocol import Event, FiringEvent, NoteEvent, RunEvent, StateEvent
from bentpipe.testbed.schemas.desired import Desired
from bentpipe.testbed.schemas.states import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS wanted (
    id INTEGER PRIMARY KEY CHECK (id = 1), version INTEGER NOT NULL, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, boot TEXT NOT NULL, seq INTEGER NOT NULL, record TEXT NOT NULL,
    UNIQUE (boot, seq));
CREATE TABLE IF NOT EXISTS runs (
    run TEXT NOT NULL, plan TEXT NOT NULL, end TEXT NOT NULL, fence INTEGER NOT NULL, state TEXT NOT NULL,
    due_at_ms INTEGER NOT NULL, changed_at_ms REAL NOT NULL, PRIMARY KEY (run, end)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS traffic (minute INTEGER NOT NULL, plan TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (minute, plan)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS firings (
    trigger TEXT NOT NULL, at_ms INTEGER NOT NULL, PRIMARY KEY (trigger, at_ms)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS retries (
    number INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL UNIQUE, record TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS clock (
    id INTEGER PRIMARY KEY CHECK (id = 1), start TEXT NOT NULL, got_s REAL NOT NULL, begin_ms REAL NOT NULL,
    error_ms REAL NOT NULL);
"""
KEPT_MS = 40 * 86_400_000
"""How long ended runs and counts are kept [ms]: longer than the longest budget's period."""
Body = StateEvent | RunEvent | FiringEvent | NoteEvent


@dataclass(frozen=True)
class StoredRun:
    """A run that this node knows."""

    run: str
    plan: str
    end: str
    fence: int
    state: str
    due_at_ms: int

    @property
    def has_ended(self) -> bool:
        """Whether it is in a final state."""
        return self.state in FINAL


class AgentStore:
    """The file. Raises `UserError` if it is damaged or of another version, `OSError` if the disk is full."""

    def __init__(self, path: Path) -> None:
        """Open or create it."""
        try:
            self._db = sqlite3.connect(path, isolation_level=None)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, VERSION):
                raise UserError(
                    f"version {version}", where=str(path), expected=f"version {VERSION}; try a newer bentpipe"
                )
            self._db.executescript(_TABLES)
            self._db.execute(f"PRAGMA user_version={VERSION}")
        except sqlite3.Error as error:
            raise UserError(
                f"is damaged ({error})",
                where=str(path),
                expected="the agent's file",
                hint="move it away and start again",
            ) from None
        self._next_seq: dict[str, int] = {}

    def close(self) -> None:
        """Close it."""
        self._db.close()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Write everything in the block at once: one wait for the disk instead of several. No `await` in it.

        A block in a block is part of the outer one.
        """
        if self._db.in_transaction:
            yield
            return
        self._write("BEGIN IMMEDIATE")
        sequence = dict(self._next_seq)
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            self._next_seq = sequence
            raise
        self._write("COMMIT")

    def _write(self, statement: str, *values: object) -> int:
        try:
            return self._db.execute(statement, values).rowcount
        except sqlite3.OperationalError as error:
            raise OSError(28, f"the agent's file: {error}") from None

    # The wanted state.

    def wanted(self) -> Desired | None:
        """Return the newest wanted state; None: there was none, or it is from another version."""
        row = self._db.execute("SELECT record FROM wanted").fetchone()
        if row is None:
            return None
        try:
            return Desired.model_validate_json(row[0])
        except ValueError:
            return None

    def set_wanted(self, wanted: Desired) -> None:
        """Replace it."""
        record = wanted.model_dump_json(by_alias=True)
        self._write(
            "INSERT INTO wanted VALUES (1, ?, ?) ON CONFLICT (id)"
            " DO UPDATE SET version = excluded.version, record = excluded.record",
            wanted.version,
            record,
        )

    # The orchestrator's time.

    def clock(self) -> tuple[str, float, float, float] | None:
        """Return what `OrchestratorClock.kept` said; None: nothing."""
        row = self._db.execute("SELECT start, got_s, begin_ms, error_ms FROM clock").fetchone()
        return None if row is None else (str(row[0]), float(row[1]), float(row[2]), float(row[3]))

    def set_clock(self, kept: tuple[str, float, float, float]) -> None:
        """Replace it."""
        self._write("INSERT OR REPLACE INTO clock VALUES (1, ?, ?, ?, ?)", *kept)

    # Events.

    def add_event(self, boot: str, at_ms: float, body: Body) -> Event:
        """Number and keep an event until the orchestrator has it."""
        event = Event(seq=self._first_seq(boot), at_ms=at_ms, body=body)
        record = event.model_dump_json()
        self._write("INSERT INTO events (boot, seq, record) VALUES (?, ?, ?)", boot, event.seq, record)
        self._next_seq[boot] = event.seq + 1
        return event

    def _first_seq(self, boot: str) -> int:
        """Return the number of the next event of a start."""
        seq = self._next_seq.get(boot)
        if seq is None:
            row = self._db.execute("SELECT max(seq) FROM events WHERE boot = ?", (boot,)).fetchone()
            seq = int(row[0] or 0) + 1
        return seq

    def events(self, most: int) -> tuple[str, list[Event]] | None:
        """Return the oldest boot with events that have not arrived, and those; None: there are none."""
        first = self._db.execute("SELECT boot FROM events ORDER BY number LIMIT 1").fetchone()
        if first is None:
            return None
        records = self._db.execute("SELECT record FROM events WHERE boot = ? ORDER BY seq LIMIT ?", (first[0], most))
        return first[0], [_EVENT.validate_json(record) for (record,) in records]

    def take_over_events(self, boot: str) -> None:
        """Number all events that have not arrived as those of this start: the orchestrator forgot the numbers."""
        rows = self._db.execute("SELECT number, record FROM events WHERE boot <> ? ORDER BY number", (boot,)).fetchall()
        with self.together():
            for number, record in rows:
                event = _EVENT.validate_json(record).replace(seq=self._first_seq(boot))
                self._write(
                    "UPDATE events SET boot = ?, seq = ?, record = ? WHERE number = ?",
                    *(boot, event.seq, event.model_dump_json(), number),
                )
                self._next_seq[boot] = event.seq + 1

    def drop_events(self, boot: str, before_seq: int) -> None:
        """Forget the events that have arrived."""
        self._write("DELETE FROM events WHERE boot = ? AND seq < ?", boot, before_seq)

    # Runs.

    def set_run(self, run: StoredRun, now_ms: float) -> None:
        """Keep a run's state."""
        self._write(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (run, end) DO UPDATE SET"
            " fence = excluded.fence, state = excluded.state, changed_at_ms = excluded.changed_at_ms",
            *(run.run, run.plan, run.end, run.fence, run.state, run.due_at_ms, now_ms),
        )

    def run(self, run: str, end: str) -> StoredRun | None:
        """Return a run; None: unknown."""
        row = self._db.execute(f"SELECT {_COLUMNS} FROM runs WHERE run = ? AND end = ?", (run, end)).fetchone()
        return None if row is None else StoredRun(*row)

    def runs(self) -> list[StoredRun]:
        """Return all runs."""
        return [StoredRun(*row) for row in self._db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY due_at_ms")]

    # Bytes.

    def add_bytes(self, plan: str, at_ms: float, used_bytes: int) -> None:
        """Count bytes of a plan."""
        if used_bytes > 0:
            self._write(
                "INSERT INTO traffic VALUES (?, ?, ?) ON CONFLICT (minute, plan)"
                " DO UPDATE SET bytes = bytes + excluded.bytes",
                *(int(at_ms // 60_000), plan, used_bytes),
            )

    def used_bytes(self, since_ms: float, plan: str | None = None) -> int:
        """Return the bytes since a time, of a plan or of all."""
        condition, values = ("AND plan = ?", [plan]) if plan is not None else ("", [])
        row = self._db.execute(
            f"SELECT sum(bytes) FROM traffic WHERE minute >= ? {condition}", [int(since_ms // 60_000), *values]
        ).fetchone()
        return int(row[0] or 0)

    # Firings.

    def add_firing(self, trigger: str, at_ms: int) -> bool:
        """Keep a firing that started a run; return whether it is new."""
        return self._write("INSERT OR IGNORE INTO firings VALUES (?, ?)", trigger, at_ms) == 1

    def firings(self, trigger: str) -> int:
        """Return the number of a trigger's firings that started a run."""
        row = self._db.execute("SELECT count(*) FROM firings WHERE trigger = ?", (trigger,)).fetchone()
        return int(row[0])

    # Further attempts of preempted runs.

    def add_retry(self, run: str, record: str) -> None:
        """Keep an attempt that waits."""
        self._write("INSERT OR REPLACE INTO retries (run, record) VALUES (?, ?)", run, record)

    def retries(self) -> list[tuple[str, str]]:
        """Return the attempts that wait, oldest first."""
        return [(run, text) for run, text in self._db.execute("SELECT run, record FROM retries ORDER BY number")]

    def drop_retry(self, run: str) -> None:
        """Forget an attempt."""
        self._write("DELETE FROM retries WHERE run = ?", run)

    def tidy(self, now_ms: float) -> None:
        """Forget what is older than any budget."""
        before_ms = now_ms - KEPT_MS
        ended = ", ".join(f"'{state}'" for state in sorted(FINAL))
        self._write(f"DELETE FROM runs WHERE changed_at_ms < ? AND state IN ({ended})", before_ms)
        self._write("DELETE FROM traffic WHERE minute < ?", int(before_ms // 60_000))


_COLUMNS = "run, plan, end, fence, state, due_at_ms"
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)

"""The server's side of sessions: one socket for all clients of a server node."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from bentpipe.testbed.agent.session import BEAT_S, SILENCE_S, Kind, Message, RefusedError, is_sealed, peek, seal
from bentpipe.testbed.agent.waiting import wait_at_most

if TYPE_CHECKING:
    from collections.abc import Callable

LOG = logging.getLogger("bentpipe.agent")
READY_S = 60.0
"""How long a server waits, ready, for ``start`` [s]."""
LATEST_LOOK_S = 2 * BEAT_S
"""Most time between two looks at a session that counts [s]; the rest is lateness of the server itself."""
MOST_SESSIONS = 256
"""Most sessions at a time."""


class ServerRun(Protocol):
    """A server's end of a run, as a session sees it."""

    async def prepare(self) -> dict[str, int]:
        """Start the programs; return their ports. Raises `RefusedError`."""

    def answered(self) -> None:
        """The client knows the ports."""

    def began(self) -> None:
        """The client's traffic starts."""

    async def end(self, reason: str) -> None:
        """End the programs and keep the result; `reason` is empty if the client said bye."""


@dataclass
class _Session:
    run: str
    key: str
    address: object
    newest: int
    server_run: ServerRun
    ports: dict[str, int] | None = None
    refused: RefusedError | None = None
    began: bool = False
    last_s: float = 0.0
    why: str | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


class SessionServer(asyncio.DatagramProtocol):
    """Answers clients.

    Args:
        key_of: Key of a plan; None: no client of it may come.
        admit: Makes the server's end for a hello. Raises `RefusedError`.
    """

    def __init__(self, key_of: Callable[[str], str | None], admit: Callable[[Message], ServerRun]) -> None:
        """Begin without sessions."""
        self._key_of, self._admit = key_of, admit
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(time.time_ns())
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the socket."""
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Take a client's message."""
        message = peek(data)
        if message is None:
            return
        key = self._key_of(message.plan)
        if key is None or not is_sealed(data, key, "c"):
            return  # no answer: it would help who guesses
        session = self._sessions.get(message.run)
        if session is None:
            if message.kind == "hello":
                self._open(message, key, addr)
            return
        if message.number <= session.newest:
            return
        session.newest, session.address, session.last_s = message.number, addr, asyncio.get_running_loop().time()
        if message.kind == "hello":
            self._answer_hello(session, message)
        elif message.kind in ("start", "beat") and session.ports is not None and not session.began:
            session.began = True  # a beat says it too: the start may have been lost
            session.server_run.began()
        elif message.kind == "bye":
            session.why = message.reason
            session.ended.set()

    def _open(self, message: Message, key: str, addr: object) -> None:
        if len(self._sessions) >= MOST_SESSIONS:
            self._send("busy", message, key, addr, reason="too many sessions")
            return
        try:
            server_run = self._admit(message)
        except RefusedError as error:
            kind: Kind = "busy" if error.until_at_ms else "refused"
            self._send(kind, message, key, addr, reason=error.reason, until_at_ms=error.until_at_ms)
            return
        now_s = asyncio.get_running_loop().time()
        session = _Session(message.run, key, addr, message.number, server_run, last_s=now_s)
        self._sessions[message.run] = session
        session.task = asyncio.create_task(self._serve(session, message))

    def _answer_hello(self, session: _Session, message: Message) -> None:
        if session.refused is not None:
            self._send("refused", message, session.key, session.address, reason=session.refused.reason)
        elif session.ports is not None:
            self._send("ready", message, session.key, session.address, ports=session.ports)
        else:
            self._send("preparing", message, session.key, session.address)

    async def _serve(self, session: _Session, hello: Message) -> None:
        loop = asyncio.get_running_loop()
        try:
            try:
                session.ports = await session.server_run.prepare()
                self._answer_hello(session, hello)  # first: what follows waits for the disk
                session.server_run.answered()
            except RefusedError as error:
                session.refused = error
            except Exception as error:  # a defect: the client is told, and the port and the lane are given back
                LOG.exception("the server's end of run %s failed", session.run)
                session.refused = RefusedError(f"the server node: {type(error).__name__}: {error}"[:300])
            if session.refused is not None:
                self._answer_hello(session, hello)
            reason = await self._until_silent(session) if session.refused is None else session.refused.reason
            session.ports, session.refused = None, session.refused or RefusedError("the run has ended here")
            await session.server_run.end(reason)
            self._send("ended", hello, session.key, session.address, reason=reason)
            end_s = loop.time() + 2.0
            while loop.time() < end_s:  # an answer for a hello that is repeated
                await asyncio.sleep(0.5)
        finally:
            self._sessions.pop(session.run, None)

    async def _until_silent(self, session: _Session) -> str:
        """Wait for the bye, or for silence. Time in which this process did not run is no silence of the client."""
        loop = asyncio.get_running_loop()
        silent_s, looked_s = 0.0, loop.time()
        while True:
            limit_s = SILENCE_S if session.began else READY_S
            if silent_s >= limit_s:
                return f"no beat of the client for {limit_s:g} s" if session.began else "the client did not start"
            if await wait_at_most(session.ended, min(limit_s - silent_s, BEAT_S)):
                return session.why or ""
            now_s = loop.time()
            silent_s = min(silent_s + min(now_s - looked_s, LATEST_LOOK_S), now_s - session.last_s)
            looked_s = now_s

    def _send(
        self,
        kind: Kind,
        message: Message,
        key: str,
        addr: object,
        *,
        ports: dict[str, int] | None = None,
        reason: str = "",
        until_at_ms: int = 0,
    ) -> None:
        answer = Message(
            kind=kind,
            run=message.run,
            plan=message.plan,
            number=next(self._numbers),
            ports=ports or {},
            reason=reason,
            until_at_ms=until_at_ms,
        )
        if self._transport is not None:
            self._transport.sendto(seal(answer, key, "s"), addr)  # type: ignore[arg-type]

    @property
    def runs(self) -> list[str]:
        """Runs with a session."""
        return list(self._sessions)

    async def close(self) -> None:
        """End all sessions."""
        for session in list(self._sessions.values()):
            session.why = session.why or "the server node stops"
            session.ended.set()
        tasks = [session.task for session in self._sessions.values() if session.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=10)
        if self._transport is not None:
            self._transport.close()

"""The client's side of a session: hello until the server is ready, beats, bye."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import time
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.beats import Beats
from bentpipe.testbed.agent.session import BEAT_S, Kind, Message, RefusedError, is_sealed, peek, seal

if TYPE_CHECKING:
    from bentpipe.testbed.schemas.desired import Peer

HOLD_S = 10.0
"""Time between two messages to a server that waits for the start [s]."""
RESEND_S = 0.25
"""Time between two repetitions of an unanswered message [s]."""


class ClientSession(asyncio.DatagramProtocol):
    """A session with a server node.

    Args:
        peer: The server.
        run, plan, fence, attempt, due_at_ms: The client's end of the run.

    Use: ``ports = await session.open(10)``, `begin`, then `close`.
    """

    def __init__(self, peer: Peer, *, run: str, plan: str, fence: int, attempt: int, due_at_ms: int) -> None:
        """Keep what each message says."""
        self._peer = peer
        self._said = {"run": run, "plan": plan, "fence": fence, "attempt": attempt, "due_at_ms": due_at_ms}
        self._numbers = itertools.count(time.time_ns())
        self._newest = -1
        self._answers: asyncio.Queue[Message] = asyncio.Queue(maxsize=100)
        self._transport: asyncio.DatagramTransport | None = None
        self._beats: Beats | None = None
        self._alive: asyncio.Task[None] | None = None
        self._is_silent = False
        self._held_s = 0.0
        self.ended = asyncio.Event()
        self.why_ended = ""

    def datagram_received(self, data: bytes, addr: object) -> None:
        """Take an answer."""
        message = peek(data)
        if message is None or message.run != self._said["run"] or not is_sealed(data, self._peer.key, "s"):
            return
        if message.number <= self._newest:
            return
        self._newest = message.number
        if message.kind == "ended":
            self.why_ended = message.reason
            self.ended.set()
        with contextlib.suppress(asyncio.QueueFull):
            self._answers.put_nowait(message)

    def error_received(self, exc: Exception) -> None:
        """Leave out ICMP errors: the server may still be starting."""

    def _send(self, kind: Kind, reason: str = "") -> None:
        if self._transport is not None:
            self._transport.sendto(self._packet(kind, reason))

    def _packet(self, kind: Kind, reason: str = "") -> bytes:
        message = Message(kind=kind, number=next(self._numbers), reason=reason, **self._said)  # type: ignore[arg-type]
        return seal(message, self._peer.key, "c")

    async def _ask(self, kind: Kind, until: tuple[Kind, ...], timeout_s: float) -> Message:
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        while loop.time() < end_s:
            self._send(kind)
            again_s = loop.time() + RESEND_S
            while (wait_s := min(again_s, end_s) - loop.time()) > 0:
                try:
                    async with asyncio.timeout(wait_s):
                        answer = await self._answers.get()
                except TimeoutError:
                    break
                if answer.kind in until:
                    return answer
        raise RefusedError(f"the server node {self._peer.node} did not answer within {timeout_s:g} s")

    async def open(self, timeout_s: float) -> dict[str, int]:
        """Say hello; return the server's ports. Raises `RefusedError`."""
        address = self._peer.address or ""
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: self, remote_addr=(host.strip("[]"), int(port))
            )
        except (OSError, ValueError) as error:
            raise RefusedError(f"the server node's address {address!r} cannot be used: {error}") from None
        answer = await self._ask("hello", ("ready", "busy", "refused"), timeout_s)
        if answer.kind != "ready":
            raise RefusedError(answer.reason or "the server node is busy", answer.until_at_ms)
        self._held_s = loop.time()
        return answer.ports

    def hold(self) -> None:
        """Let the server wait on for the start; to be called every few seconds."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._held_s >= HOLD_S:
            self._held_s = now_s
            self._send("hello")

    async def begin(self) -> None:
        """Tell the server that traffic starts, and send beats from now on; nothing after `silence`."""
        if self._is_silent or self._transport is None:
            return
        self._send("start")
        own = socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))
        self._beats = Beats(own, lambda: self._packet("beat"))
        self._alive = asyncio.create_task(self._say_alive(self._beats))

    async def _say_alive(self, beats: Beats) -> None:
        try:
            while True:
                beats.is_alive()
                await asyncio.sleep(BEAT_S)
        finally:
            beats.stop()

    def silence(self, reason: str = "") -> None:
        """Send no more beats: the server ends its program by itself, and at once if it gets a bye with the reason."""
        self._is_silent = True
        if self._beats is not None and self._alive is not None:
            self._beats.stop()  # before the bye: a beat with a later number would hide it
            self._alive.cancel()
            self._beats = self._alive = None
        if reason:
            self._send("bye", reason)

    async def close(self, reason: str = "") -> None:
        """Say bye, three times in case one is lost."""
        self.silence()
        if self._transport is None:
            return
        for _ in range(3):
            self._send("bye", reason)
            await asyncio.sleep(0.02)
        self._transport.close()
        self._transport = None

"""Sessions between the two ends of a run, over UDP on the loopback."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testbed_records import KEY, peer

from bentpipe.testbed.agent import beats, session_server
from bentpipe.testbed.agent.session import BEAT_S, SILENCE_S, Message, RefusedError, is_sealed, peek, seal
from bentpipe.testbed.agent.session_client import ClientSession
from bentpipe.testbed.agent.session_server import SessionServer
from bentpipe.testbed.schemas.identifiers import derived_id

RUN, PLAN = derived_id("run"), derived_id("plan")


class Server:
    """A server's end that takes notes."""

    def __init__(self, prepare_s: float = 0.0, refused: str | None = None) -> None:
        self.log: list[str] = []
        self.times: list[float] = []
        self._prepare_s, self._refused = prepare_s, refused
        self.ended = asyncio.Event()

    async def prepare(self) -> dict[str, int]:
        self.log.append("prepare")
        await asyncio.sleep(self._prepare_s)
        if self._refused is not None:
            raise RefusedError(self._refused)
        return {"iperf3": 8800}

    def answered(self) -> None:
        self.log.append("answered")

    def began(self) -> None:
        self.log.append("began")

    async def end(self, reason: str) -> None:
        self.log.append(f"end: {reason}")
        self.times.append(asyncio.get_running_loop().time())
        self.ended.set()


async def _listen(
    server: Server, *, key: str | None = KEY, refuse: RefusedError | None = None
) -> tuple[SessionServer, str]:
    def admit(_: Message) -> Server:
        if refuse is not None:
            raise refuse
        return server

    sessions = SessionServer(lambda plan: key if plan == PLAN else None, admit)
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: sessions, local_addr=("127.0.0.1", 0)
    )
    host, port = transport.get_extra_info("sockname")
    return sessions, f"{host}:{port}"


def _client(address: str, **fields: Any) -> ClientSession:
    values = {"run": RUN, "plan": PLAN, "fence": 1, "attempt": 1, "due_at_ms": 5, **fields}
    return ClientSession(peer(address), **values)


def test_both_ends_go_through_a_run() -> None:
    async def scenario() -> list[str]:
        server = Server(prepare_s=0.3)
        sessions, address = await _listen(server)
        client = _client(address)
        assert await client.open(5) == {"iperf3": 8800}
        await client.begin()
        await asyncio.sleep(2 * BEAT_S)
        assert sessions.runs == [RUN]
        await client.close()
        await asyncio.wait_for(server.ended.wait(), 1)
        await sessions.close()
        return server.log

    assert asyncio.run(scenario()) == ["prepare", "answered", "began", "end: "]


def test_a_client_that_falls_silent_ends_the_server_within_its_bound() -> None:
    async def scenario() -> float:
        server = Server()
        sessions, address = await _listen(server)
        client = _client(address)
        await client.open(5)
        await client.begin()
        await asyncio.sleep(3 * BEAT_S)
        silent_s = asyncio.get_running_loop().time()
        client.silence()
        await asyncio.wait_for(server.ended.wait(), 3)
        assert "no beat" in server.log[-1]
        await asyncio.wait_for(client.ended.wait(), 1)  # the server says so
        await sessions.close()
        await client.close()
        return server.times[0] - silent_s

    assert SILENCE_S - 2 * BEAT_S < asyncio.run(scenario()) < SILENCE_S + 1.0


def test_a_client_whose_loop_is_busy_for_a_moment_is_not_silent() -> None:
    """Its beats come from a thread of their own."""

    async def scenario() -> list[str]:
        server, client_at = Server(), {}
        sessions, address = await _listen(server)

        def other_agent() -> None:
            async def client_side() -> None:
                client = _client(address)
                await client.open(5)
                await client.begin()
                time.sleep(3 * SILENCE_S)
                client_at["log"] = list(server.log)
                await client.close()

            asyncio.run(client_side())

        await asyncio.to_thread(other_agent)
        await asyncio.wait_for(server.ended.wait(), 3)
        await sessions.close()
        assert client_at["log"] == ["prepare", "answered", "began"]
        return server.log

    assert asyncio.run(scenario())[-1] == "end: "


def test_beats_of_a_stuck_agent_and_of_a_stopped_session_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beats, "BEAT_S", 0.005)
    monkeypatch.setattr(beats, "LONGEST_S", 0.1)
    sent, has_come = [], threading.Event()

    def packet() -> bytes:
        sent.append(time.monotonic())
        has_come.set()
        return b"beat"

    begin_s = time.monotonic()
    to_server, server = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    stuck = beats.Beats(to_server, packet)
    assert has_come.wait(5)
    stuck._stopped.wait(0.3)  # nobody says that it is alive
    assert sent[-1] - begin_s < 0.2
    stuck.is_alive()
    has_come.clear()
    assert has_come.wait(5)
    stuck.stop()
    count = len(sent)
    threading.Event().wait(0.03)
    assert len(sent) == count
    assert to_server.fileno() == -1
    server.close()


def test_time_in_which_the_server_did_not_run_is_no_silence() -> None:
    async def scenario() -> list[str]:
        server = Server()
        sessions, address = await _listen(server)
        client = _client(address)
        await client.open(5)
        await client.begin()
        await asyncio.sleep(2 * BEAT_S)
        assert client._beats is not None
        client._beats.stop()  # as if both ends' processes did not run
        time.sleep(2 * SILENCE_S)
        await asyncio.sleep(0)
        client._send("beat")
        await asyncio.sleep(BEAT_S)
        log = list(server.log)
        await client.close()
        await sessions.close()
        return log

    assert asyncio.run(scenario()) == ["prepare", "answered", "began"]


@pytest.mark.parametrize(
    ("refuse", "prepared", "message", "until"),
    [
        (RefusedError("the server node is busy", 99), None, "busy", 99),
        (RefusedError("not in the calendar"), None, "calendar", 0),
        (None, "iperf3 is not installed", "iperf3", 0),
    ],
)
def test_a_refusal_says_why(refuse: RefusedError | None, prepared: str | None, message: str, until: int) -> None:
    async def scenario() -> RefusedError:
        sessions, address = await _listen(Server(refused=prepared), refuse=refuse)
        client = _client(address)
        with pytest.raises(RefusedError) as caught:
            await client.open(3)
        await client.close()
        await sessions.close()
        return caught.value

    error = asyncio.run(scenario())
    assert message in error.reason
    assert error.until_at_ms == until


def test_a_stranger_gets_no_answer() -> None:
    async def scenario() -> list[str]:
        server = Server()
        sessions, address = await _listen(server, key="cd" * 32)
        client = _client(address)
        with pytest.raises(RefusedError, match="did not answer"):
            await client.open(0.6)
        await client.close()
        await sessions.close()
        return server.log

    assert asyncio.run(scenario()) == []


def test_an_old_message_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_server, "READY_S", 0.3)

    async def scenario() -> list[str]:
        server = Server()
        sessions, _ = await _listen(server)
        hello = Message(kind="hello", run=RUN, plan=PLAN, number=10)
        old = Message(kind="start", run=RUN, plan=PLAN, number=9)
        for message in (hello, old):
            sessions.datagram_received(seal(message, KEY, "c"), ("127.0.0.1", 9))
            await asyncio.sleep(0.05)
        mirrored = seal(Message(kind="start", run=RUN, plan=PLAN, number=11), KEY, "s")
        sessions.datagram_received(mirrored, ("127.0.0.1", 9))
        await asyncio.wait_for(server.ended.wait(), 2)
        await sessions.close()
        return server.log

    assert asyncio.run(scenario()) == ["prepare", "answered", "end: the client did not start"]


@given(st.binary(max_size=1300), st.binary(max_size=64))
@settings(max_examples=300, deadline=None)
def test_any_packet_is_a_message_or_nothing(body: bytes, mac: bytes) -> None:
    message = peek(mac + body)
    assert message is None or message.kind
    assert not is_sealed((mac + body).ljust(64, b"0"), KEY, "c")


@given(st.integers(0, 2**63 - 1), st.integers(0, 63 + 150), st.integers(1, 255))
@settings(max_examples=200, deadline=None)
def test_a_packet_that_was_changed_has_no_signature(number: int, place: int, change: int) -> None:
    packet = bytearray(seal(Message(kind="beat", run=RUN, plan=PLAN, number=number), KEY, "c"))
    packet[place % len(packet)] ^= change
    assert not is_sealed(bytes(packet), KEY, "c")

"""Heartbeats of many agents at one orchestrator on SQLite: latency, memory, processor time.

Agents speak the real protocol: connections that stay open, a heartbeat every 15 s each, a batch of events with every
fourth; every agent has its stream open. They come as through a proxy that ends TLS, because the load generator shares
the processors. Where the machine allows too few open files for two connections of each agent, the first agents connect
anew for each heartbeat (`reconnecting`); their streams stay open too. `streams` is the fewest that were open at once.

    python benchmarks/testbed_heartbeats.py --agents 10000 --seconds 60
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

BOOT = "b" * 32
SPARE_FILES = 500
"""Open files of a process besides connections of agents that stay open."""
RECONNECTING_AT_ONCE = 100
"""Agents that are connected for one heartbeat, at most."""


def orchestrate(home: str, agents: int, pipe) -> None:
    """Serve, in a process of its own."""
    _raise_limit()
    asyncio.run(_orchestrate(Path(home), agents, pipe))


async def _orchestrate(home: Path, agents: int, pipe) -> None:
    from sqlalchemy import insert

    from bentpipe.testbed.orchestrator.database.tables import NodeRow
    from bentpipe.testbed.orchestrator.running import Settings, serving, settle_interpreter
    from bentpipe.testbed.schemas.desired import NodeSettings
    from bentpipe.testbed.schemas.identifiers import new_id
    from bentpipe.testbed.schemas.node import NodeReport
    from bentpipe.testbed.schemas.policy import HostPolicy

    settings = Settings(home=home, listen="127.0.0.1:0", agents="127.0.0.1:0", proxy="127.0.0.1")
    async with serving(settings) as running:
        testbed = running.orchestrator
        report = NodeReport(
            agent_version="1", platform="Linux", role="client", policy=HostPolicy(schema="bentpipe.policy/1")
        ).to_dict()
        key = _key()
        signed = testbed.authority.sign_node(key, "0" * 32, 30)
        rows = [
            {
                "id": new_id(number),
                "name": f"n{number}",
                "role": "client",
                "owner_id": None,
                "state": "active",
                "report": report,
                "settings": NodeSettings(name=f"n{number}").to_dict(),
                "max_parallel": 4,
                "serial": "0",
                "key_hash": signed.key_hash,
                "older_key_hash": None,
                "boot_id": None,
                "boot_at_ms": None,
                "seen_at_ms": None,
                "lost": False,
                "status": {},
                "version": 1,
                "created_at_ms": 0,
            }
            for number in range(agents)
        ]
        async with testbed.write() as transaction:
            await transaction.execute(insert(NodeRow), rows)
        async with testbed.database.read() as connection:
            await testbed.nodes.load(connection)
        certificates = [testbed.authority.sign_node(key, row["id"], 30).pem for row in rows]
        settle_interpreter()
        pipe.send((running.agents_url, certificates))
        await _until_told(pipe)
        fewest, longest_s = agents, 0.0
        while not pipe.poll():
            begin = time.monotonic()
            await asyncio.sleep(0.02)
            longest_s = max(longest_s, time.monotonic() - begin - 0.02)
            fewest = min(fewest, testbed.wakeups.streams())
        pipe.recv()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        pipe.send(
            {
                "orchestrator_cpu_s": usage.ru_utime + usage.ru_stime,
                "orchestrator_peak_mb": usage.ru_maxrss / 1024,
                "orchestrator_longest_stall_ms": 1000 * longest_s,
                "streams": fewest,
            }
        )


async def _until_told(pipe) -> None:
    while not pipe.poll():
        await asyncio.sleep(0.2)
    pipe.recv()


def _raise_limit() -> int:
    """Take as many open files as this machine allows; return how many."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _key() -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


class Agent:
    """An agent: raw HTTP/1.1, so that the generator leaves the processors to the orchestrator."""

    def __init__(self, host: str, port: int, number: int, pem: str, latencies: dict[str, list[float]], ended) -> None:
        body = "".join(line for line in pem.splitlines() if "CERTIFICATE" not in line)
        assert base64.b64decode(body)
        self.head = f"Host: {host}:{port}\r\nClient-Cert: :{body}:\r\n"
        self.host, self.port, self.latencies, self.seq = host, port, latencies, 0
        self.number, self.writer, self.reader, self.beats = number, None, None, 0
        self.ended, self.all_ended = ended

    async def live(
        self,
        offset_s: float,
        period_s: float,
        end: float,
        until_open: asyncio.Semaphore,
        turns: asyncio.Semaphore | None,
    ) -> None:
        """Live until `end`; with `turns`, connect for each heartbeat when it is one's turn."""
        await asyncio.sleep(offset_s)
        async with until_open:
            stream_reader, stream = await asyncio.open_connection(self.host, self.port)
        stream.write(f"GET /agent/v1/stream HTTP/1.1\r\n{self.head}\r\n".encode())
        drain = asyncio.create_task(self._drain(stream_reader))
        try:
            while time.monotonic() < end:
                begin = time.monotonic()
                if turns is None:
                    await self._beat(until_open)
                else:
                    async with turns:
                        await self._beat(until_open)
                        self.writer.close()
                        await self.writer.wait_closed()
                        self.writer = None
                await asyncio.sleep(max(0.0, period_s - (time.monotonic() - begin)))
        finally:
            self.ended.release()
        await self.all_ended.wait()  # streams are counted until the last heartbeat
        drain.cancel()
        stream.close()
        if self.writer is not None:
            self.writer.close()

    async def _beat(self, until_open: asyncio.Semaphore) -> None:
        if self.writer is None:
            async with until_open:
                self.reader, self.writer = await asyncio.open_connection(self.host, self.port)
        await self._post("heartbeat", self._heartbeat(), "heartbeat")
        self.beats += 1
        if self.beats % 4 == self.number % 4:
            await self._post("events", self._events(), "events")

    async def _drain(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(4096):
            pass

    def _heartbeat(self) -> bytes:
        status = {
            "applied_version": 1,
            "scavenger": "clear",
            "dish": "connected",
            "clock_offset_ms": 0.5,
            "clock_error_ms": 3.0,
            "disk_free_bytes": 10**10,
            "used_bytes": {"2GB/day": 10**8},
        }
        return json.dumps({"boot_id": BOOT, "sent_at_ms": time.time() * 1000, "status": status}).encode()

    def _events(self) -> bytes:
        self.seq += 1
        body = {"kind": "note", "topic": "dish", "text": "moved"}
        event = {"seq": self.seq, "at_ms": time.time() * 1000, "body": body}
        return json.dumps({"boot_id": BOOT, "events": [event]}).encode()

    async def _post(self, path: str, body: bytes, kind: str) -> None:
        begin = time.monotonic()
        head = f"POST /agent/v1/{path} HTTP/1.1\r\n{self.head}Content-Length: {len(body)}\r\n\r\n".encode()
        self.writer.write(head + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
        content = await self.reader.readexactly(length)
        assert answer.startswith(b"HTTP/1.1 200"), (answer, content)
        self.latencies[kind].append(time.monotonic() - begin)


async def load(
    url: str, certificates: list[str], seconds: float, reconnecting: int, period_s: float, pipe
) -> dict[str, list[float]]:
    """Let all agents live for a while; return latencies after a first period, in which they all boot."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    latencies: dict[str, list[float]] = {"heartbeat": [], "events": []}
    end = time.monotonic() + period_s + seconds
    gate, turns = asyncio.Semaphore(200), asyncio.Semaphore(RECONNECTING_AT_ONCE)
    count = len(certificates)
    ended = asyncio.Semaphore(0), asyncio.Event()
    agents = [Agent(host, int(port), number, pem, latencies, ended) for number, pem in enumerate(certificates)]
    tasks = [
        asyncio.create_task(
            agent.live(period_s * number / count, period_s, end, gate, turns if number < reconnecting else None)
        )
        for number, agent in enumerate(agents)
    ]
    await asyncio.sleep(period_s + 2)
    booting = {kind: sorted(entries) for kind, entries in latencies.items()}
    for entries in latencies.values():
        entries.clear()
    pipe.send("all have booted")
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    for _ in tasks:
        await ended[0].acquire()
    pipe.send("end")  # once no request is on its way: the orchestrator ends then
    ended[1].set()
    await asyncio.gather(*tasks)
    return {**latencies, "booting": booting["heartbeat"]}


def main() -> int:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--period", type=float, default=15.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    files = _raise_limit()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as home:
        ours, theirs = context.Pipe()
        process = context.Process(target=orchestrate, args=(home, arguments.agents, theirs))
        process.start()
        url, certificates = ours.recv()
        reconnecting = max(0, 2 * arguments.agents + SPARE_FILES - files)
        latencies = asyncio.run(load(url, certificates, arguments.seconds, reconnecting, arguments.period, ours))
        figures = {**ours.recv(), "reconnecting": reconnecting}
        process.join()
    for kind, entries in latencies.items():
        ordered = sorted(entries)
        if ordered:
            figures[f"{kind}_n"] = len(ordered)
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p999", 0.999)):
                figures[f"{kind}_{name}_ms"] = 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]
            figures[f"{kind}_max_ms"] = 1000 * ordered[-1]
    json.dump(figures, sys.stdout, indent=2)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The awareness service with 1,000 subscribers at one event a second, beside a plain asyncio loop that writes the same.

Server and subscribers have a processor each. The delay is from the sample until its event has arrived.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import threading
import time

SUBSCRIBERS = 1000
SECONDS = 20
FIELDS = {"latency_ms": 31.5, "drop_rate": 0.0, "downlink_bps": 1e6, "uplink_bps": 1e5, "state": "CONNECTED"}


def serve_ours() -> None:
    """Serve events by the service."""
    from bentpipe.aware.service import Service, serve
    from bentpipe.aware.state import Sample, State

    service = Service(State(now_s=time.time))

    def feed() -> None:
        while True:
            time.sleep(1)
            service.observe(Sample(time.time(), dict(FIELDS)))

    def ready(port: int) -> None:
        print(port, flush=True)
        threading.Thread(target=feed, daemon=True).start()

    asyncio.run(serve(service, "127.0.0.1:0", ready))


async def serve_plain() -> None:
    """Write the same event to each connection, with nothing else."""
    from bentpipe.aware.documents import Telemetry
    from bentpipe.aware.hub import event

    writers: list[asyncio.StreamWriter] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        writers.append(writer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=SUBSCRIBERS)
    print(server.sockets[0].getsockname()[1], flush=True)
    while True:
        await asyncio.sleep(1)
        now_s = time.time()
        data = event("telemetry", Telemetry(now_s=now_s, t_s=now_s, age_s=0.0, **FIELDS).model_dump_json(), 1)
        for writer in writers:
            writer.write(data)


class Subscriber(asyncio.Protocol):
    """Keeps what arrives, with its time."""

    def __init__(self, arrivals: list[tuple[float, bytes]]) -> None:
        self.arrivals = arrivals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.write(b"GET /v1/events?kinds=telemetry HTTP/1.1\r\nHost: localhost\r\n\r\n")  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        self.arrivals.append((time.time(), data))


async def subscribe(port: int) -> list[float]:
    """Return the delays of all events [s], ascending."""
    arrivals: list[tuple[float, bytes]] = []
    loop = asyncio.get_running_loop()
    for _ in range(SUBSCRIBERS):
        await loop.create_connection(lambda: Subscriber(arrivals), "127.0.0.1", port)
    await asyncio.sleep(2)
    arrivals.clear()
    await asyncio.sleep(SECONDS)
    delays = []
    for at_s, data in arrivals:
        start = data.find(b'"now_s":')
        if start >= 0:
            delays.append(at_s - float(data[start + 8 : data.find(b",", start)]))
    return sorted(delays)


def measure(kind: str) -> tuple[float, float]:
    """Return the 99th percentile of the delay [s] and the server's processor time per event [s]."""
    server = subprocess.Popen([sys.executable, __file__, kind], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline())
    before = _cpu_s(server.pid)
    delays = asyncio.run(subscribe(port))
    used_s = _cpu_s(server.pid) - before
    server.kill()
    server.wait()
    p99 = delays[int(0.99 * len(delays))]
    median_ms = delays[len(delays) // 2] * 1e3
    print(f"  {kind}: {len(delays)} events, median {median_ms:.1f} ms, 99th percentile {p99 * 1e3:.1f} ms")
    return p99, used_s / (SUBSCRIBERS * (SECONDS + 2))


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123 - one line of /proc
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> dict[str, float]:
    """Measure both."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    processors = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {processors[-1]})
    (ours_s, ours_cpu_s), (plain_s, plain_cpu_s) = measure("ours"), measure("plain")
    os.sched_setaffinity(0, set(processors))
    print(f"  processor time per event: {ours_cpu_s * 1e6:.0f} µs, plain asyncio {plain_cpu_s * 1e6:.0f} µs")
    return {
        "subscribers: delay of plain asyncio / ours, 99th percentile": plain_s / ours_s,
        "subscribers: processor time of plain asyncio / ours": plain_cpu_s / ours_cpu_s,
    }


if __name__ == "__main__":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(os.getppid()) | {0})})
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    if sys.argv[1] == "ours":
        serve_ours()
    else:
        asyncio.run(serve_plain())

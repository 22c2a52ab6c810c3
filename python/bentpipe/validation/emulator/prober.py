"""Traffic with the kernel's timestamps and counters: ``prober.py send|receive|exchange|flood|count|stream|drain …``.

Runs inside the two namespaces of an emulation and imports nothing of the emulator: it measures what a program observes.
"""

from __future__ import annotations

import array
import contextlib
import json
import random
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

# include/uapi/asm-generic/socket.h and linux/net_tstamp.h; the socket module does not name them.
SO_RCVBUFFORCE = 33
SO_TIMESTAMPNS = 35
SO_TIMESTAMPING = 37
SO_MEMINFO = 55
SK_MEMINFO_DROPS, SK_MEMINFO_VARS = 8, 9
TX_SOFTWARE, SOFTWARE, OPT_ID, OPT_TSONLY = 1 << 1, 1 << 4, 1 << 7, 1 << 11
MSG_ERRQUEUE = 0x2000

PORT = 7000
HEADERS_BYTES = 28
"""IPv4 and UDP."""

PIECE_BYTES = 1 << 17
"""One write or read of TCP: iperf3's."""


def send(file: str, count: int, every_s: float, size: int) -> None:
    """Send `count` packets of `size` bytes on the wire; write their send times [ns of UTC], null if unknown.

    The kernel takes its software timestamp in the device's transmit function (`skb_tx_timestamp` in drivers/net/tun.c
    and veth.c): after this process woke up and after the queueing discipline, before the queue that the emulator
    reads. So the delay excludes the sender's own lateness and includes the emulator's.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY)
    sock.connect((socket.gethostbyname("server"), PORT))
    times: list[int | None] = [None] * count
    padding = bytes(max(0, size - HEADERS_BYTES - 4))
    begin = time.monotonic() + 0.05
    for number in range(count):
        time.sleep(max(0.0, begin + number * every_s - time.monotonic()))
        sock.send(struct.pack("!I", number) + padding)
        _sent(sock, times)
    time.sleep(0.2)
    _sent(sock, times)
    _write(file, times)


def _sent(sock: socket.socket, times: list[int | None]) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            _, controls, _, _ = sock.recvmsg(0, 512, MSG_ERRQUEUE | socket.MSG_DONTWAIT)
            at, number = None, None
            for level, kind, data in controls:
                if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPING):
                    at = _nanoseconds(data)
                elif level == socket.SOL_IP:
                    # sock_extended_err: ee_data is the packet's number
                    number = struct.unpack_from("=IBBBBII", data)[6]
            if at is not None and number is not None and number < len(times):
                times[number] = at


def receive(file: str, beside: list[str]) -> None:
    """Receive until SIGTERM, then write the packets. `beside` is a command that starts once this listens; []: none.

    `packets` is a flat list of (number, arrival time [ns of UTC], bytes on the wire). `overflowed` counts packets that
    arrived while this socket's buffer was full.
    """
    sock = _listener(PORT)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    if beside:  # not earlier: the other end starts as soon as a socket listens
        subprocess.Popen(beside)
    rows = array.array("q")

    def finish(*_: Any) -> None:  # noqa: ANN401 - signature of signal handlers
        _write(file, {"packets": rows.tolist(), "overflowed": _overflowed(sock)})
        sys.exit(0)

    signal.signal(signal.SIGTERM, finish)
    while True:
        data, controls, _, _ = sock.recvmsg(2048, 64)
        at = next((_nanoseconds(data) for level, kind, data in controls if kind == SO_TIMESTAMPNS), 0)
        rows.extend((struct.unpack_from("!I", data)[0], at, len(data) + HEADERS_BYTES))


def exchange(file: str, count: int, every_s: float, size: int, server: str | None) -> None:
    """Send a packet in each `every_s`, at a random time in it, and receive the other end's; write both times [ns].

    Equal intervals would meet the grants of a path in one phase, so that 0.1 ms of lateness could cost a whole grant.
    The end without a `server` waits for the other's first packet, and ends a second after its last one; the other end
    two seconds later, as its end is the emulation's.
    """
    sock = _listener(0 if server else PORT)
    if server is None:
        _, _, _, peer = sock.recvmsg(2048)
        sock.connect(peer)
    else:
        sock.connect((socket.gethostbyname(server), PORT))
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | OPT_ID | OPT_TSONLY)
    sent: list[int | None] = [None] * count
    arrived: list[int | None] = [None] * count
    padding = bytes(size - HEADERS_BYTES - 4)
    phases = random.Random(1)
    begin = time.monotonic() + 0.05
    for number in range(count + round((3 if server else 1) / every_s)):
        time.sleep(max(0.0, begin + (number + phases.random()) * every_s - time.monotonic()))
        if number < count:
            with contextlib.suppress(ConnectionRefusedError):  # the other end may have ended
                sock.send(struct.pack("!I", number) + padding)
        _sent(sock, sent)
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            while True:
                data, controls, _, _ = sock.recvmsg(2048, 256, socket.MSG_DONTWAIT)
                at = next((_nanoseconds(data) for _, kind, data in controls if kind == SO_TIMESTAMPNS), None)
                arrived[struct.unpack_from("!I", data)[0]] = at
    _write(file, {"sent": sent, "arrived": arrived, "overflowed": _overflowed(sock)})


def count(file: str, port: int) -> None:
    """Count a flood: write, about every 0.2 s, (seconds since its first packet, bytes on the wire so far).

    Packets that found this socket's buffer full have crossed the path, so they count.
    """
    sock = _listener(port)
    room = bytearray(2048)
    total = sock.recv_into(room) + HEADERS_BYTES
    begin = last = time.monotonic()
    seen: list[tuple[float, int]] = []
    while True:
        total += sock.recv_into(room) + HEADERS_BYTES
        if (now := time.monotonic()) >= last + 0.2:
            last = now
            seen.append((now - begin, total + 1500 * _overflowed(sock)))
            _write(f"{file}.new", seen)
            Path(f"{file}.new").replace(file)  # this process may end at any moment


def _listener(port: int) -> socket.socket:
    """Open a UDP socket with the largest possible buffer."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
    except PermissionError:  # not root: up to net.core.rmem_max
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 25)
    sock.bind(("", port))
    return sock


def _overflowed(sock: socket.socket) -> int:
    """Return the number of packets that arrived while the socket's buffer was full."""
    memory = struct.unpack(f"={SK_MEMINFO_VARS}I", sock.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 4 * SK_MEMINFO_VARS))
    return int(memory[SK_MEMINFO_DROPS])


def flood(seconds: float, bps: float, port: int, step_s: float = 250e-6) -> None:
    """Send packets of 1500 bytes on the wire at `bps`, in small bursts every `step_s`."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.connect((socket.gethostbyname("server"), port))
    payload = struct.pack("!I", 0) + bytes(1500 - HEADERS_BYTES - 4)
    begin = time.monotonic()
    sent = 0
    while (now := time.monotonic() - begin) < seconds:
        due = int(bps * now / 8 / 1500)
        while sent < due:
            with contextlib.suppress(ConnectionRefusedError, BlockingIOError):
                sock.send(payload)
            sent += 1
        time.sleep(step_s)


def stream(seconds: float, controller: str, port: int) -> None:
    """Send over TCP at full speed; exit code 3: the kernel refuses the controller."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, controller.encode())
    except OSError:
        sys.exit(3)
    for patience in (0.1, 0.3, 1.0, None):  # the other end may not listen yet
        try:
            sock.connect((socket.gethostbyname("server"), port))
            break
        except ConnectionRefusedError:
            if patience is None:
                raise
            time.sleep(patience)
    piece = bytes(PIECE_BYTES)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sock.send(piece)


def drain(file: str, port: int) -> None:
    """Receive one TCP connection; on SIGTERM write its progress: [seconds since its start, bytes], each 0.1 s or so."""
    seen: list[tuple[float, int]] = [(0.0, 0)]

    def finish(*_: Any) -> None:  # noqa: ANN401 - signature of signal handlers
        _write(file, seen)
        sys.exit(0)

    signal.signal(signal.SIGTERM, finish)
    listener = socket.create_server(("", port))
    connection, _ = listener.accept()
    room = bytearray(1 << 18)
    begin = time.monotonic()
    total = 0
    while got := connection.recv_into(room):
        total += got
        if (now := time.monotonic() - begin) >= seen[-1][0] + 0.1:
            seen.append((now, total))
    while True:
        signal.pause()


def _nanoseconds(data: bytes) -> int:
    seconds, nanoseconds = struct.unpack_from("=qq", data)
    return int(seconds) * 10**9 + int(nanoseconds)


def _write(file: str, value: Any) -> None:  # noqa: ANN401 - JSON
    Path(file).write_text(json.dumps(value), encoding="ascii")


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "send":
        send(rest[0], int(rest[1]), float(rest[2]), int(rest[3]))
    elif mode == "receive":
        receive(rest[0], rest[1:])
    elif mode == "exchange":
        exchange(rest[0], int(rest[1]), float(rest[2]), int(rest[3]), rest[4] if rest[4:] else None)
    elif mode == "flood":
        flood(float(rest[0]), float(rest[1]), int(rest[2]))
    elif mode == "count":
        count(rest[0], int(rest[1]))
    elif mode == "stream":
        stream(float(rest[0]), rest[1], int(rest[2]))
    else:
        drain(rest[0], int(rest[1]))

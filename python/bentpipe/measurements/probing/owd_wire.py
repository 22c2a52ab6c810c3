"""What prober and reflector say to each other: UDP datagrams of one size, and a handshake before anything else.

========  =====================================================================
hello     the prober's number; token zero
welcome   the same number; a token that only whoever gets mail at that address can know; which machine this is
probe     token, its number, how many were sent with this token
echo      the same; when the probe came and the echo left, by the reflector's clock; how many came with this token;
          how many datagrams found the reflector's buffer full, how many of this prober's were over its limit
========  =====================================================================

A reflector answers with as many bytes as it was asked with, echoes nothing but to a token that it gave to that very
address, and so makes no traffic that somebody else did not ask for.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"bpow"
VERSION = 1
HELLO, WELCOME, PROBE, ECHO = 1, 2, 3, 4
TOKEN_BYTES = 16

_FORMAT = struct.Struct("!4sBBxx16sQQQQQ8sII")
#: What its last two numbers hold.
_MOST = 2**32 - 1
#: Bytes of every datagram.
SIZE = _FORMAT.size

#: Where a reflector listens if nobody says. Chosen here: not assigned by IANA, below the ports of clients.
DEFAULT_PORT = 8712


@dataclass(frozen=True, slots=True)
class Message:
    """A datagram's content.

    Attributes:
        kind: `HELLO`, `WELCOME`, `PROBE` or `ECHO`.
        token: 16 bytes.
        number: The probe's, or the hello's.
        sent: How many probes were sent with this token, this one included.
        came_ns: When the probe came [ns since 1970].
        left_ns: When the echo left [ns since 1970].
        received: How many probes came with this token.
        machine: Which machine speaks, since its boot: two with the same have one clock.
        overruns: How many datagrams, of whomever, the reflector's socket buffer had no room for since it began.
        refused: How many of this prober's probes the reflector did not echo because they were over its limit.
    """

    kind: int
    token: bytes = bytes(TOKEN_BYTES)
    number: int = 0
    sent: int = 0
    came_ns: int = 0
    left_ns: int = 0
    received: int = 0
    machine: bytes = bytes(8)
    overruns: int = 0
    refused: int = 0


def encode(message: Message) -> bytes:
    """`SIZE` bytes."""
    return _FORMAT.pack(
        MAGIC,
        VERSION,
        message.kind,
        message.token,
        message.number,
        message.sent,
        message.came_ns,
        message.left_ns,
        message.received,
        message.machine,
        min(message.overruns, _MOST),
        min(message.refused, _MOST),
    )


def decode(data: bytes) -> Message | None:
    """The message; None: it is none of this protocol and version."""
    if len(data) != SIZE:
        return None
    magic, version, kind, *rest = _FORMAT.unpack(data)
    if magic != MAGIC or version != VERSION or kind not in (HELLO, WELCOME, PROBE, ECHO):
        return None
    return Message(kind, *rest)


def this_machine() -> bytes:
    """8 bytes that are the same for all processes of this machine until it boots again, and say nothing about it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    return hashlib.sha256(b"bentpipe reflector " + boot).digest()[:8]

"""Wire format between prober and reflector: UDP datagrams of one size, with a handshake first.

========  =====================================================================
hello     the prober's number
welcome   the same number; a token that only a receiver at that address can know; identity of the machine
probe     token, probe number, number of probes sent with this token
echo      the same; receive time of the probe and send time of the echo by the reflector's clock; number of probes
          received with this token; datagrams dropped at the reflector's full buffer; probes over its rate limit
full      the number (and token) of a hello or probe: the reflector has no slot for this prober
========  =====================================================================

A reflector answers with as many bytes as it received, and echoes only to a token that it gave to that address. So it
can neither amplify traffic nor be made to send traffic to a third party.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from pathlib import Path

MAGIC = b"bpow"
VERSION = 1
HELLO, WELCOME, PROBE, ECHO, FULL = 1, 2, 3, 4, 5
TOKEN_BYTES = 16

_FORMAT = struct.Struct("!4sBBxx16sQQQQQ8sII")
#: Maximum of the last two fields.
_MOST = 2**32 - 1
#: Size of every datagram [bytes].
SIZE = _FORMAT.size

#: Default port of a reflector. Chosen here: not assigned by IANA, below the ephemeral ports.
DEFAULT_PORT = 8712


@dataclass(frozen=True, slots=True)
class Message:
    """Content of a datagram.

    Attributes:
        kind: `HELLO`, `WELCOME`, `PROBE`, `ECHO` or `FULL`.
        token: 16 bytes.
        number: Number of the probe or hello.
        sent: Number of probes sent with this token, this one included.
        rx_ns: Receive time of the probe [ns since 1970].
        tx_ns: Send time of the echo [ns since 1970].
        received: Number of probes received with this token.
        machine: Identity of the sending machine since its boot; equal identities share a clock.
        overruns: Datagrams of all probers dropped at the reflector's full socket buffer since its start.
        refused: Probes of this prober that the reflector did not echo because they were over its rate limit.
    """

    kind: int
    token: bytes = bytes(TOKEN_BYTES)
    number: int = 0
    sent: int = 0
    rx_ns: int = 0
    tx_ns: int = 0
    received: int = 0
    machine: bytes = bytes(8)
    overruns: int = 0
    refused: int = 0


def encode(message: Message) -> bytes:
    """Encode a message in `SIZE` bytes."""
    return _FORMAT.pack(
        MAGIC,
        VERSION,
        message.kind,
        message.token,
        message.number,
        message.sent,
        message.rx_ns,
        message.tx_ns,
        message.received,
        message.machine,
        min(message.overruns, _MOST),
        min(message.refused, _MOST),
    )


def decode(data: bytes) -> Message | None:
    """Decode a message; None: not of this protocol and version."""
    if len(data) != SIZE:
        return None
    magic, version, kind, *rest = _FORMAT.unpack(data)
    if magic != MAGIC or version != VERSION or kind not in (HELLO, WELCOME, PROBE, ECHO, FULL):
        return None
    return Message(kind, *rest)


def this_machine() -> bytes:
    """Return 8 opaque bytes that are equal for all processes of this machine until the next boot."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    return hashlib.sha256(b"bentpipe reflector " + boot).digest()[:8]

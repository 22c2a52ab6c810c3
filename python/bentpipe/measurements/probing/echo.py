"""Encoding and decoding of ICMP echo (RFC 792, RFC 4443): requests, replies, and requests quoted in errors.

The payload has a nonce, the target and a 64-bit number, so that a reply is identified after the 16-bit sequence number
of the header wraps. One word of it keeps the checksum constant. Routers that balance load by a hash over the header,
checksum included, then send all packets over the same path (Augustin et al., "Avoiding traceroute anomalies with Paris
traceroute", IMC 2006).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

REQUEST, REPLY = {4: 8, 6: 128}, {4: 0, 6: 129}

_HEADER = struct.Struct("!BBHHH")
_PAYLOAD = struct.Struct("!8sHQH")
#: Payload size of ping (iputils), so that RTTs are comparable.
PAYLOAD_BYTES = 56
_PADDING = bytes(PAYLOAD_BYTES - _PAYLOAD.size)
PACKET_BYTES = _HEADER.size + PAYLOAD_BYTES


@dataclass(frozen=True, slots=True)
class Echo:
    """Identity of a packet.

    Attributes:
        target: Number of its target; None if an error quoted too little of the packet.
        seq: Its number; only the low 16 bits if `target` is None.
    """

    target: int | None
    seq: int


class Codec:
    """Packets of one IP version and one socket.

    Args:
        version: 4 or 6.
        nonce: 8 secret bytes.
        ident: The header's identifier. On a ping socket the kernel overwrites it.
    """

    def __init__(self, version: int, nonce: bytes, ident: int) -> None:
        """Store the parameters."""
        self._version, self._nonce, self._ident = version, nonce, ident

    def request(self, target: int, seq: int) -> bytes:
        """Return an echo request of `PACKET_BYTES`, with the checksum of IPv4 (the kernel computes that of IPv6)."""
        header = _HEADER.pack(REQUEST[self._version], 0, 0, self._ident, seq & 0xFFFF)
        # The last word compensates the sum of the varying words.
        level = _fold((seq & 0xFFFF) + target + _words_sum(seq.to_bytes(8, "big")))
        body = header + _PAYLOAD.pack(self._nonce, target, seq, 0xFFFF - level) + _PADDING
        if self._version == 6:
            return body
        checksum = 0xFFFF - _fold(_words_sum(body))
        return body[:2] + checksum.to_bytes(2, "big") + body[4:]

    def reply(self, data: bytes, *, ip_header: bool) -> Echo | None:
        """Return which of our packets a reply answers; None: none of ours, or truncated."""
        start = _past_ip_header(data) if ip_header else 0
        return self._ours(data[start:], REPLY[self._version])

    def quoted(self, data: bytes) -> Echo | None:
        """Return which of our requests an ICMP error quotes, from its ICMP header on; None: none of ours."""
        echo = self._ours(data, REQUEST[self._version])
        if echo is not None or len(data) < _HEADER.size:
            return echo
        type_, code, _, ident, seq = _HEADER.unpack_from(data)
        short = len(data) < _HEADER.size + _PAYLOAD.size
        if short and (type_, code, ident) == (REQUEST[self._version], 0, self._ident):
            return Echo(None, seq)
        return None

    def sent(self, data: bytes) -> Echo | None:
        """Return which request the kernel returns with its timestamp, whatever headers precede it."""
        return self._ours(data[-PACKET_BYTES:], REQUEST[self._version])

    def _ours(self, data: bytes, type_: int) -> Echo | None:
        if len(data) < _HEADER.size + _PAYLOAD.size or data[0] != type_ or data[1] != 0:
            return None
        nonce, target, seq, _ = _PAYLOAD.unpack_from(data, _HEADER.size)
        return Echo(int(target), int(seq)) if nonce == self._nonce else None


def _past_ip_header(data: bytes) -> int:
    """Return the length of an IPv4 header, from its own length field [bytes]."""
    return (data[0] & 0x0F) * 4 if data else 0


def _words_sum(data: bytes) -> int:
    return sum(struct.unpack(f"!{len(data) // 2}H", data))


def _fold(total: int) -> int:
    """Fold a sum to 16 bits in one's complement (RFC 1071)."""
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total

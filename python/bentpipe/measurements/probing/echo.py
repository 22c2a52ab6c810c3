"""ICMP echo (RFC 792, RFC 4443): what is sent, and what comes back or is quoted in an error.

The payload says whose packet it is, to which target and with which number, so that a reply is known for what it is
after the 16 bits of the header's sequence number have gone round. One word of it makes the sum of all others
the same in every packet: routers that share load by a hash over the header, checksum included, send all of them the
same way (Augustin et al., "Avoiding traceroute anomalies with Paris traceroute", IMC 2006).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

REQUEST, REPLY = {4: 8, 6: 128}, {4: 0, 6: 129}

_HEADER = struct.Struct("!BBHHH")
_PAYLOAD = struct.Struct("!8sHQH")
#: What ping sends beside the header (iputils), so that RTTs compare.
PAYLOAD_BYTES = 56
_PADDING = bytes(PAYLOAD_BYTES - _PAYLOAD.size)
PACKET_BYTES = _HEADER.size + PAYLOAD_BYTES


@dataclass(frozen=True, slots=True)
class Echo:
    """Which packet it is.

    Attributes:
        target: Number of its target, or None where an error quoted too little of the packet.
        seq: Its number; where `target` is None the low 16 bits of it.
    """

    target: int | None
    seq: int


class Codec:
    """Packets of one IP version and one socket.

    Args:
        version: 4 or 6.
        nonce: 8 bytes that nobody else knows.
        ident: The header's identifier. The kernel puts its own into what a ping socket sends.
    """

    def __init__(self, version: int, nonce: bytes, ident: int) -> None:
        """Nothing is kept but this."""
        self._version, self._nonce, self._ident = version, nonce, ident

    def request(self, target: int, seq: int) -> bytes:
        """An echo request, of `PACKET_BYTES`, its checksum right for IPv4 (the kernel makes that of IPv6)."""
        header = _HEADER.pack(REQUEST[self._version], 0, 0, self._ident, seq & 0xFFFF)
        # Constant sum: what the varying words add up to is taken away again.
        level = _fold((seq & 0xFFFF) + target + _words_sum(seq.to_bytes(8, "big")))
        body = header + _PAYLOAD.pack(self._nonce, target, seq, 0xFFFF - level) + _PADDING
        if self._version == 6:
            return body
        checksum = 0xFFFF - _fold(_words_sum(body))
        return body[:2] + checksum.to_bytes(2, "big") + body[4:]

    def reply(self, data: bytes, *, ip_header: bool) -> Echo | None:
        """Which of our packets was answered; None: none of ours, or cut off."""
        start = _past_ip_header(data) if ip_header else 0
        return self._ours(data[start:], REPLY[self._version])

    def quoted(self, data: bytes) -> Echo | None:
        """Which of our requests an ICMP error quotes, from its ICMP header on; None: none of ours."""
        found = self._ours(data, REQUEST[self._version])
        if found is not None or len(data) < _HEADER.size:
            return found
        type_, code, _, ident, seq = _HEADER.unpack_from(data)
        short = len(data) < _HEADER.size + _PAYLOAD.size
        if short and (type_, code, ident) == (REQUEST[self._version], 0, self._ident):
            return Echo(None, seq)
        return None

    def sent(self, data: bytes) -> Echo | None:
        """Which request the kernel gives back with its stamp, whatever headers are before it."""
        return self._ours(data[-PACKET_BYTES:], REQUEST[self._version])

    def _ours(self, data: bytes, type_: int) -> Echo | None:
        if len(data) < _HEADER.size + _PAYLOAD.size or data[0] != type_ or data[1] != 0:
            return None
        nonce, target, seq, _ = _PAYLOAD.unpack_from(data, _HEADER.size)
        return Echo(int(target), int(seq)) if nonce == self._nonce else None


def _past_ip_header(data: bytes) -> int:
    """Length of an IPv4 header [bytes], as it says itself."""
    return (data[0] & 0x0F) * 4 if data else 0


def _words_sum(data: bytes) -> int:
    return sum(struct.unpack(f"!{len(data) // 2}H", data))


def _fold(total: int) -> int:
    """One's complement sum in 16 bits (RFC 1071)."""
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total

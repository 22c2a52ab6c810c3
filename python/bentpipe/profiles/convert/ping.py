"""The text of Linux's (iputils') ``ping -D``.

A line is ``[1748560813.377794] 64 bytes from 192.0.2.1: icmp_seq=1 ttl=63 time=47.1 ms``.
"""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np

from bentpipe.errors import UserError, shown
from bentpipe.files import read_text
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.profiles.convert.rtt import Probes, rtt_profile
from bentpipe.readers.checked import MAX_RTT_MS

_REPLY = re.compile(
    r"(?:\[(\d{1,10}\.\d{1,9})\] )?\d+ bytes from .*icmp_seq=(\d{1,5}) .*time[=<](\d{1,9}(?:\.\d{1,9})?) ms( \(DUP!\))?"
)
#: Lines that say that a probe got no reply; it is missing among the replies anyway.
_NO_REPLY = re.compile(
    r"(?:\[\d+\.\d+\] )?"
    r"(?:no answer yet for icmp_seq=|From .*icmp_seq=|\d+ bytes from .*icmp_seq=.*\(truncated\)|ping: )"
)
_STATISTICS = re.compile(r"--- .* ping statistics ---")
#: The sequence number has 16 bits.
_WRAP = 65_536


def read_ping(paths: Paths, options: ReadOptions) -> Converted:
    """The Profile that a ``ping -D`` saw. A number missing among the replies is a lost probe.

    The time printed is that of the reply; the probe was sent one round trip before. Duplicates count once.

    Raises:
        UserError: A line that ping does not print, replies without a time (``-D`` was not given), no reply; the line
            is named.
    """
    path = one_path(paths, "ping output")
    replies: dict[int, tuple[int, float]] = {}
    last = 0
    for count, line in enumerate(read_text(path).splitlines(), 1):
        where = f"{path}:{count}"
        text = line.strip()
        if _STATISTICS.match(text):
            break
        match = _REPLY.match(text)
        if match is None:
            if not text or text.startswith("PING ") or _NO_REPLY.match(text):
                continue
            raise UserError(f"{where}: {shown(text)} is not a line of `ping -D`")
        if match[1] is None:
            raise UserError(f"{where}: the reply has no time before it; run ping with -D")
        rtt_ms = float(match[3])
        if rtt_ms > MAX_RTT_MS:
            raise UserError(f"{where}: a round trip of {match[3]} ms; wanted at most {MAX_RTT_MS:g} ms")
        seq = _unwrap(int(match[2]), last)
        last = max(last, seq)
        sent_ns = int(Decimal(match[1]) * 10**9) - round(rtt_ms * 1e6)
        if sent_ns < 0:
            raise UserError(f"{where}: the reply's time {match[1]} is before 1970")
        replies.setdefault(seq, (sent_ns, rtt_ms))
    if not replies:
        raise UserError(f"{path}: holds no reply; wanted the output of `ping -D`")
    return rtt_profile(_with_lost(replies), str(path), f"ping in {options.name_for(path)}", options)


def _unwrap(seq: int, last: int) -> int:
    """The number nearest to `last` that `seq` stands for."""
    return max(seq, seq + round((last - seq) / _WRAP) * _WRAP)


def _with_lost(replies: dict[int, tuple[int, float]]) -> Probes:
    """The replies, and one lost probe for every run of missing numbers, at the time its first was due."""
    seqs = np.array(sorted(replies), np.int64)
    sent = np.array([replies[seq][0] for seq in seqs.tolist()], np.int64)
    rtt = np.array([replies[seq][1] for seq in seqs.tolist()])
    before = np.flatnonzero(np.diff(seqs) > 1)
    step = (sent[before + 1] - sent[before]) / (seqs[before + 1] - seqs[before])
    due = sent[before] + np.maximum(step, 1).astype(np.int64)
    lost = int(seqs[-1] - seqs[0]) + 1 - seqs.size
    return Probes(
        np.concatenate([sent, due]), np.concatenate([rtt, np.full(due.size, np.nan)]), numbered=True, lost=lost
    )

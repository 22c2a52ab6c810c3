"""JSON of irtt (Isochronous Round-Trip Tester, github.com/heistp/irtt), plain or gzipped."""

from __future__ import annotations

import numpy as np

from bentpipe.errors import UserError, shown
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, load_json, one_path
from bentpipe.profiles.convert.rtt import Probes, rtt_profile
from bentpipe.readers.checked import MAX_RTT_MS, member, number


def read_irtt(paths: Paths, options: ReadOptions) -> Converted:
    """The Profile that ``irtt client -o FILE`` saw.

    Its one-way delays need clocks that agree to well under a millisecond, which the file cannot show; so round trips
    are halved, as for ping. Server processing time is not part of them.

    Raises:
        UserError: Not JSON, no ``round_trips``, or one without what it needs; the place is named.
    """
    path = one_path(paths, "irtt JSON")
    trips = member(str(path), load_json(path), "round_trips", list)
    sent, rtts = [], []
    for index, trip in enumerate(trips):
        where = f"{path}: round_trips[{index}]"
        client = member(where, member(where, trip, "timestamps", dict), "client", dict)
        send = member(f"{where}.timestamps.client", client, "send", dict)
        wall = member(f"{where}.timestamps.client.send", send, "wall", int)
        number(f"{where}.timestamps.client.send.wall", wall, 0, 2**62, "ns")
        sent.append(wall)
        # `false`, `true`, `true_up` or `true_down`; the first two also as JSON's own words.
        lost = str(member(where, trip, "lost", (str, bool))).lower()
        if lost not in ("false", "true", "true_up", "true_down"):
            raise UserError(f"{where}.lost: {shown(lost)}; wanted false, true, true_up or true_down")
        if lost == "false":
            rtt_ns = member(f"{where}.delay", member(where, trip, "delay", dict), "rtt", int)
            rtts.append(number(f"{where}.delay.rtt", rtt_ns, 0, MAX_RTT_MS * 1e6, "ns") / 1e6)
        else:
            rtts.append(np.nan)
    if not sent:
        raise UserError(f"{path}: round_trips is empty")
    probes = Probes(np.array(sent, np.int64), np.array(rtts), numbered=True)
    return rtt_profile(probes, str(path), f"irtt in {options.name_for(path)}", options)

"""The text of ``ping -D`` (`bentpipe.readers.ping`)."""

from __future__ import annotations

from bentpipe.files import read_unpacked
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.profiles.convert.rtt import probes_of, rtt_profile
from bentpipe.readers import ping
from bentpipe.readers.blocks import blocks_of
from bentpipe.readers.measurement import Said


def read_ping(paths: Paths, options: ReadOptions) -> Converted:
    """The Profile that a ``ping -D`` saw. A number missing among the replies is a lost probe.

    The time printed is that of the reply; the probe was sent one round trip before. Duplicates count once.

    Raises:
        UserError: A line that ping does not print, replies without a time (``-D`` was not given), no reply, several
            targets; the line is named.
    """
    path = one_path(paths, "ping output")
    said = Said(start_unix_ns=options.start_unix_ns)
    found = ping.measure(blocks_of(read_unpacked(path)), str(path), said)
    probes = probes_of(found.tables["probes"], str(path))
    return rtt_profile(probes, str(path), f"ping in {options.name_for(path)}", options)

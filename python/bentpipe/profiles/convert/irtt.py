"""JSON of irtt (Isochronous Round-Trip Tester, github.com/heistp/irtt), plain or gzipped (`bentpipe.readers.irtt`)."""

from __future__ import annotations

from bentpipe.files import read_unpacked
from bentpipe.profiles.convert.reading import Converted, Paths, ReadOptions, one_path
from bentpipe.profiles.convert.rtt import probes_of, rtt_profile
from bentpipe.readers import irtt
from bentpipe.readers.measurement import Said


def read_irtt(paths: Paths, options: ReadOptions) -> Converted:
    """The Profile that ``irtt client -o FILE`` saw.

    Its one-way delays need clocks that agree to well under a millisecond, which the file cannot show; so round trips
    are halved, as for ping. Server processing time is not part of them.

    Raises:
        UserError: Not irtt's JSON, or a round trip without what it needs; the place is named.
    """
    path = one_path(paths, "irtt JSON")
    found = irtt.measure(read_unpacked(path), str(path), Said())
    probes = probes_of(found.tables["probes"], str(path))
    return rtt_profile(probes, str(path), f"irtt in {options.name_for(path)}", options)

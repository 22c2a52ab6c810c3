"""The file formats: how each is recognised and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bentpipe.measurements.readers import atlas, columns, fping, iperf3, irtt, long_tables, routes, traces, windows
from bentpipe.measurements.readers.measurement import Measurement, ReadHints

#: Bytes of a file that are used to recognise its format; chosen here: each is recognisable in its first kilobytes.
HEAD_BYTES = 16 << 10


@dataclass(frozen=True)
class Format:
    """A file format. One of `measure` and `measure_blocks` is set.

    Attributes:
        description: One line.
        matches: Whether a file that begins with these bytes (up to `HEAD_BYTES`) has this format.
        measure: Reads a whole file.
        measure_blocks: Reads a file in blocks of whole lines, for logs that may be larger than memory.
    """

    description: str
    matches: Callable[[bytes], bool]
    measure: Callable[[bytes, str, ReadHints], Measurement] | None = None
    measure_blocks: Callable[[Iterator[bytes], str, ReadHints], Measurement] | None = None


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "iperf3": Format("JSON of iperf3, -J or --json-stream", iperf3.is_iperf3, iperf3.measure),
        "irtt": Format("JSON of irtt client -o", irtt.is_irtt, irtt.measure),
        "ripe-atlas": Format("results of RIPE Atlas, ping and traceroute", atlas.is_atlas, atlas.measure),
        "mtr": Format("mtr --json", routes.is_mtr, routes.measure_mtr),
        "traceroute": Format(
            "text of traceroute and tracert", windows.is_any_traceroute, windows.measure_any_traceroute
        ),
        "fping": Format("fping -c, -l, -C, -J; best with -D", fping.is_fping, None, fping.measure),
        "mahimahi": Format("packet-delivery trace of mm-link", traces.is_mahimahi, traces.measure_mahimahi),
        "leoreplayer": Format("LeoReplayer's delays, one each 10 ms", traces.is_delays, traces.measure_delays),
        "ping": Format(
            "text of ping: Linux, busybox, BSD, macOS, Windows; best with -D",
            windows.is_any_ping,
            None,
            windows.measure_any_ping,
        ),
        "csv": Format("a table whose columns name their units", columns.is_table, None, long_tables.measure),
    }
)

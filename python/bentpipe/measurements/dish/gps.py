"""Convert the terminal's timestamps: nanoseconds since the GPS epoch, without leap seconds."""

from __future__ import annotations

#: 1980-01-06T00:00:00Z in seconds since 1970 (IS-GPS-200, 3.3.4).
GPS_EPOCH_UNIX_S = 315_964_800
#: Leap seconds between GPS and UTC since 2017-01-01 (IERS Bulletin C 52 ff.; none has been announced since).
LEAP_SECONDS = 18

_OFFSET_NS = (GPS_EPOCH_UNIX_S - LEAP_SECONDS) * 10**9


def gps_to_unix_ns(gps_ns: int) -> int | None:
    """Convert a GPS timestamp to nanoseconds since 1970; None if it is 0 or less, or beyond the year 2262."""
    unix_ns = gps_ns + _OFFSET_NS
    return unix_ns if gps_ns > 0 and unix_ns < 2**63 else None


def unix_to_gps_ns(unix_ns: int) -> int:
    """Convert nanoseconds since 1970 to a GPS timestamp."""
    return unix_ns - _OFFSET_NS

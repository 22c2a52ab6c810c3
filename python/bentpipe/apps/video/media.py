"""Media of a video's chunks: fragmented MP4 that decoders play, padded to given sizes.

A chunk repeats one picture of 25 bytes, since a player's network sees sizes and times only. Boxes: ISO/IEC 14496-12;
VP9 in them: "VP Codec ISO Media File Format Binding", version 1.0.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from bentpipe.apps.video.description import VideoDescription

CODEC = "vp09.00.10.08"
"""The codec as MIME types name it: VP9, profile 0, level 1.0, 8 bits."""

PICTURE = bytes.fromhex("824983425003f002361038241c18c20000204000706255c000")
"""A grey key frame of VP9, from the encoder of Chromium 156 (WebCodecs)."""

WIDTH, HEIGHT = 64, 36
"""Size of the picture [pixels]."""

FRAMES_PER_S = 25
"""Frames of a second, about. The player sees a stall to within a frame."""

TIMESCALE = 1_000_000
"""Ticks of media time in a second."""

_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
_KEY_FRAME = 0x02000000  # sample_depends_on = 2, and a sync sample


def _box(name: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I", 8 + len(content)) + name + content


def _full_box(name: bytes, flags: int, *parts: bytes, version: int = 0) -> bytes:
    return _box(name, struct.pack(">I", version << 24 | flags), *parts)


def frames(chunk_s: float) -> int:
    """Return the number of frames of a chunk.

    Example:
        >>> frames(4.0)
        100
    """
    return max(1, round(chunk_s * FRAMES_PER_S))


def init_segment() -> bytes:
    """Return the initialization segment: one video track, and no samples.

    Example:
        >>> init_segment()[4:12]
        b'ftypiso6'
    """
    size = struct.pack(">HH", WIDTH, HEIGHT)
    # Version 1 of vpcC: profile 0, level 1.0; 8 bits, 4:2:0 with colocated chroma, limited range; BT.709 thrice.
    configuration = _full_box(b"vpcC", 0, bytes((0, 10, 8 << 4 | 1 << 1, 1, 1, 1, 0, 0)), version=1)
    entry = _box(
        b"vp09",
        bytes(6) + struct.pack(">H", 1) + bytes(16) + size,
        struct.pack(">IIIH", 0x480000, 0x480000, 0, 1) + bytes(32) + struct.pack(">Hh", 0x18, -1),
        configuration,
    )
    table = _box(
        b"stbl",
        _full_box(b"stsd", 0, struct.pack(">I", 1), entry),
        _full_box(b"stts", 0, bytes(4)),
        _full_box(b"stsc", 0, bytes(4)),
        _full_box(b"stsz", 0, bytes(8)),
        _full_box(b"stco", 0, bytes(4)),
    )
    data = _box(b"dinf", _full_box(b"dref", 0, struct.pack(">I", 1), _full_box(b"url ", 1)))
    media = _box(
        b"mdia",
        _full_box(b"mdhd", 0, struct.pack(">IIIIHH", 0, 0, TIMESCALE, 0, 0x55C4, 0)),  # language: undetermined
        _full_box(b"hdlr", 0, bytes(4), b"vide", bytes(12), b"video\0"),
        _box(b"minf", _full_box(b"vmhd", 1, bytes(8)), data, table),
    )
    header = struct.pack(">IIIII", 0, 0, 1, 0, 0) + bytes(16) + _MATRIX + struct.pack(">II", WIDTH << 16, HEIGHT << 16)
    movie = struct.pack(">IIIIIH", 0, 0, TIMESCALE, 0, 0x10000, 0x100) + bytes(10) + _MATRIX + bytes(24)
    return _box(b"ftyp", b"iso6", bytes(4), b"iso6", b"dash") + _box(
        b"moov",
        _full_box(b"mvhd", 0, movie + struct.pack(">I", 2)),
        _box(b"trak", _full_box(b"tkhd", 3, header), media),
        _box(b"mvex", _full_box(b"trex", 0, struct.pack(">IIIII", 1, 1, 0, 0, 0))),
    )


def media_segment(number: int, chunk_s: float, size: int) -> bytes:
    """Return a chunk of `size` bytes, padded by a ``free`` box.

    Args:
        number: Number of the chunk, from 0.
        chunk_s: Playing time of a chunk [s].
        size: Its size [bytes].

    Raises:
        UserError: The chunk is smaller than its frames (`least_bytes`).

    Example:
        >>> len(media_segment(3, 4.0, 150_000))
        150000
    """
    count, ticks = frames(chunk_s), round(chunk_s * TIMESCALE)
    if size < least_bytes(chunk_s):
        raise UserError(f"a chunk of {size} bytes", expected=f"at least {least_bytes(chunk_s)}, of {count} frames")
    base_is_moof = 0x020000
    defaults = struct.pack(">IIII", 1, ticks // count, len(PICTURE), _KEY_FRAME)
    track = [
        _full_box(b"tfhd", base_is_moof | 0x38, defaults),  # duration, size and flags of samples
        _full_box(b"tfdt", 0, struct.pack(">Q", number * ticks), version=1),
    ]
    sequence = _full_box(b"mfhd", 0, struct.pack(">I", number + 1))

    def movie(offset: int) -> bytes:
        return _box(b"moof", sequence, _box(b"traf", *track, _full_box(b"trun", 1, struct.pack(">Ii", count, offset))))

    head = movie(len(movie(0)) + 8) + _box(b"mdat", PICTURE * count)
    return head + _box(b"free", bytes(size - len(head) - 8))


def least_bytes(chunk_s: float) -> int:
    """Return the smallest size of a chunk [bytes].

    Example:
        >>> least_bytes(4.0)
        2616
    """
    return 116 + len(PICTURE) * frames(chunk_s)


def manifest(video: VideoDescription) -> str:
    """Return the DASH manifest (ISO/IEC 23009-1) of a video: ``init.mp4`` and ``QUALITY/NUMBER.m4s`` beside it.

    Example:
        >>> from bentpipe.apps.video.description import pensieve
        >>> manifest(pensieve()).count("<Representation ")
        6
    """
    tracks = "".join(
        f'<Representation id="{quality}" bandwidth="{bps}" width="{WIDTH}" height="{HEIGHT}"/>'
        for quality, bps in enumerate(video.rates_bps)
    )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:profile:isoff-live:2011" type="static" '
        f'mediaPresentationDuration="PT{video.chunks * video.chunk_s:.6f}S" minBufferTime="PT{video.chunk_s:.6f}S">'
        f'<Period><AdaptationSet mimeType="video/mp4" codecs="{CODEC}" segmentAlignment="true" startWithSAP="1">'
        f'<SegmentTemplate timescale="{TIMESCALE}" duration="{round(video.chunk_s * TIMESCALE)}" startNumber="0" '
        'initialization="init.mp4" media="$RepresentationID$/$Number$.m4s"/>'
        f"{tracks}</AdaptationSet></Period></MPD>\n"
    )

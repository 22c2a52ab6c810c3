"""The dissector of nodes' frames, on frames made here after the diagrams of design note 018."""

import random
import shutil
import struct
import subprocess

import pytest
from emulation import need

from bentpipe.execution.emulation.spec import DISSECTOR

FIELDS = [
    "satguard.hseq",
    "satguard.hack.first",
    "satguard.hack.last",
    "satguard.fseq",
    "satguard.flags",
    "satguard.beam",
    "satguard.tunnel.kind",
    "satguard.tunnel.number",
    "satguard.tunnel.last",
    "satguard.malformed",
]

INNER = bytes.fromhex("4500001c000040004011000001020304050607080035003500080000")
IPV4, NOTHING, DESTINATION_OPTIONS = 4, 59, 60


@pytest.fixture(autouse=True)
def _tshark():
    if shutil.which("tshark") is None:
        need("tshark")


def option(hseq=0, hack=(0, 0), fseq=0, *, flags, beam=0, then=IPV4, length=10):
    """The hop-by-hop header, of 16 octets."""
    return struct.pack(">BBBBHHHHBBBB", then, 1, 0x3E, length, hseq, *hack, fseq, flags, beam, 1, 0)


def message(kind, number=0, last=0, *, then=IPV4, length=12):
    """The header of a message between satellites, of 16 octets."""
    return struct.pack(">BBBBB3xII", then, 1, 0x1E, length, kind, number, last)


def frame(headers, inner=INNER):
    outer = struct.pack(">IHBB", 6 << 28, len(headers) + len(inner), 0, 64) + bytes(15) + b"\1" + bytes(15) + b"\2"
    return bytes(12) + b"\x86\xdd" + outer + headers + inner


def dissect(tmp_path, frames):
    """The fields of each frame."""
    capture = tmp_path / "frames.pcap"
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 16, 1)
    records = [struct.pack("<IIII", second, 0, len(each), len(each)) + each for second, each in enumerate(frames)]
    capture.write_bytes(head + b"".join(records))
    command = ["tshark", "-n", "-X", f"lua_script:{DISSECTOR}", "-r", capture, "-T", "fields", "-E", "separator=,"]
    command += [part for field in FIELDS for part in ("-e", field)]
    read = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "lua" not in read.stderr.lower(), read.stderr
    return [dict(zip(FIELDS, line.split(","), strict=True)) for line in read.stdout.splitlines()]


def present(row):
    return {name.removeprefix("satguard."): value for name, value in row.items() if value}


def test_each_field_is_shown_where_its_flag_says_so(tmp_path):
    rows = dissect(
        tmp_path,
        [
            frame(option(513, (7, 9), 65535, flags=7, beam=3)),
            frame(option(513, (7, 9), 65535, flags=0)),
            frame(option(1, flags=1)),
            frame(option(hack=(65534, 2), flags=2, beam=255, then=NOTHING), b""),
            frame(option(fseq=4, flags=4)),
        ],
    )
    assert [present(row) for row in rows] == [
        {"hseq": "513", "hack.first": "7", "hack.last": "9", "fseq": "65535", "flags": "0x07", "beam": "3"},
        {"flags": "0x00", "beam": "0"},
        {"hseq": "1", "flags": "0x01", "beam": "0"},
        {"hack.first": "65534", "hack.last": "2", "flags": "0x02", "beam": "255"},
        {"fseq": "4", "flags": "0x04", "beam": "0"},
    ]


def test_messages_between_satellites_have_their_numbers(tmp_path):
    front = option(fseq=4, flags=4, then=DESTINATION_OPTIONS)
    shown = {"fseq": "4", "flags": "0x04", "beam": "0"}
    rows = dissect(
        tmp_path,
        [
            frame(front + message(0)),
            frame(front + message(1, 70000)),
            frame(front + message(2, 70000, 70009, then=NOTHING), b""),
            frame(front + message(3, 2**32 - 1, then=NOTHING), b""),
            frame(front + message(9, 5)),
        ],
    )
    assert [present(row) for row in rows] == [
        shown | {"tunnel.kind": "0"},
        shown | {"tunnel.kind": "1", "tunnel.number": "70000"},
        shown | {"tunnel.kind": "2", "tunnel.number": "70000", "tunnel.last": "70009"},
        shown | {"tunnel.kind": "3", "tunnel.number": "4294967295"},
        shown | {"tunnel.kind": "9", "tunnel.number": "5"},
    ]


def test_options_of_another_length_are_malformed_and_others_are_left_alone(tmp_path):
    short = struct.pack(">BBBBHBBBBBBBBBB", IPV4, 1, 0x3E, 2, 513, 1, 8, *bytes(8))
    foreign = struct.pack(">BBBBIII", IPV4, 1, 0x3F, 12, 1, 2, 3)
    tunnel = struct.pack(">BBBBHBB8x", IPV4, 1, 0x1E, 2, 513, 1, 8)
    rows = dissect(
        tmp_path,
        [frame(short), frame(foreign), frame(option(flags=0, then=DESTINATION_OPTIONS) + tunnel)],
    )
    assert list(present(rows[0])) == ["malformed"]
    assert present(rows[1]) == {}
    assert list(present(rows[2])) == ["flags", "beam", "malformed"]


def test_damaged_frames_neither_stop_the_dissector_nor_hide_the_next_frame(tmp_path):
    choose = random.Random(18)
    whole = frame(option(513, (7, 9), 4, flags=7, then=DESTINATION_OPTIONS) + message(2, 5, 6))
    frames = []
    for _ in range(300):
        damaged = bytearray(whole[: choose.randrange(14, len(whole) + 1)])
        for _ in range(choose.randrange(4)):
            damaged[choose.randrange(14, len(damaged) + 1) - 1] = choose.randrange(256)
        frames += [bytes(damaged), whole]
    rows = dissect(tmp_path, frames)
    assert len(rows) == len(frames)
    assert {row["satguard.tunnel.last"] for row in rows[1::2]} == {"6"}

"""Send buffer memory per segment on this machine's kernel."""

import socket

import pytest

from bentpipe.execution.emulation import send_memory
from bentpipe.execution.emulation.send_memory import wmem_segment_bytes


def test_this_kernels_value_is_known_or_none():
    assert wmem_segment_bytes() in (2304, 4352, None)


@pytest.mark.parametrize(
    ("sndbuf", "tcp_wmem", "result"),
    [
        (46_080, "4096 16384 4194304", 2304),
        (87_040, "4096 16384 4194304", 4352),
        # What tuning guides have, and what looks like a multiple of twenty segments.
        (87_380, "4096 87380 16777216", None),
        (87_040, "4096 87040 4194304", None),
        (40_000, "4096 16384 40000", None),
        (46_080, "4096 16384 46080", None),
        (65_536, "4096 65536 4194304", None),
        (0, "4096 16384 4194304", None),
        (46_080, "", None),
        (46_080, "a b c", None),
    ],
)
def test_a_value_set_by_tcp_wmem_is_not_used(sndbuf, tcp_wmem, result, tmp_path, monkeypatch):
    file = tmp_path / "tcp_wmem"
    file.write_text(tcp_wmem)
    monkeypatch.setattr(send_memory, "TCP_WMEM", file)
    monkeypatch.setattr(send_memory, "_sndbuf", lambda: sndbuf)
    assert wmem_segment_bytes() == result


def test_a_kernel_without_the_interface_gives_none(monkeypatch):
    def refused(*_, **__):
        raise OSError("no sockets here")

    monkeypatch.setattr(socket, "create_server", refused)
    assert wmem_segment_bytes() is None

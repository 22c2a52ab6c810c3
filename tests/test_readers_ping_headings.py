"""First sequence number of a ping by the form of its heading: 0 or 1."""

import pytest

from bentpipe.measurements.runs.imports import read_file

#: Headings as each program prints them, with the first number that it sends.
HEADINGS = {
    "iputils": ("PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.", 1),
    "iputils -I": ("PING 192.0.2.1 (192.0.2.1) from 192.0.2.2 eth0: 56(84) bytes of data.", 1),
    "iputils -I ADDRESS -B": ("PING 192.0.2.1 (192.0.2.1) from 192.0.2.2 : 56(84) bytes of data.", 1),
    "iputils IPv6": ("PING ::1 (::1) 56 data bytes", 1),
    "iputils IPv6 before 2021": ("PING ::1(::1) 56 data bytes", 1),
    "iputils IPv6 -I": ("PING ::1 (::1) from ::1 lo: 56 data bytes", 1),
    "iputils IPv6 -I before 2021": ("PING ::1(::1) from ::1 lo: 56 data bytes", 1),
    "iputils IPv6 -I of a link": ("PING fe80::1%eth0(fe80::1%eth0) from fe80::2%eth0 eth0: 56 data bytes", 1),
    "iputils IPv6 -I ADDRESS -B": ("PING ::1(::1) from ::1 : 56 data bytes", 1),
    "iputils IPv6 -F -I": ("PING ::1(::1) , flow 0x12345, from ::1 lo: 56 data bytes", 1),
    "busybox": ("PING pop (192.0.2.1): 56 data bytes", 0),
    "busybox -I ADDRESS": ("PING pop (192.0.2.1) from 192.0.2.2: 56 data bytes", 0),
    "busybox IPv6 -I ADDRESS": ("PING ::1 (::1) from ::1: 56 data bytes", 0),
    "BSD": ("PING pop.example (192.0.2.1): 56 data bytes", 0),
    "BSD -S": ("PING pop.example (192.0.2.1) from 192.0.2.2: 56 data bytes", 0),
    "BSD IPv6": ("PING6(56=40+8+8 bytes) ::1 --> ::1", 0),
    "FreeBSD 13 IPv6": ("PING(56=40+8+8 bytes) ::1 --> ::1", 0),
    "inetutils -v": ("PING pop (192.0.2.1): 56 data bytes, id 0x1234 = 4660", 0),
}


@pytest.mark.parametrize("form", HEADINGS)
def test_probe_0_counts_where_the_heading_is_of_a_ping_that_sends_it(form, tmp_path):
    heading, first = HEADINGS[form]
    replies = "".join(f"[179519996{n}.04] 64 bytes from ::1: icmp_seq={n} ttl=64 time=40.0 ms\n" for n in (1, 2, 3))
    (tmp_path / "ping.log").write_text(f"{heading}\n{replies}")
    probes = read_file(tmp_path / "ping.log").measurement.tables["probes"]
    assert probes["seq"].to_list() == list(range(first, 4))
    assert probes["rtt_ms"].null_count() == 1 - first

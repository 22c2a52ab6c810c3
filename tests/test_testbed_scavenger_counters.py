"""Readers of byte counters: this machine's interfaces, and a router's node_exporter."""

import asyncio
import random
import socket

import pytest
from fuzzing import damaged
from test_testbed_signals_feeds import web_server

from bentpipe.errors import UserError
from bentpipe.net_dev import parse_net_dev
from bentpipe.testbed.agent.counters import (
    ByteCounts,
    InterfaceCounters,
    NodeExporterCounters,
    parse_node_exporter,
    rates,
)

NET_DEV = b"""\
Inter-|   Receive                                        |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo: 1170  11    0    0    0     0          0         0     1170      11    0    0    0     0       0          0
  eth0:98765432101 4 0 0 0 0 0 0 18446744073709551615 9 0 0 0 0 0 0
eth0.7@a: 5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0
"""

METRICS = b"""\
# HELP node_network_receive_bytes_total Network device statistic receive_bytes.
# TYPE node_network_receive_bytes_total counter
node_network_receive_bytes_total{device="br-lan"} 5.123e+08
node_network_receive_bytes_total{device="wan"} 1.2345678901e+10
node_network_receive_packets_total{device="wan"} 12
node_network_transmit_bytes_total{device="br-lan"} 7
node_network_transmit_bytes_total{alias="up \\"link",device="wan",zone="x"} 987654321 1700000000000
node_load1 0.5
"""


def test_interfaces_of_linux():
    assert parse_net_dev(NET_DEV, "lo") == (1170, 1170)
    assert parse_net_dev(NET_DEV, "eth0") == (98_765_432_101, 2**64 - 1)
    assert parse_net_dev(NET_DEV, "eth0.7@a") == (5, 6)


def test_devices_of_node_exporter():
    assert parse_node_exporter(METRICS, "wan") == (12_345_678_901, 987_654_321)
    assert parse_node_exporter(METRICS, "br-lan") == (512_300_000, 7)


@pytest.mark.parametrize(
    ("parse", "text", "name"),
    [
        (parse_net_dev, NET_DEV, "eth1"), (parse_net_dev, b"", "eth0"), (parse_net_dev, b"eth0: 1 2", "eth0"),
        (parse_net_dev, b"eth0: -1 1 1 1 1 1 1 1 5", "eth0"), (parse_net_dev, b"eth0: x 1 1 1 1 1 1 1 5", "eth0"),
        (parse_node_exporter, METRICS, "eth0"), (parse_node_exporter, b"", "wan"),
        (parse_node_exporter, METRICS.replace(b"1.2345678901e+10", b"NaN"), "wan"),
        (parse_node_exporter, METRICS.replace(b"1.2345678901e+10", b"-4"), "wan"),
        (parse_node_exporter, METRICS.replace(b"1.2345678901e+10", b"1e99"), "wan"),
        (parse_node_exporter, METRICS, "w.n"),
    ],
)  # fmt: skip
def test_nonsense_is_one_line(parse, text, name):
    with pytest.raises(UserError) as caught:
        parse(text, name)
    assert "\n" not in str(caught.value)


def test_any_damage_is_refused_or_gives_counts():
    random_ = random.Random(5)
    for number in range(4000):
        parse, text, name = ((parse_net_dev, NET_DEV, "eth0"), (parse_node_exporter, METRICS, "wan"))[number % 2]
        try:
            counts = parse(damaged(random_, text), name)
        except UserError as error:
            assert "\n" not in str(error)  # noqa: PT017
            continue
        assert all(isinstance(count, int) and 0 <= count < 2**64 for count in counts)


def test_a_long_hostile_page_takes_no_time():
    line = b"node_network_receive_bytes_total{" + b'a="x",' * 20_000 + b"\n"
    with pytest.raises(UserError):
        parse_node_exporter(line * 8, "wan")


def test_counters_that_begin_anew_give_no_rates():
    assert rates(ByteCounts(1.0, 10, 10), ByteCounts(2.0, 5, 20)) is None
    assert rates(ByteCounts(1.0, 10, 10), ByteCounts(1.0, 15, 20)) is None
    both = rates(ByteCounts(1.0, 0, 0), ByteCounts(1.1, 12_500, 1250))
    assert (both.down_bps, both.up_bps) == pytest.approx((1e6, 1e5))


def test_an_interface_of_this_machine(tmp_path):
    here = asyncio.run(InterfaceCounters("lo").read())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.sendto(b"x" * 1000, ("127.0.0.1", 9))
    later = asyncio.run(InterfaceCounters("lo").read())
    assert later.down_bytes >= here.down_bytes + 1000
    assert later.t_s > here.t_s
    path = tmp_path / "dev"
    path.write_bytes(NET_DEV)
    counts = asyncio.run(InterfaceCounters("eth0.7@a", faces_run=True, path=path).read())
    assert (counts.down_bytes, counts.up_bytes) == (6, 5)
    with pytest.raises(UserError, match="No such file"):
        asyncio.run(InterfaceCounters("lo", path=tmp_path / "none").read())
    for name in ("", "a b", "x" * 65, "../lo"):
        with pytest.raises(UserError, match="is no interface"):
            InterfaceCounters(name)


def test_a_router_over_http():
    web = pytest.importorskip("aiohttp.web")

    async def handler(request):
        return web.Response(body=METRICS if request.path == "/metrics" else b"nothing")

    async def all_of_it():
        async with web_server(handler) as base:
            counts = await NodeExporterCounters(f"{base}/metrics", "wan", [base]).read()
            assert (counts.down_bytes, counts.up_bytes) == (12_345_678_901, 987_654_321)
            with pytest.raises(UserError, match="no received bytes"):
                await NodeExporterCounters(f"{base}/other", "wan", [base]).read()
            with pytest.raises(UserError, match="not allowed by the host"):
                await NodeExporterCounters(f"{base}/metrics", "wan", []).read()

    asyncio.run(all_of_it())

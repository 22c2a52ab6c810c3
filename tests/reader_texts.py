"""A small valid file of every format that `bentpipe read` knows, for tests and fuzzing."""

import json
import sqlite3
from io import BytesIO

import polars as pl
from test_program_output import TEXTS as TOOL_TEXTS

START_S = 1_795_199_963
PING = b"""PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.
[1795199963.040000] 64 bytes from 192.0.2.1: icmp_seq=2 ttl=64 time=40.0 ms
[1795199963.140000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=40 ms
[1795199963.141000] 64 bytes from 192.0.2.1: icmp_seq=3 ttl=64 time=41 ms (DUP!)
[1795199963.250000] no answer yet for icmp_seq=4
[1795199963.440000] 64 bytes from 192.0.2.1: icmp_seq=6 ttl=64 time=40.0 ms
[1795199963.441000] 64 bytes from 192.0.2.1: icmp_seq=5 ttl=64 time=141 ms

--- 192.0.2.1 ping statistics ---
8 packets transmitted, 4 received, +1 duplicates, 50% packet loss, time 700ms
rtt min/avg/max/mdev = 40.000/65.250/141.000/0.089 ms
"""
MACOS = b"""PING example.org (192.0.2.7): 56 data bytes
64 bytes from 192.0.2.7: icmp_seq=0 ttl=57 time=12.345 ms
Request timeout for icmp_seq 1
92 bytes from 10.0.0.1: Destination Host Unreachable
Vr HL TOS  Len   ID Flg  off TTL Pro  cks      Src      Dst
 4  5  00 5400 8c57   0 0000  3f  01 6d2b 10.0.0.2  192.0.2.7

64 bytes from 192.0.2.7: icmp_seq=2 ttl=57 time=13.001 ms
^C
--- example.org ping statistics ---
3 packets transmitted, 2 packets received, 33.3% packet loss
round-trip min/avg/max/stddev = 12.345/12.673/13.001/0.328 ms
"""
FPING = b"""[1795199963.04000] 192.0.2.1 : [0], 64 bytes, 40.0 ms (40.0 avg, 0% loss)
[1795199963.54000] 192.0.2.1 : [1], timed out (40.0 avg, 50% loss)
[1795199963.24000] 192.0.2.1 : [2], 64 bytes, 40.0 ms (40.0 avg, 33% loss)
[1795199963.24100] 192.0.2.1 : duplicate for [2], 64 bytes, 41.0 ms
[1795199963.05000] host.b    : [0], 64 bytes, 50.0 ms (50.0 avg, 0% loss)

192.0.2.1 : xmt/rcv/%loss = 3/2/33%, min/avg/max = 40.0/40.0/40.0
host.b    : xmt/rcv/%loss = 3/1/66%, min/avg/max = 50.0/50.0/50.0
"""
FPING_LIST = b"192.0.2.1 : 40.1 - 41.2\nhost.b    : - 50.3 50.4\n"
FPING_JSON = b"""{"resp": {"host": "192.0.2.1", "seq": 0, "size": 64, "rtt": 40.1}}
{"timeout": {"host": "192.0.2.1", "seq": 1}}
{"resp": {"host": "192.0.2.1", "seq": 2, "size": 64, "rtt": 41.2}}
{"summary": {"host": "192.0.2.1", "xmt": 3, "rcv": 2, "loss": 33, "rttMin": 40.1, "rttAvg": 40.6, "rttMax": 41.2}}
"""
ATLAS = json.dumps(
    [
        {
            "fw": 5080,
            "lts": 33,
            "type": "ping",
            "prb_id": 7,
            "msm_id": 1,
            "timestamp": START_S,
            "proto": "ICMP",
            "dst_addr": "192.0.2.1",
            "result": [{"rtt": 40.5}, {"x": "*"}, {"rtt": 41.5}, {"rtt": 42.5, "dup": 1}],
        },
        {
            "type": "traceroute",
            "prb_id": 7,
            "msm_id": 2,
            "timestamp": START_S,
            "dst_addr": "192.0.2.1",
            "result": [
                {"hop": 1, "result": [{"from": "100.64.0.1", "ttl": 254, "rtt": 28.2}, {"x": "*"}]},
                {"hop": 2, "result": [{"late": 2, "from": "10.0.0.1"}, {"from": "192.0.2.1", "rtt": 40.0}]},
            ],
        },
        {"type": "dns", "prb_id": 7, "msm_id": 3, "timestamp": START_S},
    ]
).encode()
TRACEROUTE = b"""traceroute to example.org (192.0.2.1), 30 hops max, 60 byte packets
 1  _gateway (192.168.1.1)  0.345 ms  0.301 ms *
 2  100.64.0.1 (100.64.0.1)  28.2 ms 10.1.1.1 (10.1.1.1)  29.0 ms !H *
 3  * * *
 4  192.0.2.1  40.0 ms  41.0 ms  42.0 ms
"""
WINDOWS_PING = b"""\r
Pinging pop.example [192.0.2.1] with 32 bytes of data:\r
Reply from 192.0.2.1: bytes=32 time=41ms TTL=57\r
Request timed out.\r
Reply from 192.168.1.2: Destination host unreachable.\r
Reply from 192.0.2.1: bytes=32 time<1ms TTL=57\r
\r
Ping statistics for 192.0.2.1:\r
    Packets: Sent = 4, Received = 3, Lost = 1 (25% loss),\r
Approximate round trip times in milli-seconds:\r
    Minimum = 0ms, Maximum = 41ms, Average = 20ms\r
"""
TRACERT = b"""\r
Tracing route to pop.example [192.0.2.1]\r
over a maximum of 30 hops:\r
\r
  1    <1 ms    <1 ms     1 ms  192.168.1.1 \r
  2    28 ms     *       31 ms  100.64.0.1 \r
  3     *        *        *     Request timed out.\r
  4    40 ms    41 ms    42 ms  pop.example [192.0.2.1] \r
\r
Trace complete.\r
"""
MTR = json.dumps(
    {
        "report": {
            "mtr": {"src": "me", "dst": "192.0.2.1", "tests": 10},
            "hubs": [
                {"count": 1, "host": "192.168.1.1", "Loss%": 0.0, "Snt": 10, "Best": 0.3, "Avg": 0.5},
                {"count": 2, "host": "???", "Loss%": 100.0, "Snt": 10, "Best": 0.0, "Avg": 0.0},
                {"count": 3, "host": "192.0.2.1", "Loss%": 0.0, "Snt": 10, "Best": 40.0, "Avg": 41.0},
            ],
        }
    }
).encode()
CSV = b"""timestamp,rtt_ms,seq,host
2026-05-10T09:00:00.5Z,40.5,1,pop
2026-05-10T11:00:01.5+02:00,-1,2,pop
2026-05-10 09:00:03.5Z,41.5,4,pop
"""
RATES = b"unix_s;download_mbps;upload_mbps\n1795199963;100.5;10\n1795199964.25;;12\n"
STATUS = json.dumps(
    {
        "apiVersion": "17",
        "dishGetStatus": {
            "deviceInfo": {"id": "ut1", "softwareVersion": "2026.1", "bootcount": 3},
            "popPingLatencyMs": 26.5,
            "boresightAzimuthDeg": -10.5,
            "boresightElevationDeg": 72.25,
        },
    }
).encode()
HISTORY = json.dumps(
    {
        "dishGetHistory": {
            "current": "5",
            "popPingDropRate": [0, 1, 0, 0.5],
            "popPingLatencyMs": [31.5, 0, 29.5, 30.5],
            "outages": [
                {"cause": "OBSTRUCTED", "startTimestampNs": "1399245304801994822", "durationNs": "500000000"},
            ],
        }
    }
).encode()
#: As newer firmware answers: one outage in the list, three in the event log, which counts from 1970.
EVENT_LOG = json.dumps(
    {
        "dishGetHistory": {
            "current": "5",
            "popPingDropRate": [0, 1, 0, 0.5],
            "popPingLatencyMs": [31.5, 0, 29.5, 30.5],
            "outages": [
                {"cause": "OBSTRUCTED", "startTimestampNs": "1399245304801994822", "durationNs": "500000000"},
                {"cause": "NO_PINGS", "startTimestampNs": "0", "durationNs": "1"},
            ],
            "eventLog": {
                "events": [
                    {"reason": f"EVENT_REASON_{reason}", "startTimestampNs": f"{start_ns}", "durationNs": "600000000"}
                    for reason, start_ns in (
                        ("OUTAGE_NO_DOWNLINK", 1715210000 * 10**9),
                        ("UT_ALERT_ETH_NO_LINK", 1715210001 * 10**9),
                        ("OUTAGE_OBSTRUCTED", 1399245304801994822 + 315_964_782 * 10**9 + 20_000_000),
                        ("OUTAGE_BRAND_NEW", 1715210203 * 10**9),
                    )
                ],
                "currentTimestampNs": f"{1715210300 * 10**9}",
            },
        }
    }
).encode()
DISH_CSV = b"""datetimestamp_utc,id,state,uptime,pop_ping_drop_rate,pop_ping_latency_ms,alerts,currently_obstructed
2026-05-10T09:00:00,ut1,CONNECTED,100,0.0,26.5,0,False
2026-05-10T09:00:01,ut1,SEARCHING,101,1.0,,0,True
"""


LOCATIONS = (
    json.dumps({"getLocation": {"lla": {"lat": 54.3239, "lon": 10.162, "alt": 45.5}, "source": "GNC_FUSED"}}).encode()
    + json.dumps(
        {"dishGetDiagnostics": {"location": {"enabled": True, "latitude": -37.85, "longitude": 145.11}}}
    ).encode()
)
#: A moving terminal's.
TRACK_CSV = b"""time,pop_ping_latency_ms,latitude,longitude,altitude
1795199963,26.5,54.3239,10.1620,45.5
1795199964,27.5,54.3241,-10.1624,
"""


def sqlite_bytes():
    with sqlite3.connect(":memory:") as base:
        base.execute("CREATE TABLE status (time INTEGER, id TEXT, state TEXT, pop_ping_latency_ms REAL)")
        base.execute("INSERT INTO status VALUES (1795199963, 'ut1', 'CONNECTED', 26.5)")
        base.execute("CREATE TABLE history (time INTEGER, id TEXT, pop_ping_drop_rate REAL, counter INTEGER)")
        base.execute("INSERT INTO history VALUES (1795199964, 'ut1', 0.5, 9)")
        base.commit()
        return bytes(base.serialize())


def parquet_bytes(rows):
    file = BytesIO()
    pl.DataFrame(rows).write_parquet(file)
    return file.getvalue()


SQLITE = sqlite_bytes()
PARQUET = parquet_bytes({"@timestamp": ["2026-05-10T10:00:00+01:00"], "dish_status.pop_ping_latency_ms": [26.5]})
PINGS_PARQUET = parquet_bytes({"unix_ns": [START_S * 10**9], "rtt_ms": [26.5], "target": ["pop"]})
MAPS = parquet_bytes({"timestamp": [float(START_S)], "obstruction_map": [[0, 1, -1, 1]], "frame_type": [2]})

#: By name: the text, and its format.
TEXTS = {
    "ping": (PING, "ping"),
    "ping of macOS": (MACOS, "ping"),
    "ping of busybox": (TOOL_TEXTS["busybox"], "ping"),
    "ping of Windows": (WINDOWS_PING, "ping"),
    "irtt": (TOOL_TEXTS["irtt"], "irtt"),
    "iperf3": (TOOL_TEXTS["iperf3"], "iperf3"),
    "iperf3 stream": (TOOL_TEXTS["iperf3 stream"], "iperf3"),
    "fping": (FPING, "fping"),
    "fping list": (FPING_LIST, "fping"),
    "fping JSON": (FPING_JSON, "fping"),
    "Atlas": (ATLAS, "ripe-atlas"),
    "traceroute": (TRACEROUTE, "traceroute"),
    "tracert": (TRACERT, "traceroute"),
    "mtr": (MTR, "mtr"),
    "mahimahi": (b"".join(b"%d\n" % (ms // 2) for ms in range(1, 2001)), "mahimahi"),
    "LeoReplayer": (b"11\n10\n12.5\n11\n", "leoreplayer"),
    "csv": (CSV, "csv"),
    "rates": (RATES, "csv"),
    "plain table": (b"1795199963.5\t7\t40.5\n1795199964.5\t8\t-1.0\n", "csv"),
    "status": (STATUS, "dish-json"),
    "history": (HISTORY, "dish-json"),
    "history with an event log": (EVENT_LOG, "dish-json"),
    "CSV of a terminal": (DISH_CSV, "dish-csv"),
    "locations": (LOCATIONS, "dish-json"),
    "CSV of a moving terminal": (TRACK_CSV, "dish-csv"),
    "SQLite": (SQLITE, "dish-sqlite"),
    "Parquet": (PARQUET, "parquet"),
    "Parquet of pings": (PINGS_PARQUET, "parquet"),
    "Parquet of maps": (MAPS, "parquet"),
}


def half_a_minute_of_pings():
    """A log of `ping -D` with a reply every half second for half a minute, 40 ms and rising, without a slot."""
    replies = "".join(
        f"[{1.8e9 + i / 2:.6f}] 64 bytes from 192.0.2.1: icmp_seq={i + 1} ttl=60 time={40 + i / 10} ms\n"
        for i in range(60)
    )
    return f"PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data.\n{replies}"

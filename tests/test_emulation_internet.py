"""A program's traffic to the Internet crosses the path and arrives unchanged; unreachable destinations fail at once."""

import hashlib
import json
import subprocess
import sys

import internet
import pytest
from emulation import bentpipe, require_emulation

from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile

RTT_MS = 40.0

#: 192.0.2.10 behind a translator (RFC 6052).
NAT64 = "64:ff9b::c000:20a"

#: What the programs behind the path share.
PRELUDE = """
import errno, hashlib, json, os, socket, struct, sys, time
def connect(address, port, **how):
    begin = time.monotonic()
    try:
        s = socket.create_connection((address, port), timeout=30, **how)
    except OSError as error:
        return None, errno.errorcode.get(error.errno, str(error)), (time.monotonic() - begin) * 1e3
    return s, None, (time.monotonic() - begin) * 1e3
def everything(s):
    whole = b""
    while data := s.recv(1 << 16):
        whole += data
    return whole
def timed(s, data, to=None):
    begin = time.monotonic()
    s.send(data)
    answer = s.recv(1 << 16)
    return answer, (time.monotonic() - begin) * 1e3
def say(**what):
    print(json.dumps(what))
"""


@pytest.fixture(scope="module")
def outside():
    """Return the command prefix that runs a command on a machine with an Internet."""
    require_emulation()
    with internet.machine_with_one() as before:
        yield before


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    file = tmp_path_factory.mktemp("path") / "P.parquet"
    write_profile(preset_profile(f"dumbbell:rate=100mbit,rtt={RTT_MS}ms", 60.0, name="dumbbell"), file)
    return file


@pytest.fixture
def through(outside, path, tmp_path):
    """Return a function that runs code behind the path and returns its output and the Run's record."""

    def run(code, *options):
        program = [sys.executable, "-c", PRELUDE + code]
        # The test's Internet is on the machine's own addresses.
        reach = () if "--no-internet" in options or "--public" in options else ("--allow-local",)
        given = [option for option in options if option != "--public"]
        done = bentpipe("run", path, "-o", tmp_path, "--offset", 0, *reach, *given, "--", *program, before=outside)
        assert done.returncode == 0, done.stderr
        (record,) = tmp_path.rglob("run.json")
        return json.loads(done.stdout), json.loads(record.read_text(encoding="utf-8"))

    return run


def gateway(record):
    return record["summary"]["emulator"]["gateway"]


@pytest.mark.parametrize("address", [internet.V4, internet.V6])
def test_a_download_is_complete_and_its_handshake_crosses_the_path(through, address):
    output, record = through(f"""
s, _, rtt = connect({address!r}, 80)
say(rtt=rtt, hash=hashlib.sha256(everything(s)).hexdigest())
""")
    assert output["hash"] == hashlib.sha256(internet.PAGE).hexdigest()
    assert output["rtt"] >= RTT_MS
    assert gateway(record)["connections"] == 1
    (flow,) = record["experiment"]["flows"]
    assert flow["direction"] == "down"
    assert flow["app"]["transfers"]["sizes_bytes"][0] - len(internet.PAGE) in {
        0,
        1,
    }  # the kernel counts the end of the stream as a byte


def test_an_upload_is_complete_and_its_fin_is_forwarded(through):
    output, _ = through(f"""
data = bytes(range(256)) * 8000
answers = []
for address in {(internet.V4, internet.V6)!r}:
    s, _, _ = connect(address, 81)
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    answers.append(everything(s).decode())
say(answers=answers)
""")
    assert output["answers"] == [hashlib.sha256(bytes(range(256)) * 8000).hexdigest()] * 2


def test_unreachable_destinations_fail_after_one_rtt(through):
    output, record = through(f"""
places = {[(a, 9) for a in (internet.V4, internet.V6)]!r} + {[(internet.NO_ROUTE, 80), (internet.NO_ROUTE_V6, 80)]!r}
places += [({internet.NOBODY!r}, 80)]
say(answers=[connect(*place)[1:] for place in places])
""")
    names, times = zip(*output["answers"], strict=True)
    assert names == ("ECONNREFUSED", "ECONNREFUSED", "ENETUNREACH", "ENETUNREACH", "EHOSTUNREACH")
    assert all(RTT_MS <= ms < 900 for ms in times)  # before a SYN would have been retransmitted (RFC 6298: 1 s)
    counts = gateway(record)
    assert (counts["connections_refused"], counts["connections_unreachable"], counts["connections"]) == (2, 3, 0)


def test_a_reset_is_forwarded(through):
    output, _ = through(f"""
s, _, _ = connect({internet.V4!r}, 82)
s.sendall(b"x")
try:
    answers = everything(s).decode()
except ConnectionResetError:
    answers = "reset"
say(answers=answers)
""")
    assert output["answers"] == "reset"


def test_one_local_port_to_two_servers(through):
    output, _ = through(f"""
def ask(address, port):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("", port))
    s.connect((address, 81))
    return s
one = ask({internet.V4!r}, 0)
two = ask({internet.V4_OTHER!r}, one.getsockname()[1])
answers = []
for s, data in ((one, b"one"), (two, b"two")):
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    answers.append(everything(s).decode())
say(answers=answers, same=one.getsockname() == two.getsockname())
""")
    assert output == {"answers": [hashlib.sha256(data).hexdigest() for data in (b"one", b"two")], "same": True}


def test_datagrams_of_every_size(through):
    output, record = through(f"""
answers = []
for address in {(internet.V4, internet.V6)!r}:
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.connect((address, 7))
    for size in (0, 1, 1400, 4000, 60000):
        data = os.urandom(size)
        answer, rtt = timed(s, data)
        answers.append((answer == data, rtt))
say(answers=answers)
""")
    same, rtts = zip(*output["answers"], strict=True)
    assert all(same)
    assert min(rtts) >= RTT_MS
    assert gateway(record)["udp_flows"] == 2


def test_a_datagram_to_nobody_is_refused(through):
    output, _ = through(f"""
answers = []
for address in {(internet.V4, internet.V6, internet.NO_ROUTE)!r}:
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    s.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR: else UDP is not told of what may pass, as a lack of routes
    s.connect((address, 9))
    s.send(b"x")
    try:
        answers.append(s.recv(1))
    except OSError as error:
        answers.append(errno.errorcode[error.errno])
say(answers=answers)
""")
    assert output["answers"] == ["ECONNREFUSED", "ECONNREFUSED", "ENETUNREACH"]


def test_names_resolve_by_the_machines_resolver(through):
    output, record = through(f"""
names = sorted({{a[4][0] for a in socket.getaddrinfo({internet.NAME!r}, 80, type=socket.SOCK_STREAM)}})
try:
    socket.getaddrinfo("nobody.example", 80)
except socket.gaierror as error:
    unknown = error.errno
line = next(line for line in open("/etc/resolv.conf") if line.startswith("nameserver"))
query = b"\\x12\\x34" + struct.pack("!5H", 0x100, 1, 0, 0, 0) + b"\\4page\\7example\\0" + struct.pack("!HH", 1, 1)
s, _, _ = connect(line.split()[1], 53)
s.sendall(struct.pack("!H", len(query)) + query)
say(names=names, unknown=unknown == socket.EAI_NONAME, over_tcp=socket.inet_ntoa(everything(s)[-4:]))
""")
    assert output == {"names": sorted([internet.V4, internet.V6]), "unknown": True, "over_tcp": internet.V4}
    assert gateway(record)["udp_flows"] >= 1


def test_icmp_echo_to_the_internet(through):
    output, record = through(f"""
answers = []
for address, family, protocol, ask, answer in (
    ({internet.V4!r}, socket.AF_INET, socket.IPPROTO_ICMP, 8, 0),
    ({internet.V6!r}, socket.AF_INET6, socket.IPPROTO_ICMPV6, 128, 129),
):
    s = socket.socket(family, socket.SOCK_DGRAM, protocol)
    s.settimeout(10)
    s.connect((address, 0))
    for sequence in (1, 2):
        data, rtt = timed(s, struct.pack("!BBHHH", ask, 0, 0, 0, sequence) + b"echo")
        answers.append((data[0] == answer, struct.unpack("!H", data[6:8])[0] == sequence, data[8:] == b"echo", rtt))
say(answers=answers)
""")
    assert len(output["answers"]) == 4
    for *right, rtt in output["answers"]:
        assert right == [True] * 3
        assert rtt >= RTT_MS
    assert gateway(record)["echo_flows"] == 2


def test_the_machines_loopback_is_unreachable(through):
    output, record = through(f"""
places = ["127.0.0.1", "169.254.169.254", "100.64.0.7", "::ffff:127.0.0.1", "100.64.0.53"]
say(answers=[connect(address, {internet.SECRET_PORT})[1] for address in places])
""")
    assert output["answers"] == ["ECONNREFUSED", "EHOSTUNREACH", "EHOSTUNREACH", "ECONNREFUSED", "EHOSTUNREACH"]
    assert gateway(record)["dropped_forbidden"] == 3


def test_the_machines_addresses_are_reachable_only_by_policy(through):
    """Services at 192.0.2.10, an address of this machine, may trust local clients."""
    output, record = through(
        f"""
places = [{internet.V4!r}, {internet.V6!r}, "10.0.0.1", "fd00::1"]
answers = [connect(address, 80)[1] for address in places]
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(10)
s.connect(({internet.V4!r}, 7))
s.send(b"x")
try:
    s.recv(10)
except OSError as e:
    answers.append(errno.errorcode[e.errno])
names = [a[4][0] for a in socket.getaddrinfo({internet.NAME!r}, 80, socket.AF_INET, socket.SOCK_STREAM)]
say(answers=answers, names=names)
""",
        "--public",
    )
    refused = ["EHOSTUNREACH", "EACCES", "EHOSTUNREACH", "EACCES", "EHOSTUNREACH"]
    assert output["answers"] == refused
    assert output["names"] == [internet.V4], "the machine's nameserver is asked"
    assert gateway(record)["dropped_by_policy"] == 5
    assert gateway(record)["connections"] == 0
    assert record["valid"] or "late" in record["why_invalid"]


def test_without_internet_only_the_server_is_reachable(outside, path, tmp_path):
    code = f"""
s, error, _ = connect({internet.V4!r}, 80)
try:
    socket.getaddrinfo({internet.NAME!r}, 80)
    name = "known"
except OSError:
    name = "unknown"
say(error=error, name=name, server=connect("server", 8000)[1])
"""
    program = [sys.executable, "-c", PRELUDE + code]
    server = f"{sys.executable} -m http.server --bind :: 8000"
    done = bentpipe("run", path, "--offset", 0, "--no-internet", "--server", server, "--", *program, before=outside)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"error": "EHOSTUNREACH", "name": "unknown", "server": None}
    assert "attempts to reach more than the server (--no-internet)" in done.stderr


def test_nat64_addresses_are_reachable(outside, path, tmp_path):
    """In an IPv6-only network, NAT64 leads to the IPv4 Internet."""
    subprocess.run([*outside, "ip", "-6", "addr", "replace", NAT64, "dev", "lo", "nodad"], check=True)
    code = f"say(answers=[connect(a, 80)[1] for a in ({NAT64!r}, '64:ff9b::7f00:1')])"
    done = bentpipe("run", path, "--allow-local", "--", sys.executable, "-c", PRELUDE + code, before=outside)
    assert json.loads(done.stdout) == {"answers": [None, "EHOSTUNREACH"]}


#: Opens as many connections at once as it is told, and says how many there were.
MANY = f"""
import resource
kept = []
for _ in range({{count}}):
    try:
        kept.append(socket.create_connection(({internet.V4!r}, 81), timeout=0.7))
    except OSError:
        pass
say(kept=len(kept), soft=resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def many(outside, path, tmp_path, count, limit):
    before = [*outside, "sh", "-c", f'ulimit {limit}; exec "$@"', "sh"]
    command = [sys.executable, "-c", PRELUDE + MANY.format(count=count)]
    done = bentpipe("run", path, "-o", tmp_path, "--allow-local", "--", *command, before=before)
    assert done.returncode == 0, done.stderr
    (record,) = tmp_path.rglob("run.json")
    return json.loads(done.stdout), json.loads(record.read_text(encoding="utf-8"))


def test_the_gateway_raises_the_soft_limit_and_the_program_keeps_it(outside, path, tmp_path):
    output, record = many(outside, path, tmp_path, 60, "-Sn 160")
    assert output == {"kept": 60, "soft": 160}
    assert gateway(record)["dropped_limit"] == 0


def test_connections_beyond_the_gateways_limit_make_the_run_invalid(outside, path, tmp_path):
    output, record = many(outside, path, tmp_path, 43, "-n 160")
    assert (output["kept"], gateway(record)["places"]) == (40, 40)
    assert gateway(record)["dropped_limit"] >= 3
    assert gateway(record)["connections_unanswered"] == 0
    assert "the gateway has room for 40 connections" in record["why_invalid"]


def test_the_server_has_no_internet_and_its_connections_fail_at_once(through, tmp_path):
    file = tmp_path / "heard"
    server = f"""
import socket, time
begin = time.monotonic()
try:
    socket.getaddrinfo({internet.NAME!r}, 80)
except socket.gaierror:
    open({str(file)!r}, "w").write(str(time.monotonic() - begin))
socket.create_server(("", 80)).accept()
"""
    script = tmp_path / "server.py"
    script.write_text(server, encoding="utf-8")
    through("say()", "--server", f"exec {sys.executable} {script}")
    assert float(file.read_text(encoding="utf-8")) < 4  # the C library asks again after 5 s (resolv.conf(5))


def test_the_server_and_the_internet_together(through, tmp_path):
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "page").write_bytes(b"the server's")
    output, record = through(
        f"""
import urllib.request
own = urllib.request.urlopen("http://server:80/page", timeout=10).read().decode()
s, _, _ = connect({internet.V4!r}, 80)
say(own=own, outside=len(everything(s)))
""",
        *("--server", f"exec {sys.executable} -m http.server 80 --directory {folder}"),
    )
    assert output == {"own": "the server's", "outside": len(internet.PAGE)}
    assert gateway(record)["connections"] == 1


@pytest.mark.parametrize("controller", ["reno", "cubic"])
def test_the_gateways_controller_is_configurable(through, controller):
    code = f"s, _, _ = connect({internet.V4!r}, 80)\nsay(size=len(everything(s)))"
    output, record = through(code, "--gateway-cc", controller)
    assert output["size"] == len(internet.PAGE)
    assert [flow["controller"] for flow in record["experiment"]["flows"]] == [controller]


def test_an_unknown_controller_is_a_one_line_error(outside, path):
    done = bentpipe("run", path, "--gateway-cc", "no-such", "--", "true", before=outside)
    assert done.returncode == 2
    assert "--gateway-cc no-such: the kernel does not have it" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_internet_of_a_nested_emulation_is_behind_both_paths(outside, path):
    code = f"s, _, rtt = connect({internet.V4!r}, 80)\nsay(rtt=rtt, size=len(everything(s)))"
    inner = [sys.executable, "-m", "bentpipe", "run", str(path), "--", sys.executable, "-c", PRELUDE + code]
    done = bentpipe("run", path, "--allow-local", "--", *inner, before=outside)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["rtt"] >= 2 * RTT_MS
    assert output["size"] == len(internet.PAGE)

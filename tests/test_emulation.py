"""Real programs on this kernel behind a Profile: what they meet, how it ends, and that nothing is left."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from emulation import bell_path, bentpipe, cannot, require_emulation

from bentpipe.emulation import EmulationError, Spec, emulate
from bentpipe.errors import UserError
from bentpipe.profiles import make_profile, preset_profile, write_profile
from bentpipe.report import write_report
from bentpipe.runs import find_runs, kernel, race
from bentpipe.runs.program import run_program
from bentpipe.validation.emulator.faults import processes_with

pytestmark = pytest.mark.usefixtures("emulation")

ECHO = (
    "import socket; s=socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.bind(('::', 7));\n"
    "while True: d, a = s.recvfrom(65535); s.sendto(d, a)"
)
SERVER = f'exec {sys.executable} -c "{ECHO}"'

#: Sends `n` packets of `size` bytes every `gap` seconds to the echo server; writes the round-trip times [ms], null if
#: lost.
CLIENT = """
import json, socket, sys, time
n, gap, size, family = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
s = socket.socket(socket.AF_INET6 if family == 6 else socket.AF_INET, socket.SOCK_DGRAM)
to = socket.getaddrinfo("server", 7, s.family, s.type)[0][4]
s.settimeout(1.0)
rtts = []
for i in range(n):
    begin = time.monotonic()
    s.sendto(i.to_bytes(4, "big") + bytes(size - 4), to)
    try:
        while int.from_bytes(s.recv(65535)[:4], "big") != i:
            pass
        rtts.append((time.monotonic() - begin) * 1e3)
    except TimeoutError:
        rtts.append(None)
    time.sleep(gap)
json.dump(rtts, open(sys.argv[5], "w"))
"""


@pytest.fixture(scope="module")
def emulation():
    require_emulation()


@pytest.fixture(scope="module")
def bell():
    """10 Mbit/s, 30 ms there and back, for a minute."""
    return bell_path()


def echo(profile, tmp_path, *, n=5, gap=0.01, size=100, family=4, **options):
    file = tmp_path / "rtts.json"
    command = [sys.executable, "-c", CLIENT, str(n), str(gap), str(size), str(family), str(file)]
    result = run_program(profile, command, server=SERVER, **options)
    assert result.exit_code == 0
    return json.loads(file.read_text()), result.emulated


def python(code):
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("family", [4, 6])
def test_the_path_is_between_a_program_and_the_server(bell, tmp_path, family):
    rtts, emulated = echo(bell, tmp_path, family=family)
    assert all(rtt >= 30.0 for rtt in rtts)  # never early, however busy the machine
    relay = emulated.done["relay"]
    assert relay["delivered"] >= 2 * len(rtts)
    assert relay["lost"] == relay["refused"] == relay["not_taken"] == 0
    assert emulated.done["device_drops"] == [0, 0]


def test_packets_larger_than_the_mtu_go_in_pieces(bell, tmp_path):
    rtts, emulated = echo(bell, tmp_path, size=3000, mtu=600, n=3)
    assert None not in rtts
    assert emulated.done["relay"]["delivered"] >= 3 * 2 * 6


@pytest.mark.parametrize("family", [4, 6])
def test_fragments_are_of_the_flow_of_their_packet(family, bell, tmp_path):
    _, emulated = echo(bell, tmp_path, size=3000, mtu=1280, n=20, family=family)
    flows = Counter()
    for row in rows(emulated.links()):
        flows[int(row["flow"])] += row["delay_n"]
    # One flow, and before it had grown to be one, those that share a place.
    assert len(flows.keys() - {-1}) == 2
    assert max(flows.items(), key=lambda flow: (flow[0] >= 0, flow[1]))[1] >= 20 * 2 * 3 - 20


def test_the_user_the_files_and_the_directory_stay(bell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = "import os; open('mine', 'w').write(f'{os.getuid()} {os.getcwd()}')"
    assert run_program(bell, python(code)).exit_code == 0
    assert (tmp_path / "mine").read_text() == f"{os.getuid()} {tmp_path}"
    assert (tmp_path / "mine").stat().st_uid == os.getuid()


def test_exit_codes_are_the_programs(bell):
    assert run_program(bell, ["sh", "-c", "exit 7"]).exit_code == 7
    assert run_program(bell, ["sh", "-c", "kill -TERM $$"]).exit_code == 128 + signal.SIGTERM


def test_what_cannot_be_run_is_one_line(bell):
    with pytest.raises(UserError, match="no-such-program: cannot start it: No such file"):
        run_program(bell, ["no-such-program"])
    for _ in range(4):  # beside a server it is process 1 that waits for all children, and may be first
        with pytest.raises(UserError, match="no-such-program: cannot start it: No such file"):
            run_program(bell, ["no-such-program"], server="exec python3 -m http.server 8000")
    with pytest.raises(UserError, match=r"ended before it listened \(exit code 3\)"):
        run_program(bell, ["true"], server="exit 3")
    with pytest.raises(UserError, match=r"ended before it listened \(killed by signal 9\)"):
        run_program(bell, ["true"], server="kill -9 $$")
    spec = Spec(
        workload={"program": {"command": ["true"], "server": "sleep 60", "server_log": None}}, listen_within_s=0.2
    )
    with pytest.raises(UserError, match=r"after 0\.2 s it listens neither on TCP nor on UDP \(--listen-within\)"):
        emulate(bell, spec)
    inside = "exec python3 -c \"import socket, time; s = socket.create_server(('127.0.0.1', 8123)); time.sleep(60)\""
    with pytest.raises(UserError, match=r"after 5 s it listens on the loopback only, .* \(0\.0\.0\.0, ::\)"):
        run_program(bell, ["true"], server=inside, listen_within_s=5.0)
    with pytest.raises(UserError, match="--mtu: 20"):
        run_program(bell, ["true"], mtu=20)
    with pytest.raises(UserError, match="--offset: 60 s"):
        run_program(bell, ["true"], offset_s=60.0)


@pytest.mark.parametrize("kept", [False, True])
def test_a_server_that_fails_is_quoted_and_leaves_no_folder(kept, bell, tmp_path):
    server = "for i in 1 2 3 4 5 6 7; do echo line $i >&2; done; exec no-such-server"
    with pytest.raises(UserError) as caught:
        run_program(bell, ["true"], server=server, out=tmp_path / "new" / "out" if kept else None)
    assert not list(tmp_path.iterdir())
    said = str(caught.value)
    assert "(exit code 127: not found); it said: line 4 / line 5 / line 6 / line 7 / " in said
    assert "no-such-server" in said.split("line 7 / ")[1]
    assert len(said.splitlines()) == 1


def test_ctrl_c_ends_the_program_before_the_server(bell, tmp_path):
    """On a terminal it goes to the foreground group. The program, which finishes then, still has its server."""
    file = tmp_path / "bell.parquet"
    write_profile(bell, file)
    ask = (
        "import signal, socket, sys, time\n"
        "def finish(*_):\n"
        "    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); s.settimeout(5.0)\n"
        "    time.sleep(0.3)\n"
        "    s.sendto(b'bye', (socket.getaddrinfo('server', 7, s.family, s.type)[0][4]))\n"
        "    open('answer', 'wb').write(s.recv(9)); sys.exit(5)\n"
        "signal.signal(signal.SIGINT, finish)\n"
        "open('ready', 'w').close()\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "--server", SERVER, "--", *python(ask)]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        while not (tmp_path / "ready").exists():
            assert child.poll() is None
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGINT)
        assert child.wait(timeout=60) == 5
    assert (tmp_path / "answer").read_bytes() == b"bye"


def test_look_ups_of_names_take_no_places_from_tcp(bell, tmp_path):
    """Three hundred short flows of UDP, then connections: each of these is told apart in both tables."""
    code = (
        "import socket\n"
        "for _ in range(300):\n"
        "    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b'?', ('server', 9)); s.close()\n"
        "for _ in range(3):\n"
        "    s = socket.create_connection(('server', 80)); s.sendall(bytes(100_000)); s.shutdown(1); s.recv(1)\n"
        "    s.close()"
    )
    serve = (
        "import socket; s = socket.create_server(('', 80))\n"
        "while True:\n"
        "    c, _ = s.accept()\n"
        "    while c.recv(65536): pass\n"
        "    c.close()"
    )
    emulated = run_program(bell, python(code), server=f'exec {sys.executable} -c "{serve}"').emulated
    account = emulated.done["experiment"]["flows"]
    assert len(account) == 3
    samples, links = emulated.samples(), emulated.links()
    assert set(samples["flow"]) <= {0, 1, 2}
    per_flow = Counter()
    for row in rows(links):
        if row["direction"] == "up":
            per_flow[int(row["flow"])] += row["delay_n"]
    assert all(per_flow[flow] >= 100_000 / 1500 for flow in range(3))
    assert per_flow[max(per_flow)] == 300  # all short ones together


#: Answers each connection on port 80 with `size` bytes, closes it, and goes on.
GIVE = """
import socket, sys
s = socket.create_server(("", 80))
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(b"HTTP/1.0 200 OK\\r\\nContent-Type: text/plain\\r\\n\\r\\n" + bytes(int(sys.argv[1])))
    c.close()
"""

#: Fetches what `GIVE` has, `n` times one after the other, each time from `port` (0: one of the kernel's choice), and
#: closes, or resets, the connection.
FETCH = """
import socket, struct, sys, time
n, port, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
for _ in range(n):
    s = socket.socket()
    if port:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("", port))
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.connect(("server", 80))
    s.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
    while s.recv(65536):
        pass
    s.close()
    time.sleep(0.1 if port else 0.0)  # the last acknowledgement frees it
"""


def fetch(tmp_path, profile, size, n, *, port=0, how="close"):
    give = tmp_path / "give.py"
    give.write_text(GIVE)
    command = [sys.executable, "-c", FETCH, str(n), str(port), how]
    result = run_program(profile, command, server=f"exec {sys.executable} {give} {size}", out=tmp_path / "out")
    assert result.exit_code == 0
    return result


@pytest.fixture(scope="module")
def fast():
    """50 Mbit/s, 20 ms there and back, for a minute."""
    return preset_profile("dumbbell:rate=50mbit,rtt=20ms", 60.0, start_unix_ns=0, name="fast")


@pytest.mark.parametrize(("n", "size"), [(1, 800_000), (5, 800_000), (5, 1000)])
def test_short_transfers_have_all_their_bytes_and_their_own_time(n, size, fast, tmp_path):
    """A fifth of a second each, or less than a sample: the kernel's last record of each socket has them all."""
    result = fetch(tmp_path, fast, size, n)
    flows = result.emulated.done["flows"]
    assert len(flows) == n
    payload_bps = 50e6 * 1460 / 1500
    for flow, summary in zip(flows, result.run.flows, strict=True):
        assert size <= flow["delivered_bytes"] < size + 1000
        assert summary["direction"] == "down"
        span_s = (flow["stop"] - flow["start"]) * 1e-9
        assert span_s >= 2 * 0.02  # handshake, and question and answer
        # The last flow's last packet may come after the program's end, which is the Run's.
        assert summary["whole_run_bps"] == pytest.approx(flow["delivered_bytes"] * 8 / span_s, rel=0.02)
        assert 0 < summary["goodput_bps"] < payload_bps
        # How long it took is the flow's own time, whatever the run's is; its last packet may come after that.
        assert summary["completed_s"] == pytest.approx(span_s, rel=0.02)
    assert all(first["stop"] <= after["stop"] for first, after in pairwise(flows))
    samples = result.emulated.samples()
    last = {int(flow): int(count) for flow, count in zip(samples["flow"], samples["goodput_bytes"], strict=True)}
    assert last == {i: flow["delivered_bytes"] for i, flow in enumerate(flows)}
    emulator = result.run.record["summary"]["emulator"]
    assert emulator["flows_without_samples"] == emulator["closes_missed"] == 0
    assert emulator["closes_unavailable"] is None


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_port_that_is_used_again_hides_nothing(how, fast, tmp_path):
    emulated = fetch(tmp_path, fast, 100_000, 3, port=4000, how=how).emulated
    (flow,) = emulated.done["flows"]
    assert flow["is_complete"]
    # A socket that resets forgets what it received; the other end knows what was acknowledged, all but a few segments.
    assert (300_000 if how == "close" else 290_000) <= flow["delivered_bytes"] < 301_000
    assert emulated.done["flows_without_samples"] == 0


def test_a_connection_that_is_open_at_the_end_has_not_come_to_its_own(bell):
    code = "import socket, time; s = socket.create_connection(('server', 80)); s.sendall(b'x'); time.sleep(60)"
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    serve = deaf + "import socket, time; s = socket.create_server(('', 80)); c, _ = s.accept(); time.sleep(60)"
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 2.0, start_unix_ns=0, name="short")
    workload = {
        "program": {"command": python(deaf + code), "server": f'exec {sys.executable} -c "{serve}"', "server_log": None}
    }
    emulated = emulate(short, Spec(workload=workload, at_end="stop", offset_s=0.0, grace_s=0.3))
    (flow,) = json.loads(emulated.summary_json())["flows"]
    assert flow["completed_s"] is None


def test_a_connection_that_came_to_nothing_is_no_flow(bell):
    code = "import socket\ntry: socket.create_connection(('server', 81))\nexcept OSError: pass"
    done = run_program(bell, python(code), server=SERVER).emulated.done
    assert not done["flows"]
    assert done["flows_without_samples"] == 0


def test_bytes_that_are_not_known_make_no_goodput(fast, tmp_path):
    emulated = fetch(tmp_path, fast, 1000, 1).emulated
    emulated.done["flows"][0]["is_complete"] = False
    emulated.done["closes_unavailable"] = "no such thing here"
    summary = json.loads(emulated.summary_json())
    assert summary["flows"][0]["goodput_bps"] is None
    assert summary["flows"][0]["whole_run_bps"] is None
    assert not summary["valid"]
    assert "what 1 TCP flows had carried when they closed (no such thing here)" in summary["why_invalid"]


def test_a_run_says_what_the_hypervisor_took(bell):
    emulated = run_program(bell, ["true"]).emulated
    share = json.loads(emulated.summary_json())["emulator"]["stolen_share"]
    assert share is None or 0.0 <= share <= 1.0
    emulated.done["relay"] |= {"delivered": 1000, "lateness_p99_ms": 2.0}
    emulated.stolen_share = 0.134
    assert emulated.why_invalid.endswith("the hypervisor took 13% of the processors' time")
    emulated.stolen_share = 0.0
    assert "hypervisor" not in emulated.why_invalid


def test_an_idle_relay_sleeps(bell):
    """Its processor time, as the program sees it: process 1 of its namespace is the emulator."""
    code = (
        "import time; time.sleep(2)\n"
        "from pathlib import Path\n"
        "for task in Path('/proc/1/task').iterdir():\n"
        "    if (task / 'comm').read_text().strip() == 'relay':\n"
        "        user, system = (task / 'stat').read_text().rsplit(')', 1)[1].split()[11:13]\n"
        "        exit(min(int(user) + int(system), 200))\n"
        "exit(201)"  # no such thread: nothing was measured
    )
    ticks = run_program(bell, python(code)).exit_code
    assert ticks < 0.1 * 2 * os.sysconf("SC_CLK_TCK")  # asleep nine tenths of the time, however slow the machine


def test_a_run_says_how_late_packets_may_have_come_in(bell, tmp_path):
    relay = echo(bell, tmp_path)[1].done["relay"]
    assert relay["waking_p99_ms"] > 0.0  # packets were due, so alarms rang
    assert relay["entrance_wait_p99_ms"] is None or relay["entrance_wait_p99_ms"] > 0.0


def test_the_folder_for_temporary_files_is_the_programs_too(bell, tmp_path):
    before = set(Path(tempfile.gettempdir()).glob("bentpipe-*"))
    assert run_program(bell, python(f"open({str(tmp_path / 'here')!r}, 'w').close()")).exit_code == 0
    assert (tmp_path / "here").exists()
    assert set(Path(tempfile.gettempdir()).glob("bentpipe-*")) <= before


def test_a_program_that_outlives_the_profile(tmp_path):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    for at_end, loops in (("loop", True), ("hold", False)):
        rtts, emulated = echo(short, tmp_path, n=40, gap=0.02, at_end=at_end, offset_s=0.0)
        assert all(rtt is not None and rtt >= 30.0 for rtt in rtts)
        assert (emulated.done["relay"]["loops"] >= 1) == loops
    stopped = run_program(short, ["sleep", "60"], at_end="stop", offset_s=0.0)
    assert stopped.exit_code == 124
    assert stopped.emulated.done["stopped"] == "profile_ended"


@pytest.mark.parametrize("segment", [100, 536, 1200, 1400])
def test_bursts_of_small_segments_are_taken_apart(segment, bell, tmp_path):
    """QUIC sends so: one call, many datagrams of less than the MTU (UDP_SEGMENT = 103)."""
    count = min(60_000 // segment, 60)
    code = (
        "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(socket.SOL_UDP, 103, "
        f"{segment}); s.sendto(bytes({segment} * {count}), ('server', 7)); import time; time.sleep(0.3)"
    )
    emulated = run_program(bell, python(code), server=SERVER).emulated
    relay = emulated.done["relay"]
    up = [row for row in rows(emulated.links()) if row["direction"] == "up" and row["flow"] == -1]
    assert relay["not_forwarded"] == 0
    assert sum(row["delay_n"] for row in up) + max(row["drops_queue"] for row in up) >= count


def test_every_packet_is_accounted_for_when_the_profile_begins_anew(tmp_path):
    """A queue longer than the Profile: several passages have packets inside at once."""
    slow = preset_profile("dumbbell:rate=1mbit,rtt=600ms,queue=20bdp", 1.0, start_unix_ns=0, name="slow")
    code = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(300): s.sendto(bytes(1200), ('server', 9)); time.sleep(0.001)\n"
        "time.sleep(4.5)"
    )
    relay = run_program(slow, python(code), at_end="loop", offset_s=0.0).emulated.done["relay"]
    assert relay["loops"] >= 3
    # Each datagram, and what comes back: nobody listens on port 9, and a kernel says so at most once for each, and
    # sends some reports of its own groups. None counts twice.
    everything = sum(relay[fate] for fate in ("delivered", "lost", "held", "refused", "not_taken"))
    assert 300 <= everything <= 2 * 300 + 20
    assert relay["held"] == 0


def test_a_path_that_is_taken_away_ends_the_program(bell):
    """The program may do what it likes to its network; it must not wait for ever then."""
    if os.getuid() != 0 or shutil.which("ip") is None:
        cannot("needs root and `ip`")
    began = time.monotonic()
    with pytest.raises(EmulationError, match=r"TUN device|veth pair"):
        run_program(bell, ["sh", "-c", "ip link del bentpipe; exec sleep 60"])
    assert time.monotonic() - began < 30.0


def test_sigterm_to_the_whole_group_lets_the_program_end_and_keeps_the_run(bell, tmp_path):
    file, out = tmp_path / "bell.parquet", tmp_path / "out"
    write_profile(bell, file)
    polite = "trap 'exit 3' TERM; touch ready; while :; do sleep 0.02; done"
    command = [sys.executable, "-m", "bentpipe", "run", str(file), "-o", str(out), "--", "sh", "-c", polite]
    with subprocess.Popen(command, cwd=tmp_path, start_new_session=True, stderr=subprocess.DEVNULL) as child:
        while not (tmp_path / "ready").exists():
            assert child.poll() is None
            time.sleep(0.01)
        os.killpg(child.pid, signal.SIGTERM)
        assert child.wait(timeout=60) == 3
    (run,) = find_runs(out)
    assert run.record["summary"]["emulator"]["relay"] is not None


def test_a_program_that_ignores_being_asked_is_ended(bell):
    short = preset_profile("dumbbell:rate=10mbit,rtt=30ms", 1.0, start_unix_ns=0, name="short")
    stubborn = python("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)")
    workload = {"program": {"command": stubborn, "server": None, "server_log": None}}
    emulated = emulate(short, Spec(workload=workload, at_end="stop", offset_s=0.0, grace_s=0.3))
    assert emulated.exit_code == 124
    assert emulated.done["ending"] is None


def test_what_a_program_leaves_behind_ends_with_it(bell, tmp_path):
    mark = f"bentpipe-test-{os.getpid()}-{random.random()}"
    started = tmp_path / "started"
    code = f"import os, time; open({str(started)!r}, 'w').write(str(os.getsid(0) == os.getpid())); time.sleep(60)"
    daemon = f'(setsid {sys.executable} -c "{code}" {mark} &); until [ -s {started} ]; do sleep 0.02; done'
    assert run_program(bell, ["sh", "-c", daemon]).exit_code == 0
    assert started.read_text() == "True"  # it was there, in a session of its own
    assert not processes_with(mark)


def test_two_emulations_do_not_meet(bell, tmp_path):
    """The same addresses twice at once; each client hears its own server, over its own path."""
    slow = preset_profile("dumbbell:rate=10mbit,rtt=90ms", 60.0, start_unix_ns=0, name="slow")
    file = tmp_path / "slow.parquet"
    write_profile(slow, file)
    out = tmp_path / "other.json"
    command = ["-m", "bentpipe", "run", str(file), "--server", SERVER, "--", sys.executable, "-c", CLIENT]
    with subprocess.Popen(
        [sys.executable, *command, "20", "0.01", "100", "4", str(out)], stderr=subprocess.PIPE, text=True
    ) as other:
        rtts, _ = echo(bell, tmp_path, n=20)
        _, said = other.communicate()
    assert other.returncode == 0, said
    assert min(rtts) < 80.0
    assert min(json.loads(out.read_text())) >= 90.0


def test_emulations_nest_and_their_paths_add_up(bell, tmp_path):
    """The inner emulation has addresses of its own."""
    file = tmp_path / "bell.parquet"
    write_profile(bell, file)
    out = tmp_path / "inner.json"
    inner = [sys.executable, "-m", "bentpipe", "run", str(file), "--server", SERVER, "--"]
    client = [sys.executable, "-c", CLIENT, "3", "0.01", "100", "4", str(out)]
    assert run_program(bell, [*inner, *client]).exit_code == 0
    assert min(json.loads(out.read_text())) >= 30.0


def test_loss_is_the_profiles(tmp_path):
    lossy = preset_profile("dumbbell:rate=10mbit,rtt=30ms,loss=0.5", 60.0, start_unix_ns=0, name="lossy")
    code = (
        "import socket, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for i in range(1000): s.sendto(b'x' * 100, ('server', 7)); time.sleep(0.0005)\n"
        "time.sleep(0.2)"
    )
    emulated = run_program(lossy, python(code), server="exec sleep 60 & exec " + SERVER.removeprefix("exec ")).emulated
    up = [row for row in rows(emulated.links()) if row["direction"] == "up" and row["flow"] == -1]
    lost = max(row["drops_loss"] for row in up)
    assert 400 < lost < 600  # 1000 packets, half lost: 6 standard deviations are 95


@pytest.mark.filterwarnings("ignore::bentpipe.runs.KernelWarning")  # what a busy machine makes of it
def test_a_race_on_the_kernel_is_a_run_of_the_same_shape(bell, tmp_path):
    out = tmp_path / "out"
    options = {"duration_s": 4.0, "phase_s": 0.0}
    (real,) = race([bell], ["cubic"], on_kernel=True, out=out, **options).runs
    (simulated,) = race([bell], ["cubic"], out=tmp_path / "simulated", **options).runs
    with pytest.raises(UserError, match="holds emulated Runs"):
        race([bell], ["cubic"], out=out, **options)
    assert real.record["world"] == "emulated"
    assert simulated.record["world"] == "simulated"
    for table in ("samples", "links", "events"):
        assert getattr(real, table)().schema == getattr(simulated, table)().schema
    assert set(real.record["summary"]["flows"][0]) == set(simulated.record["summary"]["flows"][0])
    flow = real.flows[0]
    assert flow["controller"] == "cubic"
    assert 0 < flow["goodput_bps"] < 1e7
    if real.record["valid"]:  # a busy machine's Run is not, and says so
        assert flow["goodput_bps"] == pytest.approx(simulated.flows[0]["goodput_bps"], rel=0.15)
    else:
        assert real.record["why_invalid"]
    assert race([bell], ["cubic"], on_kernel=True, out=out, **options).resumed == int(real.record["valid"])
    page = write_report(out).read_text()
    assert "real kernel in real time" in page
    assert "bit for bit" not in page


@pytest.mark.parametrize("after_s", [0.0, 0.5, 4.0])
def test_ctrl_c_ends_a_race_whether_in_the_trial_before_it_or_in_a_run(after_s, bell, tmp_path):
    file, out = tmp_path / "bell.parquet", tmp_path / "out"
    write_profile(bell, file)
    asked = ["race", file, "--cc", "reno,cubic", "--on-kernel", "--duration", 30, "-o", out]
    command = [sys.executable, "-m", "bentpipe", *map(str, asked)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True) as child:
        while not (out / "race.json").exists():
            assert child.poll() is None
            time.sleep(0.01)
        time.sleep(after_s)
        os.killpg(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    lines = [line for line in said.splitlines() if not line.startswith("warning: this machine does not keep time")]
    assert lines == [f"error: interrupted: 0 of 2 Runs are kept in {out}; the same command does the rest"]


def test_a_kernel_that_lacks_a_controller(bell, tmp_path, monkeypatch):
    available = tmp_path / "available"
    available.write_text("reno cubic\n")
    monkeypatch.setattr(kernel, "AVAILABLE", available)
    for lacking, then in (
        ("bbr", r"load its module as root \(`modprobe tcp_bbr`\), or leave it out"),
        ("bbr3", "Linux ships none of that name: race it in the simulator"),
    ):
        with pytest.raises(UserError, match=rf"this kernel has no {lacking} \(it has reno, cubic\); {then}"):
            race([bell], ["reno", "cubic", lacking], on_kernel=True, out=tmp_path / "out", duration_s=1.0)
    assert not (tmp_path / "out").exists()


def test_a_computed_path_keeps_the_clock(tmp_path):
    """Without --offset the Profile is where the machine's clock is: its second of the minute."""
    path = make_profile("melbourne", "sydney", start_unix_ns=1_778_403_600_000_000_000, duration_s=125.0)
    before = time.time() % 60
    emulated = run_program(path, ["true"]).emulated
    elapsed = (emulated.started["offset_ns"] / 1e9 - before) % 60
    assert elapsed < 30  # the start-up; and at the moment of the start itself:
    started = emulated.started
    apart = (started["offset_ns"] + path.start_unix_ns - started["clock_unix_ns"]) % 60_000_000_000
    assert min(apart, 60_000_000_000 - apart) < 1_000_000


def rows(columns):
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def test_an_mtu_below_ipv6s_is_said_to_leave_ipv4_only(bell, tmp_path):
    file = tmp_path / "bell.parquet"
    write_profile(bell, file)
    done = bentpipe("run", file, "--mtu", 1279, "--", "true")
    assert done.returncode == 0
    assert "--mtu 1279: below the 1280 bytes that IPv6 wants, so inside there is IPv4 only" in done.stderr
    assert "IPv6" not in bentpipe("run", file, "--mtu", 1280, "--", "true").stderr


def test_a_forgotten_profile_is_said_to_be_missing():
    done = bentpipe("run", "--", "curl", "http://server/")
    assert done.returncode == 2
    assert "curl: no such file; wanted a Profile" in done.stderr


def test_the_record_names_the_log_beside_it(bell, tmp_path):
    server = f"exec {sys.executable} -m http.server 80"
    result = run_program(bell, ["true"], server=server, out=tmp_path / "out")
    record = result.run.record["program"]
    assert (result.run.path / record["server_log"]).exists()
    assert [run.path for run in find_runs(str(tmp_path / "out"))] == [result.run.path]

"""The largest RTO of a bbr3-leo socket in an outage: lowered from a time-out until the path is back, no longer."""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import textwrap
import threading
import time
import warnings

import pytest
from emulation import require_emulation
from loaded_controllers import turn

from bentpipe.errors import UserError
from bentpipe.execution.program import run_program
from bentpipe.kernel import controllers
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.outage import with_outage

HOSTS_MS = 120_000
RETRIES = 8
"""`tcp_retries2` of the sender: the kernel gives up 102.2 s after the first retransmission, with RTOs of 1 s 7.4 s."""
GIVES_UP_MS = 102_200
BEGINS_S, LASTS_S, SENDS_S = 3.5, 8.0, 15.5

SENDER = f"""
import json, socket, sys, threading, time
open("/proc/sys/net/ipv4/tcp_retries2", "w").write("{RETRIES}")
server = socket.create_server(("", 5201))
stays, closes, changes = [server.accept()[0] for _ in range(3)]
for each in (stays, closes, changes):
    each.setsockopt(6, socket.TCP_CONGESTION, b"bbr3_leo")
    each.setblocking(False)
begin, sent, polls, error, changed = time.monotonic(), [0, 0, 0], [], None, []
while (now := time.monotonic() - begin) < {SENDS_S}:
    for n, each in enumerate((stays, closes, changes)):
        try:
            sent[n] += each.send(bytes(20000)) if each else 0
        except BlockingIOError:
            pass
        except OSError as e:
            error = str(e)
    if error:
        break
    polls.append([now, stays.getsockopt(6, 44), stays.getsockopt(6, socket.TCP_INFO, 104)[2], stays.getsockopt(6, 18)])
    if not changed and changes.getsockopt(6, 44) < {HOSTS_MS}:
        for name in (b"cubic", b"bbr3_leo"):
            changes.setsockopt(6, socket.TCP_CONGESTION, name)
            changed.append(changes.getsockopt(6, 44))
    if closes and closes.getsockopt(6, 44) < {HOSTS_MS} and closes.getsockopt(6, socket.TCP_INFO, 104)[2] >= 3:
        closes.close()
        closes = None
    time.sleep(0.005)
stays.setsockopt(6, socket.TCP_CONGESTION, b"cubic")
result = {{"sent": sent, "polls": polls, "error": error, "closed": closes is None, "changed": changed}}
result["last"] = stays.getsockopt(6, 44)
json.dump(result, open(sys.argv[1], "w"))
stays.close()
changes.close()
"""

RECEIVER = """
import json, socket, sys, threading
counts = [0, 0, 0]
def read(n, connection):
    try:
        while part := connection.recv(1 << 18):
            counts[n] += len(part)
    except OSError as error:
        counts[n] = str(error)
threads = [threading.Thread(target=read, args=(n, socket.create_connection(("server", 5201)))) for n in range(3)]
for each in threads:
    each.start()
for each in threads:
    each.join()
json.dump(counts, open(sys.argv[1], "w"))
"""


def path(lasts_s):
    """A path with two reconfigurations that a flow can see, and an outage."""
    kept = {"queue": "keep", "in_flight": "deliver", "order": "clamp"}
    unknown = dict.fromkeys(("from_satellite", "to_satellite", "from_gateway", "to_gateway"))
    side = Side(delay_s=Points.of([0.0], [0.02]), capacity_bps=Points.of([0.0], [2e7]), queue={"bytes": 100_000})
    profile = single_hop_profile(
        name="reconfigurations",
        hop="satellite",
        start_unix_ns=0,
        duration_s=BEGINS_S + lasts_s + 20.0,
        basis="one_way",
        provenance=Provenance("preset", "made for a test"),
        up=side,
        down=side,
        events=[
            {
                "at_ns": round(at_s * 1e9),
                "interruption_ns": 90_000_000,
                "hop": 0,
                "kind": {"handover": {**unknown, "to_hop": 0}},
                "up": kept,
                "down": kept,
            }
            for at_s in (1.5, 2.7)
        ],
    )
    return with_outage(profile, BEGINS_S, lasts_s)


@pytest.fixture
def loaded():
    require_emulation()
    with turn():
        controllers.load_controller("bbr3-leo")
        yield


def unload_in_outage(stop):
    """Unload the controller once a connection has had two time-outs."""
    while not stop.is_set():
        if any(each.timeouts >= 2 for each in controllers.controller_sockets("bbr3-leo")):
            with contextlib.suppress(UserError):
                controllers.unload_controller("bbr3-leo")
            return
        time.sleep(0.05)


@pytest.mark.usefixtures("loaded")
def test_a_connection_lives_as_long_as_without_and_has_the_hosts_value_after_an_outage(tmp_path):
    files = [tmp_path / "sender.json", tmp_path / "receiver.json"]
    sender, receiver = (
        [sys.executable, "-c", textwrap.dedent(code), str(file)]
        for code, file in zip((SENDER, RECEIVER), files, strict=True)
    )
    stop = threading.Event()
    unloading = threading.Thread(target=unload_in_outage, args=(stop,))
    unloading.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            done = run_program(path(LASTS_S), receiver, offset_s=0.0, server="exec " + shlex.join(sender))
    finally:
        stop.set()
        unloading.join()
    assert done.emulated.exit_code == 0
    sent, received = (json.loads(file.read_text()) for file in files)
    assert sent["error"] is None
    polls = sent["polls"]
    timeouts = [ms for *_, ms in polls]
    first = next((n for n, (_, ms, *_) in enumerate(polls) if ms < HOSTS_MS), None)
    assert first is not None, "no outage was noticed"
    assert all(ms == HOSTS_MS for _, ms, *_ in polls[:first])
    lowered = [ms for _, ms, *_ in polls if ms < HOSTS_MS]
    assert set(lowered) == {1000}
    assert timeouts[0] == timeouts[-1] == 0
    assert set(timeouts) == {0, GIVES_UP_MS}  # so that the kernel does not give up after 7.4 s
    assert max(retransmits for _, _, retransmits, _ in polls) >= 6  # a second apart
    assert polls[-1][1] == HOSTS_MS  # though the program is unloaded
    assert "bbr3-leo" not in {each.name for each in controllers.loaded_controllers() if each.state == "loaded"}
    assert sent["last"] == HOSTS_MS  # under another controller
    assert sent["closed"]
    assert sent["changed"] == [1000, HOSTS_MS]  # another controller keeps the lowered value; this one takes it back
    assert received == sent["sent"]  # a connection that was closed in the outage, too

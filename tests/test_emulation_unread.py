"""Datagrams that cross the path and find their program's buffer full: no loss of the path, and said."""

import json
import sys

import pytest
from emulation import bentpipe, dumbbell_file, require_emulation

SENDER = """
import socket, time
to = socket.create_connection(("server", 8717), timeout=5)
udp = socket.socket(socket.{family}, socket.SOCK_DGRAM)
address = socket.getaddrinfo("server", 8718, socket.{family}, socket.SOCK_DGRAM)[0][4]
for _ in range(600):
    udp.sendto(bytes(1000), address)
    time.sleep(0.001)  # within the path's 10 Mbit/s
to.recv(1)
"""

#: It reads none of its datagrams, and answers once they must have arrived.
RECEIVER = """
import socket, time
udp = socket.socket(socket.{family}, socket.SOCK_DGRAM)
udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20000)
udp.bind(("", 8718))
tcp = socket.create_server(("::", 8717), family=socket.AF_INET6, dualstack_ipv6=True)
peer, _ = tcp.accept()
time.sleep(2)
peer.send(b"x")
"""


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6"])
def test_datagrams_that_a_program_does_not_read_are_told(tmp_path, family):
    require_emulation()
    (tmp_path / "receiver.py").write_text(RECEIVER.format(family=family))
    done = bentpipe(
        *["run", dumbbell_file(tmp_path), "-o", tmp_path / "out"],
        *["--server", f"exec {sys.executable} {tmp_path / 'receiver.py'}"],
        *["--", sys.executable, "-c", SENDER.format(family=family)],
    )
    assert done.returncode == 0, done.stderr
    (record,) = (tmp_path / "out").glob("**/run.json")
    emulator = json.loads(record.read_text())["summary"]["emulator"]
    client, server = emulator["datagrams_unread"]
    assert client == 0
    assert 500 < server < 600
    assert f"{server} datagrams crossed the path and were dropped at the server" in done.stderr

"""A program's packets in flow queues."""

import sys

from emulation import bentpipe, dumbbell_file

SENT = 24
SERVER = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 8714))
seen = []
while len(seen) < int(sys.argv[1]):
    data, client = s.recvfrom(2000)
    seen.append(int(data[:4]))
s.sendto(" ".join(map(str, seen)).encode(), client)
"""
CLIENT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect((socket.gethostbyname("server"), 8714))
for i in range(int(sys.argv[1])):
    s.send(f"{i:04d}".encode() + bytes(500))
s.settimeout(10)
open(sys.argv[2], "wb").write(s.recv(2000))
"""


def test_a_udp_flow_keeps_its_order_behind_fq_codel(tmp_path):
    """The first packets have no flow number yet, but the queue puts them into the same flow as the others."""
    server, client, seen = tmp_path / "server.py", tmp_path / "client.py", tmp_path / "seen"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    serve = f"{sys.executable} {server} {SENT}"
    program = (sys.executable, client, SENT, seen)
    command = ("run", dumbbell_file(tmp_path), "--aqm", "fq_codel", "--server", serve, "--", *program)
    done = bentpipe(*command)
    assert done.returncode == 0, done.stderr
    assert list(map(int, seen.read_text().split())) == list(range(SENT))

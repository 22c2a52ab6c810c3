"""A program's packets in queues that tell flows apart."""

import sys

from emulation import bell_file, bentpipe

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


def test_a_flow_of_datagrams_keeps_its_order_behind_fq_codel(tmp_path):
    """Its first packets are of no flow that has a number yet; to the queue they are of the same one as the others."""
    server, client, seen = tmp_path / "server.py", tmp_path / "client.py", tmp_path / "seen"
    server.write_text(SERVER)
    client.write_text(CLIENT)
    serve = f"{sys.executable} {server} {SENT}"
    program = (sys.executable, client, SENT, seen)
    command = ("run", bell_file(tmp_path), "--aqm", "fq_codel", "--server", serve, "--", *program)
    done = bentpipe(*command)
    assert done.returncode == 0, done.stderr
    assert list(map(int, seen.read_text().split())) == list(range(SENT))

"""Time of TCP echoes to the server node: ``echo_times.py client|server``. No package is needed.

The client writes ``echoes.csv`` (send time, RTT) into the folder of the result, which `bentpipe read` takes.
"""

import csv
import os
import socket
import sys
import time
from pathlib import Path

COUNT, EVERY_S = 100, 0.1


def serve(port):
    """Return what comes, until SIGTERM."""
    with socket.create_server(("", port)) as listener:
        while True:
            connection, _ = listener.accept()
            with connection:
                while data := connection.recv(1024):
                    connection.sendall(data)


def measure(host, port, file):
    """Send a byte a tenth of a second; write when, and how long its echo took."""
    writer = csv.writer(file)
    writer.writerow(["unix_s", "rtt_ms"])
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(int(os.environ.get("COUNT", COUNT))):
            sent_s = time.time()
            began_s = time.monotonic()
            connection.sendall(b"x")
            connection.recv(1)
            writer.writerow([f"{sent_s:.6f}", f"{(time.monotonic() - began_s) * 1e3:.3f}"])
            time.sleep(EVERY_S)


def main():
    """Run one end."""
    port = int(os.environ["BENTPIPE_PORT_SERVER"])
    if sys.argv[1:] == ["server"]:
        serve(port)
    path = Path(os.environ["BENTPIPE_OUTPUT"], "echoes.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        measure(os.environ["BENTPIPE_SERVER"], port, file)


if __name__ == "__main__":
    main()

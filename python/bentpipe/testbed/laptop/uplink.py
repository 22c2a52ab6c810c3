"""``python -m bentpipe.testbed.laptop.uplink SOCKET HOME``: the far end of a home's path, joined to the internet.

It gives its network namespace to the internet's process, which puts one end of a veth pair into it. What comes from the
home for `PATH_SERVER` is sent on to the server node, by the kernel's address translation: TCP stays end to end.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

from bentpipe.testbed.laptop.handover import give_network
from bentpipe.testbed.laptop.plan import INTERNET, PATH_INTERFACE, PATH_SERVER

RULES = f"""
table ip laptop {{
  chain before {{
    type nat hook prerouting priority dstnat;
    iifname "{PATH_INTERFACE}" ip daddr {PATH_SERVER} dnat to {INTERNET}
  }}
  chain after {{
    type nat hook postrouting priority srcnat;
    oifname "up0" masquerade
  }}
}}
"""


def main() -> int:
    """Join, then wait for ever: the path lives as long as this program."""
    path, home = Path(sys.argv[1]), sys.argv[2]
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    subprocess.run(["nft", "-f", "-"], input=RULES.encode(), check=True)
    answer = give_network(path, home)
    if answer != "ok":
        print(f"bentpipe: uplink of {home}: {answer}", file=sys.stderr)
        return 1
    with socket.create_server(("", 9)):  # the emulator waits for a server that listens
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    sys.exit(main())

"""Controllers loaded into the kernel against the kernel's own: processor time per gigabyte over a veth pair, same run.

Both ends are on this machine, in two network namespaces; iperf3 makes the traffic, without a rate limit. Rounds are
interleaved, each with another order; a controller's cost is the machine's busy time during a transfer. A window's peer
is the kernel's CUBIC, a paced one's the kernel's BBR (version 1): pacing at these rates costs more than any controller.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bentpipe.kernel import controllers
from bentpipe.validation.emulator.calm import Ticks

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 15
GIGABYTES = 4
PEERS = {"hybla": "cubic", "cubic-leo": "cubic", "satcp": "cubic"}
"""Peer of each controller; the others': `bbr`."""
PACED = "bbr"


@contextmanager
def namespaces() -> Iterator[tuple[str, str]]:
    """Two network namespaces with a veth pair between them; the names have this process's id."""
    near, far = (f"bpk{end}{os.getpid()}" for end in "cs")
    try:
        for name in (near, far):
            subprocess.run(["ip", "netns", "add", name], check=True)
        subprocess.run(
            ["ip", "link", "add", "v0", "netns", near, "type", "veth", "peer", "name", "v1", "netns", far], check=True
        )
        for name, device, address in ((near, "v0", "198.18.0.1/24"), (far, "v1", "198.18.0.2/24")):
            subprocess.run(["ip", "-n", name, "addr", "add", address, "dev", device], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", device, "up"], check=True)
            # A socket that begins under a paced default stays paced.
            subprocess.run(
                ["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_congestion_control=reno"], check=True
            )
        yield near, far
    finally:
        for name in (near, far):
            subprocess.run(["ip", "netns", "del", name], check=False)


def busy_s_per_gigabyte(near: str, far: str, controller: str) -> float:
    """Transfer `GIGABYTES`; return the machine's busy time per gigabyte [s]."""
    server = subprocess.Popen(
        ["ip", "netns", "exec", far, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(0.3)
    command = ["iperf3", "-c", "198.18.0.2", "-C", controllers.kernel_name(controller), "-n", f"{GIGABYTES}G", "-J"]
    ticks, begin_s = Ticks(), time.monotonic()
    client = subprocess.run(["ip", "netns", "exec", near, *command], check=True, capture_output=True)
    busy = ticks.busy() * (time.monotonic() - begin_s) * len(os.sched_getaffinity(0))
    server.wait(10)
    sent = json.loads(client.stdout)["end"]["sum_sent"]["bytes"]
    return busy / (sent / 1e9)


def main() -> dict[str, float]:
    if os.geteuid() != 0 or shutil.which("iperf3") is None or not controllers.available():
        print("kernel_controllers: skipped, it needs root, iperf3 and `make kernel`")
        return {}
    names = controllers.available()
    for name in names:
        controllers.load_controller(name)
    costs: dict[str, list[float]] = {}
    try:
        with namespaces() as (near, far):
            for number in range(ROUNDS):
                order = [*names, "cubic", PACED]
                random.Random(number).shuffle(order)
                for name in order:
                    costs.setdefault(name, []).append(busy_s_per_gigabyte(near, far, name))
                print(f"  round {number + 1} of {ROUNDS}", file=sys.stderr)
    finally:
        for name in names:
            controllers.unload_controller(name)
    ratios = {}
    for name in names:
        peer = PEERS.get(name, PACED)
        each = [other / own for own, other in zip(costs[name], costs[peer], strict=True)]
        low, high = sorted(each)[round(0.25 * (ROUNDS - 1))], sorted(each)[round(0.75 * (ROUNDS - 1))]
        ratios[f"kernel {name} against {peer}"] = statistics.median(each)
        cost = statistics.median(costs[name])
        middle = f"{statistics.median(each):.3f} ({low:.3f} to {high:.3f} in half of the rounds)"
        print(f"{name}: {cost * 1e3:.0f} ms per GB; {peer} costs {middle} of that")
    return ratios


if __name__ == "__main__":
    main()

"""A constellation as one network against ns-3: 1,584 satellites, 100 pairs, 10 Mbit/s of CUBIC each.

Both simulate the same routes, delays, capacities and queues, those at the start. ns-3 has every satellite as a node
with forwarding tables, as Hypatia has it, and every link that some path uses. CPU time of the simulation alone, without
set-up, interleaved, best of three each.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

from bentpipe import _native
from bentpipe.experiments.apps import parse_app
from bentpipe.experiments.experiment import NS_PER_S, for_scheme
from bentpipe.profiles.networks.make import Pair, make_network
from bentpipe.profiles.networks.show import route_at, route_nodes
from bentpipe.runs.work import Base
from bentpipe.scenarios.sites import Place

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "out" / "bench"
NAME = "constellation_network_vs_ns3"
PAIRS = 100
SECONDS = 2
ROUNDS = 3
MODULES = ["core", "network", "internet", "point-to-point", "applications", "traffic-control"]


def pairs() -> list[Pair]:
    """Return pairs of places between 50° S and 50° N, the same each time."""
    chance = random.Random(5)

    def place(name: str) -> tuple[str, Place]:
        return name, Place(name, chance.uniform(-50, 50), chance.uniform(-180, 180))

    return [Pair(place(f"t{i}"), place(f"g{i}")) for i in range(PAIRS)]


def build_ns3() -> Path | None:
    """Build the peer; None: ns-3 (Debian: libns3-dev) or a C++ compiler is missing."""
    compiler = shutil.which("g++")
    if compiler is None:
        return None
    OUT.mkdir(parents=True, exist_ok=True)
    program, source = OUT / "ns3_network", ROOT / "benchmarks" / "peers" / "ns3_network.cc"
    libraries = [f"-lns3-{module}" for module in MODULES]
    command = [compiler, "-O2", "-std=c++17", str(source), "-o", str(program), *libraries]
    return program if subprocess.run(command, capture_output=True, check=False).returncode == 0 else None


def write_input(network: _native.Network, file: Path) -> None:
    """Write nodes, links and routes at the start for ns-3: all satellites, whether they carry traffic or not."""
    metadata = json.loads(network.metadata_json())
    names, links = metadata["nodes"], metadata["hops"]
    table = network.table()
    first: dict[tuple[int, int], float] = {}
    for hop, kind, value in zip(table["hop"].tolist(), table["kind"].tolist(), table["value"].tolist(), strict=True):
        first.setdefault((hop, kind), value)
    idle = 1584 - sum(name.startswith("sat:") for name in names)
    lines = [f"nodes {len(names) + idle}"]
    used = {path["hops"][hop]["link"] for path in metadata["paths"] for hop in route_at(path, 0.0)}
    for number in sorted(used):
        a, b = links[number]["ends"]
        queue = links[number]["up_queue"]["limit"]["bytes"]
        lines.append(f"link {a} {b} {first[number, 0] * 1e9:.0f} {first[number, 1]:.0f} {queue}")
    routes = [route_nodes(path, links, route_at(path, 0.0)) for path in metadata["paths"]]
    lines += ["path " + " ".join(map(str, route)) for route in routes]
    file.write_text("\n".join(lines) + "\n", encoding="ascii")


def simulated(network: _native.Network, seconds: float) -> tuple[float, int]:
    """Return CPU seconds of our simulation, and packets times links."""
    bases = [
        Base(name, "N", path, "", network, "")
        for name, path in zip(network.path_names, network.profiles(), strict=True)
    ]
    experiment = for_scheme(
        "cubic",
        "down",
        [base.reference for base in bases],
        duration_ns=round(seconds * NS_PER_S),
        seed=0,
        app=parse_app("paced:10mbit"),
        host_timing="ideal",
    )
    before = time.process_time()
    data = _native.simulate(experiment.to_json(), [], network=network)
    cpu_s = time.process_time() - before
    links = data.links()
    return cpu_s, int(links["delay_n"][links["flow"] == -1].sum())  # -1: all flows


def main() -> dict[str, float]:
    """Print and return the ratios."""
    ns3 = build_ns3()
    if ns3 is None:
        print(f"{NAME}: skipped, ns-3 is not installed (Debian, Ubuntu: apt install libns3-dev g++)")
        return {}
    began = time.process_time()
    network = make_network(pairs(), duration_s=15.0, policy="least-delay")
    setup_s = time.process_time() - began
    file = OUT / "network.txt"
    write_input(network, file)
    mine, theirs = [], []
    for i in range(ROUNDS):
        cpu_s, hops = simulated(network, SECONDS)
        mine.append(cpu_s / SECONDS)
        done = subprocess.run(
            [ns3, f"--seconds={SECONDS}", f"--input={file}"], check=True, capture_output=True, text=True
        )
        peer = json.loads(done.stdout)
        theirs.append(peer["simulation_s"] / SECONDS)
        print(f"  round {i + 1}/{ROUNDS}: ours {mine[-1]:.2f} s, ns-3 {theirs[-1]:.1f} s of CPU", file=sys.stderr)
    ratio = min(theirs) / min(mine)
    singles = [peer_s / own_s for own_s, peer_s in zip(mine, theirs, strict=True)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    crossings = [hops / SECONDS, peer["packet_hops"] / SECONDS]
    costs_ns = [min(each) / count * 1e9 for each, count in zip((mine, theirs), crossings, strict=True)]
    print(
        f"{NAME}: {ratio:.1f} (best of {ROUNDS}, single rounds {min(singles):.1f} to {max(singles):.1f}; "
        f"for one simulated second: ours {min(mine):.2f} s, ns-3 "
        f"{min(theirs):.1f} s of CPU; {costs_ns[0]:.0f} and {costs_ns[1]:.0f} ns per packet and link; "
        f"{crossings[0] / 1e6:.1f} and {crossings[1] / 1e6:.1f} million crossings; set-up {setup_s:.2f} and "
        f"{peer['setup_s']:.1f} s; peak memory {peak:.0f} MB)"
    )
    return {NAME: ratio}


if __name__ == "__main__":
    main()

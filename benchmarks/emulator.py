"""Emulator against rattan: the kernel's CUBIC over a constant path, 10 ms there and back, 1500-byte packets, no limit.

Both ends are on this machine, and one iperf3 command makes the traffic of both emulators: same controller, same
duration, IPv4. Interleaved, median of the rounds of what arrived. The cost is the whole machine's, ends included, per
data packet. A run of ours that calls itself not valid is made again, at most `RETRIES` times a round.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bentpipe.profiles import preset_profile, write_profile
from bentpipe.validation.emulator.calm import Ticks

ROUNDS = 3
RETRIES = 2
SETTLE_S = 2
SECONDS = 8
ONE_WAY_MS = 5
PAYLOAD_BYTES = 1448
"""Of a packet of 1500: TCP with timestamps over IPv4 (RFC 7323)."""

RATTAN = "0.1.1"
"""The published version that the ratio is of; needs root and no more than cargo to install."""

RATTAN_CONFIG = """
[env]
mode = "Isolated"

[cells.up]
type = "Delay"
delay = "{one_way_ms}ms"

[cells.down]
type = "Delay"
delay = "{one_way_ms}ms"

[links]
left = "up"
up = "right"
right = "down"
down = "left"

[commands]
left = ["sh", "-c", "sleep 1; exec {client} >{result}"]
right = ["iperf3", "-s", "-1"]
"""


@dataclass(frozen=True)
class Measured:
    """What arrived [bit/s on the path], what it took the machine [µs of processor a data packet], and its validity."""

    bps: float
    packet_us: float
    why_invalid: str | None = None


def install_rattan() -> Path | None:
    """The peer in the user's cache, or None where it cannot be built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    root = cache / "bentpipe" / "peers" / f"rattan-{RATTAN}"
    program = root / "bin" / "rattan"
    if not program.exists():
        print(f"  installing rattan {RATTAN} into {root} (once, some minutes)", file=sys.stderr)
        command = ["cargo", "install", "--quiet", "--locked", "--root", str(root), "--version", RATTAN, "rattan"]
        if subprocess.run(command, check=False).returncode != 0:
            return None
    return program


def client(server: str) -> str:
    """The iperf3 that both emulators run."""
    return f"iperf3 -4 -c {server} -C cubic -O {SETTLE_S} -t {SECONDS} -J"


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Run it; bit/s on the path, and µs of the machine's processors a data packet in the middle of the run."""
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as process:
        time.sleep(SETTLE_S + 3)
        ticks, begin = Ticks(), time.monotonic()
        time.sleep(SECONDS - 4)
        busy_s = ticks.busy() * (time.monotonic() - begin) * len(os.sched_getaffinity(0))
        span_s = time.monotonic() - begin
        process.wait()
    try:
        result = json.loads((folder / "iperf3.json").read_text())
        goodput_bps = result["end"]["sum_received"]["bits_per_second"]
    except (OSError, ValueError, KeyError):
        raise SystemExit(f"{command[0]}: no result of iperf3:\n{(folder / 'log').read_text()[-2000:]}") from None
    packets = goodput_bps / 8 / PAYLOAD_BYTES * span_s
    return goodput_bps / PAYLOAD_BYTES * 1500, busy_s / packets * 1e6


def ours(folder: Path) -> Measured:
    """Once behind a Profile whose rate is far above what any machine reaches."""
    path = f"dumbbell:rate=100gbit,rtt={2 * ONE_WAY_MS}ms,queue=1bdp"
    write_profile(preset_profile(path, 60.0, start_unix_ns=0, name="constant"), folder / "P.parquet")
    shell = ["sh", "-c", f"exec {client('server')} >{folder / 'iperf3.json'}"]
    run = [
        sys.executable,
        "-m",
        "bentpipe",
        "run",
        "P.parquet",
        "-o",
        "out",
        "--server",
        "exec iperf3 -s -1",
        "--",
        *shell,
    ]
    bps, packet_us = measured(run, folder)
    (record,) = (folder / "out").rglob("run.json")
    return Measured(bps, packet_us, json.loads(record.read_text())["why_invalid"])


def theirs(rattan: Path, folder: Path) -> Measured:
    """Once through rattan: a delay cell each way, between two namespaces of its own."""
    config = folder / "rattan.toml"
    result = folder / "iperf3.json"
    config.write_text(RATTAN_CONFIG.format(one_way_ms=ONE_WAY_MS, client=client("$RATTAN_IP_1"), result=result))
    return Measured(*measured([str(rattan), "run", "--config", str(config)], folder))


def main() -> dict[str, float]:
    if shutil.which("iperf3") is None:
        print("emulator_vs_rattan: skipped, iperf3 is not installed (Debian, Ubuntu: apt install iperf3)")
        return {}
    if os.geteuid() != 0:
        print("emulator_vs_rattan: skipped, rattan needs root")
        return {}
    rattan = install_rattan()
    if rattan is None:
        print(f"emulator_vs_rattan: skipped, rattan {RATTAN} could not be built; see above")
        return {}
    mine: list[Measured] = []
    peers: list[Measured] = []
    for i in range(ROUNDS):
        for _ in range(1 + RETRIES):
            with tempfile.TemporaryDirectory() as folder:
                run = ours(Path(folder))
            if run.why_invalid is None:
                break
        mine.append(run)
        with tempfile.TemporaryDirectory() as folder:
            peers.append(theirs(rattan, Path(folder)))
        said = "valid" if run.why_invalid is None else f"NOT valid ({run.why_invalid})"
        print(
            f"  round {i + 1}/{ROUNDS}: ours {run.bps / 1e9:.2f} Gbit/s, {run.packet_us:.1f} µs a packet, {said}; "
            f"rattan {peers[-1].bps / 1e9:.2f} Gbit/s, {peers[-1].packet_us:.1f} µs",
            file=sys.stderr,
        )
    bps, peer_bps = (statistics.median(run.bps for run in runs) for runs in (mine, peers))
    cost_us, peer_us = (statistics.median(run.packet_us for run in runs) for runs in (mine, peers))
    valid = sum(run.why_invalid is None for run in mine)
    ratio = bps / peer_bps
    print(
        f"emulator_vs_rattan: {ratio:.1f} (median of {ROUNDS}: ours {bps / 1e9:.2f} Gbit/s, {cost_us:.1f} µs of "
        f"processor a packet, {valid} of {ROUNDS} rounds valid; rattan {RATTAN} {peer_bps / 1e9:.2f} Gbit/s, "
        f"{peer_us:.1f} µs)"
    )
    return {"emulator_vs_rattan": ratio, "emulator_valid_rounds": float(valid)}


if __name__ == "__main__":
    main()

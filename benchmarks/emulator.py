"""Emulator against rattan: the kernel's CUBIC over a constant path, RTT 10 ms, 1500-byte packets, no rate limit.

Both ends are on this machine, and one iperf3 command makes the traffic of both emulators: same controller, same
duration, IPv4. Rounds are interleaved; the result is the median of the received rates. The cost is that of the whole
machine, ends included, per data packet. A round in which our Run is invalid counts for neither: something disturbed the
machine, and rattan does not report the effect on its own. The output says how many rounds were invalid.
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

from bentpipe.profiles.parquet import write_profile
from bentpipe.validation.emulator.calm import Ticks
from bentpipe.validation.emulator.delays import unlimited_path

ROUNDS = 5
"""With one try each; so that a disturbed one leaves enough for a median."""

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
    """Received rate [bit/s on the path], cost [µs of processor per data packet], and validity."""

    bps: float
    packet_us: float
    why_invalid: str | None = None


def install_rattan() -> Path | None:
    """Install the peer in the user's cache; None: it cannot be built."""
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
    """Return the iperf3 command that both emulators run."""
    return f"iperf3 -4 -c {server} -C cubic -O {SETTLE_S} -t {SECONDS} -J"


def measured(command: list[str], folder: Path) -> tuple[float, float]:
    """Run it; return bit/s on the path, and µs of processor per data packet in the middle of the run."""
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
    """Run once over a Profile with a delay in each direction and no rate, as the peer's path."""
    write_profile(unlimited_path(2e-3 * ONE_WAY_MS), folder / "P.parquet")
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
    """Run once through rattan: a delay cell in each direction, between two namespaces of its own."""
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
    rounds: list[tuple[Measured, Measured]] = []
    for i in range(ROUNDS):
        with tempfile.TemporaryDirectory() as folder:
            mine = ours(Path(folder))
        with tempfile.TemporaryDirectory() as folder:
            peer = theirs(rattan, Path(folder))
        rounds.append((mine, peer))
        validity = "valid" if mine.why_invalid is None else f"NOT valid, left out ({mine.why_invalid})"
        print(
            f"  round {i + 1}/{ROUNDS}: ours {mine.bps / 1e9:.2f} Gbit/s, {mine.packet_us:.1f} µs a packet, "
            f"{validity}; rattan {peer.bps / 1e9:.2f} Gbit/s, {peer.packet_us:.1f} µs",
            file=sys.stderr,
        )
    line, figures = result(rounds)
    print(line)
    return figures


def result(rounds: list[tuple[Measured, Measured]]) -> tuple[str, dict[str, float]]:
    """Return the line and the figures for rounds of (ours, the peer's): medians over those with a valid Run."""
    valid = [pair for pair in rounds if pair[0].why_invalid is None]
    left_out = len(rounds) - len(valid)
    if not valid:
        return f"emulator_vs_rattan: not measurable here, none of {len(rounds)} rounds of ours was valid", {
            "emulator_valid_rounds": 0.0
        }
    mine, peers = zip(*valid, strict=True)
    bps, peer_bps = (statistics.median(run.bps for run in runs) for runs in (mine, peers))
    cost_us, peer_us = (statistics.median(run.packet_us for run in runs) for runs in (mine, peers))
    ratio = bps / peer_bps
    line = (
        f"emulator_vs_rattan: {ratio:.1f} (median of {len(valid)} of {len(rounds)} rounds, {left_out} not valid and "
        f"left out: ours {bps / 1e9:.2f} Gbit/s, {cost_us:.1f} µs of processor a packet; rattan {RATTAN} "
        f"{peer_bps / 1e9:.2f} Gbit/s, {peer_us:.1f} µs)"
    )
    return line, {"emulator_vs_rattan": ratio, "emulator_valid_rounds": float(len(valid))}


if __name__ == "__main__":
    main()

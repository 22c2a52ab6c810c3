"""Upload for some seconds and ping at the same time; print goodput and RTTs as JSON. Run by `bentpipe run`.

bentpipe run P.parquet --server "iperf3 -s -1" -- python3 upload.py --for 40 --shaper adaptive
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
from pathlib import Path

WARMUP_S = 3.0
"""Left out of the figures: slow start, and the shaper's first steps."""


def main() -> None:
    """Read the arguments, upload, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--for", dest="duration", type=float, default=40.0, help="duration [s]")
    parser.add_argument("--shaper", default="none", help="none, adaptive, blind (without edges), or a rate [Mbit/s]")
    parser.add_argument("--device", default="bentpipe")
    parser.add_argument("--server", default="server")
    arguments = parser.parse_args()
    shaper = start_shaper(arguments)
    ping = subprocess.Popen(
        ["ping", "-n", "-i", "0.05", arguments.server], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    upload = subprocess.run(
        ["iperf3", "-c", arguments.server, "-t", str(round(arguments.duration)), "-P", "2", "-J", "-i", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    ping.send_signal(signal.SIGINT)
    lines = ping.communicate()[0].splitlines()
    if shaper is not None:
        shaper.send_signal(signal.SIGTERM)
        if shaper.wait() != 0:
            sys.exit("upload: the shaper ended early")
    result = json.loads(upload.stdout)
    if "error" in result:
        sys.exit(f"upload: iperf3: {result['error']}")
    seconds = [each["sum"] for each in result["intervals"] if each["sum"]["start"] >= WARMUP_S]
    goodput_bps = sum(each["bytes"] for each in seconds) * 8 / sum(each["seconds"] for each in seconds)
    rtts = sorted(float(each) for each in re.findall(r"time=([\d.]+) ms", "\n".join(lines[round(WARMUP_S / 0.05) :])))
    print(
        json.dumps(
            {
                "shaper": arguments.shaper,
                "goodput_mbps": round(goodput_bps / 1e6, 3),
                "rtt_p50_ms": rtts[len(rtts) // 2],
                "rtt_p95_ms": rtts[round(0.95 * (len(rtts) - 1))],
                "pings": len(rtts),
            }
        )
    )


def start_shaper(arguments: argparse.Namespace) -> subprocess.Popen[bytes] | None:
    """Start the shaper; None: there is none."""
    if arguments.shaper == "none":
        return None
    script = str(Path(__file__).with_name("shaper.py"))
    command = [sys.executable, script, arguments.device, "--target", arguments.server]
    if arguments.shaper == "blind":
        command.append("--no-edges")
    elif arguments.shaper != "adaptive":
        rate = str(float(arguments.shaper))
        command += ["--start", rate, "--least", rate, "--most", rate]
    return subprocess.Popen(command)


if __name__ == "__main__":
    main()

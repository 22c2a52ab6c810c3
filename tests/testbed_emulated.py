"""A run on an emulated path: ``python testbed_emulated.py RUNNER cgroups|polled PROFILE`` prints what was seen."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from testbed_scenarios import BEATS
from testbed_world import LABEL, RUNNERS, processes_in, until

from bentpipe.testbed.runners.request import Emulated, Limits, RunRequest

REACH = (
    "ping -c2 -i0.05 -w2 server >/dev/null && echo server; for a in 192.168.100.1 10.0.0.1 169.254.169.254; do "
    "ping -c1 -W1 $a >/dev/null 2>&1 && echo $a; done; ip link set bentpipe mtu 1400 2>/dev/null && echo mtu; true"
)
SINK = "python3 -c 'import socket; s = socket.socket(10, 2); s.bind((\"::\", 7)); [s.recv(99) for _ in iter(int, 1)]'"


def request(folder: Path, name: str, command: tuple[str, ...]) -> RunRequest:
    network = Emulated(profile=Path(sys.argv[3]), run_folder=folder / f"{name}.runs", server=SINK)
    return RunRequest(
        run_id=name, label=LABEL, command=command, output=folder / name, network=network, limits=Limits(duration_s=20.0)
    )


async def seen(runner, folder: Path) -> dict:
    run = await runner.prepare(request(folder, "reach", ("sh", "-c", REACH)))
    await run.start()
    report = await run.wait()
    traffic = run.traffic()
    await run.remove()
    beats = ("/usr/bin/python3", "-c", BEATS.format("server").replace("AF_INET,", "AF_INET6,"))
    run = await runner.prepare(request(folder, "silent", beats))
    await run.start()
    await until(lambda: run.traffic().up_packets > 20)
    await run.link_down()
    await asyncio.sleep(0.02)
    before = run.traffic().up_packets
    await asyncio.sleep(0.2)
    after = run.traffic().up_packets
    await run.stop(1.0)
    stopped = await run.wait()
    await run.remove()
    return {
        "out": (folder / "reach/stdout.txt").read_text().split(),
        "code": report.code,
        "up": traffic.up_packets,
        "down": traffic.down_packets,
        "runs": len(list(folder.glob("*.runs/**/run.json"))),
        "after_link_down": after - before,
        "stopped": stopped.reason,
        "left": sorted(each.name for each in (folder / "state").iterdir()),
    }


async def killed(runner, folder: Path) -> dict:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *sys.argv[1:4], str(folder), stdout=subprocess.PIPE
    )
    line = (await owner.stdout.readline()).decode().split()
    inode = int(line[1])
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    await until(lambda: processes_in(inode) == [], 10.0)
    return {"swept": await runner.sweep(LABEL) == [line[0]], "swept_again": await runner.sweep(LABEL)}


async def main() -> None:
    folder = Path(sys.argv[4] if len(sys.argv) > 4 else tempfile.mkdtemp())
    folder.chmod(0o755)
    runner = RUNNERS[sys.argv[1]](folder / "state", use_cgroups=sys.argv[2] == "cgroups")
    if len(sys.argv) > 4:
        run = await runner.prepare(request(folder, "orphan", ("sleep", "1000")))
        await run.start()
        print(run.name, os.fstat(run.network).st_ino, flush=True)
        await asyncio.sleep(100)
    result = await seen(runner, folder)
    print(json.dumps({**result, **await killed(runner, folder)}))


if __name__ == "__main__":
    asyncio.run(main())

"""Scenarios of runners; ``python testbed_scenarios.py RUNNER cgroups|polled`` prints the outcome of each as JSON."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest
from testbed_world import (
    DISH,
    HOME_MACHINE,
    LABEL,
    MACHINE,
    NEIGHBOUR,
    OTHER_ROUTER,
    PUBLIC,
    REFUSED,
    ROUTER,
    RUNNERS,
    World,
    processes_in,
    until,
)

import bentpipe
from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.names import agent_tag, run_name
from bentpipe.testbed.runners.request import Uplink

PYTHON = "/usr/bin/python3"

FLOOD = """
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.time() + 1
while time.time() < end:
    s.sendto(bytes(1000), ("{}", 9))
    time.sleep(2e-4)
"""

BEATS = """
import contextlib, socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    with contextlib.suppress(OSError):
        s.sendto(b"x", ("{}", 7))
    time.sleep(0.001)
"""


async def reaches_public_addresses_only(world):
    ping = "ping -c1 -W1 {0} >/dev/null 2>&1 && echo {0}; "
    targets = (PUBLIC, "127.0.0.1", ROUTER, DISH, MACHINE, "198.18.0.1", "100.64.1.1", "10.1.2.3")
    script = "".join(ping.format(target) for target in targets)
    dish = f"{PYTHON} -c 'import socket; socket.create_connection((\"{DISH}\", 9200))'"
    _, out, err = await world.report("reach", script + dish)
    assert out.split() == [PUBLIC, "127.0.0.1"], out
    assert "PermissionError" in err, err  # EACCES: the route prohibits it


async def reaches_what_the_policy_grants(world):
    script = f"for a in {ROUTER} {DISH}; do ping -c1 -W1 $a >/dev/null 2>&1 && echo $a; done"
    _, out, err = await world.report("granted", script, allowed=(f"{DISH}/32",))
    assert out.split() == [DISH], (out, err)


async def reaches_no_network_of_this_machine(world):
    """A household may have public addresses: its network, its router, and what the policy refuses."""
    script = "".join(
        f"ping -c1 -W1 {target} >/dev/null 2>&1 && echo {target}; "
        for target in (PUBLIC, NEIGHBOUR, OTHER_ROUTER, REFUSED, HOME_MACHINE)
    )
    _, out, err = await world.report("neighbours", script, refused=(f"{REFUSED}/32",))
    assert out.split() == [PUBLIC], (out, err)
    _, out, err = await world.report("open", script)
    assert out.split() == [PUBLIC, REFUSED], (out, err)  # it answers those who may
    grants = (f"{NEIGHBOUR}/32", f"{REFUSED}/32")
    _, out, err = await world.report("grants", script, refused=(f"{REFUSED}/32",), allowed=grants)
    assert out.split() == [PUBLIC, NEIGHBOUR, REFUSED], (out, err)


async def waits_at_the_gate(world):
    async with world.prepared("gate", f"echo begun; ping -c3 -i0.01 {PUBLIC}") as run:
        await asyncio.sleep(0.1)
        assert run.traffic().up_packets == 0
        assert world.text("gate") == ""
        await run.start()
        report = await run.wait()
        assert (report.code, report.reason) == (0, "exited"), report
        traffic = run.traffic()
        assert traffic.up_packets >= 3
        assert traffic.down_bytes >= 3 * 84, traffic
        assert world.text("gate").startswith("begun")


async def waits_at_a_gate_in_the_program(world):
    script = 'echo loaded; cat "$BENTPIPE_INPUTS/start"; exec sleep 60'
    limits = {"duration_s": 0.5, "grace_s": 0.1}
    async with world.prepared("own-gate", script, gate="start", limits=limits) as run:
        assert world.text("own-gate") == "loaded\n"
        await asyncio.sleep(0.7)
        await run.start(b"told at the gate")
        begun = time.monotonic()
        report = await run.wait()
        assert world.text("own-gate") == "loaded\ntold at the gate"
        assert report.reason == "time limit", report
        assert time.monotonic() - begun > 0.45
    with pytest.raises(RunnerError, match="ended before its gate: exited \\(3\\)"):
        await world.runner.prepare(world.request("no-gate", "exit 3", gate="start"))


async def contains_a_fork_bomb(world):
    limits = {"pids": 40, "duration_s": 1.0, "grace_s": 0.1}
    report, _, _ = await world.report("bomb", "bomb() { bomb | bomb & }; bomb; sleep 60", limits=limits)
    assert report.reason in ("time limit", "killed: pids", "killed: memory", "exited"), report
    assert not world.use_cgroups or report.forks_refused, report


async def kills_a_memory_eater(world):
    report, _, err = await world.report("memory", [PYTHON, "-c", "b = [bytearray(1 << 20) for _ in range(10 ** 5)]"])
    assert report.reason == "killed: memory", (report, err)


async def kills_many_memory_eaters(world):
    script = f"for i in 1 2 3 4 5 6; do {PYTHON} -c 'b = bytearray(15 << 20); import time; time.sleep(9)' & done; wait"
    report, _, err = await world.report("eaters", script)
    assert report.reason == "killed: memory", (report, err)


async def limits_memory_of_all_runs_together(world):
    """Three runs of 60 MB each, within their own limits, in 128 MB of all: the kernel ends one, and others go on."""
    if not world.use_cgroups:
        return  # a user has no control groups: documented
    together = {"memory_bytes": 128 << 20, "pids": 300}
    script = [PYTHON, "-c", "b = b'x' * (60 << 20); print('held', flush=True); import time; time.sleep(60)"]
    async with contextlib.AsyncExitStack() as stack:
        names = ["sum-1", "sum-2", "sum-3"]
        options = {"label": f"{LABEL} sum", "together": together, "limits": {"memory_bytes": 100 << 20}}
        runs = [await stack.enter_async_context(world.prepared(name, script, **options)) for name in names]
        for run in runs:
            await run.start()
        ends = [asyncio.create_task(run.wait()) for run in runs]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        reasons = [each.result().reason for each in ends if each.done()]
        assert set(reasons) == {"killed: memory"}, reasons
        assert len(reasons) < 3, reasons
        parent = runs[0].cgroup.parent
        for end in ends:
            end.cancel()
    assert not any(folder.exists() for folder in parent.folders.values()), parent


async def limits_processes_of_all_runs_together(world):
    """Three runs of 40 processes each where 60 may be in all: forks are refused."""
    if not world.use_cgroups:
        return
    script = f"{PYTHON} -c 'import os, time\nfor _ in range(40): os.fork() or time.sleep(60)'; sleep 60"
    options = {"label": f"{LABEL} forks", "together": {"pids": 60}, "limits": {"pids": 64}}
    async with contextlib.AsyncExitStack() as stack:
        names = ["forks-1", "forks-2", "forks-3"]
        runs = [await stack.enter_async_context(world.prepared(name, script, **options)) for name in names]
        for run in runs:
            await run.start()
        await until(lambda: sum("BlockingIOError" in world.text(name, "stderr.txt") for name in names) >= 2)
        pids = runs[0].cgroup.parent.folders["pids"] / "pids.current"
        assert int(pids.read_text()) <= 60


async def kills_a_disk_filler(world):
    script = "i=0; while :; do head -c 1000000 /dev/zero > f$i; i=$((i+1)); done"
    report, _, _ = await world.report("disk", script, limits={"output_bytes": 20 << 20})
    assert report.reason == "killed: disk", report


async def limits_one_file(world):
    report, _, _ = await world.report("file", "exec head -c 999999999 /dev/zero > f", limits={"output_bytes": 1 << 20})
    assert report.reason == "killed: disk", report
    assert (world.folder / "file.out/f").stat().st_size <= 1 << 20


async def kills_what_ignores_sigterm(world):
    async with world.prepared("deaf", "trap '' TERM; echo up; while :; do sleep 0.1; done") as run:
        await run.start()
        await until(lambda: world.text("deaf"))
        before = time.monotonic()
        await run.stop(0.2)
        assert 0.15 < time.monotonic() - before < 3
        assert (await run.wait()).reason == "stopped"


async def lets_a_program_end_in_its_own_way(world):
    async with world.prepared("polite", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done") as run:
        await run.start()
        await until(lambda: world.text("polite"))
        await run.stop(10.0)
        report = await run.wait()
        assert (report.code, report.reason) == (3, "stopped"), report
        assert world.text("polite").endswith("bye\n")


async def ends_daemons_with_the_program(world):
    script = "(setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ; sleep 0.1; kill -9 1; kill -9 -1; exit 4"
    report, _, _ = await world.report("daemon", f"trap '' TERM; sh -c \"{script}\"; exit 5")
    assert report.code in (5, 137), report


async def ends_a_run_at_its_time_limit(world):
    report, _, _ = await world.report("late", "sleep 100", limits={"duration_s": 0.2})
    assert report.reason == "time limit", report


async def drops_rights(world):
    script = (
        "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; unshare -U true || echo no-unshare;"
        "echo 1 > /proc/sys/net/ipv4/ip_forward || echo no-sysctl; touch /usr/x || echo no-write"
    )
    _, out, _ = await world.report("rights", script)
    assert "CapEff:\t0000000000000000" in out
    assert "NoNewPrivs:\t1" in out
    assert "Seccomp:\t2" in out
    assert out.split()[-3:] == ["no-unshare", "no-sysctl", "no-write"], out


async def grants_raw_sockets(world):
    script = [PYTHON, "-c", "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"]
    report, _, err = await world.report("raw", script, raw_sockets=True)
    assert report.code == 0, err
    report, _, _ = await world.report("cooked", script)
    assert report.code != 0


async def shows_inputs_and_keeps_the_output(world):
    (world.folder / "in.txt").write_text("given")
    script = 'cat "$BENTPIPE_INPUTS/in.txt"; echo result > r.txt; echo $X; echo t > /tmp/t; cat /etc/resolv.conf'
    _, out, err = await world.report(
        "files", script, inputs={"in.txt": world.folder / "in.txt"}, environment={"X": "a b"}
    )
    assert out.startswith("given" + "a b\n"), (out, err)
    assert "nameserver 1.1.1.1" in out
    assert (world.folder / "files.out/r.txt").read_text() == "result\n"
    assert (world.folder / "in.txt").read_text() == "given"


async def runs_this_python_from_a_closed_folder(world):
    folders = [Path(sys.base_prefix), Path(sys.prefix), Path(bentpipe.__file__).parent.parent]
    runner = RUNNERS[world.runner.name](world.folder / "state", readable=folders, use_cgroups=world.use_cgroups)
    script = "import bentpipe, os; open('r', 'w').write(bentpipe.__name__); print(os.listdir(os.environ['HOME']))"
    run = await runner.prepare(world.request("python", [sys.executable, "-P", "-c", script]))
    await run.start()
    report = await run.wait()
    await run.remove()
    assert report.code == 0, world.text("python", "stderr.txt")
    assert (world.folder / "python.out/r").read_text() == "bentpipe"


async def names_a_missing_program(world):
    with pytest.raises(RunnerError, match="no program 'no-such-program' in the sandbox"):
        await world.runner.prepare(world.request("missing", ["no-such-program"]))
    assert not (world.folder / "state" / run_name(LABEL, "missing")).exists()


async def opens_ports_of_servers(world):
    script = "import socket; s = socket.create_server(('', 5201)); c, a = s.accept(); c.sendall(b'hello'); c.close()"
    async with world.prepared("server", [PYTHON, "-c", script], network=Uplink(tcp_ports=(5201,))) as run:
        await run.start()
        client = None
        for _ in range(200):
            client = world.far_socket(socket.SOCK_STREAM)
            client.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(client, (MACHINE, 5201))
                break
            except OSError:
                client.close()
                await asyncio.sleep(0.02)
        assert await asyncio.get_running_loop().sock_recv(client, 100) == b"hello"


async def caps_rates(world):
    receiver = world.far_socket(socket.SOCK_DGRAM, port=9)
    receiver.setblocking(False)
    script = FLOOD.format(PUBLIC)
    limits = {"up_bps": 800_000, "down_bps": 800_000}
    async with world.prepared("capped", [PYTHON, "-c", script], limits=limits) as run:
        await run.start()
        await run.wait()
        count = 0
        try:
            while receiver.recv(2000):
                count += 1
        except BlockingIOError:
            pass
        assert 80 < count < 140, count  # 100 kB/s and a burst of 15 kB


async def freezes_and_thaws(world):
    async with world.prepared("frozen", "while :; do echo; sleep 0.005; done") as run:
        await run.start()
        await until(lambda: len(world.text("frozen")) > 5)
        await run.freeze()
        await asyncio.sleep(0.01)
        size = len(world.text("frozen"))
        await asyncio.sleep(0.15)
        assert len(world.text("frozen")) == size
        await run.thaw()
        await until(lambda: len(world.text("frozen")) > size + 5)
        await run.freeze()
        await run.stop(1.0)  # a frozen run ends by SIGTERM
        assert (await run.wait()).code == 143, await run.wait()


async def is_silent_after_link_down(world):
    receiver = world.far_socket(socket.SOCK_DGRAM, port=7)
    receiver.setblocking(False)
    script = BEATS.format(PUBLIC)
    async with world.prepared("silent", [PYTHON, "-c", script]) as run:
        loop = asyncio.get_running_loop()
        await run.start()
        for _ in range(20):
            await loop.sock_recv(receiver, 100)
        before = time.monotonic()
        await run.link_down()
        last = before
        try:
            while True:
                await asyncio.wait_for(loop.sock_recv(receiver, 100), 0.2)
                last = time.monotonic()
        except TimeoutError:
            pass
        assert last - before < 0.1, last - before
        assert run.traffic().up_packets >= 20


async def leaves_nothing_when_its_agent_is_killed(world):
    owner = await asyncio.create_subprocess_exec(
        sys.executable, __file__, world.runner.name, "own", str(world.folder), stdout=subprocess.PIPE
    )
    name, inode = (await owner.stdout.readline()).decode().split()
    assert processes_in(int(inode)) != []
    owner.send_signal(signal.SIGKILL)
    await owner.wait()
    await until(lambda: processes_in(int(inode)) == [])
    swept = await world.runner.sweep(LABEL, keep=running)
    assert swept == [name], swept
    assert await world.runner.sweep(LABEL, keep=running) == []
    leftovers = subprocess.run(
        f"nft list tables | grep {name}; ls /sys/fs/cgroup/*/ | grep {name}; grep {name} /proc/net/dev",
        shell=True, capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert leftovers == "", leftovers


running: set[str] = set()
"""Runs of scenarios beside the one that sweeps: it runs alone."""


async def own(runner: str, folder: str) -> None:
    """Be an agent that will be killed, in the world of its parent."""
    made = RUNNERS[runner](Path(folder) / "state")
    world = World.__new__(World)
    world.folder, world.runner = Path(folder), made
    run = await made.prepare(world.request("orphan", "trap '' TERM HUP; setsid sleep 1000 & sleep 1000"))
    await run.start()
    await run.freeze()
    print(run.name, os.fstat(run.network).st_ino, flush=True)
    await asyncio.sleep(100)


ALONE = (is_silent_after_link_down, leaves_nothing_when_its_agent_is_killed)
TOGETHER = (
    reaches_public_addresses_only, reaches_what_the_policy_grants, reaches_no_network_of_this_machine,
    waits_at_the_gate, waits_at_a_gate_in_the_program, contains_a_fork_bomb,
    limits_memory_of_all_runs_together, limits_processes_of_all_runs_together,
    kills_a_memory_eater, kills_many_memory_eaters, kills_a_disk_filler, limits_one_file, kills_what_ignores_sigterm,
    lets_a_program_end_in_its_own_way, ends_daemons_with_the_program, ends_a_run_at_its_time_limit, drops_rights,
    runs_this_python_from_a_closed_folder,
    grants_raw_sockets, shows_inputs_and_keeps_the_output, names_a_missing_program, opens_ports_of_servers, caps_rates,
    freezes_and_thaws,
)  # fmt: skip
NAMES = tuple(each.__name__ for each in (*TOGETHER, *ALONE))


async def outcome(scenario, world) -> str:
    try:
        begun = time.monotonic()
        async with asyncio.timeout(30):
            await scenario(world)
        print(scenario.__name__, f"{time.monotonic() - begun:.2f} s", file=sys.stderr)
    except Exception:  # noqa: BLE001 - reported to the test
        return traceback.format_exc()
    return ""


async def main() -> None:
    if sys.argv[2] == "own":
        await own(sys.argv[1], sys.argv[3])
        return
    world = await asyncio.to_thread(lambda: World(sys.argv[1], use_cgroups=sys.argv[2] == "cgroups"))
    if reason := await world.runner.available():
        print(json.dumps({"unavailable": reason}))
        return
    results = await asyncio.gather(*(outcome(each, world) for each in TOGETHER))
    results += [await outcome(each, world) for each in ALONE]
    results_by_name = dict(zip(NAMES, results, strict=True))
    folders = [each.name for each in (world.folder / "state").iterdir() if each.is_dir()]
    results_by_name["left"] = [*folders, *(await world.runner.sweep(LABEL))]
    if Path("/proc/sys/net/ipv4/conf/up0/forwarding").read_text() != "0\n":
        results_by_name["left"].append("forwarding")
    tables = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout
    results_by_name["left"] += tables.split("\n")[:-1]
    results_by_name["tag"] = agent_tag(LABEL)
    print(json.dumps(results_by_name))


if __name__ == "__main__":
    asyncio.run(main())

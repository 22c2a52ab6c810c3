"""Calls of a kernel service in namespaces of the test's own; ``python testbed_kernel.py`` prints outcomes as JSON."""

import asyncio
import json
import os
import tempfile
from pathlib import Path

from testbed_world import LABEL, RUNNERS, World

from bentpipe.errors import UserError
from bentpipe.testbed.kernel_service.client import KernelServiceClient, KernelServiceError
from bentpipe.testbed.kernel_service.service import KernelService
from bentpipe.testbed.namespaces.network import current_network, in_network, new_network
from bentpipe.testbed.runners.request import KernelSetting


def sysctl(network: int, key: str) -> str:
    return in_network(network, lambda: Path("/proc/sys", key.replace(".", "/")).read_text().strip())


async def refused(client, *arguments, **options) -> str:
    try:
        return f"accepted: {await client.call(*arguments, **options)}"
    except KernelServiceError as error:
        return f"{error.code}: {error}"


async def calls(client) -> dict:
    seen: dict = {"capabilities": await client.call("capabilities")}
    own = current_network()
    seen["own network"] = await refused(client, "register", "own", network=own)
    with tempfile.TemporaryFile() as file:
        seen["other file"] = await refused(client, "register", "file", network=file.fileno())
    seen["no descriptor"] = await refused(client, "register", "none")
    seen["unknown run"] = await refused(client, "cc.set", "nobody", {"controller": "reno"})
    network = new_network()
    seen["before"] = sysctl(network, "net.ipv4.tcp_ecn")
    await client.call("register", "r", network=network)
    await client.call("sysctl.set", "r", {"net.ipv4.tcp_ecn": 1, "net.ipv4.tcp_rmem": "4096 8192 16384"})
    seen["after"] = [sysctl(network, "net.ipv4.tcp_ecn"), sysctl(network, "net.ipv4.tcp_rmem").split()]
    seen["no interface"] = await refused(client, "qdisc.set", "r", {"kind": "pfifo"})
    await client.call("reset", "r")
    seen["reset"] = sysctl(network, "net.ipv4.tcp_ecn")
    seen["here"] = Path("/proc/sys/net/ipv4/tcp_ecn").read_text().strip()
    await client.call("forget", "r")
    seen["forgotten"] = await refused(client, "counters", "r")
    return seen


async def with_a_runner(path: Path) -> dict:
    world = await asyncio.to_thread(lambda: World("process", use_cgroups=False))
    client = KernelServiceClient(path)
    runner = RUNNERS["process"](world.folder / "state", settings=client, use_cgroups=False)
    settings = (
        KernelSetting(verb="cc.set", values={"controller": "reno"}),
        KernelSetting(verb="qdisc.set", values={"kind": "no_such"}, optional=True),
        KernelSetting(verb="qdisc.set", values={"kind": "pfifo", "options": {"limit": 77}}),
        KernelSetting(verb="offload.set", values={"offload": {"tso": False}}),
        KernelSetting(verb="cc.set", values={"controller": "no_such"}, optional=True),
    )
    seen: dict = {}
    try:
        await runner.prepare(world.request("bad", "true", settings=settings))
    except UserError as error:
        seen["vocabulary"] = str(error)
    good = (settings[0], *settings[2:])
    script = "cat /proc/sys/net/ipv4/tcp_congestion_control; ping -c2 -i0.01 203.0.113.10"
    run = await runner.prepare(world.request("good", script, settings=good))
    seen["outcomes"] = [each["outcome"] for each in run.settings]
    await run.start()
    await asyncio.to_thread((world.folder / "good.out/stdout.txt").read_text)
    report = await run.wait()
    seen["code"] = report.code
    seen["out"] = world.text("good").split()[0]
    seen["counters"] = await client.call("counters", run.name)
    await run.remove()
    seen["left"] = await runner.sweep(LABEL)
    client.close()
    return seen


async def main() -> None:
    folder = Path(tempfile.mkdtemp())
    audit: list[str] = []
    with KernelService(folder / "socket", {os.geteuid()}, audit.append) as _:
        async with KernelServiceClient(folder / "socket") as client:
            seen = await calls(client)
        seen |= await with_a_runner(folder / "socket")
        seen["mode"] = oct((folder / "socket").stat().st_mode & 0o777)
    with KernelService(folder / "other", {12345}, audit.append):
        async with KernelServiceClient(folder / "other") as client:
            seen["other user"] = await refused(client, "capabilities")
    seen["audit"] = [json.loads(line) for line in audit]
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main())

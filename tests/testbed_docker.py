"""The Docker runner against a fake daemon, in a network namespace of the test's own; prints its requests."""

import asyncio
import json
import tempfile
from pathlib import Path

from fake_docker import serve
from testbed_world import LABEL, World

from bentpipe.errors import BentpipeError
from bentpipe.testbed.runners.docker import DockerRunner
from bentpipe.testbed.runners.request import Emulated, Limits, RunRequest

TOOL, PAUSE = "tool@sha256:" + "1" * 64, "pause@sha256:" + "2" * 64


async def error_of(coroutine) -> str:
    try:
        await coroutine
    except BentpipeError as error:
        return f"{type(error).__name__}: {error}"
    return "none"


async def main() -> None:
    folder = Path(tempfile.mkdtemp())
    world = await asyncio.to_thread(lambda: World("process", use_cgroups=False))
    fake, server = await serve(folder / "d.sock")
    url = f"unix://{folder / 'd.sock'}"
    runner = DockerRunner(folder / "state", pause_image=PAUSE, url=url)
    seen: dict = {
        "available": await runner.available(),
        "no pause": await DockerRunner(folder, pause_image=None).available(),
        "no daemon": await DockerRunner(folder, pause_image=PAUSE, url="unix:///nowhere.sock").available(),
    }
    (world.folder / "in.txt").write_text("x")

    def request(name: str, **fields) -> RunRequest:
        limits = Limits(memory_bytes=64 << 20, pids=20, cpus=0.5, duration_s=20.0)
        given = {"image": TOOL, "output": world.folder / name, "limits": limits, **fields}
        return RunRequest(run_id=name, label=LABEL, **given)

    seen["no image"] = await error_of(runner.prepare(request("x", image="other@sha256:" + "1" * 64)))
    seen["emulated"] = await error_of(
        runner.prepare(request("x", network=Emulated(profile=Path("p"), run_folder=Path("r"))))
    )
    run = await runner.prepare(request("one", command=("a", "b c"), inputs={"in.txt": world.folder / "in.txt"}))
    seen["bodies"] = fake.bodies[-2:]
    seen["started before the gate"] = fake.actions.count("start")
    await run.start()
    await run.freeze()
    await run.stop(1.0)
    report = await run.wait()
    seen["report"] = [report.code, report.reason]
    seen["actions"] = [each for each in fake.actions if each not in ("json", "get")]
    await run.remove()
    await run.remove()
    seen["left"] = len(fake.containers)
    orphan = await runner.prepare(request("two", raw_sockets=True))
    await orphan.start()
    seen["raw"] = [fake.bodies[-1]["HostConfig"]["CapAdd"], fake.bodies[-1]["User"]]
    other = DockerRunner(folder / "state", pause_image=PAUSE, url=url)
    seen["kept"] = await other.sweep(LABEL, keep=["two"])
    seen["swept"] = await other.sweep(LABEL) == [orphan.name]
    seen["lost"] = (await orphan.wait()).reason
    seen["left after sweep"] = len(fake.containers)
    await server.cleanup()
    print(json.dumps(seen))


if __name__ == "__main__":
    asyncio.run(main())

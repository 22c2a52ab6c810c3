"""The uploads of t3p-trigger: a whole testbed on this machine, whose homes' links are emulated paths.

The node, its pings and the uploads share a home's path, so what the trigger sees is what the upload meets. (With
``path: profile: …`` a run has a path of its own, which begins when the run begins: nothing fires in time with it.)
"""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.errors import BentpipeError, UserError
from bentpipe.files import atomic_write
from bentpipe.profiles.parquet import write_profile
from bentpipe.studies.t3p_trigger_simulated import random_times_s
from bentpipe.testbed.client import TestbedClient
from bentpipe.testbed.laptop.plan import HOMES
from bentpipe.testbed.laptop.supervising import check_machine
from bentpipe.testbed.schemas.quantities import at_text
from bentpipe.testbed.schemas.states import ENDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.studies.study import OnProgress
    from bentpipe.studies.t3p_files import T3pTrigger
    from bentpipe.testbed.schemas.experiment_views import RunView

Schedule = Literal["triggered", "random"]
SCHEDULES: tuple[Schedule, ...] = ("triggered", "random")

#: How long the testbed may take to start [s].
_START_S = 150.0
#: Time from the start of the nodes to the first experiment: the clocks of both ends are known then [s].
_SETTLE_S = 20.0
#: Mean time for one triggered upload at a home, after which the schedule ends with those that there are [s].
_LONGEST_S = 75.0
#: First random upload after submission: bookings begin 10 s before [s].
_AHEAD_S = 25.0
#: Time between two looks at the runs [s].
_LOOK_S = 2.0
#: Bytes kept of each captured packet: Ethernet, IPv4 and TCP with its timestamps.
_HEADER_BYTES = 66

_EXPERIMENT = """\
schema: bentpipe.experiment/1
name: {name}
nodes: {{names: [{nodes}]}}
server: {{name: server}}
run: {{builtin: iperf3, args: {{seconds: {seconds:g}, direction: up, controller: {controller}}}}}
when: {when}
limits: {{bytes: 20GB/day, bytes_per_run: 400MB, slip: 3s, until: {until}{runs}}}
scavenger: {{mode: end}}
"""


@dataclass(frozen=True)
class Upload:
    """One upload of the testbed.

    Attributes:
        home: Key of the terminal.
        schedule: ``triggered`` or ``random``.
        start_at_ms: When it began.
        state: How its run ended.
        reason: Why.
        goodput_bps: Goodput that the server received [bit/s]; None: none.
        own_bytes: Bytes on the node's link, both ways, by the run's counters.
        header_bytes: Size of the capture of its packets' headers.
    """

    home: str
    schedule: Schedule
    start_at_ms: int
    state: str
    reason: str
    goodput_bps: float | None
    own_bytes: int
    header_bytes: int


@dataclass(frozen=True)
class Pass:
    """The uploads of one schedule, and the time that it took [s]."""

    uploads: Sequence[Upload]
    took_s: float


def measure_schedules(
    paths: Mapping[str, Profile], file: T3pTrigger, trials: int, out: Path, on_progress: OnProgress
) -> dict[Schedule, Pass]:
    """Run both schedules at the testbed's homes in real time; those in ``out/uploads.json`` are reused.

    Args:
        paths: The path of each home, by key of its terminal.
        file: The study's parameters.
        trials: Uploads of each schedule at each home.
        out: Folder of the study.
        on_progress: Called with the share done.

    Raises:
        UserError: This machine cannot run the testbed.
        BentpipeError: The testbed did not start.
    """
    settings = {
        "paths": {key: path.content_hash() for key, path in paths.items()},
        "study": file.to_dict(),
        "trials": trials,
    }
    stored = out / "uploads.json"
    passes = _read(stored, settings)
    if missing := [schedule for schedule in SCHEDULES if schedule not in passes]:
        check_machine()
        with _testbed(paths) as client:
            for number, schedule in enumerate(missing):

                def advance(share: float, before: int = number) -> None:
                    on_progress((before + share) / len(missing))

                passes[schedule] = _run_pass(client, schedule, list(paths), file, trials, advance)
                _write(stored, settings, passes)
    return {schedule: passes[schedule] for schedule in SCHEDULES}


def _read(stored: Path, settings: dict[str, Any]) -> dict[Schedule, Pass]:
    try:
        document = json.loads(stored.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if document.get("settings") != json.loads(json.dumps(settings)):
        return {}
    return {
        schedule: Pass([Upload(**upload) for upload in each["uploads"]], each["took_s"])
        for schedule, each in document["passes"].items()
    }


def _write(stored: Path, settings: dict[str, Any], passes: Mapping[Schedule, Pass]) -> None:
    document = {"settings": settings, "passes": {schedule: asdict(each) for schedule, each in passes.items()}}
    with atomic_write(stored) as opened:
        opened.write(json.dumps(document).encode())


@contextlib.contextmanager
def _testbed(paths: Mapping[str, Profile]) -> Iterator[TestbedClient]:
    """Run the laptop's testbed with these paths, in a folder of its own: its sockets need short names."""
    with tempfile.TemporaryDirectory(prefix="t3p-") as name:
        folder = Path(name)
        for home, path in zip(HOMES, paths.values(), strict=True):
            write_profile(path, folder / f"{home.name}.parquet")
        listen, agents = (f"127.0.0.1:{port}" for port in _free_ports(2))
        command = [sys.executable, "-P", "-m", "bentpipe", "testbed", "laptop", "--no-tour"]
        command += ["--folder", name, "--listen", listen, "--agents", agents]
        process: subprocess.Popen[bytes] | None = None
        with _interrupted_by(signal.SIGTERM, signal.SIGHUP), (folder / "laptop.log").open("wb") as log:
            try:
                with _held(signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # else one leaves a process that nobody knows
                    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                yield _wait_for(process, folder, listen)
            finally:
                if process is not None:
                    _end(process)


@contextlib.contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals end the block as Ctrl-C does: by default they end Python without its ``finally``."""
    if threading.current_thread() is not threading.main_thread():  # only that one may handle signals
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _held(*numbers: signal.Signals) -> Iterator[None]:
    """Let these signals interrupt after the block, not in it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the laptop's testbed with its runs and nodes."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait_for(process: subprocess.Popen[bytes], folder: Path, listen: str) -> TestbedClient:
    credentials = folder / "orchestrator" / "admin.json"
    end_s = time.monotonic() + _START_S
    while time.monotonic() < end_s and process.poll() is None:
        if credentials.exists():
            client = TestbedClient(f"http://{listen}", credentials=credentials)
            with contextlib.suppress(UserError):
                if sum(node.online for node in client.nodes()) == len(HOMES) + 1:
                    time.sleep(_SETTLE_S)
                    return client
        time.sleep(1.0)
    lines = (folder / "laptop.log").read_text(errors="replace").splitlines()
    raise BentpipeError(f"the testbed did not start: {(lines or ['no message'])[-1]}")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def _run_pass(
    client: TestbedClient,
    schedule: Schedule,
    homes: Sequence[str],
    file: T3pTrigger,
    trials: int,
    on_progress: Callable[[float], object],
) -> Pass:
    began_s, begin_at_ms = time.monotonic(), round(time.time() * 1e3)
    prefix = f"{schedule}-{secrets.token_hex(3)}"
    nodes = [home.name for home in HOMES]
    if schedule == "triggered":
        when = (
            f'{{trigger: "{file.condition}", window: {round(file.window_s * 1e3)}ms, cooldown: {file.cooldown_s:g}s}}'
        )
        limit_s = trials * _LONGEST_S
        experiments = [client.submit(_text(prefix, ", ".join(nodes), when, file, limit_s, trials)).id]
    else:
        least_s, most_s = file.gap_s
        limit_s = _AHEAD_S + trials * most_s + 60.0
        experiments = []
        for number, node in enumerate(nodes):
            for time_s in random_times_s(trials * most_s + most_s, (least_s, most_s), file.seed + number)[:trials]:
                at = f"{{at: {at_text(begin_at_ms + round((_AHEAD_S + time_s) * 1e3))}}}"
                name = f"{prefix}-{node}-{len(experiments)}"
                experiments.append(client.submit(_text(name, node, at, file, limit_s + 600, None)).id)
    runs: list[RunView] = []
    while time.monotonic() - began_s < limit_s:
        time.sleep(_LOOK_S)
        runs = [run for run in client.runs() if run.experiment in experiments]
        ended = sum(run.state in ENDED for run in runs)
        on_progress(min(1.0, ended / (trials * len(nodes))))
        if ended >= trials * len(nodes):
            break
    took_s = time.monotonic() - began_s
    for experiment in experiments:
        if client.experiment(experiment).state == "active":
            client.cancel(experiment)
    by_node = {home.name: key for home, key in zip(HOMES, homes, strict=True)}
    with tempfile.TemporaryDirectory(prefix="t3p-") as results:
        for experiment in experiments:
            client.results(experiment, results)
        return Pass([_upload(run, by_node[run.node], schedule, Path(results)) for run in runs], took_s)


def _text(name: str, nodes: str, when: str, file: T3pTrigger, seconds: float, runs: int | None) -> str:
    until = at_text((round(time.time() + seconds) // 60 + 2) * 60_000)
    # A capture takes time to begin, which a trigger does not have.
    capture = "" if runs is not None else f"capture: {{ends: client, snap_bytes: {_HEADER_BYTES}}}\n"
    text = _EXPERIMENT.format(
        name=name,
        nodes=nodes,
        seconds=file.upload_s,
        controller=file.kernel,
        when=when,
        until=until,
        runs="" if runs is None else f", runs: {runs}",
    )
    return text + capture


def _upload(run: RunView, home: str, schedule: Schedule, results: Path) -> Upload:
    folder = results / (run.location or "none")
    output, capture = folder / "raw" / "iperf3.json", folder / "capture" / "packets.pcap"
    return Upload(
        home,
        schedule,
        run.start_at_ms,
        run.state,
        run.reason,
        _received_bps(output.read_bytes()) if output.exists() else None,
        run.up_bytes + run.down_bytes,
        capture.stat().st_size if capture.exists() else 0,
    )


def _received_bps(content: bytes) -> float | None:
    """Return the goodput that iperf3's server received [bit/s]; None: the transfer failed."""
    try:
        document = json.loads(content)
    except ValueError:  # iperf3 was ended before it wrote anything
        return None
    received = document.get("end", {}).get("sum_received")
    return None if received is None or "error" in document else float(received["bits_per_second"])

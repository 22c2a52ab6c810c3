"""Runs of real programs on the emulated path of a Profile."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.errors import StoreError, UserError
from bentpipe.execution import captures, plan
from bentpipe.execution.emulation.engine import emulate
from bentpipe.execution.emulation.result import EmulationResult
from bentpipe.execution.emulation.spec import DISSECTOR, EmulationError, Spec
from bentpipe.execution.rows import RowThread, RunRows
from bentpipe.experiments.experiment import Experiment, ProfileRef
from bentpipe.experiments.recovery import parse_path_recovery
from bentpipe.measurements.tool_output.parsed import FILE, RAW, Parsed, parse
from bentpipe.measurements.tool_output.tee import Tee
from bentpipe.profiles.queues import parse_queue
from bentpipe.runs import record, store, work
from bentpipe.runs.profiles import free_label, store_profiles
from bentpipe.runs.rows import RunKey
from bentpipe.runs.run_record import ProgramRecord, RunRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile
    from bentpipe.execution.emulation.spec import AtEnd, Internet
    from bentpipe.execution.rows import OnRows

NAME = "program"
"""Name of the Experiment."""

LOG = "server.log"
"""File with the server's output."""


@dataclass(frozen=True)
class ProgramRun:
    """Result of a program on a path. `run` is None without a folder; `note` describes output that was not parsed."""

    emulated: EmulationResult
    run: store.Run | None
    note: str | None = None

    @property
    def exit_code(self) -> int:
        """The program's exit code, as a shell reports it."""
        return self.emulated.exit_code


def run_program(
    profile: Profile,
    command: Sequence[str],
    *,
    server: str | None = None,
    out: str | os.PathLike[str] | None = None,
    seed: int = 0,
    offset_s: float | None = None,
    at_end: AtEnd = "loop",
    mtu: int = 1500,
    gateway_controller: str | None = None,
    internet: Internet = "public",
    queues: Sequence[str] = (),
    recovery: str | None = None,
    nodes: bool = False,
    capture: bool = False,
    listen_within_s: float = 10.0,
    on_rows: OnRows | None = None,
    on_start: Callable[[int], object] | None = None,
) -> ProgramRun:
    """Run `command` on the Profile's path, with the terminal of this process, as the same user.

    Args:
        profile: The path. For a seed other than 0 it is redrawn with its own seed + `seed`, as in a race.
        command: Program and arguments.
        server: Shell command at the other end, which has the host name ``server``. The program starts when it listens
            on TCP or UDP. Its output goes to `server.log` in the Run; without a Run it is discarded.
        out: Folder for the Run and, under `profiles`, the Profile; None: nothing is stored. The program's standard
            output is passed on and stored too, unless it is a terminal and the program none of the known tools
            (docs/reference/program-output.md).
        seed: Seed of the per-packet processes.
        offset_s: Offset in the Profile at which the path begins [s]; None: from the machine's clock, as in `Spec`.
        at_end: What to do if the program runs longer than the Profile.
        mtu: Largest IP packet [bytes].
        gateway_controller: The kernel's congestion controller at the gateway, for TCP from the Internet to the program
            (a split connection: docs/concepts/emulation.md); None: the kernel's default.
        internet: Addresses that the program can reach beside the server: ``public``; ``any``: private addresses and
            this machine's networks too, with this user's access; ``none``. This is no sandbox.
        queues: Queue disciplines that replace the Profile's own, in the syntax of `bentpipe.profiles.queues`.
        recovery: Loss recovery on the path: a scheme of `bentpipe recovery` that acts inside the network, with its
            tunables. The Run records it and its overhead.
        nodes: The path is processes of their own that exchange real packets: terminal, satellites and ground station.
            They do not repeat the Profile: `at_end` ``loop`` holds its last values.
        capture: Store the packets at both ends in the Run, as `client.pcapng` and `server.pcapng`; with `nodes` the
            frames that each node sends, as `terminal.pcap`, `ground.pcap` and `satellite*.pcap`, and `nodes.lua`, which
            Wireshark reads them with.
        listen_within_s: Longest wait for the server to listen [s].
        on_rows: Called with the rows of the Run while it goes on, as lines of JSON (`bentpipe.runs.rows`), in a thread
            of its own. If it falls far behind, rows are dropped and a row says how many; an exception from it is raised
            when the Run is stored.
        on_start: Called once the path has begun, with the machine's time at its begin [ns since 1970].

    Raises:
        UserError: The program cannot be run on this path.
        EmulationError: The emulation failed after its start.
        StoreError: The disk cannot be written.
        The message of the last two names the folder with everything that was written.
    """
    if not command:
        raise UserError("no program", expected="one after `--`, for example: -- ping -c 3 server")
    if capture and out is None:
        raise UserError("no folder for the Run", where="capture", expected="`out`")
    out = None if out is None else Path(out)
    (base,) = plan.label_profiles([profile])
    drawn = base.drawn(seed)
    missing = []
    if out is not None:
        store.check_folder(out)
        base = replace(base, label=free_label(base, out))
        missing = [place for place in (out, *out.parents) if not place.exists()]
    folder = None if out is None else captures.new_folder(out)
    log = folder and str((folder / LOG).absolute())
    spec = Spec(
        workload={"program": {"command": list(command), "server": server, "server_log": log}},
        seed=seed,
        offset_s=offset_s,
        at_end=at_end,
        mtu=mtu,
        gateway_controller=gateway_controller,
        internet=internet,
        queues=tuple(parse_queue(text) for text in queues),
        recovery=None if recovery is None else parse_path_recovery(recovery),
        nodes=nodes,
        listen_within_s=listen_within_s,
    )
    with contextlib.ExitStack() as stack:
        rows = None
        if on_rows is not None:
            thread = stack.enter_context(RowThread(on_rows))
            key = RunKey(experiment=NAME, profile=base.label, scheme=_scheme(spec), seed=seed)
            rows = RunRows(thread.give, key, real_time=True)
            stack.enter_context(rows.with_end())
        if folder is None or out is None:
            return ProgramRun(_emulate(drawn, spec, rows, on_start=on_start), None)
        emulated = None
        try:
            start_unix_ns = time.time_ns()
            with Tee(command, folder / RAW) as tee:
                captured = replace(spec, capture=folder if capture else None)
                emulated = _emulate(drawn, captured, rows, tee.stdout, on_start)
            captures.make_room(folder, emulated)
            with store.storing(folder):
                tee.settle()
                parsed = parse(tee, (emulated.started or {}).get("clock_unix_ns", start_unix_ns))
                if parsed is not None and parsed.document is not None:
                    (folder / FILE).write_bytes(parsed.document)
            store_profiles([base], out, fresh=True)
            run = _store_run(out, base, drawn, spec, emulated, start_unix_ns, parsed, queues)
            if spec.nodes and capture:
                with store.storing(folder):
                    shutil.copy(DISSECTOR, folder)
            captures.move_into(folder, run)
        except (StoreError, EmulationError) as error:
            raise type(error)(f"{error}{_exit_note(folder, emulated)}") from error
        except BaseException:
            _remove(folder, missing)
            raise
        shutil.rmtree(folder, ignore_errors=True)
        return ProgramRun(emulated, run, None if parsed is None else parsed.note)


def _emulate(
    path: Profile,
    spec: Spec,
    rows: RunRows | None,
    stdout: int | None = None,
    on_start: Callable[[int], object] | None = None,
) -> EmulationResult:
    def on_message(message: Mapping[str, Any]) -> None:
        if on_start is not None and message["type"] == "started":
            on_start(message["clock_unix_ns"])

    if rows is None:
        return emulate(path, spec, on_message=on_message, stdout=stdout)
    emulated = emulate(path, spec, on_message=on_message, on_rows=rows.add, stdout=stdout)
    rows.why_invalid = emulated.why_invalid
    return emulated


def _scheme(spec: Spec) -> str:
    """Return the name of the program."""
    return store.safe_name(Path(_readable(spec.workload["program"]["command"][0])).name)


def _remove(folder: Path, made: Sequence[Path]) -> None:
    """Remove `folder`, and those of the folders `made` for it that are empty then."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        for place in made:
            place.rmdir()


def _exit_note(folder: Path, emulated: EmulationResult | None) -> str:
    """Return the end of an error message: the program's exit code, and the folder if it has files."""
    left = [file for file in folder.iterdir() if file.stat().st_size]
    if not left:
        shutil.rmtree(folder, ignore_errors=True)
    ended = "" if emulated is None else f"; the program's exit code was {emulated.exit_code}"
    return ended + (f"; its output is in {folder}" if left else "")


def _store_run(
    out: Path,
    base: work.Base,
    drawn: Profile,
    spec: Spec,
    emulated: EmulationResult,
    start_unix_ns: int,
    parsed: Parsed | None,
    queues: Sequence[str],
) -> store.Run:
    program = spec.workload["program"]
    scheme = _scheme(spec)
    reported = (emulated.done or {}).get("experiment")
    experiment = _unfinished(spec) if reported is None else Experiment.check(reported, "the emulator's Experiment")
    # The emulator's path has the requested queues; the Profile is stored without them, and the rules beside it.
    reference = ProfileRef(role=spec.role, name=drawn.name, hash=drawn.content_hash())
    experiment = experiment.replace(profiles=(reference,))
    summary: Any = json.loads(emulated.summary_json())
    whole = RunRecord(
        world="emulated",
        node="emulated",
        scheme=scheme,
        seed=spec.seed,
        phase=spec.phase(drawn),
        profiles=(record.profile_record(base, drawn, drawn.content_hash()),),
        experiment=experiment,
        program=ProgramRecord(
            command=tuple(_readable(word) for word in program["command"]),
            server=program["server"] and _readable(program["server"]),
            server_log=LOG if program["server"] else None,
            at_end=spec.at_end,
            mtu=spec.mtu,
            gateway_controller=spec.gateway_controller,
            internet=spec.internet,
            queues=tuple(queues),
            listen_within_s=spec.listen_within_s,
        ),
        program_output=None if parsed is None else parsed.summary,
        started_unix_ns=start_unix_ns,
        versions=record.versions("emulated"),
        valid=summary.pop("valid"),
        why_invalid=summary.pop("why_invalid"),
        summary=summary,
        content_hash=emulated.content_hash(),
    )
    folder = store.run_folder(out, NAME, "emulated", start_unix_ns, f"{base.label}.{scheme}")
    n = 2
    while folder.exists():
        folder = folder.with_name(f"{base.label}.{scheme}~{n}")
        n += 1
    return store.write_run(folder, whole, record.tables(experiment.to_dict()["flows"], emulated))


def _readable(text: str) -> str:
    r"""Replace bytes of a command line that are no UTF-8 by ``\x80``."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _unfinished(spec: Spec) -> Experiment:
    """Return the Experiment of an emulation that stopped before it reported one."""
    return Experiment(name=NAME, seed=spec.seed, duration_ns=0, warmup_ns=0, sample_step_ns=0, profiles=(), flows=())

"""A program behind a Profile, and the Run that comes of it."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.emulation import Emulated, Spec, emulate
from bentpipe.errors import UserError
from bentpipe.runs import captures, plan, record, store
from bentpipe.runs.program_output import FILE, RAW, Tee, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.emulation import AtEnd
    from bentpipe.runs.program_output import Parsed

NAME = "program"
"""The Experiment's name."""


@dataclass(frozen=True)
class ProgramRun:
    """What came of it. `run` is None where no folder was asked for; `note`: what of the output could not be read."""

    emulated: Emulated
    run: store.Run | None
    note: str | None = None

    @property
    def exit_code(self) -> int:
        """The program's, as a shell has it."""
        return self.emulated.exit_code


def run_program(
    profile: Profile,
    command: Sequence[str],
    *,
    server: str | None = None,
    out: Path | None = None,
    seed: int = 0,
    offset_s: float | None = None,
    at_end: AtEnd = "loop",
    mtu: int = 1500,
    gateway_controller: str | None = None,
    capture: bool = False,
) -> ProgramRun:
    """Run `command` behind the Profile, with the terminal of this process, as the same user.

    Args:
        profile: The path. For a seed other than 0 it is drawn anew with its own seed + `seed`, as in a race.
        command: Program and arguments.
        server: A line of shell that runs at the other end, where the name ``server`` leads. The program starts when it
            listens on TCP or UDP. What it prints goes to `server.log` in the Run, or nowhere.
        out: Folder for the Run; None: nothing is kept. The program's standard output goes where it would and is kept
            too, unless it is a terminal and the program none of the known tools (docs/reference/program-output.md).
        seed: Of the per-packet draws.
        offset_s: Where in the Profile it begins; None: at the machine's second of the minute.
        at_end: What happens if the program runs longer than the Profile.
        mtu: Largest IP packet [bytes].
        gateway_controller: The kernel's congestion controller at the gateway, for TCP from the Internet to the program
            (a split connection: docs/concepts/emulation.md); None: the kernel's default.
        capture: Whether the packets at both ends are kept in the Run, as `client.pcapng` and `server.pcapng`.

    Raises:
        UserError: what cannot be run.
        EmulationError: the emulation failed after it had begun.
        StoreError: the disk refuses.
    """
    if not command:
        raise UserError("no program; wanted one behind `--`, for example: -- ping -c 3 server")
    if capture and out is None:
        raise UserError("--capture: goes into the Run; wanted a folder for it, -o FOLDER")
    (base,) = plan.label_profiles([profile])
    drawn = base.drawn(seed)
    if out is not None:
        store.check_folder(out)
    log = None if out is None else out / f".server-{time.time_ns()}.log"
    if out is not None:
        with store.storing(out):
            out.mkdir(parents=True, exist_ok=True)
    spec = Spec(
        workload={"program": {"command": list(command), "server": server, "server_log": log and str(log)}},
        seed=seed,
        offset_s=offset_s,
        at_end=at_end,
        mtu=mtu,
        gateway_controller=gateway_controller,
    )
    start_unix_ns = time.time_ns()
    if log is None or out is None:
        return ProgramRun(emulate(drawn, spec), None)
    written = log.with_suffix(".out")
    try:
        with captures.taking(out if capture else None) as captured:
            with Tee(command, written) as tee:
                emulated = emulate(drawn, replace(spec, capture=captured), stdout=tee.stdout)
            said = parse(tee, (emulated.started or {}).get("clock_unix_ns", start_unix_ns))
            run = _keep(out, base, drawn, spec, emulated, start_unix_ns, said)
            captures.keep(captured, run)
        with store.storing(run.path):
            for file, name in ((log, "server.log"), (written, RAW)):
                if file.exists():
                    shutil.move(file, run.path / name)
            if said is not None and said.document is not None:
                (run.path / FILE).write_bytes(said.document)
    finally:
        log.unlink(missing_ok=True)
        written.unlink(missing_ok=True)
    return ProgramRun(emulated, run, None if said is None else said.note)


def _keep(
    out: Path,
    base: plan.Base,
    drawn: Profile,
    spec: Spec,
    emulated: Emulated,
    start_unix_ns: int,
    said: Parsed | None,
) -> store.Run:
    command = spec.workload["program"]["command"]
    entrant = store.safe_name(Path(command[0]).name)
    experiment = (emulated.done or {}).get("experiment") or _unfinished(drawn, spec)
    summary: dict[str, Any] = json.loads(emulated.summary_json())
    whole = {
        "format": store.FORMAT,
        "world": "emulated",
        "node": "emulated",
        "entrant": entrant,
        "seed": spec.seed,
        "phase": "wall_clock" if spec.offset_s is None else "given",
        "profiles": [record.profile_record(base, drawn, drawn.content_hash())],
        "experiment": experiment,
        "program": spec.workload["program"],
        "program_output": None if said is None else said.summary,
        "started_unix_ns": start_unix_ns,
        "versions": record.versions(),
        "valid": summary.pop("valid"),
        "why_invalid": summary.pop("why_invalid"),
        "summary": summary,
        "content_hash": emulated.content_hash(),
    }
    folder = store.run_folder(out, NAME, "emulated", start_unix_ns, f"{base.label}.{entrant}")
    n = 2
    while folder.exists():
        folder = folder.with_name(f"{base.label}.{entrant}~{n}")
        n += 1
    return store.write_run(folder, whole, record.tables(experiment["flows"], emulated))


def _unfinished(profile: Profile, spec: Spec) -> dict[str, Any]:
    """The Experiment of an emulation that ended before it could say what it saw."""
    return {
        "name": NAME,
        "seed": spec.seed,
        "duration_ns": 0,
        "warmup_ns": 0,
        "sample_step_ns": 0,
        "offset_ns": 0,
        "profiles": [{"role": spec.role, "name": profile.name, "hash": profile.content_hash()}],
        "hosts": {},
        "flows": [],
    }

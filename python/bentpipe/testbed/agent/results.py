"""The folder of a result: what the program wrote, its output, the terminal's telemetry, and the record of the run.

================  =============================================================
``run.json`` …    a measured Run, if the program wrote one (built-in experiments)
``terminal/``     a measured Run of the terminal's telemetry; of the built-in ``dish`` it is the result's own
``emulation/``    the emulator's Run, of a run on an emulated path
``capture/``      the run's packets, if the experiment asks for them
``logs/``         output of the program
``testbed.json``  `RunRecord`
================  =============================================================

The server's end has the same in its own folder. Nothing of the program's files is read here.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from pydantic import Field

from bentpipe.records import Items, Record
from bentpipe.testbed.agent.identity import write_private
from bentpipe.testbed.schemas.desired import End, Work
from bentpipe.testbed.schemas.identifiers import Id

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.testbed.agent.surroundings import RunPlan, Surroundings
    from bentpipe.testbed.runners.base import PreparedRun


class RunRecord(Record):
    """``testbed.json``: what the testbed knows of an end of a run."""

    format: int = 1
    """Number of the format."""
    run: Id
    """Run."""
    plan: Id
    """Plan."""
    end: End
    """End."""
    node: str
    """Node."""
    peer: str | None
    """Node of the other end."""
    attempt: int
    """Attempt."""
    cause: str
    """Why it ran: ``calendar``, ``trigger``, ``retry`` or ``client``."""
    work: Work
    """What it did."""
    due_at_ms: int
    """When it was due [ms since 1970]."""
    began_at_ms: float | None
    """When its traffic began, by the orchestrator's clock; null: it did not."""
    ended_at_ms: float
    """When it ended."""
    clock_offset_ms: float | None
    """Offset of the orchestrator's clock from this node's."""
    clock_error_ms: float | None
    """Bound of its error."""
    state: str
    """Final state."""
    reason: str
    """Why."""
    runner: str | None
    """Runner."""
    exit_code: int | None
    """Exit code of the program."""
    up_bytes: int | None
    """Bytes that the run sent."""
    down_bytes: int | None
    """Bytes that it received."""
    settings: Items[dict[str, Any]] = Field(default=())
    """Outcome of each kernel setting."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions."""
    notes: Items[str] = Field(default=())
    """What is missing in the result, and why."""


def record_of(
    plan: RunPlan,
    around: Surroundings,
    *,
    began_at_ms: float | None,
    state: str,
    reason: str,
    runner: str | None,
    prepared: PreparedRun | None,
    used_bytes: tuple[int, int],
    exit_code: int | None = None,
    notes: tuple[str, ...] = (),
) -> RunRecord:
    """Return the record of an end of a run that ends now; `used_bytes`: sent and received."""
    offset = around.clock.offset()
    return RunRecord(
        run=plan.run,
        plan=plan.plan,
        end=plan.end,
        node=around.node,
        peer=None if plan.peer is None else plan.peer.node,
        attempt=plan.attempt,
        cause=plan.cause,
        work=plan.work,
        due_at_ms=plan.due_at_ms,
        began_at_ms=began_at_ms,
        ended_at_ms=around.clock.now_ms(),
        clock_offset_ms=None if offset is None else offset.offset_ms,
        clock_error_ms=None if offset is None else offset.error_ms,
        state=state,
        reason=reason,
        runner=runner,
        exit_code=exit_code,
        up_bytes=used_bytes[0],
        down_bytes=used_bytes[1],
        settings=() if prepared is None else tuple(prepared.settings),
        notes=notes,
    )


def gather(work_folder: Path, record: RunRecord) -> Path:
    """Make the folder of a result out of a run's folder; return it."""
    results = work_folder / "result"
    output = work_folder / "out"
    if output.is_dir():
        shutil.rmtree(results, ignore_errors=True)
        output.rename(results)
    else:  # there is one already if the disk was full the last time
        results.mkdir(exist_ok=True)
    for name in ("logs", "terminal", "emulation", "capture"):
        part = work_folder / name
        target = results / name
        if part.is_dir() and any(part.iterdir()):
            if target.is_symlink() or target.exists():  # the program wrote something of that name
                target = results / f"{name}-of-testbed"
            part.rename(target)
    server = results / "server"
    if record.end == "client" and (server.is_symlink() or server.exists()):
        server.rename(results / "server-of-program")  # the folder is the other end's
    if record.work.program.builtin == "dish" and record.end == "client":
        _lift(results / "terminal", results)
    target = results / "testbed.json"
    if target.is_symlink() or target.is_dir():
        target.rename(results / "testbed-of-program") if not target.is_symlink() else target.unlink()
    write_private(target, record.model_dump_json(indent=1, by_alias=True).encode())
    return results


def _lift(run: Path, results: Path) -> None:
    """Make the terminal's Run the result's own."""
    for file in sorted(run.iterdir()) if run.is_dir() else ():
        if not (results / file.name).exists():
            file.rename(results / file.name)
    if run.is_dir() and not any(run.iterdir()):
        run.rmdir()

"""Simulation of a Run with Python controllers or applications in a separate process.

A plugin that ends its process, with ``os._exit`` or a crash in native code, then ends only its own Run. Each
process has a fresh interpreter, so no module state passes from one Run to another.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.errors import ControllerError, StoreError, UserError
from bentpipe.experiments.plugins import exit_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from bentpipe._native import Network, Profile
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.experiments.plugins import OnLines, PythonPlugin

POLL_S = 0.1
"""Interval at which the waiting thread reports progress, which may raise [s]. Chosen here: unnoticeable."""

END_S = 5.0
"""Time within which a process that no longer sends must end before it is killed [s]. Chosen here."""

_ERRORS = {"controller": ControllerError, "store": StoreError, "user": UserError}
"""Errors of the process, by the name under which it sends them."""


@dataclass(frozen=True)
class SeparateRun:
    """Tables and summary of a Run, with the methods of `bentpipe._native.RunData`."""

    tables: dict[str, dict[str, Any]]
    summary: str
    hash: str

    def samples(self) -> dict[str, Any]:
        """Return the columns of `samples`."""
        return self.tables["samples"]

    def links(self) -> dict[str, Any]:
        """Return the columns of `links`."""
        return self.tables["links"]

    def events(self) -> dict[str, Any]:
        """Return the columns of `events`."""
        return self.tables["events"]

    def applications(self) -> dict[str, Any]:
        """Return the columns of `applications`."""
        return self.tables["applications"]

    def summary_json(self) -> str:
        """Return the summary, with `valid` and `why_invalid`."""
        return self.summary

    def content_hash(self) -> str:
        """Return the hash of tables and summary."""
        return self.hash


def simulate(
    experiment: Experiment,
    paths: Sequence[Profile],
    plugins: Sequence[PythonPlugin],
    on_progress: Callable[[float], None],
    hooks: Path | None = None,
    on_rows: OnLines | None = None,
    network: Network | None = None,
) -> SeparateRun:
    """Simulate one Run with these `plugins` in Python; `on_progress` may raise to stop it.

    `hooks` is a folder for the hook traces of the flows; `on_rows` receives the rows. `network` is the network whose
    paths `paths` are.

    Raises:
        UserError: The Experiment cannot be run.
        ControllerError: A plugin failed, or its process ended.
        StoreError: A hook trace cannot be written.
    """
    ours, theirs = Pipe()
    # The process has the same module search path; it does not run the caller's script again.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-P", "-m", __name__, str(theirs.fileno())]
    with ours, theirs:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, env=environment, pass_fds=[theirs.fileno()], close_fds=True
        )
        try:
            theirs.close()
            given = paths if network is None else network
            return _result(ours, process, experiment, given, plugins, on_progress, hooks, on_rows)
        finally:
            process.kill()
            with suppress(subprocess.TimeoutExpired):  # in the kernel, for example on a dead network file system
                process.wait(END_S)


def _result(
    channel: Connection,
    process: subprocess.Popen[bytes],
    experiment: Experiment,
    given: Sequence[Profile] | Network,
    plugins: Sequence[PythonPlugin],
    on_progress: Callable[[float], None],
    hooks: Path | None,
    on_rows: OnLines | None,
) -> SeparateRun:
    share = 0.0
    named = " or ".join(f"{plugin.role} {plugin.name}" for plugin in plugins)
    try:
        names = [(plugin.role, plugin.name) for plugin in plugins]
        contents = [given] if isinstance(given, _native.Network) else given
        tables = [(each.metadata_json(), each.table()) for each in contents]
        channel.send((experiment.to_json(), names, contents is not given, tables, hooks, on_rows is not None))
        while True:
            # Before the poll: what the process sent before its end is then received. Its end alone does not close the
            # channel if a controller started other processes.
            ended = process.poll() is not None
            if not channel.poll(0 if ended else POLL_S):
                if ended:
                    raise EOFError
                on_progress(share)
                continue
            kind, value = channel.recv()
            if kind == "share":
                share = value
                on_progress(share)
            elif kind == "rows" and on_rows is not None:
                on_rows(value)
            elif kind == "run":
                return SeparateRun(*value)
            else:
                raise _ERRORS[kind](value)
    except (EOFError, OSError, pickle.UnpicklingError):
        try:
            how = f"ended its process {exit_text(process.wait(END_S))}"
        except subprocess.TimeoutExpired:
            how = "closed a file of its process that it did not open"
        raise ControllerError(f"{named}: {how}; expected methods that return or raise") from None


def main() -> None:
    """Simulate the Run received over the channel whose file descriptor is the argument."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal sends Ctrl-C to all its processes; the parent ends this one
    from bentpipe.experiments.hook_traces import HookRecorder
    from bentpipe.experiments.plugins import simulate_json

    channel = Connection(int(sys.argv[1]))
    os.register_at_fork(after_in_child=channel.close)  # a process that a controller forks sends no results
    experiment, names, is_network, tables, hooks, has_rows = channel.recv()
    threading.Thread(target=_end_with_parent, args=(channel,), daemon=True).start()
    network = _native.Network.from_table(tables[0][0], **tables[0][1]) if is_network else None
    own = [] if is_network else [_native.Profile.from_table(metadata, **table) for metadata, table in tables]
    paths = own if network is None else network.profiles()
    try:
        with nullcontext() if hooks is None else HookRecorder(hooks) as on_hooks:
            on_rows = (lambda lines: channel.send(("rows", lines))) if has_rows else None
            run = simulate_json(
                experiment, names, paths, lambda share: channel.send(("share", share)), on_hooks, on_rows, network
            )
    except ControllerError as error:
        channel.send(("controller", str(error)))
    except UserError as error:
        channel.send(("user", str(error)))
    except StoreError as error:
        channel.send(("store", str(error)))
    except OSError as error:  # of `channel`: a controller's own is a ControllerError
        sys.exit(f"{' or '.join(name for _, name in names)}: the connection to the race is lost: {error}")
    else:
        parts = {"samples": run.samples(), "links": run.links(), "events": run.events()}
        parts["applications"] = run.applications()
        channel.send(("run", (parts, run.summary_json(), run.content_hash())))


def _end_with_parent(channel: Connection) -> None:
    """End this process when its parent has ended, even inside a controller's method."""
    with suppress(EOFError, OSError):
        channel.recv()  # the parent sends nothing more
    os._exit(1)


if __name__ == "__main__":
    main()

"""Plugin registry: Python controllers and applications in a user's file or in an installed package.

``./mine.py:Mine`` names a class in a file; a name of the entry points' group `GROUP` names one in a package. A Run's
identity includes the SHA-256 of the file, so an edited controller is another one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bentpipe import _native
from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.files import read_bytes
from bentpipe.plugin import APP_HOOKS, HOOKS, App, make, make_ends, tunables, unknown_hooks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe._native import Network, Profile, RunData
    from bentpipe.experiments.experiment import Experiment

    OnHooks = Callable[[int, bytes], object]
    """Called with a flow's index and the next part of its hook trace."""

    OnLines = Callable[[bytes], object]
    """Called with the next rows as lines of JSON, without their Run."""

GROUP = "bentpipe.controllers"
"""Group of entry points of packages with controllers."""

LOADED = 77
"""Exit code of the process that tries to load a controller, if loading returns. Chosen here: no usual exit code."""

Role = Literal["controller", "app"]

_OPTION: dict[Role, str] = {"controller": "schemes", "app": "app"}

_loading: ContextVar[str | None] = ContextVar("_loading", default=None)
"""The file whose module this thread is executing for its class."""

_IN_FILE = re.compile(r"(?P<file>.+\.py):(?P<kind>[A-Za-z_]\w*)\Z")


@dataclass(frozen=True)
class PythonPlugin:
    """A controller or an application in Python: its class, its tunables with defaults, and the hash of its file."""

    name: str
    kind: type
    tunables: dict[str, float]
    sha256: str
    role: Role = "controller"


def refuse_while_loading() -> None:
    """Refuse to start Runs from a plugin's file that is being loaded: each Run would load it, and start Runs again.

    Raises:
        UserError: Such a file is being loaded.
    """
    if (file := _loading.get()) is not None:
        raise UserError(
            "it starts Runs while it is loaded for its class",
            where=file,
            expected='what it runs below `if __name__ == "__main__":`',
        )


def is_in_file(name: str) -> bool:
    """Tell whether a name is that of a class in a Python file."""
    return _IN_FILE.match(name) is not None


def is_python_controller(name: str) -> bool:
    """Tell whether a name is that of a Python controller."""
    return is_in_file(name) or name in plugin_names()


@cache
def plugin_names() -> list[str]:
    """Return the names of the controllers of installed packages."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def find_python_controller(name: str) -> PythonPlugin:
    """Load the controller with this name, first in a separate process: a module may end the process that loads it.

    Raises:
        UserError: Its file, class or required method is missing, or its module ends the process.
    """
    refuse_while_loading()
    match = _IN_FILE.match(name)
    _try_to_load(name, b"" if match is None else read_bytes(match["file"]), "controller")
    return _load(name)


@cache
def _try_to_load(name: str, _content: bytes, role: Role) -> None:
    """Load a controller in a separate process, once for each content of its file. Raises `UserError` if that fails."""
    # Without pipes: a process that the module starts would keep them open. `main` ends the process in any case.
    code = subprocess.run(
        [sys.executable, "-P", "-m", __name__, name, role],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    ).returncode
    if code != LOADED:
        raise UserError(
            f"{name} cannot be loaded: it ended its process {exit_text(code)}", where=_OPTION[role], expected="a class"
        )


def main() -> None:
    """Load the controller that is the argument, and end with `LOADED`, also if it cannot be loaded."""
    with suppress(UserError):
        _load(sys.argv[1], "app" if sys.argv[2] == "app" else "controller")
    os._exit(LOADED)


def exit_text(code: int) -> str:
    """Describe how a process ended, from its `subprocess.Popen.returncode`."""
    if code >= 0:
        return f"with exit code {code}"
    name = next((f" ({known.name})" for known in signal.Signals if known == -code), "")  # real-time signals: no name
    return f"by signal {-code}{name}"


def _load(name: str, role: Role = "controller") -> PythonPlugin:
    """Load the controller or application with this name in this process. Raises as `find_python_controller` does."""
    match = _IN_FILE.match(name)
    if match is None:
        return _of_package(name)
    data = read_bytes(match["file"])
    return _of_file(name, match["file"], match["kind"], hashlib.sha256(data).hexdigest(), role)


def read_python_tunable(name: str, tunable: str, text: str) -> float:
    """Parse the value of a tunable. Raises `UserError`."""
    return tunable_value(find_python_controller(name), tunable, text)


def tunable_value(plugin: PythonPlugin, tunable: str, text: str) -> float:
    """Parse the value of a plugin's tunable. Raises `UserError`."""
    known, where = plugin.tunables, plugin.name
    if tunable not in known:
        raise UserError(
            f"no tunable {shown(tunable)}{did_you_mean(tunable, list(known))}",
            where=where,
            expected=", ".join(known) or "none, as a tunable is a numeric attribute of the class",
        )
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not math.isfinite(value):
        raise UserError(f"{tunable} is {shown(text)}", where=where, expected="a number")
    return value


def find_python_app(name: str) -> PythonPlugin:
    """Load the application ``FILE.py:CLASS``, first in a separate process. Raises as `find_python_controller` does."""
    refuse_while_loading()
    match = _IN_FILE.match(name)
    assert match is not None  # `is_in_file`
    _try_to_load(name, read_bytes(match["file"]), "app")
    return _load(name, "app")


def python_plugins(experiment: Experiment) -> list[PythonPlugin]:
    """Return the Python controllers and applications of an Experiment's flows."""
    return [
        find_python_app(name) if role == "app" else find_python_controller(name)
        for role, name in named_plugins(experiment)
    ]


def named_plugins(experiment: Experiment) -> list[tuple[Role, str]]:
    """Return role and name of the Python controllers and applications of an Experiment, without loading them."""
    controllers = dict.fromkeys(flow.controller for flow in experiment.flows)
    apps = dict.fromkeys(app.name for flow in experiment.flows if (app := getattr(flow.app, "plugin", None)))
    return [
        *(("controller", name) for name in controllers if is_python_controller(name)),
        *(("app", name) for name in apps),
    ]


def file_hash(name: str) -> str | None:
    """Return the SHA-256 of the file of ``FILE.py:CLASS`` without loading it; None: the class is of a package.

    Raises:
        UserError: The file is missing or cannot be read.
    """
    match = _IN_FILE.match(name)
    return None if match is None else hashlib.sha256(read_bytes(match["file"])).hexdigest()


def simulate(
    experiment: Experiment,
    paths: Sequence[Profile],
    on_progress: Callable[[float], None] | None = None,
    on_hooks: OnHooks | None = None,
    on_rows: OnLines | None = None,
    network: Network | None = None,
) -> RunData:
    """Simulate one Run, with controllers and applications in Rust and in Python.

    `on_hooks` receives the hook traces, `on_rows` the rows. `network` is the network whose paths `paths` are.

    Raises:
        UserError: The Experiment cannot be run.
        ControllerError: A Python controller or application failed; the message has its name, the time and the reason.
    """
    names = [(plugin.role, plugin.name) for plugin in python_plugins(experiment)]
    return simulate_json(experiment.to_json(), names, paths, on_progress, on_hooks, on_rows, network)


def simulate_json(
    experiment: str,
    names: Sequence[tuple[Role, str]],
    paths: Sequence[Profile],
    on_progress: Callable[[float], None] | None = None,
    on_hooks: OnHooks | None = None,
    on_rows: OnLines | None = None,
    network: Network | None = None,
) -> RunData:
    """Simulate an Experiment given as JSON with these controllers and apps in Python. Raises as `simulate` does."""
    controllers = {name: partial(make, _load(name).kind) for role, name in names if role == "controller"}
    apps = app_factories([name for role, name in names if role == "app"])
    return _native.simulate(experiment, paths, on_progress, controllers, apps, on_hooks, on_rows, network)


def app_factories(names: Sequence[str]) -> dict[str, Callable[..., tuple[App | None, App | None]]]:
    """Return a function for each application in Python. It takes options and a seed, and makes both ends of a flow.

    Raises:
        UserError: A file or class is missing.
    """
    return {name: partial(make_ends, _load(name, "app").kind) for name in names}


@cache
def _of_file(name: str, file: str, kind: str, sha256: str, role: Role) -> PythonPlugin:
    """Load a class from a file, once for each content of the file."""
    module_name = f"bentpipe_plugin_{sha256[:16]}"
    spec = importlib.util.spec_from_file_location(module_name, file)
    assert spec is not None  # its name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    before = _loading.set(file)
    try:
        spec.loader.exec_module(module)
    except UserError:
        del sys.modules[module_name]
        raise
    except Exception as error:
        del sys.modules[module_name]
        raise UserError(f"{file} cannot be loaded: {type(error).__name__}: {error}", where=_OPTION[role]) from error
    finally:
        _loading.reset(before)
    loaded = getattr(module, kind, None)
    if not isinstance(loaded, type):
        classes = [
            each for each, value in vars(module).items() if isinstance(value, type) and value.__module__ == module_name
        ]
        raise UserError(
            f"{file} has no class {kind}{did_you_mean(kind, classes)} (it has {', '.join(classes) or 'none'})",
            where=_OPTION[role],
        )
    return _checked_app(name, loaded, sha256) if role == "app" else _checked(name, loaded, sha256)


@cache
def _of_package(name: str) -> PythonPlugin:
    for point in entry_points(group=GROUP):
        if point.name == name:
            try:
                kind = point.load()
            except Exception as error:
                raise UserError(f"{name} ({point.value}) cannot be loaded: {error}", where="schemes") from error
            if not isinstance(kind, type):
                raise UserError(
                    f"{name} ({point.value}) is no class",
                    where="schemes",
                    expected="a class like bentpipe.plugin.Controller",
                )
            source = Path(inspect.getsourcefile(kind) or "").read_bytes()
            return _checked(name, kind, hashlib.sha256(source).hexdigest())
    raise UserError(f"no controller {shown(name)}", where="schemes")


def _checked(name: str, kind: type, sha256: str) -> PythonPlugin:
    if not callable(getattr(kind, "on_ack", None)):
        raise UserError(
            f"{name} has no method on_ack", where="schemes", expected="a class like bentpipe.plugin.Controller"
        )
    if unknown := unknown_hooks(kind):
        raise UserError(
            f"{name} has a method {unknown[0]}, which the simulator never calls{did_you_mean(unknown[0], HOOKS)}",
            where="schemes",
            expected=f"{', '.join(HOOKS)}",
            hint="on_congestion for reacting to loss, or a helper's name without on_",
        )
    return PythonPlugin(name, kind, tunables(kind), sha256)


def _checked_app(name: str, kind: type, sha256: str) -> PythonPlugin:
    if not issubclass(kind, App):
        raise UserError(f"{name} is no application", where="app", expected="a subclass of bentpipe.plugin.App")
    for each in (kind, *([kind.peer] if kind.peer is not None else [])):
        if unknown := unknown_hooks(each, APP_HOOKS):
            raise UserError(
                f"{name} has a method {unknown[0]}, which the simulator never calls"
                f"{did_you_mean(unknown[0], APP_HOOKS)}",
                where="app",
                expected=", ".join(APP_HOOKS),
                hint="a name without on_",
            )
    if kind.end not in ("sender", "receiver"):
        raise UserError(f"{name}.end is {shown(kind.end)}", where="app", expected="'sender' or 'receiver'")
    return PythonPlugin(name, kind, tunables(kind), sha256, "app")


if __name__ == "__main__":
    # Not this copy's `main`: what the loaded file imports must see that it is being loaded.
    importlib.import_module("bentpipe.experiments.plugins").main()

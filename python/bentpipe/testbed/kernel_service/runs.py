"""Runs that a client has registered, and the verbs applied to them."""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from bentpipe.errors import UserError, shown
from bentpipe.testbed.kernel_service import actions
from bentpipe.testbed.kernel_service.probe import capabilities
from bentpipe.testbed.kernel_service.vocabulary import sysctl_text
from bentpipe.testbed.namespaces import linux
from bentpipe.testbed.namespaces.network import in_network

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.testbed.kernel_service.vocabulary import Call

_NS_GET_NSTYPE: Final = 0xB703
MAX_RUNS: Final = 256
"""Registered runs of one connection."""


@dataclass
class RegisteredRun:
    """A run's namespace, and what it was before the first change."""

    network: int
    sysctls: dict[str, str] = field(default_factory=dict)
    offloads: dict[str, bool] = field(default_factory=dict)
    has_qdisc: bool = False


@cache
def _capabilities() -> dict[str, Any]:
    return capabilities()


class Runs:
    """Runs of one connection; when it closes they are forgotten, so a killed agent's namespaces do not live on."""

    def __init__(self) -> None:
        """Start without runs."""
        self._runs: dict[str, RegisteredRun] = {}

    def register(self, name: str, descriptors: list[int]) -> None:
        """Register a run; takes over the descriptor.

        Raises:
            UserError: It is not one descriptor of a network namespace, or of this service's own.
        """
        if len(descriptors) != 1:
            raise UserError(f"{len(descriptors)} descriptors", where="register", expected="that of a network namespace")
        if name in self._runs or len(self._runs) >= MAX_RUNS:
            raise UserError(shown(name), where="register", expected="a new run, of at most 256")
        (network,) = descriptors
        try:
            is_network = fcntl.ioctl(network, _NS_GET_NSTYPE) == linux.CLONE_NEWNET
        except OSError:
            is_network = False
        if not is_network:
            raise UserError("another file", where="register", expected="a network namespace")
        if os.fstat(network).st_ino in _own_networks():
            raise UserError("the machine's own network", where="register", expected="the namespace of a run")
        self._runs[name] = RegisteredRun(os.dup(network))

    def forget(self, name: str) -> None:
        """Forget a run, if it is known."""
        run = self._runs.pop(name, None)
        if run is not None:
            os.close(run.network)

    def forget_all(self) -> None:
        """Forget all runs."""
        for name in list(self._runs):
            self.forget(name)

    def perform(self, call: Call) -> Any:  # noqa: ANN401 - what JSON can say
        """Perform a checked call; return its result.

        Raises:
            UserError: The run is not registered.
            BentpipeError: The kernel lacks it, or refused.
        """
        if call.verb == "capabilities":
            return _capabilities()
        run = self._runs.get(call.run or "")
        if run is None:
            raise UserError(f"unknown run {shown(call.run)}", where=call.verb, expected="a registered one")
        verbs: dict[str, Callable[[RegisteredRun, dict[str, Any]], Any]] = {
            "cc.set": _set_controller,
            "sysctl.set": _set_sysctls,
            "qdisc.set": _set_qdisc,
            "offload.set": _set_offloads,
            "counters": lambda *_: actions.counters(),
            "reset": lambda run, _: _reset(run),
        }
        return in_network(run.network, lambda: verbs[call.verb](run, call.values))


def _own_networks() -> set[int]:
    inodes = set()
    for pid in ("self", "1"):
        try:
            inodes.add(os.stat(f"/proc/{pid}/ns/net").st_ino)  # noqa: PTH116
        except OSError:  # process 1 is another user's
            continue
    return inodes


def _set(run: RegisteredRun, key: str, text: str) -> None:
    before = actions.read_sysctl(key)
    if before is None:
        raise actions.UnsupportedError(f"{key}: this kernel has no such setting of a network namespace")
    run.sysctls.setdefault(key, before)
    actions.set_sysctl(key, text)


def _set_controller(run: RegisteredRun, values: dict[str, Any]) -> None:
    _set(run, actions.CONTROLLER, values["controller"])


def _set_sysctls(run: RegisteredRun, values: dict[str, Any]) -> None:
    for key, value in values.items():
        _set(run, key, sysctl_text(key, value))


def _set_qdisc(run: RegisteredRun, values: dict[str, Any]) -> None:
    actions.set_qdisc(values["kind"], values.get("options", {}))
    run.has_qdisc = True


def _set_offloads(run: RegisteredRun, values: dict[str, Any]) -> None:
    before = actions.offloads()
    for name, value in values["offload"].items():
        if name not in before:
            raise actions.UnsupportedError(f"offload {name}: the interface does not have it")
        run.offloads.setdefault(name, before[name])
        actions.set_offload(name, value)


def _reset(run: RegisteredRun) -> None:
    for key, text in run.sysctls.items():
        actions.set_sysctl(key, text)
    if run.has_qdisc:
        actions.delete_qdisc()
    for name, value in run.offloads.items():
        actions.set_offload(name, value)
    run.sysctls.clear()
    run.offloads.clear()
    run.has_qdisc = False

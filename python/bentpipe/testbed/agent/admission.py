"""Whether this node may run something: the host's policy first, then what the machine can do. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bentpipe.testbed.schemas.quantities import budget_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from bentpipe.testbed.schemas.desired import End, Work
    from bentpipe.testbed.schemas.policy import HostPolicy
    from bentpipe.testbed.schemas.quantities import Budget

LEAST_FREE_BYTES = 200_000_000
"""Free disk below which nothing new starts [bytes]."""
MOST_CLOCK_ERROR_MS = 1000.0
"""Error of the clock above which there are no runs with two ends [ms]."""


@dataclass(frozen=True)
class Host:
    """The node's present condition.

    Attributes:
        minute_of_day: Local minute of the day.
        free_bytes: Free disk [bytes].
        clock_error_ms: Error of the orchestrator's time here [ms]; None: never heard of it.
        used_bytes: Bytes that experiments used in the last so many seconds, of a plan (None: of all).
        runners: Names of the runners that work here.
        reviewed: Images that the orchestrator says were reviewed.
    """

    minute_of_day: int
    free_bytes: int
    clock_error_ms: float | None
    used_bytes: Callable[[float, str | None], int]
    runners: Collection[str]
    reviewed: Collection[str] = ()


def refusal(work: Work, policy: HostPolicy, host: Host, *, end: End = "client", has_peer: bool = False) -> str | None:
    """Return why this node does not run it now, in one line; None: it may.

    Example:
        >>> from bentpipe.testbed.schemas.policy import HostPolicy
        >>> policy = HostPolicy.check({"schema": "bentpipe.policy/1", "paused": True}, "policy")
        >>> refusal(None, policy, None)
        'the host has paused the node'
    """
    if policy.paused:
        return "the host has paused the node"
    problem = (
        _condition(work, policy, host, has_peer=has_peer) or _program(work, policy, host) or _settings(work, policy)
    )
    return problem if problem is not None or end == "server" else _budget(work, policy, host)


def _condition(work: Work, policy: HostPolicy, host: Host, *, has_peer: bool) -> str | None:
    if not policy.allows_at(host.minute_of_day, work.duration_s):
        return f"outside of the host's hours ({', '.join(policy.hours)})"
    if host.free_bytes < LEAST_FREE_BYTES:
        return f"disk full: {host.free_bytes / 1e6:.0f} MB free, {LEAST_FREE_BYTES / 1e6:.0f} MB needed"
    if has_peer and (host.clock_error_ms is None or host.clock_error_ms > MOST_CLOCK_ERROR_MS):
        known = "unknown" if host.clock_error_ms is None else f"{host.clock_error_ms:.0f} ms"
        return f"the clock's error is {known}; a run with two ends needs {MOST_CLOCK_ERROR_MS:.0f} ms"
    return None


def _budget(work: Work, policy: HostPolicy, host: Host) -> str | None:
    for budget in policy.bytes:
        left_bytes = left(budget, host, None)
        if left_bytes < expected_bytes(work):
            return f"the host's budget of {budget_text(budget)} has {max(left_bytes, 0) / 1e6:.1f} MB left"
    return None


def left(budget: Budget, host: Host, plan: str | None) -> int:
    """Return the bytes that are left of a budget; negative: overdrawn."""
    return budget.size_bytes - host.used_bytes(budget.period_s, plan)


def expected_bytes(work: Work) -> int:
    """Return the bytes that a run is expected to use."""
    arguments = work.program.arguments
    return work.bytes_per_run if arguments is None else min(arguments.expected_bytes(), work.bytes_per_run)


def runner_for(work: Work, policy: HostPolicy, host: Host) -> str | None:
    """Return the first runner of the policy that works here and fits; None: there is none."""
    for name in policy.runners:
        fits = name == "docker" if work.program.image is not None else name != "docker"
        if fits and name in host.runners:
            return name
    return None


def _program(work: Work, policy: HostPolicy, host: Host) -> str | None:
    program = work.program
    if program.builtin is not None and policy.builtins is not None and program.builtin not in policy.builtins:
        return f"the host's policy does not allow {program.builtin}"
    if program.image is not None:
        if policy.images == "none":
            return "the host's policy allows no containers"
        if policy.images == "reviewed" and program.image not in host.reviewed:
            return "the host's policy allows reviewed containers only, and this one is not"
    if runner_for(work, policy, host) is None:
        return f"no runner: the host's policy allows {', '.join(policy.runners)}, here work {', '.join(host.runners)}"
    return None


def _settings(work: Work, policy: HostPolicy) -> str | None:
    kernel = work.kernel
    for verb, wanted in (
        ("cc.set", kernel.congestion_control is not None),
        ("qdisc.set", kernel.qdisc is not None),
        ("sysctl.set", bool(kernel.sysctl)),
        ("offload.set", bool(kernel.offload)),
    ):
        if wanted and verb not in policy.kernel:
            return f"the host's policy does not allow {verb}"
    if work.capture is not None and not policy.captures:
        return "the host's policy allows no captures"
    return None

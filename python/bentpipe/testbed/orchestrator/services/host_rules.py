"""What a host's policy, as its node reported it, says of a start: the node itself decides, this foretells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.services.selection import Candidate


def refusal_at(candidate: Candidate, at_ms: int) -> str:
    """Return why a node would not start a run at a time; empty: nothing is known against it."""
    report, policy = candidate.report, candidate.report.policy
    if policy.paused:
        return f"{candidate.name} is paused by its host"
    if candidate.settings.paused:
        return f"{candidate.name} is paused"
    if policy.hours and report.utc_offset_s is not None:
        minute = (at_ms // 1000 + report.utc_offset_s) // 60 % 1440
        if not policy.allows_at(minute):
            return f"outside of the hours of {candidate.name}'s host ({', '.join(policy.hours)} local time)"
    return ""

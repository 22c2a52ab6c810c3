"""A host's policy in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.testbed.dashboard.formats import duration, rate, size
from bentpipe.testbed.schemas.quantities import budget_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bentpipe.testbed.schemas.policy import HostPolicy


def policy_sentences(policy: HostPolicy) -> list[str]:
    """Return what a host allows, one sentence each.

    Example:
        >>> from bentpipe.testbed.schemas.policy import HostPolicy
        >>> policy_sentences(HostPolicy(schema="bentpipe.policy/1", paused=True))[0]
        'The host has paused the node: nothing runs.'
    """
    return list(_sentences(policy))


def _sentences(policy: HostPolicy) -> Iterator[str]:
    if policy.paused:
        yield "The host has paused the node: nothing runs."
    yield f"Experiments run {'at any time' if not policy.hours else 'at ' + ', '.join(policy.hours) + ' local time'}."
    if policy.bytes:
        yield f"They use at most {' and '.join(budget_text(budget) for budget in policy.bytes)}."
    else:
        yield "No byte budget."
    if policy.rate is not None:
        yield f"At most {rate(policy.rate)} in each direction."
    yield f"At most {policy.max_parallel} of class normal and {policy.max_background} of class background at a time."
    yield f"Runners: {', '.join(policy.runners) or 'none'}."
    if policy.builtins is not None:
        yield f"Built-in experiments: {', '.join(policy.builtins) or 'none'}."
    yield "No containers." if policy.images == "none" else "Containers that the testbed reviewed."
    yield "Packets of experiments may be captured." if policy.captures else "No packet captures."
    reach = ", ".join(policy.reach_private)
    yield f"Experiments reach {reach}." if reach else "Experiments reach neither the terminal nor the home network."
    yield "Triggers may start experiments." if policy.triggers else "Triggers start nothing here."
    levels = policy.scavenger
    if levels.enabled:
        yield (
            f"The node yields when the household receives more than {rate(levels.down)} or sends more than "
            f"{rate(levels.up)}, until {duration(levels.quiet)} of quiet."
        )
    else:
        yield "The node does not yield to the household unless users turn that on."
    share = policy.share
    yield f"The place is blurred by {share.place_blur_km:g} km."
    if not share.telemetry:
        yield "The terminal's telemetry is not shared."
    yield f"At most {size(policy.disk_bytes)} of disk."

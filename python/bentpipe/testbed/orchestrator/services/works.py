"""What a run does, as agents get it, and what it needs."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from sqlalchemy import select

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import ProfileRow
from bentpipe.testbed.schemas.desired import Work

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.experiment import TestbedExperiment

LEAST_BYTES = 10_000_000
"""Least bytes of a run without `bytes_per_run`."""
LONGEST_RUN_S = 86_400
"""Longest time of a run [s]."""


def expected_bytes(experiment: TestbedExperiment) -> int:
    """Return the bytes that a run is expected to use."""
    arguments = experiment.run.arguments
    if arguments is not None:
        return arguments.expected_bytes()
    return experiment.limits.bytes_per_run or 0


def bytes_per_run(experiment: TestbedExperiment) -> int:
    """Return the bytes at which a run is ended. Raises `UserError`: a container without the key."""
    if experiment.limits.bytes_per_run is not None:
        return experiment.limits.bytes_per_run
    if experiment.run.arguments is None:
        raise UserError("key 'bytes_per_run' is missing", where="limits", expected="the bytes of a run of an image")
    return max(2 * expected_bytes(experiment), LEAST_BYTES)


def reserved_bytes(experiment: TestbedExperiment) -> int:
    """Return the bytes of the budget that a run holds until it has ended: what it is expected to use."""
    return min(expected_bytes(experiment), bytes_per_run(experiment))


async def make_work(transaction: Transaction, experiment: TestbedExperiment, owner: str) -> tuple[Work, str]:
    """Return the work of an experiment and its hash. Raises `UserError`: a Profile that nobody brought."""
    if experiment.run.longest_s > LONGEST_RUN_S:
        raise UserError(f"a run of {experiment.run.longest_s:.0f} s", where="run", expected="at most a day")
    profile = None
    if experiment.path.profile is not None:
        profile = await transaction.scalar(select(ProfileRow.sha256).where(ProfileRow.name == experiment.path.profile))
        if profile is None:
            raise UserError(
                f"no Profile {shown(experiment.path.profile)}",
                where="path: profile",
                expected="the name of an uploaded one",
                hint="`bentpipe exp profile FILE --name NAME`",
            )
    budget = experiment.limits.bytes
    limit = bytes_per_run(experiment)
    if budget is not None and limit > budget.size_bytes:
        raise UserError(
            f"{budget.size_bytes} bytes a {budget.period} are less than one run may use ({limit})",
            where="limits: bytes",
            expected="more, or a smaller bytes_per_run",
        )
    work = Work(
        experiment=experiment.name,
        owner=owner,
        program=experiment.run,
        path=experiment.path,
        profile_sha256=profile,
        kernel=experiment.kernel,
        capture=experiment.capture,
        booking_class=experiment.booking_class,
        duration_s=experiment.run.longest_s,
        bytes_per_run=limit,
        scavenger=experiment.scavenger,
        catch_up=experiment.catch_up,
    )
    text = json.dumps(work.to_dict(), sort_keys=True, separators=(",", ":"))
    return work, hashlib.sha256(text.encode()).hexdigest()

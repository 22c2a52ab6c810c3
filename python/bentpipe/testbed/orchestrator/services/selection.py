"""Which nodes fit an experiment, and why the others do not."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from bentpipe.errors import UserError, did_you_mean
from bentpipe.testbed.orchestrator.database.tables import ImageRow, NodeRow, PlanRow
from bentpipe.testbed.schemas.desired import NodeSettings
from bentpipe.testbed.schemas.experiment_views import NodeVerdict
from bentpipe.testbed.schemas.node import NodeReport

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Select

    from bentpipe.testbed.orchestrator.context import Transaction
    from bentpipe.testbed.schemas.desired import End
    from bentpipe.testbed.schemas.experiment import TestbedExperiment
    from bentpipe.testbed.schemas.node import Place

FIRST_REASONS = 5
"""Nodes whose reasons an error names."""


@dataclass(frozen=True)
class Candidate:
    """A node that could take part."""

    node: str
    name: str
    report: NodeReport
    settings: NodeSettings
    plans: int


@dataclass(frozen=True)
class Selection:
    """The nodes of an experiment.

    Attributes:
        clients: Client nodes.
        servers: Server node by id of the client.
        verdicts: Nodes that do not fit, with reasons.
    """

    clients: tuple[Candidate, ...]
    servers: dict[str, Candidate]
    verdicts: tuple[NodeVerdict, ...]


async def select_nodes(transaction: Transaction, experiment: TestbedExperiment) -> Selection:
    """Choose the nodes of an experiment.

    Raises:
        UserError: No node fits; the message says why the first ones do not.
    """
    wanted = experiment.nodes
    considered = await _candidates(transaction, "client", names=wanted.names, tags=wanted.tags)
    if wanted.names:
        present = {candidate.name for candidate in considered}
        for name in wanted.names:
            if name not in present:
                known = [row.name for row in await transaction.rows(_named("client"))]
                raise UserError(
                    f"no client node {name!r}{did_you_mean(name, known)}", where="nodes: names", code="unknown_name"
                )
    elif not considered:
        tags = [row.settings.get("tags", ()) for row in await transaction.rows(_named("client"))]
        known = sorted({tag for some in tags for tag in some})[:10]
        raise UserError(
            f"no client node has the tags {', '.join(wanted.tags)}",
            where="nodes: tags",
            expected=f"tags of nodes, as {', '.join(known) or 'none so far'}",
        )
    is_approved = await _is_approved(transaction, experiment)
    fitting, verdicts = _divide(experiment, considered, is_approved)
    if not fitting:
        raise UserError(_reasons(verdicts), where="nodes", code="no_node")
    fitting.sort(key=lambda each: (each.plans, each.name))
    clients = tuple(fitting[: wanted.max])
    servers = await _servers(transaction, experiment, clients, is_approved)
    return Selection(clients, servers, tuple(verdicts))


def _divide(
    experiment: TestbedExperiment, considered: Sequence[Candidate], is_approved: bool, end: End = "client"
) -> tuple[list[Candidate], list[NodeVerdict]]:
    fitting, verdicts = [], []
    for candidate in considered:
        reasons = tuple(misfits(experiment, candidate, is_approved, end))
        if reasons:
            verdicts.append(NodeVerdict(node=candidate.name, fits=False, reasons=reasons))
        else:
            fitting.append(candidate)
    return fitting, verdicts


def _reasons(verdicts: Sequence[NodeVerdict]) -> str:
    texts = [f"{verdict.node}: {', '.join(verdict.reasons)}" for verdict in verdicts[:FIRST_REASONS]]
    more = f"; and {len(verdicts) - FIRST_REASONS} more" if len(verdicts) > FIRST_REASONS else ""
    return f"no node fits ({'; '.join(texts)}{more})"


def _named(role: str) -> Select[tuple[str, dict[str, Any]]]:
    return select(NodeRow.name, NodeRow.settings).where(NodeRow.role == role, NodeRow.state == "active")


async def _candidates(
    transaction: Transaction, role: str, *, names: Sequence[str] = (), tags: Sequence[str] = ()
) -> list[Candidate]:
    """Return active nodes of a role: of these names, or with all of these tags."""
    column = PlanRow.node_id if role == "client" else PlanRow.server_id
    plans = (
        select(column.label("node"), func.count().label("plans"))
        .where(PlanRow.state == "active")
        .group_by(column)
        .subquery()
    )
    statement = (
        select(
            NodeRow.id, NodeRow.name, NodeRow.report, NodeRow.settings, func.coalesce(plans.c.plans, 0).label("plans")
        )
        .outerjoin(plans, plans.c.node == NodeRow.id)
        .where(NodeRow.role == role, NodeRow.state == "active")
        .order_by(NodeRow.name)
    )
    if names:
        statement = statement.where(NodeRow.name.in_(names))
    candidates = []
    for row in await transaction.rows(statement):
        if not set(tags) <= set(row.settings.get("tags", ())):
            continue
        report, settings = NodeReport.model_validate(row.report), NodeSettings.model_validate(row.settings)
        candidates.append(Candidate(row.id, row.name, report, settings, row.plans))
        if len(candidates) % 100 == 0:
            await asyncio.sleep(0)  # heartbeats of ten thousand nodes do not wait for this
    return candidates


async def _is_approved(transaction: Transaction, experiment: TestbedExperiment) -> bool:
    if experiment.run.image is None:
        return True
    state = await transaction.scalar(select(ImageRow.state).where(ImageRow.reference == experiment.run.image))
    return bool(state == "approved")


def misfits(
    experiment: TestbedExperiment, candidate: Candidate, is_approved: bool, end: End = "client"
) -> Iterator[str]:
    """Yield reasons why a node cannot run an experiment; none: it fits."""
    report, policy = candidate.report, candidate.report.policy
    if candidate.settings.draining:
        yield "it is being drained"
    if not report.runners:
        yield "no runner works there"
    if experiment.run.builtin is not None:
        if experiment.run.builtin not in report.builtins:
            yield f"the program of {experiment.run.builtin} is not there"
        if policy.builtins is not None and experiment.run.builtin not in policy.builtins:
            yield f"its host allows no {experiment.run.builtin}"
    else:
        yield from _image_misfits(report, is_approved)
    capture = experiment.capture
    if capture is not None and capture.ends in (end, "both") and not policy.captures:
        yield "its host allows no captures"
    if end == "server":
        return
    yield from _kernel_misfits(experiment, report)
    if experiment.when.trigger is not None:
        if not policy.triggers:
            yield "its host allows no triggers"
        missing = [name for name in trigger_signals(experiment) if name not in report.signals]
        if missing:
            yield f"it has no signal {', '.join(missing)}"


def _image_misfits(report: NodeReport, is_approved: bool) -> Iterator[str]:
    if "docker" not in report.runners:
        yield "it runs no containers"
    if report.policy.images == "none":
        yield "its host allows no containers"
    if report.policy.images == "reviewed" and not is_approved:
        yield "its host allows reviewed images only, and this one is not"


def _kernel_misfits(experiment: TestbedExperiment, report: NodeReport) -> Iterator[str]:
    kernel, verbs = experiment.kernel, report.policy.kernel
    controller = kernel.congestion_control
    if controller is not None and controller not in report.kernel.controllers:
        yield f"its kernel has no {controller}"
    if controller is not None and "cc.set" not in verbs:
        yield "its host does not allow cc.set"
    qdisc = kernel.qdisc
    if qdisc is not None and not qdisc.optional:
        if qdisc.kind not in report.kernel.qdiscs:
            yield f"its kernel has no qdisc {qdisc.kind}"
        if "qdisc.set" not in verbs:
            yield "its host does not allow qdisc.set"
    if kernel.sysctl and "sysctl.set" not in verbs:
        yield "its host does not allow sysctl.set"
    if kernel.offload and "offload.set" not in verbs:
        yield "its host does not allow offload.set"


def trigger_signals(experiment: TestbedExperiment) -> Collection[str]:
    """Return the signals of an experiment's condition."""
    from bentpipe.triggers.trigger import Trigger

    when = experiment.when
    if when.trigger is None:
        return ()
    trigger = Trigger(when.trigger, None, window_s=when.window, for_windows=when.for_windows, cooldown_s=when.cooldown)
    return sorted(trigger.expression.signals)


async def _servers(
    transaction: Transaction, experiment: TestbedExperiment, clients: Sequence[Candidate], is_approved: bool
) -> dict[str, Candidate]:
    if not experiment.needs_server_node or experiment.server is None:
        return {}
    wish = experiment.server
    considered = await _candidates(
        transaction, "server", names=[] if wish.name is None else [wish.name], tags=wish.tags
    )
    if not considered:
        wanted = experiment.server.to_dict()
        raise UserError(f"no server node fits {_wish(wanted)}", where="server", code="no_node")
    fitting, verdicts = _divide(experiment, considered, is_approved, "server")
    fitting = [each for each in fitting if each.report.control_address is not None]
    if not fitting:
        raise UserError(
            _reasons(verdicts) if verdicts else "no server node has an address", where="server", code="no_node"
        )
    return {
        client.node: min(
            fitting,
            key=lambda server: (distance_km(client.report.place, server.report.place), server.plans, server.name),
        )
        for client in clients
    }


def _wish(wanted: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {entry}" for key, entry in wanted.items() if entry)


def distance_km(one: Place | None, other: Place | None) -> float:
    """Return the distance of two places on the sphere; an unknown one is half the globe away [km].

    Example:
        >>> round(distance_km(None, None))
        20015
    """
    radius_km = 6371.0
    if one is None or other is None:
        return math.pi * radius_km
    first, second = math.radians(one.latitude_deg), math.radians(other.latitude_deg)
    across = math.radians(other.longitude_deg - one.longitude_deg)
    chord = math.sin((second - first) / 2) ** 2 + math.cos(first) * math.cos(second) * math.sin(across / 2) ** 2
    return 2 * radius_km * math.asin(math.sqrt(min(1.0, chord)))

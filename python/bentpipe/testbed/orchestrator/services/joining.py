"""How a node joins: a join token, once; then a certificate that is renewed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import insert, select, update

from bentpipe.errors import UserError, shown
from bentpipe.testbed.orchestrator.database.tables import JoinTokenRow, NodeRow
from bentpipe.testbed.orchestrator.security.secrets import hash_of, new_secret
from bentpipe.testbed.orchestrator.services import audit
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, UnauthenticatedError
from bentpipe.testbed.schemas.agent_protocol import CERTIFICATE_DAYS, EnrolAnswer, RenewAnswer
from bentpipe.testbed.schemas.desired import NodeSettings
from bentpipe.testbed.schemas.identifiers import new_id

if TYPE_CHECKING:
    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.schemas.agent_protocol import EnrolRequest

JOIN_TOKEN_MS = 3600 * 1000
"""How long a join token is valid [ms]."""


async def issue_join_token(
    orchestrator: Orchestrator,
    *,
    who: str,
    owner: str | None = None,
    name: str | None = None,
    role: str | None = None,
) -> str:
    """Make a join token: ``SECRET.FINGERPRINT``, of which the second part is that of the authority's certificate.

    Args:
        orchestrator: The orchestrator.
        who: Who asks, for the audit.
        owner: Id of the user who will own the node.
        name: Name that the node must have; None: any.
        role: Role that it must have; None: any.
    """
    secret = new_secret("bpj")
    async with orchestrator.write() as transaction:
        token_id = new_id(transaction.now_ms)
        await transaction.execute(
            insert(JoinTokenRow).values(
                id=token_id,
                hash=hash_of(secret),
                node_role=role,
                node_name=name,
                owner_id=owner,
                expires_at_ms=transaction.now_ms + JOIN_TOKEN_MS,
                used_key=None,
                node_id=None,
                certificate_pem=None,
                created_at_ms=transaction.now_ms,
            )
        )
        await audit.record(transaction, who, "join_token.issue", name or "any name", token=token_id, role=role)
    return f"{secret}.{orchestrator.authority.fingerprint}"


async def enrol(orchestrator: Orchestrator, request: EnrolRequest) -> EnrolAnswer:
    """Let a node join. The same token with the same key gives the same answer, for an answer that was lost.

    Raises:
        UnauthenticatedError: An unknown or expired token, or one that another key used.
        ConflictError: The name is taken.
        UserError: A request that is damaged, or another name or role than the token is for.
    """
    secret = request.token.partition(".")[0]
    async with orchestrator.read() as reading:  # before anything that takes time: anybody may call this
        if await reading.scalar(select(JoinTokenRow.id).where(JoinTokenRow.hash == hash_of(secret))) is None:
            raise UnauthenticatedError("the join token is unknown; expected a token of `bentpipe testbed token`")
    node = new_id(orchestrator.clock())
    signed = orchestrator.authority.sign_node(request.csr_pem, node, CERTIFICATE_DAYS)  # slow: outside of the lock
    async with orchestrator.write() as transaction:
        statement = select(*JoinTokenRow.__table__.c).where(JoinTokenRow.hash == hash_of(secret)).with_for_update()
        token = await transaction.first(statement)
        if token is None:
            raise UnauthenticatedError("the join token is unknown; expected a token of `bentpipe testbed token`")
        if token.used_key is not None:
            if token.used_key != signed.key_hash:
                raise UnauthenticatedError("the join token was used by another node; expected a new token")
            return EnrolAnswer(
                node=token.node_id,
                name=await transaction.scalar(select(NodeRow.name).where(NodeRow.id == token.node_id)),
                certificate_pem=token.certificate_pem,
                authority_pem=orchestrator.authority.pem,
            )
        if token.expires_at_ms <= transaction.now_ms:
            raise UnauthenticatedError("the join token is expired; expected one that is less than an hour old")
        name = token.node_name if token.node_name is not None and request.is_default_name else request.name
        if token.node_name is not None and token.node_name != name:
            raise UserError(shown(name), where="name", expected=f"{token.node_name!r}, as the token says")
        if token.node_role is not None and token.node_role != request.report.role:
            raise UserError(
                shown(request.report.role), where="role", expected=f"{token.node_role!r}, as the token says"
            )
        if await transaction.scalar(select(NodeRow.id).where(NodeRow.name == name)) is not None:
            raise ConflictError(f"a node named {name!r} exists; try another name", code="name_taken")
        await transaction.execute(
            insert(NodeRow).values(
                id=node,
                name=name,
                role=request.report.role,
                owner_id=token.owner_id,
                state="active",
                report=request.report.to_dict(),
                settings=NodeSettings(name=name).to_dict(),
                max_parallel=request.report.policy.max_parallel,
                serial=signed.serial,
                key_hash=signed.key_hash,
                older_key_hash=None,
                boot_id=None,
                boot_at_ms=None,
                seen_at_ms=None,
                lost=False,
                status={},
                version=1,
                created_at_ms=transaction.now_ms,
            )
        )
        await transaction.execute(
            update(JoinTokenRow)
            .where(JoinTokenRow.id == token.id)
            .values(used_key=signed.key_hash, node_id=node, certificate_pem=signed.pem)
        )
        await audit.record(transaction, f"node {name}", "node.join", node, token=token.id)
        transaction.touch([node])
    return EnrolAnswer(
        node=node,
        name=name,
        certificate_pem=signed.pem,
        authority_pem=orchestrator.authority.pem,
    )


async def renew(orchestrator: Orchestrator, node: str, shown_key: str, csr_pem: str) -> RenewAnswer:
    """Give a node a new certificate. The key that it showed stays valid until it shows the new one.

    Raises:
        UserError: A request that is damaged.
    """
    signed = orchestrator.authority.sign_node(csr_pem, node, CERTIFICATE_DAYS)
    async with orchestrator.write() as transaction:
        await transaction.execute(
            update(NodeRow)
            .where(NodeRow.id == node)
            .values(serial=signed.serial, key_hash=signed.key_hash, older_key_hash=shown_key)
        )
        await audit.record(transaction, f"node {node}", "node.renew", node, serial=signed.serial)
        transaction.touch([node])
    return RenewAnswer(certificate_pem=signed.pem)


async def forget_older_key(orchestrator: Orchestrator, node: str, key_hash: str) -> None:
    """Refuse a node's key before from now on: it has shown the newest, `key_hash`."""
    async with orchestrator.write() as transaction:
        await transaction.execute(
            update(NodeRow).where(NodeRow.id == node, NodeRow.key_hash == key_hash).values(older_key_hash=None)
        )
        transaction.touch([node])

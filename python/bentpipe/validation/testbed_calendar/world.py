"""An orchestrator without ports, its nodes and users, and a clock that a check sets."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.orchestrator.running import Settings, opened
from bentpipe.testbed.orchestrator.services import joining, users
from bentpipe.testbed.orchestrator.services.planner import plan_turn
from bentpipe.testbed.orchestrator.services.retries import retry_turn
from bentpipe.testbed.schemas.agent_protocol import EnrolRequest
from bentpipe.testbed.schemas.node import NodeReport
from bentpipe.testbed.schemas.policy import HostPolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

    from bentpipe.testbed.orchestrator.context import Orchestrator
    from bentpipe.testbed.orchestrator.security.roles import Caller

POLICY = HostPolicy(schema="bentpipe.policy/1")
NOW_MS = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""


class Clock:
    """A clock that is set."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        """Set it."""
        self.now_ms = now_ms

    def __call__(self) -> int:
        """Return the time [ms since 1970]."""
        return self.now_ms


def report(role: str = "client", **fields: Any) -> NodeReport:  # noqa: ANN401 - checked by the record
    """Return what a node says of itself."""
    values: dict[str, Any] = {
        "agent_version": "1",
        "platform": "Linux x86_64",
        "role": role,
        "runners": ("process",),
        "builtins": ("ping", "iperf3", "dish", "irtt"),
        "policy": POLICY,
    }
    if role == "server":
        values["control_address"] = "192.0.2.7:8793"
    return NodeReport(**(values | fields))


@contextlib.asynccontextmanager
async def orchestrator(home: Path, url: str, clock: Clock | None = None) -> AsyncIterator[Orchestrator]:
    """Yield an orchestrator without ports."""
    async with opened(Settings(home=home, db=url, clock=clock or Clock())) as opened_one:
        yield opened_one


async def join(
    testbed: Orchestrator,
    name: str,
    role: str = "client",
    owner: str | None = None,
    **fields: Any,  # noqa: ANN401 - checked by the record
) -> Any:  # noqa: ANN401 - a node in memory
    """Add a node to the database; return it as in memory."""
    from cryptography.hazmat.primitives.asymmetric import ec

    token = await joining.issue_join_token(testbed, who="test", owner=owner)
    request = EnrolRequest(
        token=token, name=name, csr_pem=csr_of(ec.generate_private_key(ec.SECP256R1())), report=report(role, **fields)
    )
    answer = await joining.enrol(testbed, request)
    return testbed.nodes.get(answer.node)


def csr_of(key: CertificateIssuerPrivateKeyTypes) -> str:
    """Return a signing request for a key, in PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


async def user(testbed: Orchestrator, name: str = "ada", role: str = "experimenter") -> Caller:
    """Add a user; return the caller."""
    async with testbed.write() as transaction:
        token, _ = await users.issue(transaction, name, role, who="test")
    return await users.authenticate(testbed, token)


def yaml_of(
    name: str = "ping-home",
    nodes: str = "{names: [attic]}",
    run: str = "{builtin: ping, args: {target: 192.0.2.1, seconds: 57}}",
    **more: str,
) -> str:
    """Return the file of an experiment; `more`: further keys as YAML text."""
    lines = ["schema: bentpipe.experiment/1", f"name: {name}", f"nodes: {nodes}", f"run: {run}"]
    return "\n".join([*lines, *(f"{key.rstrip('_')}: {text}" for key, text in more.items())])


async def plan_all(testbed: Orchestrator) -> None:
    """Plan until nothing is left."""
    while await plan_turn(testbed) + await retry_turn(testbed):
        pass

"""Joining a testbed: the authority is checked against the token, then the token is traded for a certificate."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bentpipe.errors import UserError, shown
from bentpipe.testbed.agent.connection import Orchestrator, RefusedRequestError
from bentpipe.testbed.agent.identity import Identity, fingerprint, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.testbed.agent.settings import AgentSettings
    from bentpipe.testbed.schemas.agent_protocol import EnrolAnswer
    from bentpipe.testbed.schemas.node import NodeReport


def check_url(url: str) -> str:
    """Return the orchestrator's address. Raises `UserError`: no https address."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.path not in ("", "/"):
        raise UserError(shown(url), where="URL", expected="https://HOST:PORT, as `bentpipe testbed token` prints it")
    return url.rstrip("/")


def split_token(token: str) -> tuple[str, str]:
    """Return the whole token and the fingerprint in it. Raises `UserError`: no join token."""
    secret, dot, print_ = token.strip().rpartition(".")
    if not dot or len(secret) < 16 or len(print_) != 64 or not all(each in "0123456789abcdef" for each in print_):
        raise UserError("no join token", where="TOKEN", expected="that of `bentpipe testbed token --role node`")
    return token.strip(), print_


async def join(
    folder: Path, settings: AgentSettings, token: str, report: NodeReport, *, is_default_name: bool = False
) -> EnrolAnswer:
    """Join: make a key, get a certificate, keep the settings.

    Args:
        folder: Folder of the agent.
        settings: Settings, with the address.
        token: Join token.
        report: What the node is.
        is_default_name: Whether the name of the settings gives way to the token's.

    Raises:
        UserError: A token that is not valid, another authority than the token's, or a folder that joined before.
        UnreachableError: The orchestrator does not answer.
    """
    whole, wanted = split_token(token)
    identity = Identity(folder)
    if identity.is_enrolled:
        raise UserError(
            "has joined already", where=str(folder), hint="another folder (--folder), or `bentpipe node leave`"
        )
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    unchecked.verify_mode = ssl.CERT_NONE  # nothing secret is sent before the authority is checked
    first = Orchestrator(settings.url, lambda: unchecked)
    try:
        authority_pem = await first.authority()
    finally:
        await first.close()
    try:
        actual = fingerprint(authority_pem)
    except ValueError:
        actual = "no certificate"
    if actual != wanted:
        raise UserError(
            f"the authority at {settings.url} has the fingerprint {actual}",
            where="TOKEN",
            expected=f"{wanted}: this is not the testbed that made the token",
        )
    write_private(identity.authority_path, authority_pem.encode())
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=str(identity.authority_path))
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    second = Orchestrator(settings.url, lambda: context)
    try:
        request = identity.make_request(settings.name)
        answer = await second.enrol(whole, settings.name, request, report, is_default_name=is_default_name)
    except RefusedRequestError as error:
        raise UserError(str(error), where="join") from None
    finally:
        await second.close()
    settings.model_copy(update={"name": answer.name}).write(folder)
    identity.keep(answer.certificate_pem, authority_pem)
    return answer

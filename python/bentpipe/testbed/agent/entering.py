"""``bentpipe node join``: settings from what the user gave, checked before anything is sent."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.testbed.agent.joining import check_url, join, split_token
from bentpipe.testbed.agent.settings import AgentSettings, default_folder
from bentpipe.testbed.agent.starting import look_around

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def host_label() -> str:
    """Return this host's name as a node's name."""
    text = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().partition(".")[0].lower()).strip("-")
    return text[:64] or "node"


def join_testbed(
    url: str,
    token: str,
    *,
    name: str | None = None,
    role: str = "client",
    dish: str | None = None,
    policy: Path | None = None,
    control: str | None = None,
    elements: Path | None = None,
    ping: str | None = None,
    router: str | None = None,
    weather: str | None = None,
    listen: str = "0.0.0.0",
    ports: tuple[int, int] = (8800, 8900),
    reach: Sequence[str] = (),
    folder: Path | None = None,
) -> tuple[Path, str]:
    """Join a testbed; return the agent's folder and the node's name.

    Args:
        url: The testbed's address for nodes.
        token: Join token.
        name: Name of the node; None: the token's, or this host's.
        role: ``client`` or ``server``.
        dish: The terminal; None: none.
        policy: The host's policy; None: the default one.
        control: HOST:PORT at which clients reach a server.
        elements: Orbital elements.
        ping: Host to ping for triggers.
        router: Counters of the router.
        weather: File or URL of the weather.
        listen: Address on which a server node waits for clients.
        ports: First and last port but one of a server node's programs.
        reach: Private networks that runs may reach beside those of the policy (`reach_private`).
        folder: Folder of the agent; None: the usual one.

    Raises:
        UserError: Something of that cannot be used, or the orchestrator refused it.
        UnreachableError: The orchestrator does not answer.

    Example:
        >>> import bentpipe as bp
        >>> bp.join_testbed("https://testbed.example.org:8792", "no token")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: TOKEN: no join token; expected that of `bentpipe testbed token --role node`
    """
    split_token(token)
    if role == "server" and control is None:
        raise UserError("a server node without it", where="control", expected="HOST:PORT at which clients reach it")
    where = folder or default_folder()
    settings = AgentSettings.check(
        {
            "url": check_url(url),
            "name": name or host_label(),
            "role": role,
            "dish": dish,
            "policy": None if policy is None else str(policy.absolute()),
            "control": control,
            "elements": None if elements is None else str(elements.absolute()),
            "ping": ping,
            "router": router,
            "weather": weather,
            "control_listen": listen,
            "ports": ports,
            "extra_networks": tuple(reach),
        },
        "node",
    )
    report = look_around(where, settings)
    answer = asyncio.run(join(where, settings, token, report, is_default_name=name is None))
    return where, answer.name

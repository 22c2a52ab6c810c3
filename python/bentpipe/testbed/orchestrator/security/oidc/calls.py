"""Requests to a provider: bounded in time and size, without redirects, without cookies."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bentpipe.testbed.orchestrator.security.oidc.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 10.0
"""Longest time of a request, its answer included."""
LARGEST_ANSWER = 256 * 1024
"""Largest answer [bytes]."""


async def call_json(
    url: str, *, form: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, Any]]:
    """Return the status and the object of an answer; with a form the request is a POST.

    Raises:
        ProviderError: No answer, or one that is late, too large or no JSON object. It shows the host alone.
    """
    import aiohttp

    host = urlsplit(url).netloc
    try:
        async with (
            aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
            ) as session,
            session.request(
                "GET" if form is None else "POST", url, data=form, headers=headers, allow_redirects=False
            ) as answer,
        ):
            body = b""
            async for part in answer.content.iter_any():
                body += part
                if len(body) > LARGEST_ANSWER:
                    raise ProviderError(f"{host} answered more than {LARGEST_ANSWER} bytes")
            status = answer.status
    except TimeoutError:
        raise ProviderError(f"{host} did not answer within {TIMEOUT_S:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ProviderError(f"{host} cannot be reached ({type(error).__name__})") from None
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ProviderError(f"{host} answered status {status} without a JSON object")
    return status, data

"""Fetch a small text over HTTP(S), from URLs that the host's policy allows and from nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from bentpipe.errors import UserError, shown

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_S = 10.0
"""Longest time of a fetch [s]."""

MOST_BYTES = 1_000_000
"""Most bytes of an answer: node_exporter's page has some 100 kB."""

_PORTS = {"http": 80, "https": 443}


def check_allowed(url: str, allowed: Sequence[str]) -> None:
    """Refuse a URL that the host does not allow.

    An allowed URL allows itself and what is below it: ``https://example.org/weather`` also
    ``https://example.org/weather/today?city=kiel``, and not ``https://example.org/weathers``.

    Raises:
        UserError: The URL is malformed, has a user name, or is not allowed.

    Example:
        >>> check_allowed("https://example.org/weather/today", ["https://example.org/weather"])
        >>> check_allowed("https://example.org.evil/weather", ["https://example.org/weather"])
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: 'https://example.org.evil/weather': not allowed by the host; expected a URL of ...
    """
    parts = _parts(url)
    for entry in allowed:
        try:
            limit = _parts(entry)
        except UserError:
            continue
        same_host = (parts.scheme, parts.hostname, _port(parts)) == (limit.scheme, limit.hostname, _port(limit))
        base = limit.path.rstrip("/")
        below = parts.path in (limit.path, base) or parts.path.startswith(base + "/")
        if same_host and below and "/.." not in parts.path and "%" not in parts.path:
            return
    raise UserError("not allowed by the host", where=shown(url), expected="a URL of feed_urls in the host's policy")


async def fetch(
    url: str, allowed: Sequence[str], *, timeout_s: float = TIMEOUT_S, most_bytes: int = MOST_BYTES
) -> bytes:
    """Fetch a URL. Redirections, proxies and packed answers are refused.

    Raises:
        UserError: Not allowed, no answer, an answer other than 200, or one that is too large.
    """
    import aiohttp

    check_allowed(url, allowed)
    where = _shown_url(url)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    headers = {"Accept-Encoding": "identity", "User-Agent": "bentpipe"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False, auto_decompress=False, headers=headers) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise UserError(f"answers with status {answer.status}", where=where, expected="200")
            if answer.headers.get("Content-Encoding", "identity") != "identity":
                raise UserError("answers packed", where=where, expected="plain text")
            data = bytearray()
            async for chunk in answer.content.iter_chunked(65_536):
                data += chunk
                if len(data) > most_bytes:
                    raise UserError(f"answers more than {most_bytes} bytes", where=where)
            return bytes(data)
    except TimeoutError:
        raise UserError(f"no answer within {timeout_s:g} s", where=where) from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"cannot be fetched: {' '.join(str(error).split())[:120]}", where=where) from None


def _shown_url(url: str) -> str:
    """Return a URL without its query, which may hold a key."""
    return shown(url.partition("?")[0]).strip("'")


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _port(parts)
    except ValueError:
        raise UserError("is no URL", where=shown(url), expected="http://… or https://…") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.username or parts.password or not url.isprintable():
        raise UserError("is no URL for this", where=shown(url), expected="http://… or https://… without a user name")
    return parts


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS.get(parts.scheme, 0)

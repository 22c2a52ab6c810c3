"""A client of the service, without other libraries; it reconnects."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from bentpipe.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

URL = "http://127.0.0.1:8790"
QUIET_S = 40.0
"""Time without a byte after which a connection counts as dead [s]: the service writes every 15 s."""


class AwarenessClient:
    """A client of the awareness service.

    Example:
        >>> import bentpipe as bp
        >>> bp.AwarenessClient("ftp://here")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: url: ftp://here; expected http://HOST:PORT
    """

    def __init__(self, url: str = URL, token: str | None = None) -> None:
        """Take the address; nothing is sent yet. Raises `UserError`: no address."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "http" or not parts.hostname:
            raise UserError(url, where="url", expected="http://HOST:PORT")
        self.url, self._host, self._port = url, parts.hostname, port or 80
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, kind: str) -> dict[str, Any]:
        """Return a document: ``telemetry``, ``next``, ``forecast`` or ``serving``. Raises `UserError`.

        Example:
            >>> import bentpipe as bp
            >>> bp.AwarenessClient("http://127.0.0.1:1").get("next")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe aware serve`
        """
        connection = http.client.HTTPConnection(self._host, self._port, timeout=5)
        try:
            connection.request("GET", f"/v1/{kind}", headers=self._headers)
            response = connection.getresponse()
            document: dict[str, Any] = json.loads(response.read(1 << 20))
        except OSError as error:
            reason = error.strerror or "does not answer"
            raise UserError(reason, where=self.url, hint="`bentpipe aware serve`") from None
        except (ValueError, http.client.HTTPException):
            raise UserError("is no awareness service", where=self.url) from None
        finally:
            connection.close()
        if response.status != 200:
            raise UserError(str(document.get("error", response.reason)), where=self.url)
        return document

    def events(
        self, *kinds: str, when: str | None = None, on_trouble: Callable[[str], object] = lambda _: None
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield events for ever, each its kind and its document; after a break it connects again, once a second.

        Args:
            kinds: ``telemetry``, ``next``, ``forecast``, ``serving``; none: all.
            when: A condition, as ``latency_ms > 100``: yields its firings instead.
            on_trouble: Called once for each break.

        Raises:
            UserError: The service refuses the request.

        Example:
            >>> import bentpipe as bp
            >>> events = bp.AwarenessClient().events("next")  # connects at the first `next(events)`
        """
        query = urlencode({"when": when} if when is not None else {"kinds": ",".join(kinds)} if kinds else {})
        path = f"/v1/{'events' if when is None else 'triggers'}{'?' if query else ''}{query}"
        is_broken = False
        while True:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=QUIET_S)
            try:
                connection.request("GET", path, headers={**self._headers, "Accept": "text/event-stream"})
                response = connection.getresponse()
                if response.status in (400, 401, 403, 421):
                    raise UserError(str(json.loads(response.read(1 << 16)).get("error", "")), where=self.url)
                if response.status == 200:
                    is_broken = False
                    yield from _events(response)
            except (OSError, http.client.HTTPException, ValueError) as error:
                if isinstance(error, UserError):
                    raise
            finally:
                connection.close()
            if not is_broken:
                on_trouble(f"{self.url}: no connection; trying again")
                is_broken = True
            time.sleep(1.0)


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, data = "message", ""
    while line := response.readline(1 << 20):
        name, _, value = line.decode("utf-8").rstrip("\r\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            data = value
        elif not name and data:
            yield kind, json.loads(data)
            kind, data = "message", ""

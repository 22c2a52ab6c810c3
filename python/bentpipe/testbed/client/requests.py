"""Requests to the orchestrator: its address and token, answers as records, lists page by page, files."""

from __future__ import annotations

import http.client
import json
import os
import ssl
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from bentpipe.errors import UserError, shown
from bentpipe.testbed.credentials import credentials_file, read_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bentpipe.records import Record
    from bentpipe.testbed.schemas.views import Page

    R = TypeVar("R", bound=Record)
    P = TypeVar("P", bound=Page)

URL = "http://127.0.0.1:8791"
"""Default address of an orchestrator."""
URL_VARIABLE, TOKEN_VARIABLE = "BENTPIPE_TESTBED", "BENTPIPE_TESTBED_TOKEN"
REQUEST_S = 60.0
"""Timeout of a request [s]."""


class Requests:
    """Sends requests with a user's token."""

    def __init__(self, url: str | None = None, token: str | None = None, credentials: Path | None = None) -> None:
        """Take address and token; nothing is sent yet."""
        url = url or os.environ.get(URL_VARIABLE)
        token = token or os.environ.get(TOKEN_VARIABLE)
        if url is None or token is None:
            stored_url, stored_token = read_credentials(credentials or credentials_file())
            url, token = url or stored_url or URL, token or stored_token
        if token is None:
            raise UserError("none", where="token", expected="a user's token", hint=f"--token or {TOKEN_VARIABLE}")
        if not token.isascii() or not token.isprintable():
            raise UserError("not a token", where="token", expected="ASCII")
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise UserError(url, where="url", expected="http://HOST:PORT or https://HOST:PORT")
        self.url = url.rstrip("/")
        self._host, self._port, self._is_tls = parts.hostname, port, parts.scheme == "https"
        self._base = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._is_tls:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout_s, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        wait_s: float = REQUEST_S,
    ) -> bytes:
        """Return the body of an answer. Raises `UserError` with the orchestrator's one line."""
        given = {key: value for key, value in (query or {}).items() if value is not None}
        address = self._base + path + (f"?{urlencode(given)}" if given else "")
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection = self._connect(wait_s)
        try:
            connection.request(method, address, data, {**self._headers, **(headers or {})})
            response = connection.getresponse()
            content = response.read()
        except OSError as error:
            reason = error.strerror or "does not answer"
            raise UserError(reason, where=self.url, hint="`bentpipe testbed up`") from None
        except http.client.HTTPException:
            raise UserError("is no orchestrator", where=self.url) from None
        finally:
            connection.close()
        if response.status >= 400:
            raise _refused(self.url, response.status, content)
        return content

    def _ask(self, answer: type[R], method: str, path: str, **fields: Any) -> R:  # noqa: ANN401 - of `_request`
        """Return an answer as a record."""
        content = self._request(method, path, **fields)
        try:
            data = json.loads(content)
        except ValueError:
            raise UserError("is no orchestrator", where=self.url) from None
        return answer.check(data, self.url)

    def _pages(self, page: type[P], path: str, query: Mapping[str, object]) -> Iterator[Any]:
        """Yield the entries of all pages of a list."""
        after: str | None = None
        while True:
            answer = self._ask(page, "GET", path, query={**query, "after": after, "limit": 500})
            yield from answer.items  # type: ignore[attr-defined]
            after = answer.next
            if after is None:
                return

    def _download(self, path: str, file: Path) -> None:
        from bentpipe.files import atomic_write

        file.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect(REQUEST_S)
        try:
            connection.request("GET", self._base + path, headers=self._headers)
            response = connection.getresponse()
            if response.status >= 400:
                raise _refused(self.url, response.status, response.read())
            with atomic_write(file) as opened:
                while part := response.read(1 << 20):
                    opened.write(part)
        except http.client.HTTPException:
            raise UserError("broke off", where=self.url, hint="again: what is there stays") from None
        finally:
            connection.close()


def path_part(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


def _refused(url: str, status: int, content: bytes) -> UserError:
    try:
        problem = json.loads(content)
        detail, code = str(problem["detail"]), str(problem["code"])
    except (ValueError, KeyError, TypeError):
        return UserError(f"HTTP {status}: {shown(content[:80])}", where=url)
    return UserError(detail, code=code)

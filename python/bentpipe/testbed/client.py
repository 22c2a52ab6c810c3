"""A client of the orchestrator's interface for users, without other libraries."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from bentpipe.errors import UserError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe.records import Record
    from bentpipe.testbed.schemas.views import JoinToken, NewToken

    R = TypeVar("R", bound=Record)

URL = "http://127.0.0.1:8791"
"""Default address of an orchestrator."""
URL_VARIABLE, TOKEN_VARIABLE = "BENTPIPE_TESTBED", "BENTPIPE_TESTBED_TOKEN"
REQUEST_S = 60.0
"""Timeout of a request [s]."""


def credentials_file() -> Path:
    """Return the file with a user's address and token: ``$XDG_CONFIG_HOME/bentpipe/testbed.json``."""
    base = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(base) / "bentpipe" / "testbed.json"


def save_credentials(url: str, token: str, path: Path | None = None) -> Path:
    """Store an address and a token so that their owner alone reads them; return the file."""
    path = path or credentials_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"url": url, "token": token}, file)
    temporary.replace(path)
    return path


def read_credentials(path: Path) -> tuple[str | None, str | None]:
    """Return address and token of a file; None, None: there is none. Raises `UserError`: others may read it."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None, None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError("cannot be read", where=str(path), expected="JSON with url and token") from error
    if stat.S_IMODE(mode) & 0o077:
        raise UserError(f"mode {stat.S_IMODE(mode):o}", where=str(path), expected="600", hint=f"chmod 600 {path}")
    try:
        data = json.loads(text)
        return str(data["url"]), str(data["token"])
    except (ValueError, KeyError, TypeError):
        raise UserError("is damaged", where=str(path), expected="JSON with url and token") from None


class TestbedClient:
    """A client of a testbed.

    Args:
        url: Address of the orchestrator; None: of the variable ``BENTPIPE_TESTBED``, of the credentials file, or
            ``http://127.0.0.1:8791``.
        token: The user's token; None: of ``BENTPIPE_TESTBED_TOKEN`` or of the credentials file.
        credentials: File with both; None: ``~/.config/bentpipe/testbed.json``.

    Raises:
        UserError: No address, or no token.

    Example:
        >>> import bentpipe as bp
        >>> bp.TestbedClient("ftp://here", "a token")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: url: ftp://here; expected http://HOST:PORT or https://HOST:PORT
    """

    __test__ = False  # for pytest: this is no class of tests

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
    ) -> bytes:
        """Return the body of an answer. Raises `UserError` with the orchestrator's one line."""
        given = {key: value for key, value in (query or {}).items() if value is not None}
        address = self._base + path + (f"?{urlencode(given)}" if given else "")
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection = self._connect(REQUEST_S)
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

    def make_join_token(self, *, name: str | None = None, role: str | None = None) -> JoinToken:
        """Make a token with which one node joins within an hour; `command` is the whole command for that host.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").make_join_token()
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import JoinToken

        return self._ask(JoinToken, "POST", "/v1/tokens/join", body={"name": name, "role": role})

    def make_token(self, name: str, role: str) -> NewToken:
        """Make a token of a user: ``viewer``, ``experimenter``, ``host``, ``reviewer`` or ``admin``.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").make_token("ada", "experimenter")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NewToken

        return self._ask(NewToken, "POST", "/v1/tokens", body={"name": name, "role": role})


def _refused(url: str, status: int, content: bytes) -> UserError:
    try:
        problem = json.loads(content)
        detail, code = str(problem["detail"]), str(problem["code"])
    except (ValueError, KeyError, TypeError):
        return UserError(f"HTTP {status}: {shown(content[:80])}", where=url)
    return UserError(detail, code=code)

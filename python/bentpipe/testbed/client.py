"""A client of the orchestrator's interface for users, without other libraries."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import quote, urlencode, urlsplit

from bentpipe.errors import UserError, shown
from bentpipe.testbed.credentials import credentials_file, read_credentials

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bentpipe.records import Record
    from bentpipe.testbed.schemas.experiment import TestbedExperiment
    from bentpipe.testbed.schemas.experiment_views import DryRun, ExperimentDetail, ExperimentView, RunDetail, RunView
    from bentpipe.testbed.schemas.views import JoinToken, NewToken, NodeView, Page, ProfileView

    R = TypeVar("R", bound=Record)
    P = TypeVar("P", bound=Page)

URL = "http://127.0.0.1:8791"
"""Default address of an orchestrator."""
URL_VARIABLE, TOKEN_VARIABLE = "BENTPIPE_TESTBED", "BENTPIPE_TESTBED_TOKEN"
REQUEST_S = 60.0
"""Timeout of a request [s]."""
PROFILE_S = 150.0
"""Timeout of a request for a node's Profile [s]."""


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

    def _pages(self, page: type[P], path: str, query: Mapping[str, object]) -> Iterator[Any]:
        """Yield the entries of all pages of a list."""
        after: str | None = None
        while True:
            answer = self._ask(page, "GET", path, query={**query, "after": after, "limit": 500})
            yield from answer.items  # type: ignore[attr-defined]
            after = answer.next
            if after is None:
                return

    @staticmethod
    def validate(text: str, where: str = "experiment") -> TestbedExperiment:
        """Check the file of an experiment, without an orchestrator. Raises `UserError`.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient.validate("schema: bentpipe.experiment/2")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: experiment: schema is 'bentpipe.experiment/2'; expected 'bentpipe.experiment/1'
        """
        from bentpipe.testbed.schemas.experiment import TestbedExperiment

        return TestbedExperiment.from_yaml(text, where)

    def submit(self, text: str, *, key: str | None = None) -> ExperimentDetail:
        """Submit the file of an experiment.

        Args:
            text: The file.
            key: The same key again gives the same answer (Idempotency-Key); None: a new one.

        Raises:
            UserError: A mistake in the file, or no node fits.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").submit("name: x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail

        headers = {"Idempotency-Key": key or secrets.token_hex(16)}
        return self._ask(ExperimentDetail, "POST", "/v1/experiments", body={"text": text}, headers=headers)

    def dry_run(self, text: str) -> DryRun:
        """Return what a submission would do: nodes, the first starts, bytes, conflicts by name. Raises as `submit`.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").dry_run("name: x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import DryRun

        return self._ask(DryRun, "POST", "/v1/experiments/dry-run", body={"text": text})

    def experiments(self, *, state: str | None = None, owner: str | None = None) -> list[ExperimentView]:
        """Return experiments, newest first; of a state, of an owner.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").experiments()
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentPage

        return list(self._pages(ExperimentPage, "/v1/experiments", {"state": state, "owner": owner}))

    def experiment(self, name: str) -> ExperimentDetail:
        """Return an experiment by id, or the newest of a name.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").experiment("x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail

        return self._ask(ExperimentDetail, "GET", f"/v1/experiments/{_part(name)}")

    def cancel(self, name: str) -> ExperimentDetail:
        """Cancel an experiment: its runs too, and what runs is stopped.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").cancel("x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail

        return self._ask(ExperimentDetail, "POST", f"/v1/experiments/{_part(name)}/cancel")

    def extend(self, name: str, *, until: str | None = None, runs: int | None = None) -> ExperimentDetail:
        """Give an experiment more time (`until`: ISO-8601), or more runs at each node.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").extend("x", runs=3)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import ExperimentDetail
        from bentpipe.times import parse_utc

        body = {"until_at_ms": None if until is None else parse_utc(until, "until") // 10**6, "runs": runs}
        return self._ask(ExperimentDetail, "POST", f"/v1/experiments/{_part(name)}/extend", body=body)

    def runs(
        self, experiment: str | None = None, *, node: str | None = None, state: str | None = None
    ) -> list[RunView]:
        """Return runs by start; of an experiment, of a node, in a state.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").runs("x")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import RunPage

        return list(self._pages(RunPage, "/v1/runs", {"experiment": experiment, "node": node, "state": state}))

    def run(self, run: str) -> RunDetail:
        """Return a run with its ends and what agents reported of it.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").run("0" * 32)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.experiment_views import RunDetail

        return self._ask(RunDetail, "GET", f"/v1/runs/{_part(run)}")

    def watch(self, experiment: str, *, every_s: float = 2.0) -> Iterator[RunView]:
        """Yield each run of an experiment as it is, and again when its state changed, until all is over.

        Example:
            >>> import bentpipe as bp
            >>> next(bp.TestbedClient("http://127.0.0.1:1", "a token").watch("x"))
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        seen: dict[str, str] = {}
        key = self.experiment(experiment).id
        while True:
            is_over = self.experiment(key).state != "active"
            for run in self.runs(key):
                if seen.get(run.id) != run.state:
                    seen[run.id] = run.state
                    yield run
            if is_over:
                return
            time.sleep(every_s)

    def results(self, experiment: str, folder: str | os.PathLike[str]) -> list[Path]:
        """Download the results of an experiment; what is there already stays. Return the folders of the runs.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").results("x", "out")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        folders = []
        for run in self.runs(self.experiment(experiment).id):
            if run.location is None:
                continue
            target = Path(folder) / run.location
            for end in self.run(run.id).ends:
                for path in end.files:
                    file = (target if end.end == "client" else target / "server") / path
                    if not file.exists():
                        self._download(f"/v1/runs/{run.id}/files/{end.end}/{quote(path)}", file)
            folders.append(target)
        return folders

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

    def nodes(self) -> list[NodeView]:
        """Return all nodes by name.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").nodes()
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NodePage

        return list(self._pages(NodePage, "/v1/nodes", {}))

    def node(self, name: str) -> NodeView:
        """Return a node by name.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").node("attic")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NodeView

        return self._ask(NodeView, "GET", f"/v1/nodes/{_part(name)}")

    def node_profile(
        self,
        name: str,
        file: str | os.PathLike[str],
        *,
        begin: str | None = None,
        end: str | None = None,
        latency: Literal["auto", "dish", "probes"] = "auto",
    ) -> Path:
        """Store the Profile of a node's link in a time window, made of results of its experiments; return the file.

        Args:
            name: Name of the node.
            file: The Profile's file (Parquet).
            begin: Start of the window, ISO-8601; None: an hour before its end.
            end: End of the window; None: now.
            latency: Delays: of the terminal (``dish``), of probes, or those that cover more seconds (``auto``).

        Raises:
            UserError: No such node, no delays in the window, or a window above 24 hours.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").node_profile("attic", "attic.parquet")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.files import atomic_write
        from bentpipe.times import parse_utc

        query = {
            "from_at_ms": None if begin is None else parse_utc(begin, "begin") // 10**6,
            "to_at_ms": None if end is None else parse_utc(end, "end") // 10**6,
            "latency": latency,
        }
        content = self._request("GET", f"/v1/nodes/{_part(name)}/profile", query=query, wait_s=PROFILE_S)
        with atomic_write(Path(file)) as opened:
            opened.write(content)
        return Path(file)

    def put_profile(self, file: str | os.PathLike[str], name: str) -> ProfileView:
        """Upload a Profile for ``path: {profile: NAME}``, once for each name.

        Raises:
            UserError: A file that cannot be read or is no Profile, a bad name, or one that another file has.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").put_profile("nowhere.parquet", "mel-lon")
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: FILE: nowhere.parquet: cannot be read; expected a Profile (Parquet)
        """
        from bentpipe.testbed.schemas.views import ProfileView

        try:
            content = Path(file).read_bytes()
        except OSError:
            raise UserError(f"{file}: cannot be read", where="FILE", expected="a Profile (Parquet)") from None
        kind = {"Content-Type": "application/octet-stream"}
        path = f"/v1/profiles/{_part(name)}"
        return self._ask(ProfileView, "PUT", path, body=content, headers=kind, wait_s=PROFILE_S)

    def change_node(
        self,
        name: str,
        *,
        paused: bool | None = None,
        draining: bool | None = None,
        scavenger: bool | None = None,
        tags: Sequence[str] | None = None,
    ) -> NodeView:
        """Change settings of an own node; None: stays. The host's policy at the node wins over them.

        Example:
            >>> import bentpipe as bp
            >>> bp.TestbedClient("http://127.0.0.1:1", "a token").change_node("attic", paused=True)
            Traceback (most recent call last):
            ...
            bentpipe.errors.UserError: http://127.0.0.1:1: Connection refused; try `bentpipe testbed up`
        """
        from bentpipe.testbed.schemas.views import NodeView

        settings = {"paused": paused, "draining": draining, "scavenger": scavenger, "tags": tags}
        changes = {key: entry for key, entry in settings.items() if entry is not None}
        return self._ask(NodeView, "PATCH", f"/v1/nodes/{_part(name)}", body=changes)


def _part(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe="")


def _refused(url: str, status: int, content: bytes) -> UserError:
    try:
        problem = json.loads(content)
        detail, code = str(problem["detail"]), str(problem["code"])
    except (ValueError, KeyError, TypeError):
        return UserError(f"HTTP {status}: {shown(content[:80])}", where=url)
    return UserError(detail, code=code)

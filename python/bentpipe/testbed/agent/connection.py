"""Requests to the orchestrator. Everything dials out; an answer that is no answer is `UnreachableError`."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from bentpipe.errors import BentpipeError, UserError
from bentpipe.testbed.schemas.agent_protocol import (
    LARGEST_PART,
    CommitAnswer,
    EnrolAnswer,
    EnrolRequest,
    EventAnswer,
    HeartbeatAnswer,
    RenewAnswer,
    RenewRequest,
)
from bentpipe.testbed.schemas.desired import Desired

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import aiohttp

    from bentpipe.records import Record
    from bentpipe.testbed.schemas.agent_protocol import CommitRequest, EventBatch, Heartbeat, TelemetryBatch
    from bentpipe.testbed.schemas.node import NodeReport

    R = TypeVar("R", bound=Record)

SILENT_S = 40.0
"""A stream without a byte for so long is dead [s]: some home routers forget it after less than a minute."""
REQUEST_S = 30.0
"""Timeout of a request [s]."""
PART_S = 120.0
"""Timeout of one part of an upload [s]."""


class UnreachableError(BentpipeError):
    """The orchestrator did not answer, or could not: try again later."""

    code = "unreachable"


class RefusedRequestError(BentpipeError):
    """The orchestrator refused a request: the same again would be refused too.

    Attributes:
        status: HTTP status.
        code: Stable name of the reason.
        extra: More about it.
    """

    def __init__(self, status: int, code: str, detail: str, extra: dict[str, Any] | None = None) -> None:
        """Keep the reason."""
        super().__init__(detail)
        self.status, self.code, self.extra = status, code, extra or {}


class Orchestrator:
    """The orchestrator, as the agent sees it.

    Args:
        url: Its address for agents.
        tls: Makes the TLS context anew, as after a renewal; None: no TLS (tests).
    """

    def __init__(self, url: str, tls: Callable[[], ssl.SSLContext] | None) -> None:
        """Connect at the first request."""
        self.url = url.rstrip("/")
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        if self._session is None or self._session.closed:
            context = self._tls() if self._tls is not None else False
            connector = aiohttp.TCPConnector(ssl=context, limit=8, keepalive_timeout=60)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    async def reconnect(self) -> None:
        """Drop all connections, so that the next request shows the new certificate."""
        await self.close()

    async def close(self) -> None:
        """Drop all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Record | bytes | None = None,
        timeout_s: float = REQUEST_S,
        passes: tuple[int, ...] = (),
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body. `passes`: statuses that are answers too."""
        import aiohttp

        headers = {}
        data: bytes | None = None
        if isinstance(body, bytes):
            data, headers["Content-Type"] = body, "application/octet-stream"
        elif body is not None:
            data, headers["Content-Type"] = body.model_dump_json(by_alias=True).encode(), "application/json"
        timeout = aiohttp.ClientTimeout(total=timeout_s, connect=10)
        try:
            async with self._open().request(
                method, self.url + path, data=data, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                content = await response.read()
                status, answer_headers = response.status, dict(response.headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{self.url}: {_reason(error)}") from None
        if status in passes or 200 <= status < 300:
            return status, answer_headers, content
        raise _refused(self.url, status, content)

    async def _post(self, path: str, body: Record, answer: type[R]) -> R:
        _, _, content = await self._request("POST", path, body=body)
        return _parse(answer, content, self.url + path)

    async def authority(self) -> str:
        """Return the certificate of the authority, in PEM."""
        _, _, content = await self._request("GET", "/agent/v1/authority")
        return content.decode("ascii", errors="replace")

    async def enrol(
        self, token: str, name: str, csr_pem: str, report: NodeReport, *, is_default_name: bool = False
    ) -> EnrolAnswer:
        """Trade a join token for a certificate."""
        request = EnrolRequest(token=token, name=name, is_default_name=is_default_name, csr_pem=csr_pem, report=report)
        return await self._post("/agent/v1/enrol", request, EnrolAnswer)

    async def heartbeat(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        """Give a sign of life."""
        return await self._post("/agent/v1/heartbeat", heartbeat, HeartbeatAnswer)

    async def report(self, report: NodeReport) -> None:
        """Say what the node is."""
        await self._request("POST", "/agent/v1/report", body=report)

    async def renew(self, csr_pem: str) -> RenewAnswer:
        """Ask for a new certificate."""
        return await self._post("/agent/v1/renew", RenewRequest(csr_pem=csr_pem), RenewAnswer)

    async def desired(self, since: int) -> Desired | None:
        """Return the wanted state; None: it is still version `since`."""
        status, _, content = await self._request("GET", f"/agent/v1/desired?since={since}")
        return None if status == 204 else _parse(Desired, content, f"{self.url}/agent/v1/desired")

    async def events(self, batch: EventBatch) -> EventAnswer:
        """Send events."""
        return await self._post("/agent/v1/events", batch, EventAnswer)

    async def telemetry(self, batch: TelemetryBatch) -> None:
        """Send newest samples."""
        await self._request("POST", "/agent/v1/telemetry", body=batch)

    async def versions(self) -> AsyncIterator[int]:
        """Yield versions of the wanted state as they come. Ends when the stream does. Raises as requests do."""
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_read=SILENT_S)
        try:
            async with self._open().get(
                f"{self.url}/agent/v1/stream", timeout=timeout, headers={"Accept": "text/event-stream"}
            ) as response:
                if response.status != 200:
                    raise _refused(self.url, response.status, await response.read())
                event = ""
                async for line in response.content:
                    text = line.decode(errors="replace").rstrip("\r\n")
                    if text.startswith("event:"):
                        event = text[6:].strip()
                    elif text.startswith("data:") and event == "version":
                        with contextlib.suppress(ValueError):
                            yield int(text[5:])
                    elif not text:
                        event = ""
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"{self.url}: {_reason(error)}") from None

    async def download(self, sha256: str, path: Path) -> None:
        """Store a file of the orchestrator."""
        _, _, content = await self._request("GET", f"/agent/v1/files/{sha256}", timeout_s=PART_S)
        await asyncio.to_thread(path.write_bytes, content)

    async def offset(self, run: str, end: str, path: str) -> int:
        """Return the bytes of a result file that have arrived."""
        _, headers, _ = await self._request("HEAD", f"/agent/v1/runs/{run}/{end}/files/{quote(path)}")
        return _offset(headers)

    async def put(self, run: str, end: str, path: str, offset: int, part: bytes) -> int:
        """Send bytes of a result file from `offset`; return the bytes that have arrived."""
        if len(part) > LARGEST_PART:
            raise ValueError(f"{len(part)} bytes in one part")
        status, headers, content = await self._request(
            "PUT",
            f"/agent/v1/runs/{run}/{end}/files/{quote(path)}?offset={offset}",
            body=part,
            timeout_s=PART_S,
            passes=(409,),
        )
        lowered = {name.lower() for name in headers}
        if status == 409 and "upload-offset" not in lowered:
            raise _refused(self.url, status, content)
        return _offset(headers)

    async def commit(self, run: str, end: str, request: CommitRequest) -> CommitAnswer:
        """Say that all files of an end have been sent."""
        return await self._post(f"/agent/v1/runs/{run}/{end}/commit", request, CommitAnswer)


def _offset(headers: dict[str, str]) -> int:
    for name, value in headers.items():
        if name.lower() == "upload-offset" and value.isdigit():
            return int(value)
    raise UnreachableError("an answer without Upload-Offset: is this the orchestrator?")


def _parse(record: type[R], content: bytes, where: str) -> R:
    import json

    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise UnreachableError(f"{where}: an answer that is no JSON: is this the orchestrator?") from None
    try:
        return record.check(data, where)
    except UserError as error:
        raise UnreachableError(f"an answer of another version: {error}") from None


def _refused(url: str, status: int, content: bytes) -> BentpipeError:
    import json

    try:
        problem = json.loads(content)
        detail, code = str(problem["detail"])[:500], str(problem["code"])[:100]
        extra = problem.get("extra") or {}
    except (ValueError, KeyError, TypeError, RecursionError, AttributeError):
        detail, code, extra = f"HTTP {status}", "http", {}
    if status >= 500 or status in (408, 425, 429):
        return UnreachableError(f"{url}: {detail}")
    return RefusedRequestError(status, code, detail, extra if isinstance(extra, dict) else {})


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return " ".join(str(error).split())[:200] or type(error).__name__

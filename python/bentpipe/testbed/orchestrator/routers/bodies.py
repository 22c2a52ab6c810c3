"""Bodies of requests: read with a limit, parsed into records with bentpipe's one-line errors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from bentpipe.errors import UserError
from bentpipe.testbed.orchestrator.services.refusals import TooLargeError

if TYPE_CHECKING:
    from starlette.requests import Request

    from bentpipe.records import Record

    R = TypeVar("R", bound=Record)

LARGEST_BODY = 1024 * 1024
"""Largest body of an ordinary request [bytes]."""


async def read_body(request: Request, largest: int = LARGEST_BODY) -> bytes:
    """Return the body. Raises `TooLargeError`."""
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > largest:
        raise TooLargeError(f"a body of {length} bytes; expected at most {largest}")
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > largest:
            raise TooLargeError(f"a body of more than {largest} bytes; expected at most that")
        parts.append(part)
    return b"".join(parts)


async def read_json(request: Request, largest: int = LARGEST_BODY) -> Any:  # noqa: ANN401 - plain data
    """Return the body as plain data. Raises `UserError` or `TooLargeError`."""
    body = await read_body(request, largest)
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_constant)
        if b"\\u" in body:
            _check_characters(data)
    except (ValueError, RecursionError) as error:
        raise UserError(f"no JSON: {' '.join(str(error).split())[:100]}", where="body", code="not_json") from None
    return data


def _check_characters(data: Any) -> None:  # noqa: ANN401 - plain data
    """Refuse what no database stores: NUL, and halves of surrogate pairs. Raises `ValueError`."""
    text = json.dumps(data, ensure_ascii=False)
    text.encode("utf-8")
    if "\\u0000" in text:
        raise ValueError("a NUL character")


async def read_record(request: Request, record: type[R], largest: int = LARGEST_BODY) -> R:
    """Return the body as a record. Raises `UserError` or `TooLargeError`."""
    return record.check(await read_json(request, largest), "body")


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")

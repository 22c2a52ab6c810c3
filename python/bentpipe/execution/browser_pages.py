"""Loads of a page by a real browser over emulated paths."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.chromium import find_chromium
from bentpipe.apps.browser.page_server import Settings, write_certificate
from bentpipe.apps.web.read import read_page
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.pages import PageLoad, check_http, load_indices
from bentpipe.execution.program import run_program
from bentpipe.experiments.recovery import parse_path_recovery, recovery_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe._native import Profile

SERVER, LOADER = "bentpipe.apps.browser.page_server", "bentpipe.apps.browser.page_loader"
START_S = 60.0
"""Longest time until the server listens [s]."""
MOST_HTTP_3_BYTES = 256 << 20
"""Largest page over HTTP/3 [bytes]: the server's QUIC holds it in memory, and sends some 2 MB a second."""


def load_in_browser(
    page: str | os.PathLike[str],
    paths: Sequence[Profile],
    *,
    http: str = "2",
    loads: int = 20,
    recovery: Sequence[str] = ("none",),
    offset_s: float | None = None,
    out: str | os.PathLike[str] | None = None,
    on_progress: Callable[[float], object] = lambda _: None,
) -> list[PageLoad]:
    """Load a page over every path and with each scheme of recovery, one after the other; each is one Run.

    Args:
        page: A HAR file, or ``median``. Its content is made: recorded sizes and kinds, and what leads to what.
        paths: Profiles.
        http: Version of HTTP: ``1``, ``2`` or ``3``.
        loads: Loads of each Run, each with nothing cached and over new connections.
        recovery: Schemes of loss recovery on the path.
        offset_s: Offset in the Profile at which the path begins [s]; None: from the machine's clock.
        out: Folder for the Runs; None: they are not kept.
        on_progress: Called with the share done.

    Raises:
        UserError: There is no browser, the page is none, or a path cannot be emulated.
        BentpipeError: The loads failed.
    """
    find_chromium()
    check_http(http)
    read = read_page(page)
    if http == "3" and read.bytes > MOST_HTTP_3_BYTES:
        raise UserError(
            f"3 for {read.bytes / 1e6:.0f} MB",
            where="http",
            expected=f"at most {MOST_HTTP_3_BYTES / 1e6:.0f} MB, as the server keeps what it sends over QUIC in memory",
            hint="HTTP 1 or 2, or a smaller page",
        )
    schemes = [recovery_name(parse_path_recovery(scheme)) for scheme in recovery]
    file = os.fspath(page) if read.name == os.fspath(page) else str(Path(page).absolute())
    result: list[PageLoad] = []
    for number, (path, scheme) in enumerate((path, scheme) for path in paths for scheme in schemes):
        with tempfile.TemporaryDirectory(prefix="bentpipe-page-") as folder:
            settings = Settings(folder, file, http, loads)
            own = [sys.executable, "-m"]
            done = run_program(
                path,
                [*own, LOADER, settings.to_json(), write_certificate(settings)],
                server="exec " + shlex.join([*own, SERVER, settings.to_json()]),
                out=out,
                offset_s=offset_s,
                internet="none",
                recovery=scheme,
                listen_within_s=START_S,
            )
            seen = _read(settings.result)
            cc = settings.controller.read_text(encoding="utf-8") if settings.controller.exists() else ""
        if seen["error"] and "Target crashed" in seen["error"]:
            largest = max(item.response_bytes for item in read.objects)
            raise UserError(
                f"the browser's tab crashed while it loaded {read.bytes / 1e6:.0f} MB",
                where=read.name,
                expected=f"a page that Chromium has memory for (the largest object has {largest / 1e6:.0f} MB)",
                hint="a page with fewer bytes",
            )
        if seen["error"]:
            raise BentpipeError(f"{read.name} over {path.name} failed: {seen['error']}")
        wanted = {"1": "http/1.1", "2": "h2", "3": "h3"}[http]
        # The browser gives no protocol for an object that did not arrive.
        if others := sorted({name for each in seen["loads"] for name in each["protocols"]} - {wanted, ""}):
            raise BentpipeError(f"{read.name} over {path.name} was loaded over {', '.join(others)}; expected {wanted}")
        valid = done.emulated.why_invalid is None
        for load, each in enumerate(seen["loads"]):
            arrived = [
                (at_ms, item.response_bytes)
                for at_ms, item in zip(each["arrived_ms"], read.objects, strict=True)
                if at_ms is not None
            ]
            byte_index_ms, object_index_ms = load_indices(*zip(*arrived, strict=True))
            result.append(
                PageLoad(
                    page=read.name,
                    profile=path.name,
                    path="path",
                    scheme=scheme,
                    cc=cc,
                    seed=0,
                    load=load,
                    plt_ms=each["plt_ms"],
                    byte_index_ms=byte_index_ms,
                    object_index_ms=object_index_ms,
                    http=http,
                    world="emulated",
                    fcp_ms=each["fcp_ms"],
                    lcp_ms=each["lcp_ms"],
                    speed_index_ms=each["speed_index_ms"],
                    failed=each["failed"],
                    valid=valid,
                )
            )
        on_progress((number + 1) / (len(paths) * len(schemes)))
    return result


def _read(file: Path) -> dict[str, Any]:
    try:
        seen: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {"error": "the browser wrote nothing"}
    return seen

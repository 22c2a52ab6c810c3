"""The browser that loads a replayed page: ``python -m bentpipe.apps.browser.page_loader SETTINGS KEY_HASH``."""

from __future__ import annotations

import base64
import json
import socket
import sys
import traceback
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.chromium import launch
from bentpipe.apps.browser.page_server import PORT, Settings
from bentpipe.apps.browser.replay import DOMAIN, host_name
from bentpipe.apps.browser.speed_index import speed_index_ms

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LONGEST_MS = 120_000
"""Longest load [ms]."""
SETTLES_MS = 500
"""Time after the last arrival until the last picture [ms]."""

FIGURES = """() => ({
  plt_ms: loaded.at_ms,
  failed: loaded.failed,
  arrived_ms: [performance.getEntriesByType("navigation")[0].responseEnd, ...arrivals.slice(1)],
  lcp_ms: largest_ms,
  fcp_ms: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  origin_ms: performance.timeOrigin,
  protocols: [...new Set(performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
    .map(entry => entry.nextHopProtocol))],
})"""


def flags(settings: Settings, key_hash: str, address: str) -> list[str]:
    """Return the browser's flags: the page's hosts are at `address`, no other name exists, and its key is trusted."""
    own = [
        f"--host-resolver-rules=MAP *.{DOMAIN} {address}, MAP * ~NOTFOUND",
        f"--ignore-certificate-errors-spki-list={key_hash}",
    ]
    if settings.http == "3":
        return [*own, "--enable-quic", "--origin-to-force-quic-on=*"]
    return [*own, "--disable-quic", *(["--disable-http2"] if settings.http == "1" else [])]


def load(browser: Browser) -> dict[str, Any]:
    """Load the page once, with nothing cached and no connection; return its figures."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = context.new_page()
    session = context.new_cdp_session(page)
    pictures: list[tuple[float, bytes]] = []

    def keep(event: dict[str, Any]) -> None:
        pictures.append((event["metadata"]["timestamp"] * 1e3, base64.b64decode(event["data"])))
        session.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    session.on("Page.screencastFrame", keep)
    session.send("Page.startScreencast", {"format": "jpeg", "quality": 50, "maxWidth": 640, "maxHeight": 360})
    page.goto(f"https://{host_name(0)}:{PORT}/", timeout=LONGEST_MS, wait_until="commit")
    page.wait_for_function("window.loaded", timeout=LONGEST_MS, polling=20)
    page.wait_for_timeout(SETTLES_MS)
    figures: dict[str, Any] = page.evaluate(FIGURES)
    session.send("Page.stopScreencast")
    context.close()
    origin_ms = figures.pop("origin_ms")
    return {**figures, "speed_index_ms": speed_index_ms([(at - origin_ms, picture) for at, picture in pictures])}


def main() -> None:
    """Load the page as often as the settings say, and write the figures; a failure is in the file, too."""
    from playwright.sync_api import sync_playwright

    settings, key_hash = Settings.from_json(sys.argv[1]), sys.argv[2]
    result: dict[str, Any] = {"loads": [], "error": None}
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright, flags(settings, key_hash, socket.gethostbyname("server")))
            for _ in range(settings.loads):
                result["loads"].append(load(browser))
            browser.close()
    except Exception as error:  # noqa: BLE001 - whatever failed is told to the other process
        result["error"] = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    settings.result.write_text(json.dumps(result), encoding="utf-8")
    if result["error"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

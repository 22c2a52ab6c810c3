"""``web``: loads of a page in Chromium without a window, each with nothing cached and over new connections."""

from __future__ import annotations

import os
import time
import traceback
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.testbed.builtins.outcome import NetworkFailureError, one_line
from bentpipe.testbed.builtins.tools import keep_samples

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import WebArguments

LONGEST_MS = 60_000
"""Longest load [ms]."""
SETTLES_MS = 500
"""Time after the load until the largest paint is taken as final [ms]."""

OBSERVE = """
window.largestPaintMs = null;
new PerformanceObserver(list => { for (const entry of list.getEntries()) window.largestPaintMs = entry.startTime; })
  .observe({type: "largest-contentful-paint", buffered: true});
"""
FIGURES = """() => {
  const [page] = performance.getEntriesByType("navigation");
  return {
    plt_ms: page.loadEventStart || null,
    first_byte_ms: page.responseStart || null,
    fcp_ms: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
    lcp_ms: window.largestPaintMs,
    protocols: [...new Set(performance.getEntriesByType("resource").concat([page]).map(each => each.nextHopProtocol))]
      .filter(each => each).sort(),
  };
}"""


def client(arguments: WebArguments, context: Context) -> None:
    """Load the page."""
    from playwright.sync_api import Error, sync_playwright

    from bentpipe.apps.browser.chromium import launch

    loads: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    # The run's own sandbox encloses the browser, and refuses it what its own needs.
    os.environ["HOME"] = os.environ.get("TMPDIR", "/tmp")
    with sync_playwright() as playwright:
        try:
            browser = launch(playwright, ["--no-sandbox", "--no-zygote", "--disable-crash-reporter"])
        except Error as error:
            raise UserError(one_line(str(error)), where="browser") from None
        context.figures["browser"] = browser.version
        for number in range(arguments.loads):
            began_ns = time.time_ns()
            load = load_page(browser, arguments.url)
            loads.append(load)
            if load["error"] is None and load["plt_ms"]:
                rows.append(row(load, number, began_ns, arguments.url))
        browser.close()
    context.figures["loads"] = loads
    keep_samples(context, rows, ["one row for each load that ended: its bytes in its time; paints are in builtin.json"])
    failures = [each["error"] for each in loads if each["error"] is not None]
    if failures:
        raise NetworkFailureError(f"{len(failures)} of {len(loads)} loads failed: {failures[0]}")


def load_page(browser: Browser, url: str) -> dict[str, Any]:
    """Load a page once; return its figures, with a failure in `error`."""
    from playwright.sync_api import Error

    context = browser.new_context(viewport={"width": 1280, "height": 720})
    figures: dict[str, Any] = dict.fromkeys(("plt_ms", "first_byte_ms", "fcp_ms", "lcp_ms"))
    figures |= {"protocols": [], "bytes": 0, "requests": 0, "failed_requests": 0, "error": None}
    try:
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", lambda _: _add(figures, "requests", 1))
        session.on("Network.loadingFailed", lambda _: _add(figures, "failed_requests", 1))
        session.on(
            "Network.loadingFinished", lambda event: _add(figures, "bytes", round(event.get("encodedDataLength", 0)))
        )
        page.add_init_script(OBSERVE)
        page.goto(url, timeout=LONGEST_MS, wait_until="load")
        page.wait_for_timeout(SETTLES_MS)
        figures |= page.evaluate(FIGURES)
    except Error as error:
        figures["error"] = one_line(traceback.format_exception_only(error)[-1].partition("\n")[0].partition(": ")[2])
    finally:
        context.close()
    return figures


def _add(figures: dict[str, Any], name: str, amount: int) -> None:
    figures[name] += amount


def row(load: dict[str, Any], number: int, began_ns: int, url: str) -> dict[str, Any]:
    """Return the row of `samples` of a load."""
    seconds = load["plt_ms"] / 1e3
    return {
        "unix_ns": began_ns,
        "target": url,
        "t_s": seconds,
        "duration_s": seconds,
        "test": number,
        "flow": 0,
        "direction": "down",
        "bytes": load["bytes"],
        "goodput_bps": load["bytes"] * 8 / seconds,
    }

"""One end of a call in a real browser: ``python -m bentpipe.apps.browser.call_peer END SETTINGS``.

The end ``server`` also serves the page and passes the descriptions of the two ends on. It listens once its browser is
up. The end ``client`` ends the call. Each writes its figures to its file in the folder of the settings.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import traceback
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from bentpipe.apps.browser.chromium import DEVICES, launch

PORT = 8000
ENDS = ("client", "server")
CONNECT_S = 60.0
"""Longest time until the first frame is shown [s]."""
STARTED = "result.error || (result.state === 'connected' && result.frames.length > 0)"
"""Condition in the page under which the call goes on, or has failed."""
LONGEST_DESCRIPTION = 1_000_000
"""Most bytes of a description."""


@dataclass(frozen=True)
class Settings:
    """Settings of both ends.

    Attributes:
        folder: Where each end writes its file.
        seconds: Duration of the call, from the first frame on [s].
        width: Width of the picture [pixels].
        height: Height of the picture [pixels].
        fps: Frames per second.
        max_bps: Highest rate of the video [bit/s].
        lip_sync: Whether the picture is delayed until its sound is due.
    """

    folder: str
    seconds: float
    width: int
    height: int
    fps: int
    max_bps: int
    lip_sync: bool = True

    def to_json(self) -> str:
        """Return them as an argument of this module."""
        return json.dumps(asdict(self))

    def page(self, host: str, end: str) -> str:
        """Return the address of the page of an end."""
        sizes = f"width={self.width}&height={self.height}&fps={self.fps}&max_bps={self.max_bps}"
        return f"http://{host}:{PORT}/?end={end}&{sizes}&lip_sync={self.lip_sync:d}"

    def file(self, end: str) -> Path:
        """Return the file of an end."""
        return Path(self.folder) / f"{end}.json"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.boxes: dict[str, queue.Queue[bytes]] = {end: queue.Queue() for end in ENDS}
        self.finish, self.finished = threading.Event(), threading.Event()
        super().__init__(("", PORT), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/":
            self._answer(200, files(__package__).joinpath("call.html").read_bytes(), "text/html; charset=utf-8")
        elif path == "/finish":
            self.server.finish.set()
            self._answer(200 if self.server.finished.wait(CONNECT_S) else 504)
        elif path.startswith("/for/") and path[5:] in ENDS:
            try:
                self._answer(200, self.server.boxes[path[5:]].get(timeout=10), "application/json")
            except queue.Empty:
                self._answer(204)
        else:
            self._answer(404)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if not (self.path.startswith("/to/") and self.path[4:] in ENDS and size <= LONGEST_DESCRIPTION):
            self._answer(404)
            return
        self.server.boxes[self.path[4:]].put(self.rfile.read(size))
        self._answer(204)

    def _answer(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: the output is the command's."""


def run_end(end: str, settings: Settings) -> None:
    """Hold one end of the call, and write its file."""
    from playwright.sync_api import sync_playwright

    host = "localhost" if end == "server" else "server"
    insecure = f"--unsafely-treat-insecure-origin-as-secure=http://{host}:{PORT}"
    with sync_playwright() as playwright:
        browser = launch(playwright, [*DEVICES, insecure])
        page = browser.new_page()
        server = None
        if end == "server":
            server = _Server()
            threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto(settings.page(host, end))
        # The server's end is up long before the client's browser.
        waits_ms = (CONNECT_S if end == "client" else 3 * CONNECT_S) * 1e3
        page.wait_for_function(STARTED, timeout=waits_ms)
        if server is None:
            page.wait_for_timeout(settings.seconds * 1e3)
            seen = page.evaluate("result")
            with urlopen(f"http://{host}:{PORT}/finish", timeout=2 * CONNECT_S):
                pass
        else:
            while not server.finish.is_set():
                page.wait_for_timeout(100)
            seen = page.evaluate("result")
        _write(settings.file(end), seen)
        if server is not None:
            server.finished.set()
            page.wait_for_timeout(500)  # until the answer is on its way
        browser.close()


def _write(file: Path, seen: dict[str, Any]) -> None:
    file.write_text(json.dumps(seen), encoding="utf-8")


def main() -> None:
    """Run the end of the command line; a failure is in its file, too."""
    end, settings = sys.argv[1], Settings(**json.loads(sys.argv[2]))
    try:
        run_end(end, settings)
    except Exception as error:  # noqa: BLE001 - whatever failed is told to the other process
        problem = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
        _write(settings.file(end), {"error": problem})
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()

"""The browser that plays a video with a policy of bentpipe: ``python -m bentpipe.execution.browser_player FOLDER``."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from bentpipe._native import VideoChoices
from bentpipe.apps.browser.chromium import launch, resolving_only
from bentpipe.apps.browser.video_server import PORT, Folder, Playing

BROWSER = files("bentpipe.apps.browser")
DASH = BROWSER / "vendor" / "dashjs" / "dash.mediaplayer.min.js"
"""dash.js 5.2.1 (BSD-3-Clause, by the DASH Industry Forum) as the npm registry has it, the file for modern browsers."""

LARGEST_REPORT = 1_000_000
"""Most bytes that the page may report at once."""


class PolicyServer(ThreadingHTTPServer):
    """Serves the player's page, and the policy that it asks, at the browser's own host."""

    daemon_threads = True

    def __init__(self, spec: str) -> None:
        """Take the player's record as JSON. `begin_ms` is to be set before the first choice."""
        self.choices = VideoChoices(spec)
        self.begin_ms = 0.0
        self.files = {
            "/": ((BROWSER / "video.html").read_bytes(), "text/html; charset=utf-8"),
            f"/{DASH.name}": (DASH.read_bytes(), "text/javascript"),
        }
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://127.0.0.1:{self.server_port}/"

    def choose(self, report: dict[str, Any]) -> int:
        """Return the quality of the next chunk, after what the page reports."""
        for each in report["arrived"]:
            waited_s = (each["first_byte_ms"] - each["requested_ms"]) / 1e3
            self.choices.arrived(each["bytes"], waited_s, (each["arrived_ms"] - each["requested_ms"]) / 1e3)
        return self.choices.choose((report["at_ms"] - self.begin_ms) / 1e3, report["buffer_s"])


class _Handler(BaseHTTPRequestHandler):
    server: PolicyServer
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        body, kind = self.server.files.get(self.path, (b"", "text/plain"))
        self._answer(200 if body else 404, body, kind)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if self.path != "/choose" or size > LARGEST_REPORT:
            self._answer(404)
            return
        self._answer(200, str(self.server.choose(json.loads(self.rfile.read(size)))).encode())

    def _answer(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: the output is the command's."""


def play(playing: Playing, begin_unix_s: float) -> dict[str, Any]:
    """Play the video from a moment of the machine's clock on, until its last chunk is there; return what was seen."""
    from playwright.sync_api import sync_playwright

    server = PolicyServer(playing.spec)
    server.begin_ms = begin_unix_s * 1e3
    threading.Thread(target=server.serve_forever, daemon=True).start()
    spec = json.loads(playing.spec)
    settings = {
        "url": f"http://server:{PORT}/manifest.mpd",
        "begin_ms": server.begin_ms,
        "chunk_s": playing.video.chunk_s,
        "chunks": playing.video.chunks,
        "buffer_s": spec["buffer_ns"] / 1e9,
        "first_kbps": playing.video.rates_bps[server.choices.choose(0.0, 0.0)] / 1e3,
        "longest_ms": playing.end_s * 1e3,
    }
    with sync_playwright() as playwright:
        browser = launch(playwright, [resolving_only("server", socket.gethostbyname("server"))])
        page = browser.new_page()
        page.goto(server.url)
        late_s = time.time() - begin_unix_s
        if late_s > 0:
            raise RuntimeError(f"the browser was up {late_s:.1f} s after the video's begin: this machine is too busy")
        page.evaluate("settings => play(settings)", settings)
        while time.time() < begin_unix_s + playing.end_s:
            page.wait_for_timeout(250)
            if page.evaluate("result.ended || result.error"):
                break
        seen: dict[str, Any] = page.evaluate("result")
        browser.close()
    return {**seen, "begin_ms": server.begin_ms}


def _started_ns(folder: Folder) -> int:
    """Return when the path began [ns]; the caller writes it once it knows."""
    until = time.monotonic() + 10.0
    while not (text := folder.started.read_text(encoding="ascii") if folder.started.exists() else ""):
        if time.monotonic() > until:
            raise RuntimeError("the path's begin is not known")
        time.sleep(0.01)
    return int(text)


def main() -> None:
    """Play what the folder says, and write the result; a failure is in it, too."""
    folder = Folder(Path(sys.argv[1]))
    try:
        playing = Playing.read(folder)
        result = play(playing, _started_ns(folder) / 1e9 + playing.begin_s)
    except Exception as error:  # noqa: BLE001 - whatever failed is told to the other process
        result = {"error": traceback.format_exception_only(error)[-1].strip().splitlines()[0]}
    folder.result.write_text(json.dumps(result), encoding="utf-8")
    if result["error"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

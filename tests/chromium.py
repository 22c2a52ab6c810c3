"""A headless Chromium for tests of pages, driven by the DevTools protocol over pipes: no port is opened."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
    "--remote-debugging-pipe",
)
PROGRAM = shutil.which("chromium")
"""Debian's package `chromium`, which CI installs."""


class Tab:
    """A page in a browser. `messages` are its console's errors and warnings, and uncaught exceptions;

    `requests` are the addresses that it fetched, but for embedded data.
    """

    def __init__(self, read, write):
        self._read, self._write = read, write
        self._number, self._session = 0, None
        self._buffer = b""
        self._events = []
        self.messages = []
        self.requests = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def _next(self):
        while b"\0" not in self._buffer:
            piece = os.read(self._read, 1 << 20)
            assert piece, "the browser ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.messages.append(parameters["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.messages.append(parameters["args"])
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"])
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            self.requests += [] if url.startswith("data:") else [url]
        if method:
            self._events.append(method)
        return message

    def open(self, page, width=1200, height=900, **media):
        """Load a file and wait for its load event."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        if media:
            self.call("Emulation.setEmulatedMedia", **media)
        self._events.clear()
        self.call("Page.navigate", url=page.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._next()

    def run(self, script):
        """Return the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, script, within_s=20.0):
        """Wait until a JavaScript expression is true."""
        until = time.monotonic() + within_s
        while not self.run(f"Boolean({script})"):
            assert time.monotonic() < until, f"not within {within_s} s: {script}"

    def mouse(self, kind, x, y, clicks=1):
        """Press, move or release the left button."""
        held = {"button": "left", "clickCount": clicks} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def click(self, x, y, times=1):
        """Click, or double click, at a point of the window."""
        for count in range(1, times + 1):
            self.mouse("mousePressed", x, y, count)
            self.mouse("mouseReleased", x, y, count)

    def drag(self, from_x, to_x, y):
        """Drag with the left button along a horizontal line."""
        self.mouse("mouseMoved", from_x, y)
        self.mouse("mousePressed", from_x, y)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=(from_x + to_x) / 2, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=to_x, y=y, button="left", buttons=1)
        self.mouse("mouseReleased", to_x, y)

    def screenshot(self, file, *, whole=False):
        """Write a PNG of the window, or of the whole page."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        file.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def tab():
    """Yield a `Tab` of a browser that is ended afterwards."""
    to_browser, from_browser = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        # Chromium reads commands from descriptor 3 and writes to 4.
        command = f"exec {PROGRAM} {' '.join(FLAGS)} --user-data-dir={profile} about:blank"
        browser = subprocess.Popen(
            ["/bin/bash", "-c", f"{command} 3<&{to_browser[0]} 4>&{from_browser[1]}"],
            pass_fds=(to_browser[0], from_browser[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser[0])
        os.close(from_browser[1])
        try:
            yield Tab(from_browser[0], to_browser[1])
        finally:
            browser.terminate()
            browser.wait()
            os.close(to_browser[1])
            os.close(from_browser[0])
            shutil.rmtree(profile, ignore_errors=True)

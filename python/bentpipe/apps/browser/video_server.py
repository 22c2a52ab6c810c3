"""The origin server of a video: ``python -m bentpipe.apps.browser.video_server FOLDER``."""

from __future__ import annotations

import json
import re
import socket
import sys
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bentpipe.apps.video.description import VideoDescription
from bentpipe.apps.video.media import init_segment, manifest, media_segment

PORT = 8000

_CHUNK = re.compile(r"/(\d{1,3})/(\d{1,6})\.m4s")


@dataclass(frozen=True)
class Folder:
    """Files that the server, the browser's process and their caller share."""

    path: Path

    @property
    def request(self) -> Path:
        """What to play (`Playing`)."""
        return self.path / "request.json"

    @property
    def started(self) -> Path:
        """When the path began, on the machine's clock [ns]: it appears then."""
        return self.path / "started"

    @property
    def result(self) -> Path:
        """What the player saw."""
        return self.path / "result.json"


@dataclass(frozen=True)
class Playing:
    """What to play.

    Attributes:
        video: The video.
        spec: The player's record (`bentpipe.experiments.videos.VideoApp`), as JSON.
        cc: Congestion controller of the server.
        begin_s: When the player begins [s since the path's begin].
        end_s: When it is stopped at the latest [s since it began].
    """

    video: VideoDescription
    spec: str
    cc: str
    begin_s: float
    end_s: float

    def write(self, folder: Folder) -> None:
        """Write it for the processes."""
        folder.request.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @staticmethod
    def read(folder: Folder) -> Playing:
        """Read what `write` wrote."""
        fields: dict[str, Any] = json.loads(folder.request.read_text(encoding="utf-8"))
        video = fields.pop("video")
        sizes = tuple(map(tuple, video.pop("chunk_bytes")))
        rates = tuple(video.pop("rates_bps"))
        return Playing(VideoDescription(**video, rates_bps=rates, chunk_bytes=sizes), **fields)


class VideoServer(ThreadingHTTPServer):
    """Serves the manifest and the chunks of a video over HTTP/1.1, on all addresses.

    Raises `OSError`: the kernel does not have, or does not allow, the congestion controller.
    """

    daemon_threads = True

    def __init__(self, video: VideoDescription, cc: str, port: int = PORT) -> None:
        """Listen; `cc` is the kernel's name of the congestion controller."""
        self.video = video
        self.manifest = manifest(video).encode()
        super().__init__(("", port), _Handler)
        # Accepted connections inherit it.
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())

    def body(self, path: str) -> tuple[bytes, str] | None:
        """Return content and media type at a path; None: there is nothing."""
        if path == "/manifest.mpd":
            return self.manifest, "application/dash+xml"
        if path == "/init.mp4":
            return init_segment(), "video/mp4"
        if match := _CHUNK.fullmatch(path):
            quality, number = map(int, match.groups())
            if quality < len(self.video.rates_bps) and number < self.video.chunks:
                size = self.video.chunk_bytes[quality][number]
                return media_segment(number, self.video.chunk_s, size), "video/iso.segment"
        return None


class _Handler(BaseHTTPRequestHandler):
    server: VideoServer
    protocol_version = "HTTP/1.1"  # connections stay open
    wbufsize = 1 << 16

    def do_GET(self) -> None:
        content = self.server.body(self.path)
        body, kind = content or (b"", "text/plain")
        self.send_response(200 if content else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Access-Control-Allow-Origin", "*")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing: the output is the command's."""


def main() -> None:
    """Serve until killed."""
    playing = Playing.read(Folder(Path(sys.argv[1])))
    VideoServer(playing.video, playing.cc).serve_forever()


if __name__ == "__main__":
    main()

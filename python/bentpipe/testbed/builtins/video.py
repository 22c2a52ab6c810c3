"""``video``: an adaptive player without a picture, with the policies of `bentpipe video race`, over HTTP/1.1.

It plays the built-in video (Pensieve's bitrates, chunks of 4 s with generated sizes), over and over until the length is
reached, from segments of random bytes at the server node.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.builtins.outcome import NetworkFailureError
from bentpipe.testbed.builtins.tools import keep_samples, module

if TYPE_CHECKING:
    from bentpipe.apps.video.description import VideoDescription
    from bentpipe.execution.video_choices import VideoChoices
    from bentpipe.testbed.builtins.request import Context
    from bentpipe.testbed.schemas.builtins import VideoArguments

PORTS = ("video",)
BUFFER_S = 12.0
"""Buffer above which the player waits [s]: that of a live stream, as in `bentpipe video race`."""
SILENCE_S = 20.0
"""Time without a byte after which the player gives up [s]."""
READ_BYTES = 1 << 16


class Player:
    """A player.

    Attributes:
        qualities: Quality of each chunk that has arrived.
        requested_s: When each was requested [s since the begin].
        arrived_s: When each had arrived.
        sizes: Their sizes [bytes].
    """

    def __init__(self, video: VideoDescription, choices: VideoChoices, connection: HTTPConnection) -> None:
        """Nothing is requested before `play`."""
        self._video, self._choices, self._connection = video, choices, connection
        self._began_s = 0.0
        self.began_ns = 0
        self.qualities: list[int] = []
        self.requested_s: list[float] = []
        self.arrived_s: list[float] = []
        self.sizes: list[int] = []

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    def play(self) -> None:
        """Play all chunks. Raises `OSError` and `HTTPException`: the network failed."""
        self._began_s, self.began_ns = time.monotonic(), time.time_ns()
        buffer_s, at_s = 0.0, 0.0
        for number in range(self._video.chunks):
            now_s = self._now_s()
            left_s = max(0.0, buffer_s - (now_s - at_s))
            if left_s > BUFFER_S:
                time.sleep(left_s - BUFFER_S)
                now_s = self._now_s()
                left_s = max(0.0, buffer_s - (now_s - at_s))
            quality = self._choices.choose(now_s, left_s)
            size = self._video.chunk_bytes[quality][number]
            first_byte_s = self._fetch(size, now_s)
            arrived_s = self._now_s()
            self._choices.arrived(size, first_byte_s, arrived_s - now_s)
            buffer_s, at_s = max(0.0, buffer_s - (arrived_s - at_s)) + self._video.chunk_s, arrived_s
            self.qualities.append(quality)
            self.requested_s.append(now_s)
            self.arrived_s.append(arrived_s)
            self.sizes.append(size)

    def _fetch(self, size: int, begin_s: float) -> float:
        """Fetch a chunk; return the time to its first byte [s]."""
        self._connection.request("GET", f"/bytes/{size}")
        answer = self._connection.getresponse()
        if answer.status != 200:
            raise HTTPException(f"status {answer.status}")
        got = len(answer.read(1))
        first_byte_s = self._now_s() - begin_s
        while got < size:
            piece = answer.read(min(READ_BYTES, size - got))
            if not piece:
                raise HTTPException(f"the connection ended after {got} of {size} bytes")
            got += len(piece)
        answer.read()
        return first_byte_s


def client(arguments: VideoArguments, context: Context) -> None:
    """Play."""
    from bentpipe.apps.video.description import generated_sizes, pensieve
    from bentpipe.apps.video.qoe import experience, play
    from bentpipe.execution.video_choices import new_choices
    from bentpipe.experiments.videos import check_policy, player

    host, port = context.server("video")
    video = pensieve()
    chunks = math.ceil(arguments.seconds / video.chunk_s)
    video = replace(video, chunk_bytes=generated_sizes(video.rates_bps, chunks, video.chunk_s))
    record = player(video, check_policy(arguments.policy), round(BUFFER_S * 1e9)).video
    connection = HTTPConnection(host, port, timeout=SILENCE_S)
    run = Player(video, new_choices(record), connection)
    failure: str | None = None
    try:
        run.play()
    except (OSError, HTTPException) as error:
        failure = f"chunk {len(run.qualities) + 1} of {chunks}: {getattr(error, 'strerror', None) or error}"
    finally:
        connection.close()
    seen = play(run.qualities, run.requested_s, run.arrived_s, video.rates_bps, video.chunk_s)
    context.figures["policy"] = arguments.policy
    context.figures["chunks"] = [
        {"requested_s": requested_s, "bytes": size, **asdict(chunk)}
        for chunk, requested_s, size in zip(seen, run.requested_s, run.sizes, strict=True)
    ]
    if len(seen) > 1:
        context.figures |= asdict(experience(seen, run.arrived_s[0]))
    keep_samples(context, _rows(run, host), ["one row for each chunk; qualities and stalls are in builtin.json"])
    if failure is not None:
        raise NetworkFailureError(failure)


def _rows(run: Player, host: str) -> list[dict[str, Any]]:
    """Return the rows of `samples`: one for each chunk."""
    rows = []
    for requested_s, arrived_s, size in zip(run.requested_s, run.arrived_s, run.sizes, strict=True):
        took_s = max(arrived_s - requested_s, 1e-6)
        rows.append(
            {
                "unix_ns": run.began_ns + round(requested_s * 1e9),
                "target": host,
                "t_s": arrived_s,
                "duration_s": took_s,
                "test": 0,
                "flow": 0,
                "direction": "down",
                "bytes": size,
                "goodput_bps": size * 8 / took_s,
            }
        )
    return rows


def server(_: VideoArguments, ports: dict[str, int]) -> list[str]:
    """Return the command of the server."""
    return module("bentpipe.testbed.builtins.byte_server", str(ports["video"]))

"""Python controllers and applications: classes that the simulator calls.

```python
from bentpipe.plugin import Ack, Controller

class Mine(Controller):
    gain = 1.0  # a tunable: --cc ./mine.py:Mine:gain=2

    def on_ack(self, ack: Ack) -> None:
        if self.cwnd_bytes < self.ssthresh_bytes:
            self.cwnd_bytes += ack.acked_bytes
        else:
            self.cwnd_bytes += self.gain * ack.mss_bytes * ack.acked_bytes / self.cwnd_bytes
```

``bentpipe race P.parquet --cc ./mine.py:Mine,cubic -o out`` races it. docs/guides/own-controller.md has its speed
relative to Rust, and how to write a controller in Rust.
"""

from __future__ import annotations

import math
from typing import Any

from bentpipe._native import Ack, Message
from bentpipe.errors import UserError, shown

__all__ = ["APP_HOOKS", "HOOKS", "Ack", "App", "Controller", "Message"]

HOOKS = ("on_established", "on_ack", "on_congestion", "on_lost", "on_sent")
"""Methods of a controller that the simulator calls."""


class Controller:
    """Base class: the methods that the simulator calls, and the attributes that it reads after each call.

    The base class does endless slow start and halves the window at a loss. Override `on_ack`, and other methods as
    needed. The sender detects losses, retransmits, reduces the window to `ssthresh_bytes` during recovery (PRR) and to
    one segment after a time-out, as for controllers in Rust. A controller that sets `controls_recovery` controls its
    window during recovery itself.

    The simulator also calls two methods that only a subclass may define, because the calls are frequent:
    ``on_lost(now_s, lost_bytes, sent_s)`` for every packet marked lost, with its send time, and
    ``on_sent(now_s, inflight_bytes, app_limited)`` after every transmission. It calls no other `on_…` method (`HOOKS`),
    so a class with one is refused.

    A method that raises, or leaves a window that is NaN, infinite, negative or 0, ends its Run with `ControllerError`.

    Attributes:
        cwnd_bytes: Congestion window [bytes]; at least one segment is used. The sender sets it too.
        ssthresh_bytes: Slow-start threshold [bytes]: after a loss, the window at the end of recovery.
        pacing_bps: Pacing rate [bit/s]; None: unpaced, or the host's own rule.
        controls_recovery: Whether the controller sets the window in recovery too, as BBR does.
        mss_bytes: Largest segment [bytes].
    """

    pacing_bps: float | None = None
    controls_recovery: bool = False

    def __init__(self, mss_bytes: int, initial_cwnd_bytes: int) -> None:
        """Initialise the controller for a new connection."""
        self.mss_bytes = mss_bytes
        self.cwnd_bytes: float = initial_cwnd_bytes
        self.ssthresh_bytes: float = math.inf
        self._before: tuple[float, float] | None = None

    def on_established(self, now_s: float, rtt_s: float | None) -> None:
        """Handle the end of the handshake, `now_s` after the Run's start; `rtt_s` is the handshake's RTT."""

    def on_ack(self, ack: Ack) -> None:
        """Handle an ACK. Without `controls_recovery`, it is called only when the window may grow: not in recovery.

        `Ack` has `now_s`, `mss_bytes`, `acked_bytes` (newly, cumulatively or selectively), `lost_bytes` (newly),
        `rtt_s` (None: only retransmissions were acknowledged), `srtt_s`, `min_rtt_s` (None: not known yet),
        `delivery_bps` (of the delivery rate sampler; None: it has no sample), `delivered_bytes` and `lost_total_bytes`
        so far, `delivered_at_send_bytes` (for counting rounds), `inflight_bytes` after it and `prior_inflight_bytes`
        before, `cwnd_limited` (the window limits sending), `app_limited`, `in_recovery`, `ce_marks` so far.
        """
        self.cwnd_bytes += ack.acked_bytes

    def on_congestion(self, now_s: float, event: str, inflight_bytes: int) -> None:
        """Handle a congestion event.

        It is ``loss``, ``ecn``, ``timeout``, ``timeout_again``, ``tail_loss``, ``undo``, ``recovery_end`` or
        ``restart``. ``timeout_again`` is a time-out whose reduction was already made. ``undo``: the last reduction was
        spurious. ``restart``: the connection was idle.
        """
        if event in {"loss", "ecn", "timeout"}:
            self._before = (self.cwnd_bytes, self.ssthresh_bytes)
            self.ssthresh_bytes = max(self.cwnd_bytes / 2, 2 * self.mss_bytes)
        elif event == "undo" and self._before is not None:
            self.cwnd_bytes, self.ssthresh_bytes = max(self._before[0], self.cwnd_bytes), self._before[1]


class App:
    """Base class of applications: one end of a flow. It sees events of streams, and acts by the methods below.

    ```python
    from bentpipe.plugin import App

    class Poll(App):
        every_s = 0.5  # a tunable: --app ./mine.py:Poll:every_s=0.2

        def on_opened(self, now_s, stream):
            self.stream = stream
            self.on_timer(now_s, 0)

        def on_timer(self, now_s, number):
            self.write(self.stream, 200, number=number, answer_bytes=50_000)
            self.record(number, kind="poll", start_s=now_s)
            self.set_timer(now_s + self.every_s, number + 1)

        def on_message(self, now_s, stream, message):
            self.record(message.number, first_byte_s=message.first_byte_s, completed_s=now_s)

        def on_started(self, now_s):
            self.open()
    ```

    The simulator calls the methods in `APP_HOOKS` that a class defines; a class with any other ``on_…`` method is
    refused. Times are seconds since the start of the Run. A stream is a number that this end knows a connection by.

    - ``on_started(now_s)``: the flow starts.
    - ``on_opened(now_s, stream)``: a connection is established, opened by this end or by the other.
    - ``on_message(now_s, stream, message)``: a whole message arrived. `Message` has `number`, `size_bytes`,
      `answer_bytes` and `first_byte_s`, the time at which its first byte arrived.
    - ``on_readable(now_s, stream, new_bytes)``: data arrived.
    - ``on_delivered(now_s, stream)``: everything written so far is acknowledged.
    - ``on_writable(now_s, stream)``: the send buffer has accepted everything written so far.
    - ``on_closed(now_s, stream)``: the other end closed the stream.
    - ``on_timer(now_s, number)``: a timer is due.
    - ``on_datagram(now_s, content, size_bytes)``: a datagram arrived. In the simulator alone.

    The other end is an object of the class `peer`, which knows nothing of this one. Without `peer` it is the built-in
    server: it answers each message that asks for an answer, and closes a stream after the other end.

    Attributes:
        end: The end of the flow that this class is: ``receiver`` of the flow's data, as a client that downloads, or
            ``sender``.
        peer: Class of the other end; None: the built-in server.
        seed: Seed for random draws, from the Run's.
    """

    end: str = "receiver"
    peer: type[App] | None = None
    seed: int

    _actions: list[tuple[object, ...]]
    _opened: int

    def open(self, controller: str | None = None, **options: float | str) -> int:
        """Open a connection to the other host and return its stream.

        `controller` is the congestion controller of this end, with its `options`, as in
        ``self.open("hybla", rtt0_ms=50)``. Default: the flow's, which the other end has. The kernel's have no options.
        """
        self._actions.append(("open", controller, options))
        self._opened += 1
        return self._opened - 1

    def send(self, content: bytes, size_bytes: int | None = None) -> None:
        """Send a datagram of UDP to the other end. It may be lost, late or before others. In the simulator alone.

        `size_bytes` is its size; default: that of `content`, which it is never below.
        """
        self._actions.append(("send", bytes(content), len(content) if size_bytes is None else size_bytes))

    def write(self, stream: int, size_bytes: int, *, number: int = 0, answer_bytes: int = 0) -> None:
        """Write a message of at least 24 bytes.

        `answer_bytes` asks the other end for an answer of that size: a message on this stream with the same number.
        """
        self._actions.append(("write", stream, size_bytes, number, answer_bytes))

    def close(self, stream: int) -> None:
        """Write nothing more on this stream."""
        self._actions.append(("close", stream))

    def set_timer(self, at_s: float, number: int = 0) -> None:
        """Call `on_timer` at `at_s` with this number."""
        self._actions.append(("set_timer", float(at_s), number))

    def record(
        self,
        number: int,
        *,
        kind: str | None = None,
        start_s: float | None = None,
        first_byte_s: float | None = None,
        completed_s: float | None = None,
        size_bytes: int | None = None,
    ) -> None:
        """Record times of an item: a row of `applications.parquet`. Later calls add to the row."""
        self._actions.append(("record", number, kind, start_s, first_byte_s, completed_s, size_bytes))

    def finish(self) -> None:
        """Say that neither end writes more, except answers: the flow is complete when all of that has arrived."""
        self._actions.append(("finish",))


APP_HOOKS = (
    "on_started",
    "on_opened",
    "on_readable",
    "on_message",
    "on_delivered",
    "on_writable",
    "on_closed",
    "on_timer",
    "on_datagram",
)
"""Methods of an application that the simulator calls."""


def unknown_hooks(kind: type, known: tuple[str, ...] = HOOKS) -> list[str]:
    """Return the methods with names in ``on_…`` that the simulator never calls."""
    return [
        name for name in dir(kind) if name.startswith("on_") and name not in known and callable(getattr(kind, name))
    ]


def make_ends(kind: type[App], options: dict[str, float], seed: int) -> tuple[App | None, App | None]:
    """Make the objects at a flow's sender and receiver; None: the built-in server."""
    own, other = _make_app(kind, options, seed), None if kind.peer is None else _make_app(kind.peer, {}, seed)
    return (own, other) if kind.end == "sender" else (other, own)


def _make_app(kind: type[App], options: dict[str, float], seed: int) -> App:
    app = object.__new__(kind)
    app._actions, app._opened, app.seed = [], 0, seed
    for name, value in options.items():
        setattr(app, name, value)
    app.__init__()  # type: ignore[misc]
    return app


def tunables(kind: type) -> dict[str, float]:
    """Return a controller's tunables: its class's public numeric attributes, with their defaults."""
    defaults = {
        name: value
        for each in reversed(kind.__mro__)
        for name, value in vars(each).items()
        if not name.startswith("_") and isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {name: float(value) for name, value in defaults.items()}


def make(kind: type, mss_bytes: int, initial_cwnd_bytes: int, options: dict[str, float | str]) -> Any:  # noqa: ANN401 - the user's
    """Make a controller of that class, with its tunables set before its ``__init__`` runs."""
    controller: Any = object.__new__(kind)
    for name, value in options.items():
        if name not in tunables(kind):
            raise UserError(f"{kind.__name__} has no tunable {name}")
        if isinstance(value, str):
            raise UserError(f"{kind.__name__}: {name} is {shown(value)}; expected a number")
        setattr(controller, name, value)
    controller.__init__(mss_bytes, initial_cwnd_bytes)
    return controller

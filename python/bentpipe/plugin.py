"""Python controllers: a class that the simulator calls at every ACK.

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

from bentpipe._native import Ack
from bentpipe.errors import UserError, shown

__all__ = ["HOOKS", "Ack", "Controller"]

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
        `rtt_s` (None: only retransmissions were acknowledged), `srtt_s`, `min_rtt_s`, `delivery_bps` (of the delivery
        rate sampler), `delivered_bytes` and `lost_total_bytes` so far, `delivered_at_send_bytes` (for counting rounds),
        `inflight_bytes` after it and `prior_inflight_bytes` before, `cwnd_limited` (the window limits sending),
        `app_limited`, `in_recovery`, `ce_marks` so far.
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


def unknown_hooks(kind: type) -> list[str]:
    """Return the methods with names in ``on_…`` that the simulator never calls."""
    return [
        name for name in dir(kind) if name.startswith("on_") and name not in HOOKS and callable(getattr(kind, name))
    ]


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

"""Your own congestion controller in Python: a class that the simulator calls at every ACK.

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

``bentpipe race P.parquet --cc ./mine.py:Mine,cubic -o out`` races it. How much slower than one in Rust it is, and how
to write one in Rust: docs/guides/own-controller.md.
"""

from __future__ import annotations

import math
from typing import Any

from bentpipe._native import Ack
from bentpipe.errors import UserError

__all__ = ["HOOKS", "Ack", "Controller"]

HOOKS = ("on_established", "on_ack", "on_congestion", "on_lost", "on_sent")
"""Methods of a controller that the simulator calls."""


class Controller:
    """What the simulator calls, and what it reads back after each call.

    As it stands it is slow start without end that halves the window at a loss: write `on_ack`, and whatever else yours
    does otherwise. The sender itself detects losses, retransmits, comes down to `ssthresh_bytes` during recovery (PRR)
    and to one segment after a time-out, exactly as for the controllers in Rust; one that sets `controls_recovery`
    does all of that to its window itself.

    The simulator also calls two methods that this class does not have, where a subclass has them, since there are many
    such calls: ``on_lost(now_s, lost_bytes, sent_s)`` for every packet marked lost, with the time it was sent, and
    ``on_sent(now_s, inflight_bytes, app_limited)`` after every transmission. It calls no other `on_…` method (`HOOKS`),
    so a class with one is refused: it would never be called.

    A method that raises, or leaves a window that is NaN, infinite, negative or 0, ends its Run with `ControllerError`.

    Attributes:
        cwnd_bytes: Congestion window [bytes]; counts as one segment where it is less. The sender sets it, too.
        ssthresh_bytes: Slow-start threshold [bytes]: after a loss, the window to come out of recovery with.
        pacing_bps: Rate to pace at [bit/s]; None: unpaced, or the host's own rule.
        controls_recovery: Whether the window is its own in recovery, too, as BBR's is.
        mss_bytes: Largest segment [bytes].
    """

    pacing_bps: float | None = None
    controls_recovery: bool = False

    def __init__(self, mss_bytes: int, initial_cwnd_bytes: int) -> None:
        """A connection begins."""
        self.mss_bytes = mss_bytes
        self.cwnd_bytes: float = initial_cwnd_bytes
        self.ssthresh_bytes: float = math.inf
        self._before: tuple[float, float] | None = None

    def on_established(self, now_s: float, rtt_s: float | None) -> None:
        """The handshake is done, `now_s` after the Run's beginning; `rtt_s`: what it took."""

    def on_ack(self, ack: Ack) -> None:
        """An ACK. Without `controls_recovery` only where the window may grow: not while losses are repaired.

        `Ack` has `now_s`, `mss_bytes`, `acked_bytes` (newly, cumulatively or selectively), `lost_bytes` (newly),
        `rtt_s` (None: only retransmissions were acknowledged), `srtt_s`, `min_rtt_s`, `delivery_bps` (of the delivery
        rate sampler), `delivered_bytes` and `lost_total_bytes` so far, `delivered_at_send_bytes` (for counting rounds),
        `inflight_bytes` after it and `prior_inflight_bytes` before, `cwnd_limited` (does the window hold data back?),
        `app_limited`, `in_recovery`, `ce_marks` so far.
        """
        self.cwnd_bytes += ack.acked_bytes

    def on_congestion(self, now_s: float, event: str, inflight_bytes: int) -> None:
        """``loss``, ``ecn``, ``timeout``, ``timeout_again``, ``tail_loss``, ``undo``, ``recovery_end``, ``restart``.

        ``timeout_again`` is one whose reduction was made already; ``undo`` says that the last reduction was for
        nothing; ``restart`` that the line was idle.
        """
        if event in {"loss", "ecn", "timeout"}:
            self._before = (self.cwnd_bytes, self.ssthresh_bytes)
            self.ssthresh_bytes = max(self.cwnd_bytes / 2, 2 * self.mss_bytes)
        elif event == "undo" and self._before is not None:
            self.cwnd_bytes, self.ssthresh_bytes = max(self._before[0], self.cwnd_bytes), self._before[1]


def unknown_hooks(kind: type) -> list[str]:
    """Return the methods whose names begin with ``on_`` and that the simulator never calls."""
    return [
        name for name in dir(kind) if name.startswith("on_") and name not in HOOKS and callable(getattr(kind, name))
    ]


def tunables(kind: type) -> dict[str, float]:
    """What can be set of a controller: the numbers among its class's public attributes, with their defaults."""
    found = {
        name: value
        for each in reversed(kind.__mro__)
        for name, value in vars(each).items()
        if not name.startswith("_") and isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {name: float(value) for name, value in found.items()}


def make(kind: type, mss_bytes: int, initial_cwnd_bytes: int, options: dict[str, float]) -> Any:  # noqa: ANN401 - the user's
    """A controller of that class, with its tunables set before its ``__init__`` runs."""
    controller: Any = object.__new__(kind)
    for name, value in options.items():
        if name not in tunables(kind):
            raise UserError(f"{kind.__name__} has no tunable {name}")
        setattr(controller, name, value)
    controller.__init__(mss_bytes, initial_cwnd_bytes)
    return controller

"""A controller of one's own, raced against built-in ones.

    bentpipe race P.parquet --cc examples/my_controller.py:Steady,cubic,bbr --duration 60 -o out/mine

It keeps about `queue_ms` of its own packets in the bottleneck's queue, whatever the path's round-trip time does: the
window is what was delivered in the smallest round-trip time of late, plus that.
"""

from bentpipe.plugin import Ack, Controller


class Steady(Controller):
    queue_ms = 10.0  # a tunable: --cc examples/my_controller.py:Steady:queue_ms=30

    def on_ack(self, ack: Ack) -> None:
        if ack.min_rtt_s is None or ack.delivery_bps is None:
            return
        target = ack.delivery_bps / 8 * (ack.min_rtt_s + self.queue_ms / 1e3)
        if self.cwnd_bytes < target:
            self.cwnd_bytes += ack.acked_bytes  # doubles in a round trip, as slow start does
        else:
            self.cwnd_bytes += (target - self.cwnd_bytes) / 8
        self.pacing_bps = 1.1 * 8 * self.cwnd_bytes / max(ack.srtt_s, 1e-3)

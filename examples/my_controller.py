"""A Python controller, raced against built-in ones.

Usage: python my_controller.py [FOLDER]
   or: bentpipe race P.parquet --cc examples/my_controller.py:Steady,cubic,bbr --duration 60 -o out/mine

It keeps about `queue_ms` of its own packets in the bottleneck's queue at any RTT: the window is the delivery rate times
the recent minimum RTT plus `queue_ms`.

Over Starlink it starves (0.25 Mbit/s from Melbourne to London, where CUBIC gets 53): RTTs vary there by more than
`queue_ms` without any queue, and it takes this variation for a queue. On fibre it fills the link with less delay than
CUBIC.
"""

import sys

import bentpipe as bp
from bentpipe.plugin import Ack, Controller


class Steady(Controller):
    queue_ms = 10.0  # a tunable: --cc examples/my_controller.py:Steady:queue_ms=30

    def on_ack(self, ack: Ack) -> None:
        if ack.min_rtt_s is None or ack.delivery_bps is None:
            return
        target = ack.delivery_bps / 8 * (ack.min_rtt_s + self.queue_ms / 1e3)
        if self.cwnd_bytes < target:
            self.cwnd_bytes += ack.acked_bytes  # doubles in an RTT, as slow start does
        else:
            self.cwnd_bytes += (target - self.cwnd_bytes) / 8
        self.pacing_bps = 1.1 * 8 * self.cwnd_bytes / max(ack.srtt_s, 1e-3)


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else "out/my_controller"
    path = bp.Profile.make(site=(47.61, -122.33), to="ashburn", duration=40, seed=1)
    runs = bp.Experiment(path, schemes=[f"{__file__}:Steady", "cubic", "bbr"], duration=20).simulate(out=out)
    for row in runs.to_polars().to_dicts():
        name = row["scheme"].rpartition(":")[2]
        print(f"{name:6}: {row['goodput_bps'] / 1e6:6.1f} Mbit/s, median RTT {row['rtt_median_ms']:.0f} ms")

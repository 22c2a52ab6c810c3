"""Compute the RTTs of a ping every 100 ms over a computed path, from the Profile alone, without a simulation."""

import numpy as np

import bentpipe as bp

path = bp.Profile.make(site="melbourne", to="sydney", duration=60, seed=3)
sent_s = np.arange(0, 55, 0.1)
up_ms = path.delay_ms("up", sent_s)
rtt_ms = up_ms + path.delay_ms("down", sent_s + up_ms / 1e3)
for begin in range(0, 55, 15):
    slot = rtt_ms[(sent_s >= begin) & (sent_s < begin + 15)]
    median_ms, high_ms = np.quantile(slot, [0.5, 0.95])
    print(f"{begin:2}-{begin + 15:2} s: min {slot.min():.1f}, median {median_ms:.1f}, 95 % {high_ms:.1f} ms")

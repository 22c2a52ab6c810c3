"""Compare CUBIC and BBR in the simulator with values measured on a Linux 6.18 kernel.

The kernel's values were measured with a user-space bottleneck (README.md beside this file).
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from bentpipe.execution.racing import race
from bentpipe.profiles.presets import preset_profile
from bentpipe.validation import OnProgress, Outcome, Row

DUMBBELL = "dumbbell:rate=100mbit,rtt=40ms,queue=333packets"
DUMBBELL_S = 60.0
#: Long enough for the rarest losses: at 1e-4 a loss comes about every 4 s.
LOSSY_S = 200.0
SEEDS = 10
#: Loss probability → goodput on the kernel [Mbit/s], 50 ms.
KERNEL_CUBIC_MBPS = {"1e-4": 32.7, "1e-3": 9.2, "1e-2": 2.4}


def check(data: Path | None, on_progress: OnProgress) -> Outcome:
    """Run the three experiments; needs no data."""
    del data
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        dumbbell = preset_profile(DUMBBELL, DUMBBELL_S)
        runs = race([dumbbell], ["cubic+bbr", "cubic+cubic"], out=out / "dumbbell", seeds=SEEDS).runs
        on_progress(0.4)
        goodput = {
            scheme: [[flow["goodput_bps"] / 1e6 for flow in run.flows] for run in runs if run.scheme == scheme]
            for scheme in ("cubic+bbr", "cubic+cubic")
        }
        shares = [100 * bbr / (cubic + bbr) for cubic, bbr in goodput["cubic+bbr"]]
        mean = statistics.mean(shares)
        share = f"BBR's share against CUBIC, mean of {SEEDS} [%]"
        rows.append(Row(share, f"{mean:.1f}", "88.8 ± 1.3", "86–91", 86 <= mean <= 91))
        low, high = min(shares), max(shares)
        rows.append(
            Row("the same, each run [%]", f"{low:.1f}–{high:.1f}", "86.5–91.0", "84–93", low >= 84 and high <= 93)
        )
        totals = [sum(pair) for pair in goodput["cubic+cubic"]]
        low, high = min(totals), max(totals)
        total = "CUBIC + CUBIC, total, each run [Mbit/s]"
        rows.append(Row(total, f"{low:.1f}–{high:.1f}", "96.1", "95–97", low >= 95 and high <= 97))
        for i, (loss, kernel) in enumerate(KERNEL_CUBIC_MBPS.items()):
            lossy = preset_profile(f"dumbbell:rate=1gbit,rtt=50ms,queue=4bdp,loss={loss}", LOSSY_S)
            runs = race([lossy], ["cubic"], out=out / loss, seeds=SEEDS).runs
            ours = statistics.mean(run.flows[0]["goodput_bps"] / 1e6 for run in runs)
            within = abs(ours / kernel - 1) <= 0.1
            rows.append(Row(f"one CUBIC, 50 ms, loss {loss} [Mbit/s]", f"{ours:.2f}", f"{kernel}", "± 10 %", within))
            on_progress(0.4 + 0.2 * (i + 1))
    return Outcome("kernel-figures", rows)

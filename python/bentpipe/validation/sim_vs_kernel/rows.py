"""A cell's verdict as rows of ``bentpipe validate``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bentpipe.validation import Row
from bentpipe.validation.sim_vs_kernel.explanations import against_itself, explained_by, undecided
from bentpipe.validation.sim_vs_kernel.judge import QUANTITIES

if TYPE_CHECKING:
    from bentpipe.validation.sim_vs_kernel.judge import Verdict


def cell_of(verdict: Verdict) -> dict[str, Any]:
    """Return the record of a cell that ``validate --json`` prints."""
    return {
        **verdict.to_dict(explained_by(verdict)),
        "undecided": list(undecided(verdict)),
        "against_itself": {
            quantity: asdict(repeated)
            for quantity in verdict.outside
            if quantity in QUANTITIES and (repeated := against_itself(verdict, quantity)) is not None
        },
    }


def rows_of(verdict: Verdict) -> list[Row]:
    """Return the rows of a cell."""
    cell = f"{verdict.cell.profile}, {verdict.cell.flows} (n = {verdict.n})"
    ours, theirs = verdict.simulated, verdict.kernel
    because = f" ({why})" if (why := explained_by(verdict)) else _undecided(verdict)

    def row(label: str, quantity: str, scale: float, digits: int, limit: str, name: str) -> Row:
        values = [f"{scale * world.mean(quantity):.{digits}f}" for world in (ours, theirs)]
        return Row(f"{cell}: {label}", values[0], values[1], limit + because, name not in verdict.outside)

    alone = verdict.cell.alone
    rows = [row("goodput [Mbit/s]", "goodput_bps", 1e-6, 2, "± 5 %" if alone else "± 3 %", "goodput")]
    if alone:
        rows.append(row("one-way delay [ms]", "delay_ms", 1.0, 2, "± 5 % or 1 ms", "delay"))
        rows.append(row("retransmitted [%]", "retransmit_rate", 100.0, 3, "± 20 % or 0.1 point", "retransmits"))
    elif (test := verdict.share_test) is not None:
        limit = f"TOST ± 5 points, p {test.p:.3f}" + because
        shares = [f"{100 * share:.1f}" for share in (test.simulated, test.kernel)]
        rows.append(Row(f"{cell}: first flow's share [%]", shares[0], shares[1], limit, test.equivalent))
    if verdict.why_invalid is not None:
        rows.append(Row(f"{cell}: the kernel's runs", "", verdict.why_invalid, "valid", within=False))
    return rows


def _undecided(verdict: Verdict) -> str:
    if not (names := undecided(verdict)):
        return ""
    return f" (undecided: {', '.join(names)}; the kernel's own scatter could hide more than the limit)"

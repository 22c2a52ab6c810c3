"""What this machine's kernel can emulate."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bentpipe.execution.emulation.check import KernelReport


def check_kernel() -> KernelReport:
    """Try an emulation, in about two seconds; return each requirement, whether it is met, and the effect if not.

    `usable` of the result says whether `Experiment.emulate` and `Profile.run` work here.

    Example:
        >>> import bentpipe as bp
        >>> report = bp.check_kernel()
        >>> missing = [check.name for check in report.checks if not check.ok]
        >>> report.usable  # doctest: +SKIP
        True
    """
    from bentpipe.execution.emulation import check
    from bentpipe.execution.kernel import trial_path

    return check.check_kernel(trial_path())

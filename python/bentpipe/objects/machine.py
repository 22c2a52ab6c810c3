"""This machine's kernel: what it can emulate, and the clock of its controllers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.objects import arguments

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.execution.emulation.check import KernelReport
    from bentpipe.kernel.clock.daemon import ClockEvent
    from bentpipe.objects.arguments import DurationLike, FileLike, TimeLike
    from bentpipe.objects.profile import Profile


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


def keep_clock(
    *,
    profile: Profile | FileLike | None = None,
    start: TimeLike | None = None,
    dish: str | None = None,
    duration: DurationLike | None = None,
    on_event: Callable[[ClockEvent], object] | None = None,
) -> bool:
    """Keep the handover clock of this host in all loaded controllers, and withdraw it when it is not sure.

    Without a Profile and a dish the clock is learned from the TCP sockets of this network namespace.

    Args:
        profile: A Profile that is being emulated.
        start: When its beginning was emulated; None: as `Profile.run` begins it, so that its seconds are those of the
            minute.
        dish: Address of a terminal, HOST or HOST:PORT.
        duration: How long; None: until SIGTERM or Ctrl-C.
        on_event: Called at each change with an event, which has `kind`, `text`, `values` and `to_line()`.

    Returns:
        Whether there was a clock at some time.

    Raises:
        UserError: What this machine lacks, another program that keeps the clock, or a Profile without a clock.

    Example:
        >>> import bentpipe as bp
        >>> bp.keep_clock(duration="2min", on_event=lambda event: print(event.to_line()))  # doctest: +SKIP
        2026-05-10T09:00:43Z found: period 15.000 s, second 12.01 of the minute, confidence 0.997; ...
        2026-05-10T09:02:00Z ended: the clock is withdrawn
        True
    """
    from bentpipe.kernel.clock import daemon
    from bentpipe.objects.profile import profile_of

    return daemon.keep_clock(
        profile=None if profile is None else profile_of(profile, "profile").native,
        start_unix_ns=None if start is None else arguments.unix_ns(start, "start"),
        dish=dish,
        for_s=None if duration is None else arguments.seconds(duration, "duration"),
        on_event=arguments.callback(on_event, "on_event"),
    )

"""The command line's way in: the command ``bentpipe`` and ``python -m bentpipe``.

What the command line loads takes a third of a second, in which Ctrl-C must be no traceback either. So nothing but the
standard library is loaded before that is taken care of.
"""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""As shells report a process that SIGINT ended."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _open_what_is_closed()
    try:
        # In the middle of an import an exception would be lost, or come out as another: so the process ends at once.
        # Where SIGINT is ignored (a background job of a shell) it stays so.
        loading = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if loading:
            signal.signal(signal.SIGINT, _stop)
        from bentpipe.cli.main import app

        if loading:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except KeyboardInterrupt:
        _stop()


def _open_what_is_closed() -> None:
    """`/dev/null` for whichever of the three standard streams is closed (`>&-`): else the next file would be it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def _stop(_signal: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    """Nothing is begun yet, so nothing is to be put in order."""
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

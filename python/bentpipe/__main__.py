"""Entry point of the command ``bentpipe`` and of ``python -m bentpipe``.

Loading the command line takes a third of a second, in which Ctrl-C must not print a traceback. So only the standard
library is loaded before the signal handler is set.
"""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
"""Exit code with which shells report a process ended by SIGINT."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    _open_closed_streams()
    try:
        # An exception during an import may be lost or replaced by another, so the handler ends the process at once.
        # If SIGINT is ignored (a background job of a shell), it stays ignored.
        loading = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if loading:
            signal.signal(signal.SIGINT, _stop)
        from bentpipe.cli.main import app

        if loading:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        app()
    except KeyboardInterrupt:
        _stop()


def _open_closed_streams() -> None:
    """Open `/dev/null` for each closed standard stream (`>&-`): else the next opened file would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))


def _stop(_signal: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    """End the process. No work has begun, so nothing needs cleaning up."""
    os.write(2, b"error: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()

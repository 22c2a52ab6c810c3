"""Runner with bubblewrap: the program sees only /usr, a few files of /etc, its inputs and its output."""

from __future__ import annotations

import shutil

from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.sandboxed import SandboxedRunner


class BubblewrapRunner(SandboxedRunner):
    """Runs a program of this machine in a sandbox without this machine's other files.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.testbed.runners.bubblewrap import BubblewrapRunner
        >>> BubblewrapRunner(Path("state")).name
        'bubblewrap'
    """

    name = "bubblewrap"

    def _bubblewrap(self) -> str | None:
        path = shutil.which("bwrap")
        if path is None:
            raise RunnerError("bwrap: not installed; try `apt install bubblewrap`")
        return path

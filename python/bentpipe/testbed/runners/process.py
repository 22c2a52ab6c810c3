"""Runner without other programs: namespaces, a read-only view of this machine's files, no capabilities, seccomp."""

from __future__ import annotations

from bentpipe.testbed.runners.sandboxed import SandboxedRunner


class ProcessRunner(SandboxedRunner):
    """Runs a program that sees this machine's files read-only.

    Use it for programs that the agent trusts to read files, such as the built-in experiments. As root, each run has a
    user of its own, so it reads only what everybody may; as an ordinary user it reads what that user may, apart from
    the hidden folders.

    Example:
        >>> from pathlib import Path
        >>> from bentpipe.testbed.runners.process import ProcessRunner
        >>> ProcessRunner(Path("state")).name
        'process'
    """

    name = "process"

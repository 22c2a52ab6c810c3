"""Machine and versions of a check, for ``validate --json`` and each folder's `result.json`."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from bentpipe.runs.record import machine, versions

CPUINFO = Path("/proc/cpuinfo")


def made_on() -> dict[str, Any]:
    """Return versions as in a Run (with the kernel's release), commit and machine.

    `commit` is that of the checkout that runs, with ``-dirty`` where files of it are changed; None: an installed
    package. `processors` is how many this process may use, `processor` the first one's name; None: unknown.
    """
    return {
        **versions("simulated"),
        "emulator": versions("emulated")["build"],
        **machine(),
        "commit": _commit(),
        "processor": _processor(),
        "processors": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
    }


def _commit() -> str | None:
    here = Path(__file__).parent
    try:
        # An installed package may lie in another project's checkout; its commit is not ours.
        _git(here, "ls-files", "--error-unmatch", "__init__.py")
        return _git(here, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _processor() -> str | None:
    try:
        text = CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor() or None
    names = (line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    return next(names, None)

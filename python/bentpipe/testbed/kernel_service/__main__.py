"""``python -m bentpipe.testbed.kernel_service SOCKET [--user UID] [--audit FILE] [--parent PID]``: run the service."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from bentpipe.errors import UserError
from bentpipe.testbed.kernel_service.service import KernelService
from bentpipe.testbed.namespaces import linux


def main() -> int:
    """Serve until SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(prog="bentpipe.testbed.kernel_service", description="Set the kernel for runs.")
    parser.add_argument("socket", type=Path, help="path of the Unix socket")
    parser.add_argument("--user", type=int, default=os.geteuid(), help="user id of the agent (default: this user)")
    parser.add_argument("--audit", type=Path, help="file to which a line is appended for each call (default: stderr)")
    parser.add_argument("--parent", type=int, help="process with which the service dies (default: it stays)")
    options = parser.parse_args()
    if options.parent is not None:
        linux.die_with_parent(options.parent)
    try:
        audit = sys.stderr if options.audit is None else options.audit.open("a", encoding="utf-8", buffering=1)
        service = KernelService(options.socket, {options.user}, lambda line: print(line, file=audit, flush=True))
        if options.user != os.geteuid():
            service.allow(options.user, -1)
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: service.close())
    signal.signal(signal.SIGINT, lambda *_: service.close())
    service.serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

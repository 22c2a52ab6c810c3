"""``python -m bentpipe.validation.testbed_faults.trial FOLDER ORDER``: one world in namespaces of its own.

ORDER is JSON: ``{"kills": {KIND: NUMBER, …}, "seed": N}`` or ``{"condition": NAME}``. Prints ``kill`` for each kill,
and at the end what became of all runs as one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe.testbed.namespaces import linux

if TYPE_CHECKING:
    from collections.abc import Mapping


def _carry_out(folder: Path, order: Mapping[str, Any]) -> dict[str, Any]:
    from bentpipe.validation import postgresql
    from bentpipe.validation.testbed_faults import conditions, kills

    if "condition" in order:
        return conditions.CONDITIONS[order["condition"]](folder)
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(postgresql.server()) if "database" in order["kills"] else None
        return kills.run_kills(
            folder,
            order["kills"],
            order["seed"],
            lambda: print("kill", flush=True),
            server=server,
            quiet_s=order.get("quiet_s", 20.0),
        )


def main() -> int:
    """Run in namespaces of its own: the network, and mounts."""
    from bentpipe.validation.testbed_faults.world import connect

    folder, order = Path(sys.argv[1]), json.loads(sys.argv[2])
    linux.die_with_parent(os.getppid())
    linux.unshare(linux.CLONE_NEWNET | linux.CLONE_NEWNS)
    linux.mount("", "/", "", linux.MS_REC | linux.MS_PRIVATE)
    connect()
    print(json.dumps(_carry_out(folder, order)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

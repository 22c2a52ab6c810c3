"""Look at a result before it is believed, in a process with limits: its files come from a host that may be hostile."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.testbed.orchestrator.services.limited import limit_process, run_limited

if TYPE_CHECKING:
    from collections.abc import Mapping

AT_ONCE = 2
"""Checks at the same time."""
CHECK_S = 60.0
"""Longest time of a check [s]."""
_turns: dict[int, asyncio.Semaphore] = {}


async def check_result(files: Mapping[str, Path]) -> str | None:
    """Read the record and the tables of a result in a process of its own.

    Args:
        files: Path in the result → file.

    Returns:
        One line: the problem; None: it is readable.
    """
    if not {"run.json", "testbed.json"} & files.keys():
        return "neither run.json nor testbed.json"
    loop = id(asyncio.get_running_loop())
    async with _turns.setdefault(loop, asyncio.Semaphore(AT_ONCE)):
        with tempfile.TemporaryDirectory(prefix="bentpipe-check-") as name:
            folder = Path(name)
            await asyncio.to_thread(lay_files, folder, files)
            return await _check_apart(folder)


def lay_files(folder: Path, files: Mapping[str, Path]) -> None:
    """Give the files their names, by links: in a folder of our own, with paths that were checked."""
    for path, file in files.items():
        if not path.endswith((".json", ".parquet")):
            continue
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(file.resolve())


async def _check_apart(folder: Path) -> str | None:
    code, text = await run_limited(f"{__package__}.result_checks", str(folder), seconds=CHECK_S)
    if code is None:
        return f"it could not be read within {CHECK_S:.0f} s"
    if code == 0 and text == "ok":
        return None
    return " ".join(text.split())[:300] or f"the program that read it ended with {code}"


def read_result(folder: Path) -> None:
    """Read a result. Raises any error: it is damaged."""
    import json

    if (folder / "testbed.json").exists():
        record = json.loads((folder / "testbed.json").read_bytes())
        if not isinstance(record, dict):
            raise ValueError("testbed.json is no object")
    if (folder / "run.json").exists():
        from bentpipe.measurements.runs import read_measured

        run = read_measured(folder)
        for name in run.tables:
            run.table(name)


def main() -> int:
    """Check the folder of the first argument; print ``ok`` or the problem."""
    limit_process(CHECK_S, Path(sys.argv[1]))
    try:
        read_result(Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 - whatever a damaged file raises is its problem
        sys.stdout.write(f"{type(error).__name__}: {' '.join(str(error).split())[:250]}\n".replace(sys.argv[1], ""))
        return 1
    sys.stdout.write("ok\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

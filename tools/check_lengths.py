"""Refuse modules over 500 lines: `make check` runs this over every tracked Python and Rust file.

A longer one says why in a line of its own: `# Over 500 lines: REASON` (in Rust `// Over 500 lines: REASON`).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MAX_LINES = 500

REASON = re.compile(r"^(?:#|//) Over 500 lines: \S.{20,}$", re.MULTILINE)


def too_long(paths: list[Path]) -> list[tuple[Path, int]]:
    """Return the files over the limit without a reason, with their number of lines."""
    texts = ((path, path.read_text(encoding="utf-8")) for path in paths)
    counts = ((path, len(text.splitlines())) for path, text in texts if not REASON.search(text))
    return [(path, count) for path, count in counts if count > MAX_LINES]


def main() -> int:
    """Print the files that are too long; return the exit code."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.rs", "*.c", "*.h"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    bad = too_long([ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()])
    for path, count in bad:
        print(f"{path.relative_to(ROOT)}: {count} lines; expected at most {MAX_LINES}; try to split it by idea")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Refuse retired words: `make check` runs this over every tracked text file but CHANGELOG.md.

Each entry says what to write instead (docs/glossary.md). Python names are checked in the syntax tree, so that a word
may still stand in a string that another program prints.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

RETIRED = {
    r"\b(sent|sends) again\b|\bresent\b": "retransmitted, retransmits",
    r"\bheld for lost\b": "marked lost",
    r"\bentrants?\b": "scheme",
    r"\bguests?\b": "plugin, Python controller",
    r"\bcrews?\b": "worker pool",
    r"\bkeepers?\b": "supervisor",
    r"\bround[- ]trips?\b(?!\)? (?:min/|times in milli))": "RTT",  # but for what ping prints
    r"\bmost[_ ]backlog|forget_most": "peak backlog, reset_peak",
    r"\bgo_on_from\b": "adopt_aqm_state",
    r"\bcan_be_passed_by\b": "allows_bypass",
    r"\bother people's (transfers|traffic)\b": "background traffic, cross traffic",
    r"\bwho serves\b": "serving satellite",
    r"\bgiven up early\b": "AQM drop",
    r"\bbears? (it )?out\b": "accuracy",
    r"\blet go\b": "dropped, released",
    r"\bnobody saw\b": "unobserved",
    r"\bwhat (is|was|became|it|they) [a-z]+ (for|of|at|by|to)\b": "a noun",
    r"\bfigures that are kept\b": "stored reference results",
    r"\bno try made valid\b": "invalid because …",
    r"\blength of a path\b": "base RTT",
}
"""Pattern → what to write instead."""

NAMES = frozenset({"said", "told", "asked", "heard", "what", "such", "those"})
"""Words that name nothing: neither a function, a class, an argument nor a variable may be called so."""

SKIPPED = ("CHANGELOG.md", "Cargo.lock", "tools/check_words.py", "requirements/")
SUFFIXES = {".py", ".pyi", ".rs", ".md", ".toml", ".html", ".css", ".sh", ".yml"}


def tracked_texts() -> list[Path]:
    """Every tracked text file that the rules hold for."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    return [ROOT / name for name in listed if name and Path(name).suffix in SUFFIXES and not name.startswith(SKIPPED)]


def retired_in(text: str) -> list[tuple[int, str, str]]:
    """Line number, the retired words, and what to write instead."""
    return [
        (number, match.group(), instead)
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, instead in RETIRED.items()
        if (match := re.search(pattern, line, re.IGNORECASE))
    ]


def bad_names_in(source: str) -> list[tuple[int, str, str]]:
    """The same for names that a Python file binds."""
    bad = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name, line = node.name, node.lineno
        elif isinstance(node, ast.arg):
            name, line = node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name, line = node.id, node.lineno
        else:
            continue
        if name.strip("_").lower() in NAMES:
            bad.append((line, name, "a noun for data, a verb for a function"))
    return bad


def main() -> int:
    """Prints each find; returns the exit code."""
    count = 0
    for path in tracked_texts():
        if not path.is_file():
            continue
        text = path.read_text()
        finds = retired_in(text) + (bad_names_in(text) if path.suffix == ".py" else [])
        for line, word, instead in finds:
            print(f"{path.relative_to(ROOT)}:{line}: {word!r}; write: {instead}")
        count += len(finds)
    if count:
        print(f"{count} retired words (docs/glossary.md)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

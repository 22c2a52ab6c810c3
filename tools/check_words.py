"""Refuse retired words: `make check` runs this over every tracked text file but CHANGELOG.md.

Each entry says what to write instead (docs/glossary.md). Names are checked apart from texts, in Python in the syntax
tree, so that a word may still stand in a string that another program prints.
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
    r"\bhouses?\b|\bhears?\b": "plugin registry, Python controller",
    r"\bpaths? (moves?|moved|(is|are) changed|closes?|closed)\b": "handover, reconfiguration, outage, interruption",
    r"\bheld (the |a )?flows? back\b": "limiting factor",
    r"\bin a full queue\b": "tail drop",
    r"\bon[ _]the[ _]way\b": "random loss, in flight",
    r"\bcut off\b": "handover drop; of a file: truncated",
    r"\bfates\b": "drawn from the seed; one fate is an event's effect on packets",
    r"\bwithout one,": "default: …",
    r"\bthe beginning\b": "warm-up, start-up phase, start",
}
"""Pattern → what to write instead."""

PATTERNS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in RETIRED.items()]

NAMES = frozenset({"said", "told", "asked", "heard", "found", "printed", "what", "such", "those"})
"""Words that name nothing: neither a function, a class, an argument nor a variable may be called so."""

PARTS = frozenset({"said", "told", "asked", "heard", "found"})
"""Those of `NAMES` that may not be a part of a name either: `told_apart`."""

FIELDS = frozenset({"found"})
"""Those of `NAMES` that a field or an argument may have: an error's `found` and `expected`, the result of a search."""

TEST = re.compile(r"#\[test\]\s*(?:#\[[^\n]*\]\s*)*fn \w+")
"""The head of a test in Rust; its name is a sentence."""

BOUND = re.compile(
    r"\b(?:fn|struct|enum|mod|const|static|type|trait)\s+(\w+)"  # items
    r"|\b(?:let|for|ref|mut)\s+(?:mut\s+)?\(?(\w+)"  # variables
    r"|(?:^\s*(?:pub(?:\([^)]*\))? )?|[(,|] ?)(?:mut )?([a-z_]\w*)\s*:(?!:)",  # fields and arguments
    re.MULTILINE,
)
"""Names that Rust code binds."""

BETTER = "a noun for data, a verb for a function"

SKIPPED = ("CHANGELOG.md", "Cargo.lock", "tools/check_words.py", "requirements/")
SUFFIXES = {".py", ".pyi", ".rs", ".md", ".toml", ".html", ".css", ".sh", ".yml", ".c", ".h"}


def tracked_texts() -> list[Path]:
    """Every tracked text file that the rules hold for."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    return [ROOT / name for name in listed if name and Path(name).suffix in SUFFIXES and not name.startswith(SKIPPED)]


def retired_in(text: str) -> list[tuple[int, str, str]]:
    """Line number, the retired words, and what to write instead."""
    # Few files have any, and a file is searched faster than its lines. No pattern spans lines.
    present = [(pattern, instead) for pattern, instead in PATTERNS if pattern.search(text)]
    return [
        (number, match.group(), instead)
        for number, line in enumerate(text.splitlines() if present else (), 1)
        for pattern, instead in present
        if (match := pattern.search(line))
    ]


def is_bad(name: str, *, is_field: bool = False) -> bool:
    """Whether a name is one of `NAMES`, or has one of `PARTS`."""
    plain = name.strip("_").lower()
    if is_field and plain in FIELDS:
        return False
    return plain in NAMES or bool(PARTS.intersection(plain.split("_")))


def bad_names_in(source: str) -> list[tuple[int, str, str]]:
    """The same for names that a Python file binds; the names of tests are sentences."""
    bad = []
    fields: set[ast.expr] = set()
    for node in ast.walk(ast.parse(source)):  # a class comes before what is in it
        if isinstance(node, ast.ClassDef):
            fields.update(statement.target for statement in node.body if isinstance(statement, ast.AnnAssign))
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            name, line = node.name, node.lineno
        elif isinstance(node, ast.arg):
            name, line = node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name, line = node.id, node.lineno
        else:
            continue
        if not name.startswith("test_") and is_bad(name, is_field=isinstance(node, ast.arg) or node in fields):
            bad.append((line, name, BETTER))
    return bad


def bad_rust_names_in(source: str) -> list[tuple[int, str, str]]:
    """The same for names that a Rust file binds."""
    code = re.sub(r"//[^\n]*", "", TEST.sub(lambda head: "\n" * head.group().count("\n"), source))
    names = ((match.start(match.lastindex or 0), match[match.lastindex or 0]) for match in BOUND.finditer(code))
    return [(code.count("\n", 0, start) + 1, name, BETTER) for start, name in names if is_bad(name)]


NAME_CHECKS = {".py": bad_names_in, ".pyi": bad_names_in, ".rs": bad_rust_names_in}


def main() -> int:
    """Prints each find; returns the exit code."""
    count = 0
    for path in tracked_texts():
        if not path.is_file():
            continue
        text = path.read_text()
        finds = retired_in(text) + (NAME_CHECKS[path.suffix](text) if path.suffix in NAME_CHECKS else [])
        for line, word, instead in finds:
            print(f"{path.relative_to(ROOT)}:{line}: {word!r}; write: {instead}")
        count += len(finds)
    if count:
        print(f"{count} retired words (docs/glossary.md)")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

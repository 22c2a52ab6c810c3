"""Files of a result that can be sent, from a folder that a program made which was not trusted.

What cannot be sent is left out and named in ``left-out.txt``; the rest is sent.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from bentpipe.testbed.agent.identity import write_private
from bentpipe.testbed.schemas.agent_protocol import LARGEST_RESULT, MOST_FILES, CommittedFile
from bentpipe.testbed.schemas.identifiers import is_file_path

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LEFT_OUT = "left-out.txt"
"""The note in a result that names what was left out."""
MOST_NAMED = 100
"""Most names in the note."""
NOTE_BYTES = 65_536
"""Room that the note is given [bytes]."""
_FIRST = ("testbed.json", "run.json", "builtin.json", "logs", "stdout.txt", "stderr.txt", "terminal", "emulation")
"""What is taken first, if not all can be."""


def committed_files(results: Path) -> tuple[list[CommittedFile], int]:
    """Return the files to send and how many things were left out; the note about them is among the files."""
    files: list[CommittedFile] = []
    total, unsuitable, beyond = 0, [], []
    paths = list(_walk(results))
    paths.sort(key=lambda each: (not each.startswith(_FIRST), each))
    for path in paths:
        if path == LEFT_OUT:  # the program's own: the testbed's takes its place
            continue
        file = results / path
        size = file.stat(follow_symlinks=False).st_size
        reason = _problem(file, path)
        if reason is not None:
            unsuitable.append(f"{_printable(path)}: {reason}")
        elif len(files) >= MOST_FILES - 1:
            beyond.append(f"{_printable(path)}: more than {MOST_FILES} files")
        elif total + size > LARGEST_RESULT - NOTE_BYTES:
            beyond.append(f"{_printable(path)}: more than {LARGEST_RESULT / 1e9:g} GB in all")
        else:
            total += size
            files.append(CommittedFile(path=path, bytes=size, sha256=sha256_of(file)))
    if len(paths) > 4 * MOST_FILES:
        unsuitable.append(f"more than {4 * MOST_FILES} entries: not all were looked at")
    left_out = [*unsuitable, *beyond]
    if left_out:
        files.append(_note(results, left_out))
    return sorted(files, key=lambda each: each.path), len(left_out)


def _note(results: Path, left_out: list[str]) -> CommittedFile:
    more = [f"… and {len(left_out) - MOST_NAMED} more"] if len(left_out) > MOST_NAMED else []
    text = "\n".join(["Not sent with this result:", *left_out[:MOST_NAMED], *more, ""]).encode()
    file = results / LEFT_OUT
    if file.is_dir() and not file.is_symlink():
        file.rename(results / f"{LEFT_OUT}~")
    write_private(file, text)
    return CommittedFile(path=LEFT_OUT, bytes=len(text), sha256=hashlib.sha256(text).hexdigest())


def _problem(file: Path, path: str) -> str | None:
    if file.is_symlink():
        return "a link; only files in folders are sent"
    if not file.is_file():
        return "no plain file"
    if not is_file_path(path):
        return "a name that is too long, too deep, or has other characters than letters, digits, spaces, ._+=~,()[]@-"
    return None


def _printable(path: str) -> str:
    text = "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in path)
    return text if len(text) <= 300 else f"{text[:300]}…"


def _walk(folder: Path) -> Iterator[str]:
    """Yield relative paths of what is in a folder, without following links, and not many more than can be sent."""
    stack, seen = [""], 0
    while stack:
        inside = stack.pop()
        with os.scandir(folder / inside) as entries:
            for entry in entries:
                path = f"{inside}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    stack.append(f"{path}/")
                    continue
                yield path
                seen += 1
                if seen > 4 * MOST_FILES:
                    return


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

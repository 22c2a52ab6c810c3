"""MkDocs hook: links from pages to files of the repository outside docs/.

A validation's README is a page of the site (`tools/docs/generate.py`); any other file has no page, so its link becomes
its path as text. A link to a file that does not exist is left as it is, and MkDocs refuses it.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"\[(?P<text>[^\]\n]*)\]\((?P<target>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
CLAIM = re.compile(r"python/bentpipe/validation/(?P<name>\w+)/README\.md\Z")


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:  # noqa: ANN401 - MkDocs' own type
    """The page with its links to the repository replaced."""
    source = origin(page.file.src_uri)

    def replace(link: re.Match[str]) -> str:
        if "://" in link["target"]:
            return link.group()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["target"]))
        if claim := CLAIM.match(target):
            there = f"validation/{claim['name']}.md"
        elif target == "README.md":
            there = "index.md"
        elif target.startswith("docs/"):
            there = target.removeprefix("docs/")
        elif (ROOT / target).exists():
            return f"{link['text']} (`{target}`)"
        else:
            return link.group()
        if (ROOT / "docs" / there).is_dir():
            return link["text"]  # the site's navigation lists it
        if not there.endswith(".md"):
            return link.group() if source.startswith("docs/") else f"[{link['text']}]({up(page.file.src_uri)}{there})"
        there = posixpath.relpath(there, posixpath.dirname(page.file.src_uri) or ".")
        return f"[{link['text']}]({there}{link['anchor'] or ''})"

    return LINK.sub(replace, markdown)


def origin(uri: str) -> str:
    """The file of the repository that a page is made of."""
    if uri == "index.md":
        return "README.md"
    if uri.startswith("validation/"):
        return f"python/bentpipe/validation/{Path(uri).stem}/README.md"
    return f"docs/{uri}"


def up(uri: str) -> str:
    """The way from a page to the site's root."""
    return "../" * uri.count("/")

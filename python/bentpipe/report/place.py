"""Where a page and its Runs are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

SAFE = "/+~"
"""Characters that need no quoting in a relative address, beside letters, digits and ``_.-`` (RFC 3986, 3.3)."""


PAGE = "report.html"
"""Name of the page in the folder of a race."""


@dataclass(frozen=True)
class Place:
    """Where a page and its Runs are.

    Attributes:
        page: The page's file.
        folder: Folder of a race whose Runs the page covers; None: Runs in memory, or of several folders.
    """

    page: Path
    folder: Path | None

    @classmethod
    def in_folder(cls, folder: Path) -> Place:
        """Return the place of the page that `bentpipe report` writes into the folder of a race."""
        return cls(folder / PAGE, folder)

    @property
    def figures(self) -> Path:
        """Folder of the page's figures: ``figures`` of ``report.html``, ``NAME-figures`` of another page."""
        return self.page.with_name(f"{self._prefix}figures")

    @property
    def results(self) -> Path:
        """Table beside the page: ``results.csv`` of ``report.html``, ``NAME-results.csv`` of another page."""
        return self.page.with_name(f"{self._prefix}results.csv")

    @property
    def _prefix(self) -> str:
        return "" if self.page.name == PAGE else f"{self.page.stem}-"

    def link(self, file: Path) -> str:
        """Return the address of a file, relative to the page."""
        return quote(Path(os.path.relpath(file, self.page.parent)).as_posix(), safe=SAFE)

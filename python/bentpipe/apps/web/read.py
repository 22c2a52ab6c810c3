"""Pages by what users give: a HAR file, or the name of the built-in page."""

from __future__ import annotations

import os
from pathlib import Path

from bentpipe.apps.web.built_in import NAME, median_page
from bentpipe.apps.web.har import read_har
from bentpipe.apps.web.page import Page


def read_page(page: str | os.PathLike[str]) -> Page:
    """Return the page in a HAR file, or the built-in one for ``median`` if there is no such file. Raises `UserError`.

    Example:
        >>> read_page("median").name
        'median'
    """
    return median_page() if os.fspath(page) == NAME and not Path(page).exists() else read_har(page)

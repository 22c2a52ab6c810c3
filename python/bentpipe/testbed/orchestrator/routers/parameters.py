"""Parameters that many routes have."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from bentpipe.testbed.schemas.views import LARGEST_PAGE

Limit = Annotated[int, Query(ge=1, le=LARGEST_PAGE, description="Most entries of the page.")]
After = Annotated[str, Query(max_length=300, description="`next` of the page before.")]
AtMs = Annotated[int, Query(ge=0, le=253_402_300_799_000, description="A time [ms since 1970, UTC].")]
Word = Annotated[str | None, Query(max_length=100)]

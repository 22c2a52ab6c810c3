"""The page: both worlds of every cell side by side, with the results and the quantities outside."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from bentpipe.files import atomic_write
from bentpipe.plots import style
from bentpipe.plots.worlds import plot_worlds
from bentpipe.report.render import environment
from bentpipe.validation.sim_vs_kernel.cells import WARMUP_S

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.validation.sim_vs_kernel.worlds import Worlds


def write_page(out: Path, cells: Sequence[dict[str, Any]], worlds: Sequence[Worlds], notes: Sequence[str]) -> Path:
    """Write ``index.html`` (with its figures inside) and ``cells.json`` into `out`; return the path of the page."""
    out.mkdir(parents=True, exist_ok=True)
    shown = []
    for cell, both in zip(cells, worlds, strict=True):
        image = style.data_uri(
            plot_worlds([("Simulated", both.simulated[0]), ("This kernel", both.kernel[0])], warmup_s=WARMUP_S)
        )
        shown.append({**cell, "name": style.scheme_name(both.cell.flows), "image": image})
    html = (
        environment("bentpipe.validation.sim_vs_kernel", ".").get_template("page.html").render(cells=shown, notes=notes)
    )
    with atomic_write(out / "cells.json") as data:
        data.write(json.dumps({"cells": list(cells)}, indent=2, allow_nan=False).encode())
    with atomic_write(out / "index.html") as file_:
        file_.write(html.encode())
    return out / "index.html"

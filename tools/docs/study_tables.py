"""Write the tables of `docs/reference/studies-of-flows.md` from the stored results in `docs/results/`.

`docs/results/NAME.json` is the output of ``bentpipe study run NAME --json``. Marks in the page say where a table is::

    <!-- values of apnic-2022 -->
    …
    <!-- end -->

Run it with ``--write`` to bring the page up to date, without to check it (exit code 1: it is out of date).
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "studies-of-flows.md"
RESULTS = ROOT / "docs" / "results"

MARK = re.compile(r"(<!-- (values|statements|orders|origin) of ([a-z0-9-]+) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
HOLDS = {True: "yes", False: "no", None: "undecided"}


def figure(value: float | None) -> str:
    """A figure with three significant digits; an en dash where there is none."""
    return "–" if value is None else f"{value:.3g}"


def value_lines(result: dict[str, Any]) -> Iterator[str]:
    """The rows of a study that are no counterfactuals, as a Markdown table."""
    yield "| quantity | published | ours | ratio |"
    yield "|---|---|---|---|"
    for row in result["rows"]:
        if row["quantity"].startswith("counterfactual, "):
            continue
        limit = row["relation"] + " " if row["relation"] != "=" else ""
        unit = f" {row['unit']}" if row["unit"] else ""
        has_published = row["published"] is not None
        published = f"{limit}{figure(row['published'])}{unit}" if has_published else "–"
        ours = figure(row["ours"]) + ("" if has_published or row["ours"] is None else unit)
        yield f"| {cell(row['quantity'])} | {published} | {ours} | {figure(row['ratio'])} |"


def statement_lines(result: dict[str, Any]) -> Iterator[str]:
    """The statements of a study with their verdicts, as a Markdown table."""
    yield "| published | holds |"
    yield "|---|---|"
    for verdict in result["verdicts"]:
        yield f"| {cell(verdict['statement'])} | {HOLDS[verdict['holds']]} |"


def order_lines(result: dict[str, Any]) -> Iterator[str]:
    """The orders of a study by level of loss, as a Markdown table; results of older versions have none."""
    yield "| path | loss | lost | order | goodput | published order holds |"
    yield "|---|---|---|---|---|---|"
    for level in result.get("orders", []):
        lost = "–" if level["lost"] is None else f"{100 * level['lost']:.3g} %"
        if level["published"]:
            cells = ["→ **published**", lost, f"**{level['order']}**", "", level["published"]]
        else:
            goodput = ", ".join(f"{name} {figure(value)}" for name, value in level["values"].items())
            cells = [level["loss"], lost, level["order"], f"{goodput} {level['unit']}".strip(), HOLDS[level["holds"]]]
        yield "| " + " | ".join(cell(each) for each in (level["path"], *cells)) + " |"


def origin_lines(result: dict[str, Any]) -> Iterator[str]:
    """The command that made the result, with commit and machine."""
    made = result["made_on"]
    machine = f"{made['processors']} × {made['processor']}"
    yield f"`bentpipe study run {result['study']}`, commit {made['commit'][:7]}, {machine}"


def cell(text: str) -> str:
    """Text that may stand in a table's cell."""
    return text.replace("|", "\\|").replace("\n", " ")


TABLES = {"values": value_lines, "statements": statement_lines, "orders": order_lines, "origin": origin_lines}


def updated(page: str) -> str:
    """The page with every marked table made from its stored result."""

    def table(match: re.Match[str]) -> str:
        head, kind, name, _, end = match.groups()
        result = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        return f"{head}\n" + "\n".join(TABLES[kind](result)) + f"\n\n{end}"

    return MARK.sub(table, page)


def main(arguments: list[str]) -> int:
    """Check the page, or write it with ``--write``."""
    page = PAGE.read_text(encoding="utf-8")
    new = updated(page)
    if "--write" in arguments:
        PAGE.write_text(new, encoding="utf-8")
        return 0
    if new != page:
        print(f"{PAGE.relative_to(ROOT)}: differs from docs/results; run: python tools/docs/study_tables.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

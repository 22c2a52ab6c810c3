"""Reader of `program.json` of a Run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from bentpipe.errors import UserError
from bentpipe.files import read_bytes
from bentpipe.measurements.tool_output.parsed import FILE, FORMAT, RAW

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.runs.store import Run


@dataclass(frozen=True)
class OutputFlow:
    """A flow, stream, transfer or target of a tool; docs/reference/run.md has the columns.

    `record` is its summary in `run.json`. Times in the tables are seconds on the Run's clock, as in its `samples`.
    """

    record: Mapping[str, Any]
    intervals: pl.DataFrame
    samples: pl.DataFrame

    @property
    def name(self) -> str:
        """Name, unique among the tool's flows."""
        return str(self.record["name"])


@dataclass(frozen=True)
class ProgramOutput:
    """Parsed output of a tool; `tool_summary` has the tool's names and units."""

    tool: str
    version: str | None
    flows: Sequence[OutputFlow]
    tool_summary: Mapping[str, Any]
    notes: Sequence[str]


def program_output(run: Run) -> ProgramOutput | None:
    """Return the parsed output of the program of `run`; None: not of a known tool, or unreadable.

    `run.record.program_output` has the reason; the raw text is `program.out` in the Run's folder.

    Raises:
        UserError: The file is missing, damaged, or has a newer format.
    """
    summary = run.record.program_output
    if not isinstance(summary, dict) or summary.get("file") != FILE:
        return None
    file = run.path / FILE
    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != summary.get("sha256"):
        raise UserError(f"{file}: its SHA-256 is not the one in run.json: damaged or edited; {RAW} has the raw text")
    document = json.loads(data)
    if document["format"] > FORMAT:
        raise UserError(
            f"{file}: format {document['format']} is newer than {FORMAT}, the newest known; update bentpipe"
        )
    flows = [
        OutputFlow(record, _frame(flow["intervals"]), _frame(flow["samples"]))
        for record, flow in zip(summary["flows"], document["flows"], strict=True)
    ]
    return ProgramOutput(
        document["tool"], document["version"], flows, document["tool_summary"], list(document["notes"])
    )


def _frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(dict(columns), infer_schema_length=None, strict=False)

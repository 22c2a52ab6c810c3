"""The report: one self-contained HTML page about the Runs in a folder."""

from __future__ import annotations

from bentpipe.report.build import write_report

__all__ = ["write_report"]

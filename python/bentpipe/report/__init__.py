"""The report: one self-contained HTML page about the Runs in a folder."""

from __future__ import annotations

from bentpipe.report.build import ReportInterruptedError, write_report

__all__ = ["ReportInterruptedError", "write_report"]

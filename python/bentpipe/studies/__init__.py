"""Published experiments, run again: each figure of the paper beside ours.

A study is a module with a `STUDY` and a line in `STUDIES`. It gives rows (published, ours, ratio), verdicts (statements
of the paper, and whether they hold) and figures drawn like the paper's. Where ours differs it says so; nothing is tuned
to agree. ``bentpipe study run NAME`` runs one; docs/design/006-studies.md says how one is added.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from bentpipe.studies.study import Request, Result, Row, Study, Verdict

__all__ = ["STUDIES", "Request", "Result", "Row", "Study", "Verdict", "find_study"]

#: Name on the command line → module.
STUDIES: Mapping[str, str] = {
    "apnic-2022": "apnic_2022",
    "bbr3-starlink": "bbr3_starlink",
    "huston-2024": "huston_2024",
    "huston-ping": "huston_ping",
    "t3p-cc": "t3p_cc",
    "t3p-latency": "t3p_latency",
    "t3p-orientation": "t3p_orientation",
    "t3p-path": "t3p_path",
    "t3p-spikes": "t3p_spikes",
    "t3p-bbr2-grid": "t3p_bbr2_grid",
    "t3p-fairness": "t3p_fairness",
}


def find_study(name: str) -> Study:
    """A study by its name.

    Raises:
        UserError: There is none of this name; the nearest is named.
    """
    if name not in STUDIES:
        from bentpipe.scenarios.tables import unknown_name

        raise unknown_name("study", name, STUDIES, "`bentpipe study list` lists them")
    study: Study = importlib.import_module(f"bentpipe.studies.{STUDIES[name]}").STUDY
    return study

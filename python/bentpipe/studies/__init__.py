"""Published experiments, repeated: each published value beside ours.

A study is a module with a `STUDY` and a line in `STUDIES`. It returns rows (published, ours, ratio), verdicts on the
publication's statements, and figures like the published ones. It reports differences; nothing is tuned to agree.
``bentpipe study run NAME`` runs one; docs/design/006-studies.md explains how to add one.
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
    "cc-ceiling": "ceiling",
    "ecn-on-starlink": "ecn_on_starlink",
    "hint-error": "hint_error",
    "huston-2024": "huston_2024",
    "huston-ping": "huston_ping",
    "leo-field": "leo_field",
    "leo-kernel": "leo_kernel",
    "multi-access": "multi_access",
    "multi-access-kernel": "multi_access_kernel",
    "outages": "outages",
    "satguard": "satguard",
    "t3p-abr": "t3p_abr",
    "t3p-cc": "t3p_cc",
    "t3p-handovers": "t3p_handovers",
    "t3p-latency": "t3p_latency",
    "t3p-orientation": "t3p_orientation",
    "t3p-path": "t3p_path",
    "t3p-predictors": "t3p_predictors",
    "t3p-spikes": "t3p_spikes",
    "t3p-trigger": "t3p_trigger",
    "t3p-bbr2-grid": "t3p_bbr2_grid",
    "t3p-fairness": "t3p_fairness",
}


def find_study(name: str) -> Study:
    """Return the study with this name.

    Raises:
        UserError: The name is unknown; the message suggests the nearest one.
    """
    if name not in STUDIES:
        from bentpipe.errors import unknown_name

        raise unknown_name("study", name, STUDIES, "`bentpipe study list` lists them")
    study: Study = importlib.import_module(f"bentpipe.studies.{STUDIES[name]}").STUDY
    return study

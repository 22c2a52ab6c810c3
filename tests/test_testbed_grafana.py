"""The dashboard for Grafana uses metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bentpipe.testbed.orchestrator.metrics import REGISTRY

DASHBOARD = Path(__file__).parent.parent / "examples" / "testbed-grafana" / "dashboard.json"


def test_every_panel_has_a_metric_of_the_orchestrator() -> None:
    known = {
        name for metric in REGISTRY.collect() for name in (metric.name, f"{metric.name}_total", f"{metric.name}_bucket")
    }
    panels = json.loads(DASHBOARD.read_text())["panels"]
    used = {
        name for panel in panels for target in panel["targets"] for name in re.findall(r"bentpipe_\w+", target["expr"])
    }
    assert len(panels) == 7
    assert used
    assert used <= known

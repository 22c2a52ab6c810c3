"""Documents as lines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def lines_of(kind: str, document: dict[str, Any]) -> list[str]:
    """Return a document as lines.

    Example:
        >>> lines_of("next", {"edge_s": 12.0, "in_s": 3.25, "error_s": 1.0})
        ['next: in 3.2 s, at 00:00:12.0 UTC ± 1.0 s']
        >>> lines_of("serving", {"satellite": None, "reason": "no orbital elements"})
        ['serving: not known: no orbital elements']
    """
    reason = document.get("reason")
    if kind == "next" and document.get("edge_s") is not None:
        at = _time(document["edge_s"])
        sure = f" ({reason})" if document["error_s"] is None else f" ± {document['error_s']:.1f} s"
        return [f"next: in {document['in_s']:.1f} s, at {at} UTC{sure}"]
    if kind == "telemetry" and document.get("t_s") is not None:
        latency = document.get("latency_ms")
        parts = ["no latency" if latency is None else f"latency {latency:.1f} ms"]
        for name, label in (("downlink_bps", "down"), ("uplink_bps", "up")):
            if document.get(name) is not None:
                parts.append(f"{label} {document[name] / 1e6:.2f} Mbit/s")
        return [f"telemetry: {_time(document['t_s'])} UTC {', '.join(parts)}{f'; {reason}' if reason else ''}"]
    if kind == "forecast" and document.get("forecasts"):
        return [
            f"forecast: {_time(each['from_s'])} to {_time(each['to_s'])} UTC: "
            f"{each['values'][len(each['values']) // 2]:.1f} {each['unit']}, "
            f"90 % in {each['values'][0]:.1f} to {each['values'][-1]:.1f} ({each['model']})"
            for each in document["forecasts"]
        ]
    if kind == "serving" and document.get("satellite") is not None:
        return [f"serving: {document['satellite']} ({document['norad_id']}), confidence {document['confidence']:.2f}"]
    if kind == "firing":
        known = {name: value for name, value in document["values"].items() if value is not None}
        values = ", ".join(f"{name} {value:.6g}" for name, value in known.items())
        return [f"firing {document['firings']}: {_time(document['t_s'])} UTC {values}"]
    return [f"{kind}: not known: {reason}"]


def _time(t_s: float) -> str:
    return datetime.fromtimestamp(t_s, UTC).strftime("%H:%M:%S.%f")[:-5]

"""Documents of the service. What is not known is null, with a reason; every document has the time of the service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from bentpipe.records import Items, Record

if TYPE_CHECKING:
    from collections.abc import Mapping


class Telemetry(Record):
    """The newest sample of the terminal."""

    now_s: float
    """Time of the service [s since 1970]; in a replay that of the recording."""
    t_s: float | None = None
    """Time of the sample [s since 1970]."""
    age_s: float | None = None
    """Time since the sample [s]."""
    reason: str | None = None
    """Why there is no sample, or none that is new."""
    state: str | None = None
    """State that the terminal reports, as CONNECTED."""
    latency_ms: float | None = None
    """Latency to the point of presence [ms], a running mean of about 15 s."""
    drop_rate: float | None = None
    """Share of lost pings, 0 to 1."""
    downlink_bps: float | None = None
    """Traffic down [bit/s]: not capacity."""
    uplink_bps: float | None = None
    """Traffic up [bit/s]."""
    obstructed: bool | None = None
    """Whether the view is obstructed."""
    azimuth_deg: float | None = None
    """Azimuth of the antenna [°]."""
    elevation_deg: float | None = None
    """Elevation of the antenna [°]."""
    uptime_s: float | None = None
    """Time since the terminal started [s]."""
    software_version: str | None = None
    """Firmware."""


class NextEdge(Record):
    """The next edge of a slot, at which the network may change the satellite."""

    now_s: float
    """Time of the service [s since 1970]."""
    edge_s: float | None = None
    """Time of the next edge [s since 1970]."""
    error_s: float | None = None
    """Error of that time: it is within this of the true one [s]."""
    in_s: float | None = None
    """Time until then [s]."""
    period_s: float | None = None
    """Time between edges [s]."""
    basis: Literal["learned", "schedule"] | None = None
    """``learned`` from the terminal's latency, or the published ``schedule`` by the service's clock, not checked."""
    reason: str | None = None
    """Why it is not known, or not sure."""


class Prediction(Record):
    """Quantiles of a later value of a signal."""

    model: str
    """File of the model."""
    signal: str
    """What is predicted, as ``pop_ping_latency_ms``."""
    unit: str
    """Unit of the quantiles."""
    from_s: float
    """Begin of the time that it is for [s since 1970]."""
    to_s: float
    """End of that time [s since 1970]."""
    levels: Items[float]
    """Levels of the quantiles."""
    values: Items[float]
    """Quantiles; the first and the last bound the 90 % interval."""


class Forecasts(Record):
    """The newest forecasts."""

    now_s: float
    """Time of the service [s since 1970]."""
    forecasts: Items[Prediction] = ()
    """One of each model that has enough history and new samples."""
    reason: str | None = None
    """Why there is none."""


class Serving(Record):
    """The satellite that serves the terminal."""

    now_s: float
    """Time of the service [s since 1970]."""
    satellite: str | None = None
    """Its name."""
    norad_id: int | None = None
    """Its number in the catalogue."""
    confidence: float | None = None
    """Share of candidates' weight that it has, 0 to 1."""
    reason: str | None = None
    """Why it is not known."""


Kind = Literal["telemetry", "next", "forecast", "serving"]

DOCUMENTS: Mapping[str, type[Record]] = {
    "telemetry": Telemetry,
    "next": NextEdge,
    "forecast": Forecasts,
    "serving": Serving,
}
"""Kinds of documents and events."""


def schemas() -> dict[str, Any]:
    """Return the JSON Schema of each kind."""
    return {kind: record.model_json_schema() for kind, record in DOCUMENTS.items()}

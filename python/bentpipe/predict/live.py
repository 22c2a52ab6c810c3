"""Forecasts while a terminal is polled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.predict.online import OnlineForecaster
from bentpipe.predict.signals import TELEMETRY, THROUGHPUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bentpipe.measurements.dish.status import Status
    from bentpipe.predict.forecaster import Forecast
    from bentpipe.predict.store import StoredModel


def sample_of(signal: str, status: Status) -> float | None:
    """Return a terminal's sample of a signal, in its unit; None: it does not report one."""
    if signal == TELEMETRY:
        # With all pings lost there is no latency.
        return None if (status.pop_ping_drop_rate or 0.0) >= 1.0 else status.pop_ping_latency_ms
    if signal == THROUGHPUT:
        return None if status.downlink_throughput_bps is None else status.downlink_throughput_bps / 1e6
    return None


def follow_dish(
    model: StoredModel,
    host: str | None = None,
    until_s: float | None = None,
    on_change: Callable[[str], None] = lambda _: None,
    *,
    retrains: bool = False,
) -> Iterator[Forecast]:
    """Yield a forecast after each second of a terminal's telemetry, once there is enough history.

    Args:
        model: The model to begin with.
        host: Address of the terminal; None: the usual one.
        until_s: Time after which it ends [s]; None: never.
        on_change: Called with a line where the terminal changes, errors rise, or the model is replaced.
        retrains: Whether to train another model after errors have risen (`OnlineForecaster`).

    Raises:
        UserError: The extra ``dish`` is not installed, or the terminal does not report the model's signal.
    """
    from bentpipe.measurements.dish.extra import require_extra

    require_extra()
    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.measurements.dish.clocks import WallClock
    from bentpipe.measurements.dish.following import Follower

    if model.record.signal not in (TELEMETRY, THROUGHPUT):
        raise UserError(
            f"predicts {model.record.signal}, which a terminal does not report",
            where=model.name,
            expected=f"a model of {TELEMETRY} or {THROUGHPUT}",
        )
    client = DishClient() if host is None else DishClient(host)
    follower = Follower(client, WallClock(), 1.0, lambda change: on_change(change.text))
    online = OnlineForecaster(model, retrains=retrains)
    try:
        for sample in follower.samples(until_s=until_s):
            value = sample_of(model.record.signal, sample.status)
            for each in online.push(sample.t_unix_ns / 1e9, float("nan") if value is None else value):
                on_change(str(each))
            forecast = online.forecast()
            if forecast is not None:
                yield forecast
    finally:
        online.close()

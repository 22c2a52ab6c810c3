"""Tables of pings for tests."""

import json

import numpy as np
import polars as pl

from bentpipe.validation.measured_profile.series import START_UNIX_NS


def table(sent_s, rtt_ms, **more) -> pl.DataFrame:
    """Pings; NaN: lost."""
    unix_ns = START_UNIX_NS + np.round(np.asarray(sent_s, float) * 1e9).astype(np.int64)
    columns = {"unix_ns": unix_ns, "rtt_ms": np.asarray(rtt_ms, float), **more}
    return pl.DataFrame(columns).with_columns(pl.col("rtt_ms").fill_nan(None))


def even(count: int = 40, every_s: float = 0.1, rtt_ms: float = 30.0) -> pl.DataFrame:
    return table(np.arange(count) * every_s, np.full(count, rtt_ms))


def recipe(profile):
    return json.loads(profile.metadata_json())["provenance"]["recipe"]

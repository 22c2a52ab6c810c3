"""The tables of a recording and their columns; ``docs/reference/dish.md`` says what each means.

Samples have one row for each answer and for each second filled later; `STATUS` are the columns that
`bentpipe.measurements.dish.status.Status` fills, under the same names (a test checks that they agree).
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from bentpipe.segments import Columns, Layout

STATUS: Columns = {
    "device_id": pl.String,
    "hardware_version": pl.String,
    "software_version": pl.String,
    "country_code": pl.String,
    "bootcount": pl.Int64,
    "uptime_s": pl.UInt64,
    "state": pl.String,
    "outage_start_unix_ns": pl.Int64,
    "outage_duration_s": pl.Float64,
    "outage_did_switch": pl.Boolean,
    "pop_ping_latency_ms": pl.Float32,
    "pop_ping_drop_rate": pl.Float32,
    "downlink_throughput_bps": pl.Float32,
    "uplink_throughput_bps": pl.Float32,
    "seconds_to_first_nonempty_slot_s": pl.Float32,
    "boresight_azimuth_deg": pl.Float32,
    "boresight_elevation_deg": pl.Float32,
    "desired_boresight_azimuth_deg": pl.Float32,
    "desired_boresight_elevation_deg": pl.Float32,
    "tilt_angle_deg": pl.Float32,
    "attitude_uncertainty_deg": pl.Float32,
    "attitude_state": pl.String,
    "quaternion_scalar": pl.Float32,
    "quaternion_x": pl.Float32,
    "quaternion_y": pl.Float32,
    "quaternion_z": pl.Float32,
    "fraction_obstructed": pl.Float32,
    "currently_obstructed": pl.Boolean,
    "obstruction_valid_s": pl.Float32,
    "time_obstructed": pl.Float32,
    "patches_valid": pl.Int64,
    "gps_valid": pl.Boolean,
    "gps_sats": pl.Int64,
    "eth_speed_mbps": pl.Int64,
    "mobility_class": pl.String,
    "class_of_service": pl.String,
    "disablement_code": pl.String,
    "is_snr_above_noise_floor": pl.Boolean,
    "is_snr_persistently_low": pl.Boolean,
    "snr": pl.Float32,
    "alerts": pl.UInt64,
    "unknown": pl.Boolean,
    "raw": pl.Binary,
}
SAMPLES: Columns = {
    "t_unix_ns": pl.Int64,
    "source": pl.String,
    "counter": pl.UInt64,
    "power_in_w": pl.Float32,
    **STATUS,
}
EVENTS: Columns = {
    "t_unix_ns": pl.Int64,
    "kind": pl.String,
    "text": pl.String,
    "start_unix_ns": pl.Int64,
    "duration_s": pl.Float64,
    "cause": pl.String,
    "did_switch": pl.Boolean,
    "filled": pl.Int64,
}
MAPS: Columns = {
    "t_unix_ns": pl.Int64,
    "software_version": pl.String,
    "rows": pl.UInt32,
    "columns": pl.UInt32,
    "max_theta_deg": pl.Float32,
    "frame": pl.String,
    "whole": pl.Boolean,
    "pixel": pl.List(pl.UInt32),
    "quality": pl.List(pl.Float32),
}
TABLES: Mapping[str, Columns] = {"samples": SAMPLES, "events": EVENTS, "maps": MAPS}
#: Place of the terminal at each sample: not recorded here, but stored by other tools, also for moving terminals.
TRACK: Columns = {"latitude_deg": pl.Float64, "longitude_deg": pl.Float64, "altitude_m": pl.Float64}

#: Segments of a minute, chosen here: each second then writes some 14 kB. The limit on rows applies to faster clocks.
LAYOUT = Layout(
    key="bentpipe.measurements.dish",
    format=1,
    tables=TABLES,
    segment_ns=60 * 10**9,
    segment_rows=3600,
    # A row has the changes since the row before.
    as_written=frozenset({"maps"}),
)

"""Status of a terminal: one flat record, with None for fields that the firmware does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bentpipe.measurements.dish.gps import gps_to_unix_ns
from bentpipe.measurements.dish.wire import Message, removed_fields

#: Whether the firmware has a field: (message, field) → bool.
Knows = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Status:
    """Status of a terminal at one time. Names end in units; rates are fractions, azimuths clockwise from north.

    Protobuf does not send a scalar of zero. An absent field therefore means zero if the firmware has the field, and
    None if not. Reflection tells which; without it the newest known firmware decides.

    Attributes:
        state: CONNECTED, or the cause of the outage; NO_SCHEDULE is SEARCHING, as in the owner's app. Firmware
            of 2021 sends the state itself.
        outage_start_unix_ns: Start of the outage [ns since 1970], from the terminal's GPS timestamp.
        alerts: Bit field: bit n is the alert with field number n + 1.
        snr: Firmware of 2021 only.
        unknown: Whether the answer has fields that `bentpipe.measurements.dish` does not know.
        raw: The answer's bytes (`DishGetStatusResponse`), unknown fields included.
    """

    device_id: str | None
    hardware_version: str | None
    software_version: str | None
    country_code: str | None
    bootcount: int | None
    uptime_s: int | None
    state: str
    outage_start_unix_ns: int | None
    outage_duration_s: float | None
    outage_did_switch: bool | None
    pop_ping_latency_ms: float | None
    pop_ping_drop_rate: float | None
    downlink_throughput_bps: float | None
    uplink_throughput_bps: float | None
    seconds_to_first_nonempty_slot_s: float | None
    boresight_azimuth_deg: float | None
    boresight_elevation_deg: float | None
    desired_boresight_azimuth_deg: float | None
    desired_boresight_elevation_deg: float | None
    tilt_angle_deg: float | None
    attitude_uncertainty_deg: float | None
    attitude_state: str | None
    quaternion_scalar: float | None
    quaternion_x: float | None
    quaternion_y: float | None
    quaternion_z: float | None
    fraction_obstructed: float | None
    currently_obstructed: bool | None
    obstruction_valid_s: float | None
    time_obstructed: float | None
    patches_valid: int | None
    gps_valid: bool | None
    gps_sats: int | None
    eth_speed_mbps: int | None
    mobility_class: str | None
    class_of_service: str | None
    disablement_code: str | None
    is_snr_above_noise_floor: bool | None
    is_snr_persistently_low: bool | None
    snr: float | None
    alerts: int
    unknown: bool
    raw: bytes

    def alert_names(self) -> list[str]:
        """Return the names of the active alerts; ``alert_N`` for unknown ones."""
        from bentpipe.measurements.dish.wire import all_firmware

        names = {f.number: f.name for f in all_firmware().message("DishAlerts").DESCRIPTOR.fields}
        return [names.get(bit + 1, f"alert_{bit + 1}") for bit in range(64) if self.alerts >> bit & 1]


def parse_status(message: Message, raw: bytes, knows: Knows | None = None) -> Status:
    """Parse a `DishGetStatusResponse`; `raw` are its bytes."""
    knows = knows or is_current_field
    if not message.ListFields():
        # Every firmware sends device_info; an empty message has no information.
        knows = _knows_no_field

    def of(field: str) -> tuple[Message, Knows]:
        """Return a part of the status and the predicate of its fields; no field exists if the part is absent."""
        return getattr(message, field), knows if message.HasField(field) else _knows_no_field

    top = (message, knows)
    info, device = of("device_info"), of("device_state")
    obstruction, gps, alignment = of("obstruction_stats"), of("gps_stats"), of("alignment_stats")
    turn = of("ned2dish_quaternion")
    outage = message.outage if message.HasField("outage") else None
    drop = _value(top, "pop_ping_drop_rate")
    return Status(
        device_id=_value(info, "id"),
        hardware_version=_value(info, "hardware_version"),
        software_version=_value(info, "software_version"),
        country_code=_value(info, "country_code"),
        bootcount=_value(info, "bootcount"),
        uptime_s=_value(device, "uptime_s"),
        state=_state(message, knows),
        outage_start_unix_ns=gps_to_unix_ns(outage.start_timestamp_ns) if outage is not None else None,
        outage_duration_s=outage.duration_ns / 1e9 if outage is not None else None,
        outage_did_switch=outage.did_switch if outage is not None else None,
        # If every ping of the second was lost there is no RTT, and the field is zero.
        pop_ping_latency_ms=None if drop is not None and drop >= 1 else _value(top, "pop_ping_latency_ms"),
        pop_ping_drop_rate=drop,
        downlink_throughput_bps=_value(top, "downlink_throughput_bps"),
        uplink_throughput_bps=_value(top, "uplink_throughput_bps"),
        seconds_to_first_nonempty_slot_s=_value(top, "seconds_to_first_nonempty_slot"),
        boresight_azimuth_deg=_value(top, "boresight_azimuth_deg"),
        boresight_elevation_deg=_value(top, "boresight_elevation_deg"),
        desired_boresight_azimuth_deg=_value(alignment, "desired_boresight_azimuth_deg"),
        desired_boresight_elevation_deg=_value(alignment, "desired_boresight_elevation_deg"),
        tilt_angle_deg=_value(alignment, "tilt_angle_deg"),
        attitude_uncertainty_deg=_value(alignment, "attitude_uncertainty_deg"),
        attitude_state=_name(alignment, "attitude_estimation_state"),
        quaternion_scalar=_value(turn, "q_scalar"),
        quaternion_x=_value(turn, "q_x"),
        quaternion_y=_value(turn, "q_y"),
        quaternion_z=_value(turn, "q_z"),
        fraction_obstructed=_value(obstruction, "fraction_obstructed"),
        currently_obstructed=_value(obstruction, "currently_obstructed"),
        obstruction_valid_s=_value(obstruction, "valid_s"),
        time_obstructed=_value(obstruction, "time_obstructed"),
        patches_valid=_value(obstruction, "patches_valid"),
        gps_valid=_value(gps, "gps_valid"),
        gps_sats=_value(gps, "gps_sats"),
        eth_speed_mbps=_value(top, "eth_speed_mbps"),
        mobility_class=_name(top, "mobility_class"),
        class_of_service=_name(top, "class_of_service"),
        disablement_code=_name(top, "disablement_code"),
        is_snr_above_noise_floor=_value(top, "is_snr_above_noise_floor"),
        is_snr_persistently_low=_value(top, "is_snr_persistently_low"),
        snr=_value(top, "snr"),
        alerts=_alert_bits(message.alerts),
        unknown=has_unknown(message),
        raw=raw,
    )


def cause_name(outage: Message) -> str:
    """Return the name of a `DishOutage` cause, or its number if unknown."""
    return enum_name(outage, "cause")


def enum_name(message: Message, field: str) -> str:
    """Return the name of an enumeration field's value, or its number if unknown."""
    return _enum_name(message.DESCRIPTOR.fields_by_name[field].enum_type, getattr(message, field))


def is_current_field(message: str, field: str) -> bool:
    """Return whether a field exists in the newest known firmware; used without reflection."""
    return (message, field) not in removed_fields()


def has_unknown(message: Message) -> bool:
    """Return whether a message, or a nested one, has unknown fields."""
    known = type(message)()
    known.CopyFrom(message)
    known.DiscardUnknownFields()
    return bool(known.ByteSize() != message.ByteSize())


def _knows_no_field(message: str, field: str) -> bool:
    return False


def _value(part: tuple[Message, Knows], name: str) -> Any:  # noqa: ANN401 - whatever the field holds
    message, knows = part
    if message.HasField(name) or knows(message.DESCRIPTOR.name, name):
        return getattr(message, name)
    return None


def _name(part: tuple[Message, Knows], name: str) -> str | None:
    value = _value(part, name)
    return None if value is None else _enum_name(part[0].DESCRIPTOR.fields_by_name[name].enum_type, value)


def _enum_name(enum: Any, value: int) -> str:  # noqa: ANN401 - protobuf has no types of its own
    known = enum.values_by_number.get(value)
    return known.name if known is not None else str(value)


def _state(message: Message, knows: Knows) -> str:
    if message.HasField("outage"):
        cause = cause_name(message.outage)
        return "SEARCHING" if cause == "NO_SCHEDULE" else cause
    if message.HasField("state"):
        return _name((message, knows), "state") or "UNKNOWN"
    return "CONNECTED" if knows(message.DESCRIPTOR.name, "outage") else "UNKNOWN"


def _alert_bits(alerts: Message) -> int:
    from google.protobuf.unknown_fields import UnknownFieldSet

    bits = 0
    for field, value in alerts.ListFields():
        bits |= (1 if value else 0) << (field.number - 1)
    for unknown in UnknownFieldSet(alerts):
        if unknown.field_number <= 64 and unknown.wire_type == 0 and unknown.data:
            bits |= 1 << (unknown.field_number - 1)
    return bits

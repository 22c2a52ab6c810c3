"""The simulated terminal: its state since boot, and its answers to serialised requests."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishError
from bentpipe.measurements.dish.clocks import Clock
from bentpipe.measurements.dish.gps import unix_to_gps_ns
from bentpipe.measurements.dish.obstruction import RIM_DEG, SIDE
from bentpipe.measurements.dish.reflection import Reflected
from bentpipe.measurements.dish.simulation import mount
from bentpipe.measurements.dish.simulation.environment import DishEnvironment, aligned_start
from bentpipe.measurements.dish.simulation.interface import InterfaceRates
from bentpipe.measurements.dish.simulation.pings import MEAN_S, running_mean
from bentpipe.measurements.dish.simulation.power import power_w
from bentpipe.measurements.dish.simulation.sky import SimulatedMap
from bentpipe.measurements.dish.wire import Message, Wire

#: Samples in the ring buffers: 15 minutes since August 2021 (sparky8512/starlink-grpc-tools).
RING = 900
#: Largest number of outages in a history. Chosen here: a published dump has 683 of three and three quarter hours.
MAX_OUTAGES = 1000
#: Duration of a reboot [s]. Chosen here: short for tests; a real one takes minutes.
BOOT_S = 5
#: Interface version by firmware year, as joshuasing/starlink_exporter notes of 2024.10.15 (pull request 2), 2025.07.30
#: (73) and 2026.05.07 (220). Firmware of 2021 does not report it.
API_VERSIONS = {2021: 0, 2024: 28, 2025: 38, 2026: 42}
#: First firmware year whose latency is a running mean: in a published dump of 2024 (NUWiNS/starlink-measurement) it is
#: not; in telemetry of December 2024 (FjordLink) it is, in status and history.
SMOOTHED_SINCE = 2025


#: Cause, start [s since the Profile's first start], length [s], whether the satellite changed.
_Outage = tuple[str, float, float, bool]


class Refusal(Exception):  # noqa: N818 - no error, but an answer
    """A request answered with a gRPC status code and message."""

    def __init__(self, code: str, message: str) -> None:
        """`code`: name in `grpc.StatusCode`."""
        super().__init__(message)
        self.code = code


class Terminal:
    """A terminal behind a `DishEnvironment`. Its values depend only on environment, start, boot time and clock.

    Args:
        world: The path and the satellites.
        clock: The clock.
        firmware: A year of `bentpipe.measurements.dish.wire.FIRMWARE_YEARS`, which determines the fields.
        start_unix_ns: First start of the Profile [ns since 1970]; default: `aligned_start`.
        uptime_s: Initial uptime [s].
        allow_location: Whether the owner allows `get_location`.
    """

    def __init__(
        self,
        world: DishEnvironment,
        clock: Clock,
        *,
        firmware: int = 2026,
        start_unix_ns: int | None = None,
        uptime_s: int = 3600,
        allow_location: bool = False,
    ) -> None:
        """Boot the terminal."""
        if uptime_s < 0:
            raise UserError(f"uptime: {uptime_s} s; expected 0 or more")
        self.world, self.clock, self.firmware = world, clock, firmware
        self.wire = Wire(firmware)
        self.start_unix_ns = aligned_start(world, clock.now_unix_ns()) if start_unix_ns is None else start_unix_ns
        self.rates: InterfaceRates | None = None
        """Rates of a real interface; None: those of the simulated users."""
        self._lock = threading.Lock()
        self._boot_s = self._second() - uptime_s
        self._boots = 1
        self._map = SimulatedMap(world, self._boot_s)
        self._gps_inhibited = False
        #: Begin and end of stowed times [s since the Profile's first start]; end None: still stowed.
        self._stows: list[tuple[int, int | None]] = []
        self._cached_status: tuple[tuple[object, ...], Message] | None = None
        self._config = self._part("DishConfig", location_request_mode=int(allow_location))
        self._answers: dict[str, tuple[str, Callable[[Message], Message]]] = {
            "get_status": ("dish_get_status", self._status),
            "get_history": ("dish_get_history", self._history),
            "get_device_info": ("get_device_info", self._device),
            "get_location": ("get_location", self._location),
            "get_diagnostics": ("dish_get_diagnostics", self._diagnostics),
            "time": ("time", self._time),
            "reboot": ("reboot", self._reboot),
            "dish_stow": ("dish_stow", self._stow),
            "dish_get_obstruction_map": ("dish_get_obstruction_map", self._obstruction_map),
            "dish_clear_obstruction_map": ("dish_clear_obstruction_map", self._clear),
            "dish_get_config": ("dish_get_config", self._get_config),
            "dish_set_config": ("dish_set_config", self._set_config),
            "dish_inhibit_gps": ("dish_inhibit_gps", self._inhibit_gps),
            "dish_power_save": ("", self._power_save),  # a request without its own answer
        }

    @property
    def _stowed(self) -> bool:
        return bool(self._stows) and self._stows[-1][1] is None

    @property
    def software_version(self) -> str:
        """Fictitious version in the form used since 2024."""
        return f"{self.firmware}.01.01.bentpipe"

    def handle(self, data: bytes) -> bytes:
        """Return the serialised Response to a serialised Request.

        Raises:
            Refusal: The request is refused, or the terminal is booting.
        """
        request = self.wire.message("Request").FromString(data)
        with self._lock:
            if self._second() < self._boot_s:
                raise Refusal("UNAVAILABLE", "booting")
            question = request.WhichOneof("request")
            if question == "dish_get_context":
                raise Refusal("PERMISSION_DENIED", "")  # without a message, as terminals do
            if question not in self._answers:
                raise Refusal("UNIMPLEMENTED", f"Unimplemented: {question or 'no request'}")
            name, answer = self._answers[question]
            filled = answer(getattr(request, question))
            response = self._new("Response", id=request.id, api_version=API_VERSIONS[self.firmware])
            if name:
                getattr(response, name).MergeFrom(filled)
                getattr(response, name).SetInParent()
            out: bytes = response.SerializeToString()
        return out

    def follow_interface(self, name: str) -> None:
        """Report the rates of an interface of this machine. Raises `UserError`: there is none of that name."""
        self.rates = InterfaceRates(name, self._second)

    def _second(self) -> int:
        """Return whole seconds since the Profile's first start."""
        return (self.clock.now_unix_ns() - self.start_unix_ns) // 10**9

    def _new(self, name: str, **values: object) -> Message:
        """Create a message with the values that this firmware has."""
        return self._fill(self.wire.message(name)(), **values)

    def _fill(self, message: Message, **values: object) -> Message:
        """Set the values that this firmware has in `message`."""
        known = message.DESCRIPTOR.fields_by_name
        for field, value in values.items():
            if field not in known or value is None:
                continue
            if known[field].is_repeated:
                getattr(message, field).extend(value)
            elif known[field].message_type is not None:
                getattr(message, field).MergeFrom(value)
                getattr(message, field).SetInParent()
            elif known[field].enum_type is not None and isinstance(value, str):
                setattr(message, field, known[field].enum_type.values_by_name[value].number)
            else:
                setattr(message, field, value)
        return message

    def _part(self, name: str, **values: object) -> Message | None:
        """Create a message as `_new`; None if this firmware has no such message."""
        return self._new(name, **values) if self.wire.has(name) else None

    def _info(self) -> Message:
        return self._new(
            "DeviceInfo",
            id="ut00000000-00000000-bentpipe",
            hardware_version="bentpipe_simulated",
            software_version=self.software_version,
            country_code=self.world.country,
            bootcount=self._boots,
        )

    def _status(self, _: Message) -> Message:
        now_s, at_s = self._second(), (self.clock.now_unix_ns() - self.start_unix_ns) / 1e9
        seconds = np.arange(now_s - 1, now_s) if now_s > self._boot_s else np.empty(0, dtype=np.int64)
        drop, latency_ms, down, up = (float(v[0]) if len(v) else 0.0 for v in self._samples(seconds))
        painted = self._map
        painted.paint_to(now_s)
        outage = self._outage_now(at_s)
        cause = None if outage is None else outage[0]
        age_s = max(now_s - painted.since_s, 0)
        status = self.wire.message("DishGetStatusResponse")()
        status.CopyFrom(self._static_status())
        status.device_state.uptime_s = now_s - self._boot_s
        self._fill(
            status.obstruction_stats,
            fraction_obstructed=painted.blocked / painted.painted if painted.painted else 0.0,
            valid_s=float(age_s),
            currently_obstructed=cause == "OBSTRUCTED",
            time_obstructed=painted.seconds_blocked() / age_s if age_s else 0.0,
            last_24h_obstructed_s=float(painted.seconds_blocked()),
            patches_valid=painted.painted,
        )
        if "wedge_fraction_obstructed" in status.obstruction_stats.DESCRIPTOR.fields_by_name:
            wedges = painted.wedges()
            status.obstruction_stats.wedge_fraction_obstructed.extend(part / 12 for part in wedges)
            status.obstruction_stats.wedge_abs_fraction_obstructed.extend(wedges)
        return self._fill(
            status,
            state="CONNECTED" if cause is None else "SEARCHING",
            snr=0.0 if cause else 9.0,  # of 9, as the firmware of 2021 counted (sparky8512/starlink-grpc-tools)
            is_snr_above_noise_floor=cause is None,
            seconds_to_first_nonempty_slot=0.0 if cause is None else -1.0,
            pop_ping_drop_rate=drop,
            pop_ping_latency_ms=latency_ms,
            downlink_throughput_bps=down,
            uplink_throughput_bps=up,
            outage=None if outage is None else self._outage(*outage),
        )

    def _static_status(self) -> Message:
        """Return the part of the status that changes only on request; cached."""
        key = (self._boots, self._stowed, self._gps_inhibited, str(self._config))
        if self._cached_status is not None and self._cached_status[0] == key:
            return self._cached_status[1]
        aim = mount.aim(self.world.place[0] if self.world.place is not None else 0.0)
        status = self._new(
            "DishGetStatusResponse",
            device_info=self._info(),
            alerts=self._new("DishAlerts"),
            stow_requested=self._stowed,
            boresight_azimuth_deg=aim.azimuth_deg,
            boresight_elevation_deg=aim.elevation_deg,
            gps_stats=self._part(
                "DishGpsStats",
                gps_valid=not self._gps_inhibited,
                gps_sats=0 if self._gps_inhibited else 12,
                inhibit_gps=self._gps_inhibited,
                pnt_filter_convergence_state="FILTER_CONVERGED",
            ),
            eth_speed_mbps=1000,
            mobility_class="STATIONARY",
            class_of_service="CONSUMER",
            ready_states=self._part("DishReadyStates", scp=True, l1l2=True, xphy=True, aap=True, rf=True),
            software_update_state="IDLE",
            has_actuators="HAS_ACTUATORS_NO",
            disablement_code="OKAY",
            alignment_stats=self._part(
                "AlignmentStats",
                has_actuators="HAS_ACTUATORS_NO",
                tilt_angle_deg=90.0 - aim.elevation_deg,
                boresight_azimuth_deg=aim.azimuth_deg,
                boresight_elevation_deg=aim.elevation_deg,
                attitude_estimation_state="FILTER_CONVERGED",
                attitude_uncertainty_deg=mount.UNCERTAINTY_DEG,
                desired_boresight_azimuth_deg=aim.desired_azimuth_deg,
                desired_boresight_elevation_deg=aim.desired_elevation_deg,
            ),
            ned2dish_quaternion=self._part(
                "Quaternion", **dict(zip(("q_scalar", "q_x", "q_y", "q_z"), mount.quaternion(aim), strict=True))
            ),
            config=self._config,
        )
        self._cached_status = (key, status)
        return status

    def _samples(self, seconds: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
        """Return drop rate, latency [ms] and throughput down and up [bit/s] in consecutive seconds since boot."""
        first = int(seconds[0]) if len(seconds) else self._boot_s
        lead = np.arange(max(first - MEAN_S + 1, self._boot_s), first)
        seconds = np.concatenate([lead, seconds])
        drop, latency_ms, *rates = self.world.samples(seconds)
        if self.rates is not None:
            rates = [*self.rates.in_seconds(seconds)]
        for begin, end in self._stows:
            away = (seconds >= begin) & (seconds < (np.inf if end is None else end))
            drop = np.where(away, 1.0, drop)
        if self.firmware >= SMOOTHED_SINCE:
            latency_ms = running_mean(drop, latency_ms)
        else:
            latency_ms = np.where(drop < 1.0, latency_ms, 0.0)
        values = (drop, latency_ms, *(np.where(drop < 1.0, rate, 0.0) for rate in rates))
        return tuple(value[len(lead) :] for value in values)

    def _history(self, _: Message) -> Message:
        now_s = self._second()
        current = now_s - self._boot_s
        valid = min(current, RING)
        seconds = np.arange(now_s - valid, now_s)
        places = (seconds - self._boot_s) % RING
        rings = []
        for values in (*self._samples(seconds), power_w(seconds, self.world.seed)):
            ring = np.zeros(RING)
            ring[places] = values
            rings.append(ring.tolist())
        drop, latency_ms, down, up, power = rings
        ended = self._ended(now_s)
        return self._new(
            "DishGetHistoryResponse",
            current=current,
            pop_ping_drop_rate=drop,
            pop_ping_latency_ms=latency_ms,
            downlink_throughput_bps=down,
            uplink_throughput_bps=up,
            snr=[9.0 if lost < 1 else 0.0 for lost in drop],
            scheduled=[lost < 1 for lost in drop],
            obstructed=[False] * RING,
            outages=[self._outage(*outage) for outage in ended] if self.wire.has("DishOutage") else None,
            power_in=power,
            event_log=self._part(
                "EventLog",
                events=[self._event(*outage) for outage in ended] if self.wire.has("UXEvent") else None,
                # Unlike those of outages, these are nanoseconds since 1970.
                start_timestamp_ns=self._unix_ns(self._boot_s),
                current_timestamp_ns=self._unix_ns(now_s),
            ),
        )

    def _ended(self, now_s: int) -> list[_Outage]:
        """Return outages since boot that have ended."""
        booting: list[_Outage] = [] if self._boots == 1 else [("BOOTING", self._boot_s - BOOT_S, BOOT_S, False)]
        # Go back far enough for the largest number of stored outages.
        turns = MAX_OUTAGES // max(len(self.world.losses), 1) + 1
        since = max(self._boot_s, now_s - turns * self.world.seconds)
        stowed: list[_Outage] = [
            ("STOWED", begin, end - begin, False)
            for begin, end in self._stows
            if end is not None and begin >= self._boot_s
        ]
        ended = [
            (loss.cause, start, loss.duration_s, loss.did_switch)
            for start, loss in self.world.losses_between(since, now_s)
            if start + loss.duration_s <= now_s
        ]
        return [*booting, *stowed, *ended[-MAX_OUTAGES:]]

    def _event(self, cause: str, start_s: float, duration_s: float, did_switch: bool) -> Message:
        del did_switch  # not in the log
        return self._new(
            "UXEvent",
            severity="EVENT_SEVERITY_WARNING",
            reason=f"EVENT_REASON_OUTAGE_{cause}",
            start_timestamp_ns=self._unix_ns(start_s),
            duration_ns=round(duration_s * 1e9),
        )

    def _outage_now(self, at_s: float) -> _Outage | None:
        if self._stowed:
            return "STOWED", self._stows[-1][0], at_s - self._stows[-1][0], False
        lost = self.world.loss_at(at_s)
        return None if lost is None else (lost[1].cause, lost[0], at_s - lost[0], lost[1].did_switch)

    def _outage(self, cause: str, start_s: float, duration_s: float, did_switch: bool) -> Message | None:
        return self._part(
            "DishOutage",
            cause=cause,
            start_timestamp_ns=self._gps_ns(start_s),
            duration_ns=round(duration_s * 1e9),
            did_switch=did_switch,
        )

    def _gps_ns(self, at_s: float) -> int:
        return unix_to_gps_ns(self._unix_ns(at_s))

    def _unix_ns(self, at_s: float) -> int:
        return self.start_unix_ns + round(at_s * 1e9)

    def _device(self, _: Message) -> Message:
        return self._new("GetDeviceInfoResponse", device_info=self._info())

    def _time(self, _: Message) -> Message:
        return self._new("GetTimeResponse", unix_nano=self.clock.now_unix_ns())

    def _location(self, _: Message) -> Message:
        if self._config is None or not self._config.location_request_mode:
            raise Refusal("PERMISSION_DENIED", "GetLocation requests are not enabled on this device")
        if self.world.place is None:
            raise Refusal("UNAVAILABLE", "the Profile does not say where the terminal stands")
        lat, lon, alt = self.world.place
        lla = self._new("LLAPosition", lat=lat, lon=lon, alt=alt)
        return self._new("GetLocationResponse", lla=lla, source="GNC_FUSED", sigma_m=5.0)

    def _diagnostics(self, _: Message) -> Message:
        message = self._new(
            "DishGetDiagnosticsResponse",
            id=self._info().id,
            hardware_version=self._info().hardware_version,
            software_version=self.software_version,
            disablement_code="OKAY",
            hardware_self_test="PASSED",
            stowed=self._stowed,
        )
        message.alerts.SetInParent()
        if self._config is not None and self._config.location_request_mode and self.world.place is not None:
            message.location.enabled = True
            message.location.latitude, message.location.longitude, message.location.altitude_meters = self.world.place
        return message

    def _reboot(self, _: Message) -> Message:
        self._boot_s = self._second() + BOOT_S
        self._boots += 1
        self._map.clear(self._boot_s)
        return self._new("RebootResponse")

    def _stow(self, request: Message) -> Message:
        is_stow = not getattr(request, "unstow", False)
        if is_stow and not self._stowed:
            self._stows.append((self._second(), None))
        elif not is_stow and self._stowed:
            self._stows[-1] = (self._stows[-1][0], self._second())
        return self._new("DishStowResponse")

    def _obstruction_map(self, _: Message) -> Message:
        self._map.paint_to(self._second())
        return self._new(
            "DishGetObstructionMapResponse",
            num_rows=SIDE,
            num_cols=SIDE,
            snr=self._map.quality.ravel().tolist(),
            min_elevation_deg=90.0 - RIM_DEG,
            max_theta_deg=RIM_DEG,
            map_reference_frame="FRAME_EARTH",
        )

    def _clear(self, _: Message) -> Message:
        self._map.clear(self._second())
        return self._new("DishClearObstructionMapResponse")

    def _get_config(self, _: Message) -> Message:
        return self._new("DishGetConfigResponse", dish_config=self._config)

    def _set_config(self, request: Message) -> Message:
        config = request.dish_config
        for field in config.DESCRIPTOR.fields:
            if getattr(config, f"apply_{field.name}", False):
                setattr(self._config, field.name, getattr(config, field.name))
        return self._new("DishSetConfigResponse", updated_dish_config=self._config)

    def _power_save(self, request: Message) -> Message:
        assert self._config is not None  # firmware with this request has a configuration
        self._config.power_save_start_minutes = request.power_save_start_minutes
        self._config.power_save_duration_minutes = request.power_save_duration_minutes
        self._config.power_save_mode = request.enable_power_save
        return self._config

    def _inhibit_gps(self, request: Message) -> Message:
        self._gps_inhibited = request.inhibit_gps
        return self._new("DishInhibitGpsResponse", inhibit_gps=self._gps_inhibited)


class LocalTransport:
    """Transport to a terminal in the same process, for replays and tests.

    It is a `bentpipe.measurements.dish.client.Transport`.
    """

    def __init__(self, terminal: Terminal) -> None:
        """`terminal`: the simulated terminal."""
        self.terminal = terminal

    def call(self, request: bytes) -> bytes:
        """Answer a Request; see `Transport.call`."""
        try:
            return self.terminal.handle(request)
        except Refusal as refusal:
            kinds = {"UNAVAILABLE": "unreachable", "PERMISSION_DENIED": "denied", "UNIMPLEMENTED": "unsupported"}
            raise DishError(kinds[refusal.code], str(refusal)) from None

    def reflect(self) -> Reflected | None:
        """Return the terminal's messages; see `Transport.reflect`."""
        return Reflected(self.terminal.wire.serialized())

    def close(self) -> None:
        """Do nothing."""

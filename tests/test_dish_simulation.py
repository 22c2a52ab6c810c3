"""The simulated terminal: other tools read it, and its values match the Profile."""

import grpc
import numpy as np
import pytest
import starlink_grpc
from dish_world import SECOND, START, at, local, profile, served, world
from yagrc import reflector

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.history import parse_history
from bentpipe.measurements.dish.obstruction import RIM_DEG, SIDE, directions_to_pixels
from bentpipe.measurements.dish.simulation.environment import DishEnvironment, aligned_start
from bentpipe.measurements.dish.simulation.pings import running_mean
from bentpipe.measurements.dish.simulation.power import MEAN_W
from bentpipe.measurements.dish.simulation.terminal import BOOT_S, Terminal
from bentpipe.measurements.dish.wire import HANDLE
from bentpipe.measurements.serving.frames import pixels_to_vectors, vectors_to_sky
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.scenarios.ground import country_at
from bentpipe.scenarios.sites import load_sites


@pytest.fixture(params=[2024, 2025, 2026])
def other_client(request):
    """Somebody else's client, which learns the messages by reflection; forgets those of another test's terminal."""
    starlink_grpc.imports_pending = True
    terminal, _ = at(47, firmware=request.param, outages=True)
    with served(terminal) as server:
        context = starlink_grpc.ChannelContext(f"127.0.0.1:{server.port}")
        yield context, terminal
        context.close()


def test_starlink_grpc_reads_the_status(other_client):
    context, terminal = other_client
    status, obstruction, alerts = starlink_grpc.status_data(context)
    assert status["state"] == "CONNECTED"
    assert status["software_version"] == terminal.software_version
    assert status["uptime"] == 1800
    assert 10 < status["pop_ping_latency_ms"] < 500
    assert status["downlink_throughput_bps"] > 0
    assert obstruction["valid_s"] == 1800.0
    assert not any(alerts.values())


def test_starlink_grpc_reads_the_history(other_client):
    context, terminal = other_client
    general, bulk = starlink_grpc.history_bulk_data(-1, context=context)
    assert general == {"samples": 900, "end_counter": 1800}
    seconds = np.arange(47 - 900, 47)
    drop, latency_ms, down, _ = terminal.world.samples(seconds)
    if terminal.firmware >= 2025:
        latency_ms = running_mean(*terminal.world.samples(np.arange(33 - 900, 47))[:2])[14:]
    assert np.allclose(bulk["pop_ping_drop_rate"], drop)
    assert np.allclose(bulk["downlink_throughput_bps"], down)
    # It has no latency where every ping was lost.
    theirs = [0.0 if value is None else value for value in bulk["pop_ping_latency_ms"]]
    assert np.allclose(theirs, np.where(drop >= 1, 0.0, latency_ms), rtol=1e-6)


def test_history_timestamps_match_real_terminals():
    """Outages in nanoseconds since the GPS epoch, the log of events since 1970: as recorded of real terminals."""
    terminal, _ = at(47, firmware=2026, outages=True)
    history = terminal._history(None)
    assert history.event_log.current_timestamp_ns == terminal.start_unix_ns + 47 * 10**9
    assert history.event_log.start_timestamp_ns == terminal.start_unix_ns + int(terminal._boot_s * 1e9)
    assert history.outages[0].start_timestamp_ns < 2e18 - 315_964_800 * 10**9 < history.event_log.start_timestamp_ns * 2
    apart_s = (history.event_log.current_timestamp_ns - history.outages[-1].start_timestamp_ns) / 1e9
    assert 315_964_800 - 18 <= apart_s < 315_964_800 + 3600
    # What has ended is in both lists, and is read once.
    both = parse_history(history)
    assert len(history.event_log.events) == len(history.outages) == len(both.outages)
    history.ClearField("outages")
    assert [o.start_unix_ns for o in parse_history(history).outages] == [o.start_unix_ns for o in both.outages]


def test_starlink_grpc_reads_and_resets_the_obstruction_map(other_client):
    context, terminal = other_client
    before = np.array(starlink_grpc.obstruction_map(context))
    assert before.shape == (123, 123)
    assert (before >= 0).sum() == terminal._map.painted > 20
    starlink_grpc.reset_obstruction_map(context)
    assert (np.array(starlink_grpc.obstruction_map(context)) == -1).all()


def test_starlink_grpc_controls_it(other_client):
    context, _ = other_client
    assert starlink_grpc.location_data(context) == {"latitude": None, "longitude": None, "altitude": None}
    assert starlink_grpc.get_sleep_config(context) == (0, 0, False)
    starlink_grpc.set_sleep_config(60, 30, True, context=context)
    assert starlink_grpc.get_sleep_config(context) == (60, 30, True)
    starlink_grpc.set_stow_state(context=context)
    assert starlink_grpc.status_data(context)[0]["state"] == "STOWED"
    starlink_grpc.set_stow_state(unstow=True, context=context)
    assert starlink_grpc.status_data(context)[0]["state"] == "CONNECTED"


def test_reflection_lists_the_service_and_its_messages():
    terminal, _ = at(10, firmware=2024)
    with served(terminal) as server, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        assert "SpaceX.API.Device.Device" in list(reflector.list_services(channel))
        everything = reflector.GrpcReflectionClient()
        everything.load_protocols(channel)  # of every service that is listed, as grpcurl describe does
        client = reflector.GrpcReflectionClient()
        client.load_protocols(channel, symbols=["SpaceX.API.Device.Device"])
        status = client.message_class("SpaceX.API.Device.DishGetStatusResponse").DESCRIPTOR
        assert "ned2dish_quaternion" not in status.fields_by_name
        assert not status.fields_by_name["pop_ping_latency_ms"].has_presence, "as terminals declare scalars"
        stub = client.service_stub_class("SpaceX.API.Device.Device")(channel)
        to_device = client.message_class("SpaceX.API.Device.ToDevice")
        answers = stub.Stream(iter([to_device(request={"get_device_info": {}}), to_device(health_check={})]))
        first, second = list(answers)
        assert first.response.get_device_info.device_info.software_version == terminal.software_version
        assert second.HasField("health_check")


@pytest.mark.parametrize("year", [2021, 2024, 2025, 2026])
def test_firmware_determines_the_fields(year):
    terminal, _ = at(10, firmware=year)
    status = DishClient(local(terminal)).status()
    assert (status.snr is not None) == (year == 2021)
    assert (status.boresight_azimuth_deg is not None) == (year >= 2024)
    assert (status.quaternion_x is not None) == (year >= 2025)
    assert status.state == "CONNECTED"
    assert not status.unknown
    with pytest.raises(UserError, match="expected 2021"):
        at(10, firmware=year + 100)


def test_same_profile_start_and_clock_give_the_same_bytes():
    questions = ("status", "history", "obstruction_map")
    one, two = (DishClient(local(at(33, outages=True)[0])) for _ in range(2))
    assert [repr(getattr(one, q)()) for q in questions] == [repr(getattr(two, q)()) for q in questions]


def test_latency_is_the_path_to_the_pop_and_not_to_the_server():
    view = PathView(profile())
    hops = [hop["name"] for hop in view.metadata["hops"]]
    pop = next(place for place, name in enumerate(hops) if name.startswith("pop:"))
    beyond_ms = sum(float(view.points(pop, way, "delay_s").value[0]) for way in ("up", "down")) * 1e3
    assert beyond_ms > 200, "from Melbourne to London"
    seconds = np.arange(60)
    drop, latency_ms, *_ = world().samples(seconds)
    lone_ms = view.rtt_ms(np.arange(900) / 15).reshape(60, 15).mean(axis=1) - beyond_ms
    good = drop == 0
    # Sent at other moments of the second, so some milliseconds apart; the way beyond the PoP would be 200.
    apart_ms = latency_ms[good] - lone_ms[good]
    assert abs(np.median(apart_ms)) < 3
    assert np.corrcoef(latency_ms[good], lone_ms[good])[0, 1] > 0.9


def test_latency_is_the_mean_of_fifteen_seconds_in_status_and_history():
    terminal, clock = at(59, outages=True)
    client = DishClient(local(terminal))
    history = client.history()
    drop, raw_ms, *_ = terminal.world.samples(np.arange(59 - 1000, 59))
    for second in (0, 1, 300, 880, 899):
        answered = 1 - drop[100 + second - 14 : 100 + second + 1]
        expected = (answered * raw_ms[100 + second - 14 : 100 + second + 1]).sum() / answered.sum()
        result = history.pop_ping_latency_ms[second]
        assert drop[100 + second] >= 1 or result == pytest.approx(expected, rel=1e-5)
    for _ in range(20):
        status, newest = client.status(), client.history()
        assert status.pop_ping_latency_ms == pytest.approx(newest.pop_ping_latency_ms[-1], rel=1e-6)
        clock.sleep_s(1)
    old, _ = at(59, outages=True, firmware=2024)
    raw = DishClient(local(old)).history().pop_ping_latency_ms
    assert np.allclose(np.nan_to_num(raw), np.where(drop < 1, raw_ms, 0)[100:], rtol=1e-5)
    # As telemetry of December 2024 (FjordLink) has it: differences are anticorrelated at the window's length.
    steps = np.diff(history.pop_ping_latency_ms[np.isfinite(history.pop_ping_latency_ms)])
    assert np.corrcoef(steps[:-15], steps[15:])[0, 1] < -0.2
    # What was before a reboot is in no mean.
    client.reboot()
    clock.sleep_s(BOOT_S + 1)
    after = client.history()
    assert after.pop_ping_latency_ms[0] == pytest.approx(terminal.world.samples(np.array([84]))[1][0], rel=1e-5)


def test_power_varies_and_is_reproducible():
    one, two = (DishClient(local(at(33)[0])).history().power_in_w for _ in range(2))
    assert (one == two).all()
    assert 52 <= one.min() < 70
    assert 104 < one.max() <= 122
    assert one.mean() == pytest.approx(MEAN_W, rel=0.05)
    assert 0.1 < one.std() / one.mean() < 0.2
    assert 0.4 < np.corrcoef(one[:-1], one[1:])[0, 1] < 0.8
    later, _ = at(34)
    assert (DishClient(local(later)).history().power_in_w[:-1] == one[1:]).all()


@pytest.mark.parametrize(("year", "version"), [(2021, None), (2024, 28), (2025, 38), (2026, 42)])
def test_context_is_denied_and_api_version_matches_the_year(year, version):
    terminal, _ = at(10, firmware=year)
    request = b"\x9a\x7d\x00"  # dish_get_context, by the number that exporters of 2021 have
    with served(terminal) as server, grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        with pytest.raises(grpc.RpcError) as error:
            channel.unary_unary(HANDLE)(request)
        assert (error.value.code(), error.value.details()) == (grpc.StatusCode.PERMISSION_DENIED, "")
    answer = terminal.wire.message("Response").FromString(terminal.handle(b"\xe2\x3e\x00"))
    assert (answer.api_version if "api_version" in answer.DESCRIPTOR.fields_by_name else None) == version
    assert answer.dish_get_status.device_info.country_code == "AU"


def test_the_country_is_that_of_the_nearest_known_place():
    for site in load_sites().values():
        assert country_at(site.lat_deg, site.lon_deg) == site.country != ""
    assert country_at(50.7, 4.7) == "BE"


def test_a_constant_path_gives_its_rtt_and_loss():
    made = DishEnvironment(preset_profile("dumbbell:rate=100mbit,rtt=40ms,loss=0.1", 600.0), load=0.5)
    drop, latency_ms, down, up = made.samples(np.arange(600))
    assert np.allclose(latency_ms[drop < 1], 40.0)
    assert np.mean(drop) == pytest.approx(1 - 0.9**2, abs=0.015)  # 9000 pings: three standard errors are 0.012
    assert np.median(down / (1 - drop)) == pytest.approx(50e6)
    assert np.median(up / (1 - drop)) == pytest.approx(50e6)
    assert made.place is None


def test_outages_have_their_causes_and_times():
    terminal, clock = at(21, outages=True, uptime_s=21)
    client = DishClient(local(terminal))
    during = client.status()
    assert during.state == "OBSTRUCTED"
    assert during.currently_obstructed
    assert during.outage_start_unix_ns == START + 20 * SECOND
    assert during.outage_duration_s == pytest.approx(1.0)
    clock.sleep_s(30)
    logged = [o for o in client.history().outages if o.duration_s > 1]
    assert [(o.cause, (o.start_unix_ns - START) / 1e9, o.duration_s) for o in logged] == [
        ("OBSTRUCTED", 20.0, 4.0),
        ("NO_DOWNLINK", 31.0, 2.0),
    ]
    history = client.history()
    assert history.pop_ping_drop_rate[21] == 1.0
    assert np.isnan(history.pop_ping_latency_ms[21])
    status = client.status()
    assert 0 < status.fraction_obstructed < 1
    assert status.time_obstructed > 0


def test_the_map_is_painted_where_the_serving_satellite_is():
    terminal, clock = at(0, uptime_s=0)
    client = DishClient(local(terminal))
    clock.sleep_s(14)
    quality = client.obstruction_map().quality
    azimuth, elevation = terminal.world.track[:, :14]
    painted = zip(*vectors_to_sky(pixels_to_vectors(*np.nonzero(quality >= 0), (SIDE, SIDE), RIM_DEG)), strict=True)
    row, column = directions_to_pixels(azimuth, elevation)
    assert (quality[row, column] == 1).all(), "every second of the track is there"
    for az, el in painted:
        cosine = np.sin(np.radians(el)) * np.sin(np.radians(elevation)) + np.cos(np.radians(el)) * np.cos(
            np.radians(elevation)
        ) * np.cos(np.radians(az - azimuth))
        assert np.degrees(np.arccos(cosine.clip(-1, 1))).min() < 1.5, "and nothing else"
    client.clear_obstruction_map()
    assert (client.obstruction_map().quality == -1).all()
    clock.sleep_s(5)
    again = client.obstruction_map().quality
    assert 0 < (again >= 0).sum() < (quality >= 0).sum() + 40


def test_pixels_and_directions_are_inverse():
    rows, columns = np.mgrid[20:100:7, 20:100:9]
    for row, column in zip(rows.ravel(), columns.ravel(), strict=True):
        back = directions_to_pixels(
            *vectors_to_sky(pixels_to_vectors(np.array([row]), np.array([column]), (SIDE, SIDE), RIM_DEG))
        )
        assert (back[0][0], back[1][0]) == (row, column)
    row, column = directions_to_pixels(np.array([0.0, 90.0]), np.array([50.0, 50.0]))
    assert (row.tolist(), column.tolist()) == ([30, 61], [61, 92])


def test_stowing_loses_the_pings_of_its_time_and_is_logged():
    terminal, clock = at(10, uptime_s=10)
    client = DishClient(local(terminal))
    request = terminal.wire.message("Request")
    local(terminal).call(request(dish_stow={}).SerializeToString())
    clock.sleep_s(5)
    assert client.status().state == "STOWED"
    assert client.status().outage_duration_s == pytest.approx(5.0)
    local(terminal).call(request(dish_stow={"unstow": True}).SerializeToString())
    clock.sleep_s(5)
    history = client.history()
    assert (history.pop_ping_drop_rate == 1).tolist() == [10 <= s < 15 for s in range(20)]
    assert ("STOWED", 5.0) in [(o.cause, o.duration_s) for o in history.outages]


def test_a_reboot_takes_its_time_and_starts_the_counters_anew():
    terminal, clock = at(100)
    client = DishClient(local(terminal))
    client.reboot()
    with pytest.raises(DishError) as error:
        client.status()
    assert error.value.kind == "unreachable"
    clock.sleep_s(BOOT_S + 3)
    status, history = client.status(), client.history()
    assert (status.uptime_s, status.bootcount, history.current, len(history)) == (3, 2, 3, 3)
    assert history.outages[0].cause == "BOOTING"


def test_repetition_keeps_slot_edges():
    for later_s in (0, 3, 61, 100_003):
        start = aligned_start(world(), START + later_s * SECOND)
        assert (start - START) % (15 * SECOND) == 0
        assert 0 <= START + later_s * SECOND - start < 60 * SECOND
    assert aligned_start(world(), START - 7 * SECOND) == START - 15 * SECOND


def test_invalid_environments_are_refused():
    with pytest.raises(UserError, match="expected 0 to 1"):
        DishEnvironment(profile(), load=2)
    with pytest.raises(UserError, match="needs a second"):
        DishEnvironment(preset_profile("dumbbell", 0.5))
    terminal, clock = at(1)
    with pytest.raises(UserError, match="expected 0 or more"):
        Terminal(terminal.world, clock, uptime_s=-1)


def test_a_port_in_use_is_refused():
    with served() as server, pytest.raises(UserError, match="`port` 0"), served(port=server.port):
        pass

"""The dish client: optional fields, ring buffers, timestamps, and hostile servers."""

import csv
import importlib.util
import itertools
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import grpc
import numpy as np
import pytest
from dish_world import at, local, served
from google.protobuf import descriptor_pb2, json_format
from google.protobuf.message import DecodeError
from grpc_reflection.v1alpha import reflection_pb2
from hypothesis import given, settings
from hypothesis import strategies as st
from shared_data import require_data

from bentpipe.measurements.dish import wire
from bentpipe.measurements.dish.client import DishClient, DishError, GrpcTransport
from bentpipe.measurements.dish.gps import gps_to_unix_ns, unix_to_gps_ns
from bentpipe.measurements.dish.history import parse_history
from bentpipe.measurements.dish.reflection import Reflected
from bentpipe.measurements.dish.simulation.mount import aim, boresight_of, quaternion
from bentpipe.measurements.dish.status import parse_status
from bentpipe.times import parse_utc

ROOT = Path(__file__).resolve().parent.parent
ALL = wire.all_firmware()


def dump(name, field, message):
    """A published grpcurl dump as a message of ours."""
    path = require_data(f"dish_json/{name}")
    parsed = ALL.message(message)()
    given_json = {k: v for k, v in json.loads(path.read_text())[field].items() if v is not None}
    json_format.ParseDict(given_json, parsed, ignore_unknown_fields=True)
    return parsed


class Fixed:
    """A transport that always answers the same."""

    def __init__(self, answer):
        self.answer = answer

    def call(self, request):
        del request
        return self.answer

    def reflect(self):
        return None

    def close(self):
        pass


@pytest.mark.skipif(importlib.util.find_spec("grpc_tools") is None, reason="grpcio-tools is not installed")
def test_the_descriptor_set_matches_the_proto_files(tmp_path):
    out = tmp_path / "terminal.binpb"
    source = "bentpipe/measurements/dish/proto/terminal.proto"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", "--include_imports", f"--descriptor_set_out={out}"]
    subprocess.run([*command, source], cwd=ROOT / "python", check=True)
    kept = ROOT / "python" / "bentpipe" / "measurements" / "dish" / "proto" / "terminal.binpb"

    def ours(path):
        files = descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes()).file
        return {f.name: f for f in files if not f.name.startswith("google/")}

    assert ours(out) == ours(kept), "make proto"


def test_firmware_years_match_the_archived_descriptors():
    names = {
        year: {f.name for f in wire.Wire(year).message("DishGetStatusResponse").DESCRIPTOR.fields}
        for year in wire.FIRMWARE_YEARS
    }
    assert {"snr", "state"} <= names[2021]
    assert not {"snr", "state"} & names[2024]
    assert "alignment_stats" in names[2024] - names[2021]
    assert "ned2dish_quaternion" in names[2025] - names[2024]
    assert "treat_as_metered" in names[2026] - names[2025]
    causes = [wire.Wire(y).message("DishOutage").DESCRIPTOR.enum_types_by_name["Cause"] for y in (2025, 2026)]
    assert ["INHIBIT_RF" in cause.values_by_name for cause in causes] == [False, True]


def test_gps_timestamps_convert_to_unix_time():
    # A published outage (sparky8512/starlink-grpc-tools, issue 51).
    assert gps_to_unix_ns(1341872909_960000000) // 10**9 == parse_utc("2022-07-14T22:28:11Z") // 10**9
    assert gps_to_unix_ns(0) is None
    assert gps_to_unix_ns(2**63 - 1) is None
    assert gps_to_unix_ns(-5) is None
    assert gps_to_unix_ns(unix_to_gps_ns(1_790_000_000_123456789)) == 1_790_000_000_123456789


def test_absent_is_zero_where_the_firmware_has_the_field_and_none_where_it_has_not():
    message = ALL.message("DishGetStatusResponse")()
    message.device_info.software_version = "x"
    here = parse_status(message, b"", lambda _, field: field != "pop_ping_drop_rate")
    assert here.pop_ping_latency_ms == 0.0
    assert here.pop_ping_drop_rate is None
    assert here.gps_sats is None, "the part it belongs to is absent"
    without_reflection = parse_status(message, b"")
    assert without_reflection.pop_ping_drop_rate == 0.0
    assert without_reflection.snr is None, "newer firmware has none"
    message.pop_ping_drop_rate = 0.25
    assert parse_status(message, b"", lambda *_: False).pop_ping_drop_rate == 0.25


def test_unknown_fields_are_kept_and_named_by_reflection():
    terminal, _ = at(30)
    client = DishClient(local(terminal))
    status = client.status()
    assert not status.unknown
    assert client.named_fields(status)["class_of_service"] == "CONSUMER"
    extra = status.raw + b"\xf0\x9b\x09\x07"  # field 19838, varint 7
    message = ALL.message("DishGetStatusResponse").FromString(extra)
    again = parse_status(message, message.SerializeToString())
    assert again.unknown
    assert b"\xf0\x9b\x09\x07" in again.raw


def test_unknown_alerts_and_causes_have_numbers():
    message = ALL.message("DishGetStatusResponse")()
    message.outage.cause = 99
    message.alerts.MergeFromString(b"\x08\x01\xf8\x01\x01")  # motors_stuck, and alert 31
    status = parse_status(message, b"")
    assert status.state == "99"
    assert status.alert_names() == ["motors_stuck", "alert_31"]


@given(st.integers(0, 3000), st.integers(1, 40))
def test_ring_buffers_unwrap(current, length):
    message = ALL.message("DishGetHistoryResponse")()
    message.current = current
    ring = [0.0] * length
    for counter in range(current):
        ring[counter % length] = counter / 4096
    message.pop_ping_drop_rate.extend(ring)
    history = parse_history(message)
    valid = min(current, length)
    assert history.counter.tolist() == list(range(current - valid, current))
    assert history.pop_ping_drop_rate.tolist() == [c / 4096 for c in range(current - valid, current)]
    assert len(history.pop_ping_latency_ms) == 0


def test_latency_is_nan_when_every_ping_is_lost():
    message = ALL.message("DishGetHistoryResponse")()
    message.current = 3
    message.pop_ping_drop_rate.extend([0, 1, 0.5])
    message.pop_ping_latency_ms.extend([20, 20, 30])
    assert np.isnan(parse_history(message).pop_ping_latency_ms).tolist() == [False, True, False]


@given(
    st.lists(st.tuples(st.integers(-5, 200), st.integers(0, 30)), max_size=12),
    st.lists(st.tuples(st.integers(-5, 200), st.integers(0, 30), st.sampled_from([0, 5, 6, 22, 99])), max_size=12),
)
def test_outages_in_both_lists_are_merged(listed, logged):
    message = ALL.message("DishGetHistoryResponse")()
    for start_s, length_s in listed:
        gps = unix_to_gps_ns((1_790_000_000 + start_s) * 10**9) if start_s > 0 else start_s
        message.outages.add(cause=6, start_timestamp_ns=gps, duration_ns=length_s * 10**9)
    for start_s, length_s, reason in logged:
        unix = (1_790_000_000 + start_s) * 10**9 if start_s > 0 else start_s
        message.event_log.events.add(reason=reason, start_timestamp_ns=unix, duration_ns=length_s * 10**9)
    history = parse_history(message)
    starts = [outage.start_unix_ns for outage in history.outages]
    assert starts == sorted(starts)
    outage_reasons = (5, 6)
    dated = sum(start_s > 0 for start_s, _ in listed)
    events = sum(reason in outage_reasons for *_, reason in logged)
    assert dated <= len(history.outages) <= dated + events
    assert sum(history.other_events.values()) == len(logged) - events
    of_list = [(o.start_unix_ns, o.end_unix_ns) for o in history.outages if o.did_switch is not None]
    for outage in history.outages:
        if outage.did_switch is None:
            assert not any(begin <= outage.start_unix_ns < end for begin, end in of_list if len(listed) == 1)


def test_published_status_dump():
    status = parse_status(dump("get_status.json", "dishGetStatus", "DishGetStatusResponse"), b"")
    assert status.state == "CONNECTED"
    assert status.hardware_version == "rev4_prod1"
    assert status.uptime_s == 6328
    assert status.patches_valid == 4156
    assert status.boresight_azimuth_deg == pytest.approx(-10.6036, abs=1e-3)
    assert status.mobility_class == "MOBILE"
    assert status.alert_names() == ["roaming", "is_heating"]
    assert status.quaternion_x is None


def test_published_history_dump():
    history = parse_history(dump("get_history.json", "dishGetHistory", "DishGetHistoryResponse"))
    assert history.current == 13547
    assert len(history) == 900
    assert len(history.outages) == 683
    assert float(np.mean(history.pop_ping_drop_rate)) == pytest.approx(0.11, abs=0.01)
    booted = history.outages[0]
    assert booted.cause == "BOOTING"
    since = history.outages[-1].start_unix_ns - booted.start_unix_ns
    assert abs(since / 1e9 - history.current) < 120, "stamps and counter agree on when it booted"


def test_published_quaternions_match_the_boresight():
    path = require_data("joint_victoria_20250529") / "GRPC_STATUS-2025-05-29-23-20-13.csv"
    apart = []
    with path.open() as file:
        for row in csv.DictReader(file):
            q = [float(row[f"quaternion_q{axis}"]) for axis in ("Scalar", "X", "Y", "Z")]
            azimuth, elevation = boresight_of(*q)
            assert elevation == pytest.approx(float(row["boresightElevationDeg"]), abs=0.5)
            apart.append(abs((azimuth - float(row["boresightAzimuthDeg"]) + 180) % 360 - 180))
    assert np.median(apart) < 0.1


@given(st.floats(-89, 89))
def test_the_simulated_quaternion_matches_the_boresight(latitude_deg):
    aimed = aim(latitude_deg)
    azimuth, elevation = boresight_of(*quaternion(aimed))
    assert elevation == pytest.approx(aimed.elevation_deg)
    assert azimuth == pytest.approx(aimed.azimuth_deg)


METHODS = ("status", "history", "obstruction_map", "location", "clear_obstruction_map")


def ask_all(client):
    """Every question; whatever comes must be a record or one sentence."""
    for name in METHODS:
        message = ""
        try:
            getattr(client, name)()
        except DishError as error:
            message = str(error)
        assert "\n" not in message
        assert len(message) < 500


@settings(max_examples=300)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused_in_one_sentence(data):
    ask_all(DishClient(Fixed(data)))


def fields(depth=2):
    """Serialised messages with field numbers that terminals use and values that they do not."""
    number = st.sampled_from([1, 2, 3, 5, 1001, 1002, 1004, 1005, 1009, 1014, 1017, 2004, 2006, 2008, 2000])
    varint = st.sampled_from([0, 1, 2**31, 2**63, 2**64 - 1])
    doubles = st.sampled_from([math.nan, math.inf, -math.inf, -1e30, 1e308])

    def encode(pair):
        key, (kind, value) = pair
        if kind == 0:
            return _varint(key << 3) + _varint(value)
        if kind == 5:
            return _varint(key << 3 | 5) + struct.pack(
                "<f", max(min(value, 3e38), -3e38) if abs(value) > 3e38 else value
            )
        return _varint(key << 3 | 2) + _varint(len(value)) + value

    scalar = st.one_of(st.tuples(st.just(0), varint), st.tuples(st.just(5), doubles))
    inner = st.one_of(scalar, st.tuples(st.just(2), fields(depth - 1) if depth else st.binary(max_size=20)))
    return st.lists(st.tuples(number, inner).map(encode), max_size=6).map(b"".join)


def _varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


@settings(max_examples=300)
@given(fields())
def test_wrong_values_give_records_or_one_line_errors(data):
    ask_all(DishClient(Fixed(data)))


def response(**parts):
    message = ALL.message("Response")()
    for name, values in parts.items():
        part = getattr(message, name)
        part.SetInParent()
        for field, value in values.items():
            if isinstance(value, list):
                getattr(part, field).extend(value)
            else:
                setattr(part, field, value)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("answer", "method", "kind"),
    [
        (response(dish_get_history={"pop_ping_drop_rate": [1.0], "power_in": [1.0, 2.0]}), "history", "malformed"),
        (response(dish_get_obstruction_map={"num_rows": 2**31, "num_cols": 2**31}), "obstruction_map", "malformed"),
        (response(status={"code": 7, "message": "no\nway"}), "status", "denied"),
        (response(), "status", "not-a-dish"),
        (_varint(3004 << 3 | 2) + b"\x00", "status", "not-a-dish"),
        (b"\xff", "status", "malformed"),
    ],
)  # fmt: skip
def test_invalid_answers_are_refused_with_their_kind(answer, method, kind):
    with pytest.raises(DishError) as error:
        getattr(DishClient(Fixed(answer)), method)()
    assert error.value.kind == kind
    assert "\n" not in str(error.value)


def test_huge_counters_are_read():
    history = DishClient(
        Fixed(response(dish_get_history={"current": 2**64 - 1, "pop_ping_drop_rate": [math.nan] * 900}))
    ).history()
    assert int(history.counter[-1]) == 2**64 - 2


def test_an_unreachable_terminal_gives_one_sentence():
    with pytest.raises(DishError, match="no terminal answers") as error:
        DishClient(GrpcTransport("127.0.0.1:1", timeout_s=2.0)).status()
    assert error.value.kind == "unreachable"


def test_another_service_gives_one_sentence():
    from concurrent import futures

    server = grpc.server(futures.ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(DishError, match="expected a Starlink terminal") as error:
            DishClient(f"127.0.0.1:{port}").status()
        assert error.value.kind == "not-a-dish"
    finally:
        server.stop(None)


@settings(max_examples=200)
@given(st.data())
def test_damaged_descriptors_are_refused(data):
    files = [bytearray(file) for file in wire.Wire(2026).serialized()]
    for _ in range(data.draw(st.integers(1, 8))):
        file = files[data.draw(st.integers(0, len(files) - 1))]
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    raw = DishClient(local(at(5)[0])).status().raw
    try:
        reflected = Reflected([bytes(file) for file in files])
    except (ValueError, TypeError, DecodeError):
        return
    assert reflected.knows("DishGetStatusResponse", "device_info") in (True, False)
    try:
        reflected.as_dict("DishGetStatusResponse", raw)
    except (DecodeError, KeyError, ValueError, TypeError):
        return


@pytest.mark.parametrize("kind", ["garbage", "endless", "circle"])
def test_hostile_reflection_leaves_the_status_readable(kind):
    from concurrent import futures

    terminal, _ = at(5)
    made = itertools.count()

    def describe(requests, context):
        del context
        for _ in requests:
            answer = reflection_pb2.ServerReflectionResponse()
            number = next(made)
            file = descriptor_pb2.FileDescriptorProto(name=f"{number}", dependency=[f"{number + 1}"])
            if kind == "circle":
                file = descriptor_pb2.FileDescriptorProto(name="a", dependency=["a"])
            data = b"\xff\xff" if kind == "garbage" else file.SerializeToString()
            answer.file_descriptor_response.file_descriptor_proto.append(data)
            yield answer

    handlers = (
        grpc.method_handlers_generic_handler(
            wire.SERVICE, {"Handle": grpc.unary_unary_rpc_method_handler(lambda data, _: terminal.handle(data))}
        ),
        grpc.method_handlers_generic_handler(
            "grpc.reflection.v1alpha.ServerReflection",
            {
                "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
                    describe,
                    reflection_pb2.ServerReflectionRequest.FromString,
                    reflection_pb2.ServerReflectionResponse.SerializeToString,
                )
            },
        ),
    )
    server = grpc.server(futures.ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        client = DishClient(f"127.0.0.1:{port}")
        status = client.status()
        assert status.state == "CONNECTED"
        assert client.named_fields(status) is None
    finally:
        server.stop(None)


def test_location_denied_is_one_sentence():
    terminal, _ = at(5)
    with served(terminal) as server, pytest.raises(DishError, match="allow it in the Starlink app"):
        DishClient(f"127.0.0.1:{server.port}").location()
    allowed, _ = at(5, allow_location=True)
    with served(allowed) as server:
        lat, lon, _ = DishClient(f"127.0.0.1:{server.port}").location()
    assert (lat, lon) == (-37.85, 145.11)


def test_an_answer_that_is_too_large_is_one_sentence():
    from concurrent import futures

    handler = grpc.method_handlers_generic_handler(
        wire.SERVICE, {"Handle": grpc.unary_unary_rpc_method_handler(lambda *_: bytes(5 * 2**20))}
    )
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with pytest.raises(DishError, match="larger than"):
            DishClient(f"127.0.0.1:{port}").history()
    finally:
        server.stop(None)

"""gRPC-Web: client and simulated terminal on the second port, with checks of all input."""

import base64
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import threading
import time

import pytest
from dish_world import at, profile, served
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.measurements.dish.client import DishClient, DishError, GrpcTransport, transport_to
from bentpipe.measurements.dish.simulation.server import serve
from bentpipe.measurements.dish.web import GrpcWebTransport, frame, frames, trailers
from bentpipe.measurements.dish.wire import HANDLE
from bentpipe.profiles.parquet import write_profile

#: get_status, as browsers send it: a frame with tag 1004 of Request and an empty message.
ASK_STATUS = b"\x00\x00\x00\x00\x03\xe2\x3e\x00"
WEB = {"Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1"}


def post(port, body, path=HANDLE, headers=WEB, method="POST"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    result = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return result


@contextlib.contextmanager
def web(**options):
    terminal, _ = at(30, **options)
    with served(terminal) as server:
        yield terminal, server.web_port


def test_both_ports_give_the_same_answers():
    terminal, _ = at(30, outages=True)
    with served(terminal) as server:
        native, second = (
            DishClient(host) for host in (f"127.0.0.1:{server.port}", f"http://127.0.0.1:{server.web_port}")
        )
        assert second.status().raw == native.status().raw
        assert second.named_fields(second.status()) is None, "gRPC-Web has no reflection"
        assert second.history().outages == native.history().outages
        assert (second.obstruction_map().quality == native.obstruction_map().quality).all()
        for client in (native, second):
            with pytest.raises(DishError, match="allow it in the Starlink app") as error:
                client.location()
            assert error.value.kind == "denied"
        native.close()


def test_a_request_of_a_browser_is_answered():
    with web() as (terminal, port):
        status, headers, body = post(port, ASK_STATUS)
        assert (status, headers["Content-Type"]) == (200, "application/grpc-web+proto")
        assert headers["Access-Control-Allow-Origin"] == "*"
        (first, message), (second, last) = frames(body)
        assert (first, second, last) == (0, 0x80, b"grpc-status:0\r\ngrpc-message:\r\n")
        answer = terminal.wire.message("Response").FromString(message)
        assert answer.dish_get_status.device_info.software_version == terminal.software_version
        text = post(port, base64.b64encode(ASK_STATUS), headers={"Content-Type": "application/grpc-web-text"})[2]
        assert base64.b64decode(text) == body
        status, headers, body = post(port, None, method="OPTIONS", headers={"Origin": "http://example.org"})
        assert (status, body) == (204, b"")
        assert "x-grpc-web" in headers["Access-Control-Allow-Headers"]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        for _ in range(3):  # a connection is kept
            connection.request("POST", HANDLE, ASK_STATUS, WEB)
            assert connection.getresponse().read() == post(port, ASK_STATUS)[2]
        connection.close()


@pytest.mark.parametrize(
    ("body", "options", "expected"),
    [
        (b"\x00\x00\x00\x00\x03\x9a\x7d\x00", {}, (200, b"grpc-status:7\r\ngrpc-message:\r\n")),
        (b"\x00\x00\x00\x00\x01\xff", {}, (200, b"grpc-status:3\r\ngrpc-message:not a Request\r\n")),
        (b"\x00\x00\x00\x00\x09", {}, (200, b"grpc-status:3\r\ngrpc-message:a frame of 9 bytes")),
        (b"", {}, (200, b"grpc-status:3\r\n")),
        (ASK_STATUS, {"path": "/Nothing/There"}, (200, b"grpc-status:12\r\ngrpc-message:unknown method")),
        (ASK_STATUS, {"headers": {"Content-Type": "application/json"}}, (415, b"")),
        (ASK_STATUS, {"method": "GET"}, (501, b"")),
        (b"=", {"headers": {"Content-Type": "application/grpc-web-text"}}, (200, b"")),
    ],
)  # fmt: skip
def test_the_web_port_refuses_invalid_requests(body, options, expected):
    with web() as (_, port):
        status, _, result = post(port, body, **options)
        assert status == expected[0]
        assert expected[1] in result


def test_an_invalid_or_too_large_content_length_is_refused():
    with web() as (_, port):
        for length, expected in (("x", b"411"), ("99999999999999999999", b"413"), ("2000000", b"413"), ("-1", b"411")):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                head = f"POST {HANDLE} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
                connection.sendall(head.encode())
                assert expected in connection.recv(4096)


def test_silent_connections_leave_the_port_to_others():
    with web() as (_, port), contextlib.ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert post(port, ASK_STATUS)[0] == 200


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_get_an_answer_or_an_end(hostile_port, data):
    with socket.create_connection(("127.0.0.1", hostile_port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass
    assert post(hostile_port, ASK_STATUS)[0] == 200


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=80))
def test_any_body_gets_trailers(hostile_port, data):
    status, _, body = post(hostile_port, data)
    assert status == 200
    assert frames(body)[-1][0] == 0x80


@pytest.fixture(scope="module")
def hostile_port():
    with web() as (_, port):
        yield port


@contextlib.contextmanager
def answering(*pieces, wait_s=0.0):
    """A server that answers every connection with the same bytes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    request = b""
                    while not request.endswith(b"\r\n\r\n" + frame(0, b"")):
                        request += connection.recv(4096)
                    for piece in pieces:
                        connection.sendall(piece)
                        time.sleep(wait_s)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def answer(body, status=200, **headers):
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


def refused(port, timeout_s=2.0):
    begin = time.monotonic()
    with pytest.raises(DishError) as error:
        GrpcWebTransport("127.0.0.1", port, timeout_s).call(b"")
    assert time.monotonic() - begin < timeout_s + 1
    assert "\n" not in str(error.value)
    return error.value.kind


@pytest.mark.parametrize(
    ("answer_bytes", "kind"),
    [
        (answer(trailers(7)), "denied"),
        (answer(b"", grpc_status="7", grpc_message="no%20way"), "denied"),
        (answer(trailers(14)), "unreachable"),
        (answer(trailers(12, "not a thing\n")), "unsupported"),
        (answer(trailers(0)), "malformed"),
        (answer(frame(0, b"") + trailers(13)), "malformed"),
        (answer(frame(0, b"") * 2), "malformed"),
        (answer(frame(1, b"")), "malformed"),
        (answer(b"\x00\x00\x00\xff\xff"), "malformed"),
        (answer(frame(0x80, b"grpc-status:" + b"9" * 5000)), "malformed"),
        (answer(frame(0x80, "grpc-status:\u00b2".encode("latin-1"))), "malformed"),
        (answer(b"", 404), "unsupported"),
        (b"HTTP/1.1 200 x\r\nContent-Length: 99\r\n\r\nshort", "malformed"),
        (b"PRI * HTTP/2.0\r\n\r\n", "malformed"),
        (b"HTTP/1.1 200 x\r\n" + b"a: b\r\n" * 200, "malformed"),
        (b"HTTP/1.1 200 x\r\nContent-Length: 9999999\r\n\r\n" + bytes(5 * 2**20), "malformed"),
    ],
)  # fmt: skip
def test_the_web_client_refuses_invalid_answers(answer_bytes, kind):
    with answering(answer_bytes) as port:
        assert refused(port) == kind


def test_a_slow_server_times_out():
    head = b"HTTP/1.1 200 x\r\nContent-Length: 1000\r\n\r\n"
    with answering(*(head[n : n + 1] for n in range(len(head))), *[b"x"] * 1000, wait_s=0.1) as port:
        assert refused(port, 1.0) == "slow"
    with answering(b"", wait_s=3) as port:
        assert refused(port, 1.0) == "slow"


def test_a_slow_body_times_out():
    """The body is sent byte by byte, also in chunks."""
    plain, chunked = b"Content-Length: 1000", b"Transfer-Encoding: chunked"
    for length, piece in ((plain, b"x"), (chunked, b"1\r\nx\r\n")):
        head = b"HTTP/1.1 200 x\r\nConnection: close\r\n" + length + b"\r\n\r\n"
        with answering(head + piece, *[piece] * 30, wait_s=0.1) as port:
            assert refused(port, 0.5) == "slow"


@settings(max_examples=40, deadline=None)
@given(st.binary(max_size=60))
def test_any_answer_is_a_message_or_a_sentence(data):
    for whole in (data, answer(data)):
        with answering(whole) as port, contextlib.suppress(DishError):
            assert isinstance(GrpcWebTransport("127.0.0.1", port, 2.0).call(b""), bytes)


def test_an_unreachable_terminal_gives_one_sentence():
    assert refused(1) == "unreachable"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("http://192.168.100.1", "http://192.168.100.1:9201"),
        ("http://dish:80/", "http://dish:80"),
        ("192.168.100.1:9201", "http://192.168.100.1:9201"),
        ("http://[::1]:9201", "http://[::1]:9201"),
        ("http://::1", "http://[::1]:9201"),
    ],
)
def test_hosts_that_use_the_web_port(host, expected):
    transport = transport_to(host)
    assert isinstance(transport, GrpcWebTransport)
    assert transport.host == expected


def test_other_hosts_use_grpc():
    assert isinstance(transport_to("192.168.100.1"), GrpcTransport)
    for bad in ("http://dish:x", "http://dish:99999", "http://dish:"):
        with pytest.raises(UserError, match="is no port"):
            transport_to(bad)


def test_the_commands_have_both_ports(tmp_path):
    write_profile(profile(), tmp_path / "P.parquet")
    command = [sys.executable, "-m", "bentpipe", "dish"]
    simulated = [*command, "simulate", "--profile", tmp_path / "P.parquet", "--port", "0", "--web-port", "0"]
    with subprocess.Popen(simulated, stdout=subprocess.PIPE, text=True) as process:
        hosts = [process.stdout.readline().strip() for _ in range(2)]
        assert hosts[1].startswith("http://127.0.0.1:")
        watched = [*command, "watch", "--host", hosts[1], "--for", "1", "--json"]
        done = subprocess.run(watched, capture_output=True, text=True, check=False)
        process.terminate()
    assert json.loads(done.stdout.splitlines()[0])["state"] == "CONNECTED"


def test_a_web_port_in_use_gives_a_one_line_error():
    terminal, _ = at(5)
    with served(terminal) as server, pytest.raises(UserError, match="`web_port` 0"):
        serve(terminal, port=0, web_port=server.web_port)


def test_a_default_web_port_in_use_gives_a_free_one():
    first, second = (at(5)[0] for _ in range(2))
    while True:  # two neighbouring ports: one free, one taken
        taken = socket.create_server(("127.0.0.1", 0))
        port = taken.getsockname()[1] - 1
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            break
        taken.close()
    with taken:
        with served(first, port) as server:
            assert server.port == port
            assert server.web_port not in (port, port + 1)
            assert post(server.web_port, ASK_STATUS)[0] == 200
        with pytest.raises(UserError, match="`web_port` 0"):
            serve(second, port=0, web_port=port + 1)

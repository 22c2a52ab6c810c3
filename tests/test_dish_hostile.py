"""Hostile servers and clients neither block the client or the simulated terminal nor exhaust memory."""

import contextlib
import itertools
import time
import tracemalloc
from concurrent import futures

import grpc
import pytest
from dish_world import at, served
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from bentpipe.measurements.dish import wire
from bentpipe.measurements.dish.client import DishClient
from bentpipe.measurements.dish.clocks import WallClock
from bentpipe.measurements.dish.following import Follower
from bentpipe.measurements.dish.reflection import Reflected, reflect

TIMEOUT_S = 1.0


def described(*files):
    answer = reflection_pb2.ServerReflectionResponse()
    answer.file_descriptor_response.file_descriptor_proto.extend(file.SerializeToString() for file in files)
    return answer


def tiny(number, **more):
    return descriptor_pb2.FileDescriptorProto(name=f"{number}", dependency=[f"{number + 1}"], **more)


def many(numbers):
    """60,000 small files in one stream."""
    for first in range(0, 60_000, 1000):
        yield described(*(tiny(first + n) for n in range(1000)))


def one_by_one(numbers):
    """A file a stream, each a little within the time of a single stream."""
    time.sleep(0.4)
    yield described(tiny(next(numbers)))


def endless(numbers):
    """Files of 3 MB for ever."""
    for number in numbers:
        yield described(tiny(number, package="x" * 3_000_000))


def the_same(numbers):
    """One small file for ever."""
    while True:
        yield described(tiny(0))


def empty(numbers):
    """Answers with nothing in them, for ever."""
    while True:
        yield described()


@contextlib.contextmanager
def hostile(behave, terminal=None):
    """The port of a server whose reflection behaves so; with a terminal it answers single calls too."""
    numbers = itertools.count()

    def describe(requests, context):
        for _ in requests:
            yield from behave(numbers)

    methods = {
        "ServerReflectionInfo": grpc.stream_stream_rpc_method_handler(
            describe,
            reflection_pb2.ServerReflectionRequest.FromString,
            reflection_pb2.ServerReflectionResponse.SerializeToString,
        )
    }
    server = grpc.server(futures.ThreadPoolExecutor(4))
    handlers = [grpc.method_handlers_generic_handler("grpc.reflection.v1alpha.ServerReflection", methods)]
    if terminal is not None:
        single = {"Handle": grpc.unary_unary_rpc_method_handler(lambda data, _: terminal.handle(data))}
        handlers.append(grpc.method_handlers_generic_handler(wire.SERVICE, single))
    server.add_generic_rpc_handlers(handlers)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None)


@pytest.mark.parametrize("behave", [many, one_by_one, endless, the_same, empty])
def test_reflection_ends_in_its_time_and_memory(behave):
    with hostile(behave) as port, grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        tracemalloc.start()
        begin = time.monotonic()
        assert reflect(channel, TIMEOUT_S) is None
        took_s = time.monotonic() - begin
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert took_s < TIMEOUT_S + 1.0
    assert peak < 60e6, "client and server together: ten files of the endless stream"


def test_following_ends_after_its_duration():
    terminal, _ = at(5)
    with hostile(one_by_one, terminal) as port:
        begin = time.monotonic()
        samples = list(Follower(DishClient(f"127.0.0.1:{port}"), WallClock(), every_s=0.5).samples(until_s=2))
        assert time.monotonic() - begin < 2 + 3 + 1, "one reflection of three seconds, not one a sample"
    assert samples
    assert all(sample.status.state == "CONNECTED" for sample in samples)


def test_long_lists_of_dependencies_are_sorted_in_linear_time():
    files = [descriptor_pb2.FileDescriptorProto(name="common")] + [
        descriptor_pb2.FileDescriptorProto(name=f"{n}", dependency=["common"] * 4000 + [f"{n + 1}"] * (n < 399))
        for n in range(400)
    ]
    begin = time.monotonic()
    with contextlib.suppress(TypeError):  # whether a file may be named twice is protobuf's to say
        Reflected([file.SerializeToString() for file in files])
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("method", ["reflection", "Stream"])
def test_open_streams_leave_a_simulated_terminal_to_others(method):
    terminal, _ = at(5)
    with served(terminal) as server, contextlib.ExitStack() as stack:
        held_open = []
        for _ in range(40):
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}"))
            held = futures.Future()
            stack.callback(held.set_result, None)
            forever = (held.result() for _ in range(1))
            if method == "reflection":
                stub = reflection_pb2_grpc.ServerReflectionStub(channel)
                held_open.append(stub.ServerReflectionInfo(forever))
            else:
                held_open.append(channel.stream_stream(f"/{wire.SERVICE}/Stream")(forever))
        time.sleep(0.5)
        client = DishClient(f"127.0.0.1:{server.port}")
        status = client.status()
        assert status.state == "CONNECTED"
        assert client.named_fields(status) is not None, "a new reflection takes the place of the oldest"
        client.close()

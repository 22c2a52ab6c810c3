"""The awareness service and clocks that are set, pages of other origins, and conditions that cost much."""

import asyncio
import json

import polars as pl
import pytest

from bentpipe.errors import UserError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cel")

from test_aware import EPOCH_S, Clock, observe, smoothed

from bentpipe.aware.feeds import ReplayFeed, read_samples
from bentpipe.aware.service import MOST_WINDOWS, Service, serve
from bentpipe.aware.state import Sample, State
from bentpipe.aware.text import lines_of


def request(service, path, method="GET", query="", **headers):
    """Return the status and the body of a request; a stream ends with the first event that waits."""
    sent = []
    names = {"host": "127.0.0.1:1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in names.items()],
    }

    async def receive():
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    asyncio.run(service.app()(scope, receive, send))
    return sent[0]["status"], b"".join(each.get("body", b"") for each in sent[1:])


@pytest.mark.parametrize("step_s", [5.0, -5.0, 4000.0, -4000.0])
def test_a_clock_that_is_set_ends_what_was_learned(step_s):
    clock, steady = Clock(), Clock()
    state = State(now_s=clock, steady_s=steady, has_schedule=True)
    t_s, latency_ms = smoothed()
    for at_s, value in zip(t_s, latency_ms, strict=True):
        steady.s = at_s
        observe(state, clock, at_s, value)
    assert state.next().basis == "learned"
    steady.s += 600.0  # a terminal that was lost, or a machine that slept, is no clock that was set
    observe(state, clock, steady.s, 40.0)
    assert state.next().basis == "learned"
    steady.s += 1.0
    observe(state, clock, steady.s + step_s, 40.0)
    edge = state.next()
    assert (edge.basis, edge.error_s) == ("schedule", None)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_origin_takes_no_place_without_the_header_origin(site):
    service = Service(State(now_s=Clock()))
    for path in ("/v1/next", "/v1/events", "/v1/triggers"):
        status, body = request(service, path, sec_fetch_site=site, sec_fetch_mode="no-cors")
        assert status == 403, path
        assert b"other origins" in body
    assert request(service, "/", sec_fetch_site=site)[0] == 200
    assert request(service, "/v1/next", sec_fetch_site="same-origin")[0] == 200
    assert request(service, "/v1/next", sec_fetch_site="none")[0] == 200


def test_a_stream_has_no_head():
    service = Service(State(now_s=Clock()))
    assert [request(service, f"/v1/{path}", "HEAD")[0] for path in ("events", "triggers", "next")] == [405, 405, 200]


def test_every_address_of_the_loopback_is_answered():
    service = Service(State(now_s=Clock()))

    async def run():
        ready = asyncio.Event()
        serving = asyncio.ensure_future(serve(service, "127.0.0.2:0", lambda _: ready.set()))
        await asyncio.wait_for(ready.wait(), 10)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    asyncio.run(run())
    assert request(service, "/v1/next", host="127.0.0.2:8790")[0] == 200
    assert request(service, "/v1/next", host="example.org")[0] == 421


def test_conditions_that_look_at_too_much_are_refused():
    service = Service(State(now_s=Clock()))
    much = " || ".join(["mean(latency_ms,36000)>9"] * (MOST_WINDOWS // 36_000 + 1)).replace(" ", "%20")
    status, body = request(service, "/v1/triggers", query=f"when={much}")
    assert status == 503
    assert str(MOST_WINDOWS) in json.loads(body)["error"]
    assert request(service, "/v1/triggers", query="when=mean(latency_ms,36000)>9")[0] == 200
    assert service.triggers == {}


def test_a_firing_with_a_signal_that_is_missing_is_json():
    clock = Clock()
    service = Service(State(now_s=clock))
    firings = []

    async def run():
        trigger = asyncio.ensure_future(_trigger(service, "latency_ms>1||drop_rate>1", firings))
        while not service.triggers:
            await asyncio.sleep(0)
        for t in range(3):
            service._observe(Sample(EPOCH_S + t, {"latency_ms": 30.0}))
        await trigger

    asyncio.run(run())
    (data,) = [line for line in b"".join(firings).decode().splitlines() if line.startswith("data: ")]

    def refuse(name):
        raise AssertionError(name)

    document = json.loads(data.removeprefix("data: "), parse_constant=refuse)
    assert document["values"] == {"drop_rate": None, "latency_ms": 30.0}
    assert lines_of("firing", document)[0].endswith("latency_ms 30")


async def _trigger(service, when, bodies):
    async def receive():
        await asyncio.sleep(0.1)
        return {"type": "http.disconnect"}

    async def send(message):
        bodies.append(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "path": "/v1/triggers", "headers": [(b"host", b"localhost")]}
    await service.app()(scope | {"query_string": f"when={when}".encode()}, receive, send)


def test_a_recording_without_times_is_refused_and_endless_ones_are_left_out(tmp_path):
    path = tmp_path / "r.parquet"
    unknown = pl.Series([None, None], dtype=pl.Int64)
    pl.DataFrame({"t_unix_ns": unknown, "pop_ping_latency_ms": [1.0, 2.0]}).write_parquet(path)
    with pytest.raises(UserError, match="has no sample with a time"):
        ReplayFeed(path, 1.0)
    pl.DataFrame({"t_unix_ns": [1e9, float("inf")], "pop_ping_latency_ms": [1.0, 2.0]}).write_parquet(path)
    assert [sample.t_s for sample in read_samples(path)] == [1.0]

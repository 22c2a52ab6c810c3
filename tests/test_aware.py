"""The awareness service: what it says, to whom, and what it does with clients that misbehave."""

import asyncio
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import chromium
import numpy as np
import polars as pl
import pytest
from emulation import bentpipe

import bentpipe as bp
from bentpipe.errors import UserError

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cel")

from bentpipe.aware.client import AwarenessClient
from bentpipe.aware.documents import DOCUMENTS
from bentpipe.aware.feeds import read_samples
from bentpipe.aware.hub import MOST_WAITING, Hub
from bentpipe.aware.running import read_models, read_token, usable_models
from bentpipe.aware.service import Service, address_of, is_loopback, serve
from bentpipe.aware.state import STALE_S, Sample, State

EPOCH_S = 1_747_000_000.0


class Clock:
    def __init__(self):
        self.s = EPOCH_S

    def __call__(self):
        return self.s


def smoothed(n=2400, seed=1, phase_s=12.0):
    """A terminal's latency: a running mean of 15 s over slots of 15 s."""
    rng = np.random.default_rng(seed)
    t_s = EPOCH_S + np.arange(-20, n)
    slot = np.floor((t_s - phase_s) / 15).astype(int)
    levels = 30 + 15 * rng.random(slot.max() - slot.min() + 1)
    raw = levels[slot - slot.min()] * np.exp(rng.normal(0, 0.01, len(t_s)))
    return t_s[20:], np.convolve(raw, np.ones(15) / 15, "full")[20 : 20 + n]


def observe(state, clock, t_s, latency_ms, **others):
    clock.s = t_s
    state.observe(Sample(t_s, {"latency_ms": latency_ms, **others}))


@pytest.fixture
def running():
    """A service in a thread, its state, its clock and its address."""
    clock = Clock()
    service = Service(State(now_s=clock))
    ports, loops = [], []
    done = threading.Event()

    async def run():
        loops.append(asyncio.get_running_loop())
        task = asyncio.ensure_future(serve(service, "127.0.0.1:0", lambda port: (ports.append(port), done.set())))
        loops.append(task)
        await asyncio.gather(task, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    assert done.wait(10)
    yield service, clock, f"http://127.0.0.1:{ports[0]}"
    loops[0].call_soon_threadsafe(loops[1].cancel)
    thread.join(10)
    assert not thread.is_alive()


def fetch(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_what_is_not_known_is_null_with_a_reason():
    state = State(now_s=Clock())
    for kind in DOCUMENTS:
        document = state.document(kind).model_dump()
        assert document["reason"]
        assert all(value is None or value == () for name, value in document.items() if name not in ("now_s", "reason"))


def test_the_next_edge_is_told_once_a_clock_is_found():
    clock = Clock()
    state = State(now_s=clock)
    for number, (t_s, latency_ms) in enumerate(zip(*smoothed(), strict=True)):
        observe(state, clock, t_s, latency_ms)
        if number < 300:
            assert state.next().edge_s is None
    edge = state.next()
    assert edge.edge_s > clock.s
    off_s = (edge.edge_s - 12.0 + 7.5) % 15 - 7.5
    assert abs(off_s) <= edge.error_s
    clock.s += 3600  # without samples it runs on, less sure
    later = state.next()
    assert 0 < later.in_s <= 15
    assert later.error_s > edge.error_s
    assert state.telemetry().reason.startswith("the newest sample is 3600 s old")
    state.observe(Sample(EPOCH_S - 1e6, {"latency_ms": 30.0}))  # the clock was set back
    assert state.next().edge_s is None


def test_no_edge_is_told_where_there_are_no_slots():
    clock = Clock()
    state = State(now_s=clock)
    rng = np.random.default_rng(4)
    for t in range(1500):
        observe(state, clock, EPOCH_S + t, 40 + rng.normal())
    assert state.next().edge_s is None
    assert "no clock found" in state.next().reason


def test_the_schedule_is_told_as_such_until_slots_would_have_shown():
    clock = Clock()
    state = State(has_schedule=True, now_s=clock)
    clock.s = 1_747_000_000.0 - 1_747_000_000 % 60 + 20.0
    edge = state.next()
    assert (edge.in_s, edge.error_s, edge.basis) == (7.0, None, "schedule")
    assert "not checked" in edge.reason
    rng = np.random.default_rng(4)
    for t in range(1900):
        observe(state, clock, EPOCH_S + t, 40 + rng.normal())
    assert state.next().edge_s is None
    learned = State(has_schedule=True, now_s=clock)
    for t_s, latency_ms in zip(*smoothed(), strict=True):
        observe(learned, clock, t_s, latency_ms)
    assert learned.next().basis == "learned"


def test_a_sample_that_is_old_makes_no_forecast(tmp_path):
    pytest.importorskip("xgboost")
    from bentpipe.predict.horizons import parse_horizon
    from bentpipe.predict.score import train
    from bentpipe.predict.signals import Session, Signal
    from bentpipe.predict.store import load_model, save_model

    t_s, values = smoothed(900)
    trained = train([Signal("pop_ping_latency_ms", "x", (Session(t_s, values),))], "ols-phase", parse_horizon("5s"))
    save_model(trained, tmp_path / "M.model")
    clock = Clock()
    state = State([load_model(tmp_path / "M.model")], now_s=clock)
    for t, value in zip(t_s[:60], values[:60], strict=True):
        observe(state, clock, t, value)
    (made,) = state.forecast().forecasts
    assert made.from_s > clock.s
    assert list(made.values) == sorted(made.values)
    clock.s += STALE_S + 1
    assert state.forecast().forecasts == ()
    assert "old" in state.forecast().reason


def test_every_document_follows_its_schema(running):
    service, _, url = running
    schema = json.loads(fetch(f"{url}/v1/schema")[1])
    assert set(schema) == set(DOCUMENTS)
    for kind, record in DOCUMENTS.items():
        status, body = fetch(f"{url}/v1/{kind}")
        assert status == 200
        record.model_validate_json(body)
    assert service.hub.subscribers == set()


def test_subscribers_get_what_is_known_and_then_each_sample(running):
    service, clock, url = running
    client = AwarenessClient(url)
    events = client.events("telemetry", "next")
    assert [next(events)[0] for _ in range(2)] == ["telemetry", "next"]
    clock.s = EPOCH_S + 1
    service.observe(Sample(EPOCH_S + 1, {"latency_ms": 31.5, "state": "CONNECTED"}))
    kind, document = next(events)
    assert (kind, document["latency_ms"], document["age_s"]) == ("telemetry", 31.5, 0.0)
    events.close()


def test_a_condition_fires_for_its_subscriber(running):
    service, _, url = running
    firings = AwarenessClient(url).events(when="latency_ms > 2 * mean(latency_ms, 3)")
    thread_result = []
    reader = threading.Thread(target=lambda: thread_result.append(next(firings)))
    reader.start()
    while not service.triggers:
        time.sleep(0.01)
    for t in range(8):
        service.observe(Sample(EPOCH_S + t, {"latency_ms": 100.0 if t == 5 else 30.0}))
    reader.join(5)
    ((kind, document),) = thread_result
    assert (kind, document["t_s"], document["values"]) == ("firing", EPOCH_S + 6, {"latency_ms": 100.0})
    with pytest.raises(UserError, match="unknown signal 'latency'"):
        next(AwarenessClient(url).events(when="latency > 1"))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:8790"}, 421),
        ({"Host": "localhost:8790"}, 200),
    ],
)
def test_other_origins_and_names_are_refused(running, headers, status):
    code, body = fetch(f"{running[2]}/v1/next", **headers)
    assert code == status
    assert status == 200 or json.loads(body)["error"]


def test_a_token_is_asked_for():
    service = Service(State(now_s=Clock()), token="0123456789abcdef")

    async def status(headers):
        sent = []

        async def send(message):
            sent.append(message)

        async def receive():
            return {"type": "http.request", "body": b""}

        pairs = [(b"host", b"localhost"), *headers]
        scope = {"type": "http", "method": "GET", "path": "/v1/next", "query_string": b"", "headers": pairs}
        await service.app()(scope | {"raw_path": b"/v1/next", "root_path": "", "http_version": "1.1"}, receive, send)
        return sent[0]["status"]

    assert asyncio.run(status([])) == 401
    assert asyncio.run(status([(b"authorization", b"Bearer 0123456789abcdeg")])) == 401
    assert asyncio.run(status([(b"authorization", b"Bearer 0123456789abcdef")])) == 200


def test_it_does_not_listen_elsewhere_without_a_token():
    with pytest.raises(UserError, match="reached from other machines"):
        asyncio.run(serve(Service(State(now_s=Clock())), "0.0.0.0:0"))
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "example.org")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    for listen in ("", "8790", "host:", "host:99999", "host:-1"):
        with pytest.raises(UserError, match="listen"):
            address_of(listen)


def test_a_subscriber_that_does_not_read_is_dropped_and_others_are_not():
    async def run():
        hub = Hub()
        lazy, busy = hub.subscribe(frozenset({"next"})), hub.subscribe(frozenset({"next"}))
        for _ in range(MOST_WAITING + 1):
            hub.publish("next", "{}")
            busy.waiting.get_nowait()
        return lazy, busy, hub

    lazy, busy, hub = asyncio.run(run())
    assert lazy.is_dropped.is_set()
    assert hub.subscribers == {busy}
    assert hub.dropped == 1


def test_a_client_that_never_reads_is_dropped_by_the_service(running):
    service, _, url = running
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as lazy:
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not service.hub.subscribers:
            time.sleep(0.01)
        for t in range(20_000):
            service.observe(Sample(EPOCH_S + t, {"latency_ms": 30.0, "state": "x" * 2000}))
            if t % 50 == 0 and not service.hub.subscribers:
                break
            if t % 50 == 0:
                time.sleep(0.005)
        assert service.hub.dropped == 1
        assert not service.hub.subscribers
    assert fetch(f"{url}/healthz")[0] == 200


def recording(path, n=600):
    t_s, values = smoothed(n)
    times = pl.Series((t_s * 1e6).astype("int64")).cast(pl.Datetime("us", "UTC"))
    pl.DataFrame({"time_utc": times, "pop_ping_latency_ms": values, "state": "CONNECTED"}).write_parquet(path)
    return path


def start(*arguments):
    command = [sys.executable, "-m", "bentpipe", "aware", "serve", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    line = process.stderr.readline()
    assert "awareness service on" in line, line
    return process


def test_subscribers_reconnect_after_the_service_was_killed(tmp_path):
    file = recording(tmp_path / "r.parquet")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    troubles = []
    events = AwarenessClient(f"http://{listen}").events("telemetry", on_trouble=troubles.append)
    for _ in range(3):
        process = start("--replay", file, "--speed", "20", "--listen", listen)
        try:
            documents = [next(events)[1] for _ in range(3)]
            assert all(each["latency_ms"] is not None or each["reason"] for each in documents)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            process.stderr.close()
    assert len(troubles) == 2
    events.close()


def test_the_commands_ask_the_service_and_end_cleanly(tmp_path):
    process = start("--replay", recording(tmp_path / "r.parquet"), "--speed", "60", "--listen", "127.0.0.1:0")
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 0
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
    for arguments, message in {
        ("get", "next", "--url", "http://127.0.0.1:1"): "Connection refused",
        ("serve", "--replay", str(tmp_path / "none.parquet")): "none.parquet",
        ("serve", "--dish", "x", "--replay", str(tmp_path)): "one of the two",
        ("serve", "--replay", str(tmp_path / "r.parquet"), "--listen", "0.0.0.0:0"): "--token-file",
        ("serve", "--replay", str(tmp_path / "r.parquet"), "--models", str(tmp_path)): "has no models",
        ("serve", "--replay", str(tmp_path / "r.parquet"), "--speed", "0"): "0.1 to 3600",
        ("serve", "--speed", "2"): "--replay with it",
        ("serve", "--replay", str(tmp_path / "r.parquet"), "--elements", "x.tle"): "has no serving satellite",
        ("get", "nexxt"): "did you mean 'next'?",
    }.items():
        result = bentpipe("aware", *arguments)
        assert result.returncode == 2, (arguments, result.stderr)
        assert message in result.stderr
        assert "Traceback" not in result.stderr


def test_models_of_pings_are_refused_and_left_out(tmp_path):
    pytest.importorskip("river")
    rows = [f"{EPOCH_S + t},{40 + 9 * math.sin(t)}" for t in range(600)]
    (tmp_path / "p.csv").write_text("\n".join(["unix_s,rtt_ms", *rows]), encoding="utf-8")
    (tmp_path / "models").mkdir()
    bp.Predictor.train(tmp_path / "p.csv", tmp_path / "models" / "p.model", model="hold", horizon="1s")
    models = read_models(tmp_path / "models")
    with pytest.raises(UserError, match=r"p\.model: predicts ping_rtt_ms, which a terminal does not report"):
        usable_models(models, print)
    bp.Predictor.train(recording(tmp_path / "r.parquet"), tmp_path / "models" / "t.model", model="hold", horizon="1s")
    notes = []
    assert [model.name for model in usable_models(read_models(tmp_path / "models"), notes.append)] == ["t.model"]
    assert len(notes) == 1


def test_an_unknown_address_is_answered_in_json(running):
    assert fetch(f"{running[2]}/v1/nexxt")[0] == 404
    with pytest.raises(UserError, match="no address /v1/nexxt; expected /v1/telemetry"):
        AwarenessClient(running[2]).get("nexxt")


def test_a_recording_is_read_in_the_order_of_its_times(tmp_path):
    table = pl.DataFrame(
        {
            "t_unix_ns": [3 * 10**9, 10**9, 4 * 10**9],
            "pop_ping_latency_ms": [1.0, 2.0, math.nan],
            "state": ["A", None, "B"],
        }
    )
    table.write_parquet(tmp_path / "r.parquet")
    samples = list(read_samples(tmp_path / "r.parquet"))
    assert [(each.t_s, each.values) for each in samples] == [
        (3.0, {"state": "A", "latency_ms": 1.0}),
        (4.0, {"state": "B", "latency_ms": None}),
    ]
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(UserError, match="expected samples of a terminal"):
        list(read_samples(tmp_path / "x.parquet"))


@pytest.mark.parametrize("text", ["short", "ü" * 20, ""])
def test_a_token_that_is_too_short_is_refused(tmp_path, text):
    (tmp_path / "t").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match="expected a token"):
        read_token(tmp_path / "t")


@pytest.mark.skipif(chromium.PROGRAM is None, reason="no Chromium on this machine")
def test_the_page_counts_down_in_a_browser(running, tmp_path):
    service, clock, url = running
    for t_s, latency_ms in zip(*smoothed(), strict=True):
        observe(service.state, clock, t_s, latency_ms)
    with chromium.tab() as tab:
        tab.call("Page.navigate", url=url)
        tab.wait("document.getElementById('next')?.textContent.endsWith(' s')")
        first = float(tab.run("document.getElementById('next').textContent").removesuffix(" s"))
        assert first == pytest.approx(service.state.next().in_s, abs=3)
        tab.wait(f"parseFloat(document.getElementById('next').textContent) !== {first}")
        assert "within ±1.0 s" in tab.run("document.getElementById('next-note').textContent")
        assert tab.run("document.getElementById('latency').textContent").endswith(" ms")
        assert tab.run("document.getElementById('satellite').textContent").startswith("no orbital elements")
        tab.screenshot(tmp_path / "page.png")
        assert not [each for each in tab.messages if "favicon" not in str(each)]

"""Feeds: a terminal, pings, satellites, weather, a recording; and what they refuse."""

import asyncio
import contextlib
import json
import os
import random
import time

import numpy as np
import polars as pl
import pytest
from fuzzing import damaged

from bentpipe.errors import UserError
from bentpipe.testbed.agent.fetching import check_allowed, fetch
from bentpipe.testbed.agent.signals.catalogue import CATALOGUE, plausible
from bentpipe.testbed.agent.signals.weather import WeatherFeed
from bentpipe.testbed.agent.signals.weather_text import NAMES, WeatherKey, read_weather


async def first(feed, count=1):
    taken = []
    async with asyncio.timeout(10):
        async for values in feed.samples():
            taken.append(values)
            if len(taken) == count:
                break
    await feed.close()
    return taken


class TestDish:
    @pytest.fixture(autouse=True)
    def _extra(self):
        pytest.importorskip("grpc")

    def test_gives_the_newest_second_of_the_history_beside_the_smoothed_status(self):
        from dish_world import at, local

        from bentpipe.measurements.dish.client import DishClient
        from bentpipe.testbed.agent.signals.dish import DishFeed

        terminal, clock = at(30.0)
        feed = DishFeed(DishClient(local(terminal)), every_s=0.001)

        async def follow():
            taken = []
            async for values in feed.samples():
                taken.append(values)
                if len(taken) == 2:
                    clock.sleep_s(1.0)
                if len(taken) == 3:
                    break
            return taken

        one, same, later = asyncio.run(follow())
        assert {"latency_ms", "drop_rate", "downlink_bps", "uplink_bps", "latency_smoothed_ms"} <= one.keys()
        assert "latency_ms" not in same  # the same second is no new sample
        assert "latency_smoothed_ms" in same
        assert "latency_ms" in later
        assert plausible(one)[1] == 0
        history = DishClient(local(terminal)).history()
        assert later["latency_ms"] == float(history.pop_ping_latency_ms[-1])

    def test_a_terminal_that_is_gone_raises_in_one_line(self):
        from bentpipe.measurements.dish.errors import DishError
        from bentpipe.testbed.agent.signals.dish import DishFeed

        with pytest.raises(DishError):
            asyncio.run(first(DishFeed("127.0.0.1:9")))

    def test_firmware_that_smooths_its_history_is_noted(self):
        from bentpipe.testbed.agent.signals.dish import is_smoothed

        rng = np.random.default_rng(7)
        seconds = np.exp(np.convolve(rng.normal(size=1000), [0.5, 0.3, 0.2], "valid"))
        assert is_smoothed(seconds) is False
        assert is_smoothed(np.convolve(seconds, np.ones(15) / 15, "valid")) is True
        assert is_smoothed(np.full(900, 30.0)) is None
        assert is_smoothed(np.full(900, np.nan)) is None


def test_pings_of_the_loopback():
    from bentpipe.testbed.agent.signals.ping import PingFeed

    feed = PingFeed("127.0.0.1", 0.02, gives_latency=True)
    assert set(feed.signals) == {"ping_ms", "ping_lost", "latency_ms"}
    try:
        taken = asyncio.run(first(feed, 3))
    except UserError as error:
        pytest.skip(str(error))
    assert all(0 < values["ping_ms"] < 1000 and values["latency_ms"] == values["ping_ms"] for values in taken)


def test_pings_of_no_host_raise_in_one_line():
    from bentpipe.testbed.agent.signals.ping import PingFeed

    with pytest.raises(UserError, match="no such"):
        asyncio.run(first(PingFeed("nowhere.invalid")))


def test_where_the_serving_satellite_stands():
    from bentpipe.orbits.elements import load_satellites
    from bentpipe.orbits.sky import sky
    from bentpipe.scenarios import parse_place
    from bentpipe.testbed.agent.signals.serving import Pass
    from bentpipe.times import parse_utc

    now, place = parse_utc("2026-05-10T00:00:00Z"), parse_place("london")
    satellites = load_satellites(None, "starlink-s1", now)
    highest, other = sky(satellites, place, now)[:2]
    here = Pass(satellites, place)
    values = here.values(highest["norad_id"], now)
    for ours in ("azimuth_deg", "elevation_deg", "range_km"):
        assert values[ours] == pytest.approx(highest[ours], abs=1e-6)
    assert values["since_handover_s"] is None
    here.values(other["norad_id"], now + 5 * 10**9)
    assert here.values(other["norad_id"], now + 7 * 10**9)["since_handover_s"] == 2.0
    assert here.values(424_242, now) == {"satellite": 424_242.0}
    assert plausible(values)[1] == 0


def test_the_serving_satellite_of_a_simulated_terminal():
    pytest.importorskip("grpc")
    from dish_world import START, at, local

    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.testbed.agent.signals.serving import ServingFeed

    terminal, clock = at(0, uptime_s=0)
    feed = ServingFeed(DishClient(local(terminal)), None, "melbourne", now_unix_ns=clock.now_unix_ns)
    rows = []
    for _ in range(60):
        truth = int(terminal.world.serving[int((clock.now_unix_ns() - START) // 10**9) % 60])
        values = feed._poll()
        if values:
            rows.append((values, truth))
            assert plausible(values)[1] == 0
        clock.sleep_s(1)
    assert len(rows) > 30
    assert sum(values["satellite"] == truth for values, truth in rows) >= 0.9 * len(rows)
    assert any(0 <= (values["since_handover_s"] or 99) < 15 for values, _ in rows)
    assert all(values["elevation_deg"] > 20 for values, _ in rows)


def test_the_serving_satellite_needs_elements(tmp_path):
    pytest.importorskip("grpc")
    from bentpipe.testbed.agent.signals.serving import ServingFeed

    with pytest.raises(UserError, match=r"none\.tle: no such file"):
        asyncio.run(first(ServingFeed("127.0.0.1:9", tmp_path / "none.tle")))


OPEN_METEO = {
    "time": WeatherKey("current.time"),
    "temperature_c": WeatherKey("current.temperature_2m"),
    "rain_mm_per_h": WeatherKey("current.rain"),
    "wind_mps": WeatherKey("current.wind_speed_10m", factor=1 / 3.6),
}
CURRENT = {"current": {"time": "2026-05-10T09:00", "temperature_2m": 11.5, "rain": 0.4, "wind_speed_10m": 36.0}}
MET = {**CURRENT, "current_units": {"temperature_2m": "°C", "rain": "mm", "wind_speed_10m": "km/h"}}
ROWS = b"time;temperature_c;rain_mm_per_h\n2026-05-10T08:00Z;10;0\n2026-05-10T09:00Z;11.5;0.4\n\n"


class TestWeather:
    def test_keys_are_mapped_and_units_converted(self):
        observation = read_weather(json.dumps(CURRENT).encode(), "json", OPEN_METEO)
        assert observation.values == {"temperature_c": 11.5, "rain_mm_per_h": 0.4, "wind_mps": 10.0}
        assert observation.observed_s == 1_778_403_600.0

    def test_the_present_weather_of_open_meteo_needs_no_keys(self):
        units = {
            "time": "iso8601",
            "interval": "seconds",
            "temperature_2m": "°F",
            "rain": "mm",
            "wind_speed_10m": "km/h",
        }
        current = {"time": "2026-05-10T09:00", "interval": 900, "temperature_2m": 50, "rain": 0.5, "wind_speed_10m": 36}
        observation = read_weather(json.dumps({"current_units": units, "current": current}).encode(), "json")
        assert observation.values == pytest.approx({"temperature_c": 10.0, "rain_mm_per_h": 2.0, "wind_mps": 10.0})
        assert observation.observed_s == 1_778_403_600.0
        units["wind_speed_10m"], current["interval"] = "furlongs", 0  # what is not understood is left out
        observation = read_weather(json.dumps({"current_units": units, "current": current}).encode(), "json")
        assert observation.values == pytest.approx({"temperature_c": 10.0})

    def test_the_last_row_counts(self):
        observation = read_weather(ROWS, "csv")
        assert observation.values == {"temperature_c": 11.5, "rain_mm_per_h": 0.4}
        assert read_weather(json.dumps([{}, {"temperature_c": 3}]).encode(), "json").values == {"temperature_c": 3.0}

    @pytest.mark.parametrize(
        "value", ["NaN", "Infinity", "-400", "1e400", '"7"', "true", "null", "[1]", "{}", "9" * 400], ids=str
    )
    def test_nonsense_is_refused(self, value):
        text = f'{{"temperature_c": {value}, "cloud_percent": 40}}'.encode()
        assert read_weather(text, "json").values == {"cloud_percent": 40.0}
        with pytest.raises(UserError, match="no plausible value"):
            read_weather(f'{{"temperature_c": {value}}}'.encode(), "json")

    @pytest.mark.parametrize(
        ("text", "form"),
        [
            (b"", "json"), (b"[" * 100_000, "json"), (b"\xff\xfe", "json"), (b"[]", "json"), (b"7", "json"),
            (b"9" * 5000, "json"), (b"", "csv"), (b"a,b\n1\n", "csv"), (b'a,"b\n1,2', "csv"),
            (b"\x00,\x00\n1,2", "csv"),
            (b"temperature_c\n" + b"x" * 200_000, "csv"), (b'{"time": "yesterday", "temperature_c": 3}', "json"),
            (b'{"time": -5, "temperature_c": 3}', "json"), (b'{"time": true, "temperature_c": 3}', "json"),
        ],
    )  # fmt: skip
    def test_no_text_of_weather_is_one_line(self, text, form):
        with pytest.raises(UserError) as caught:
            read_weather(text, form)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500

    def test_any_damage_is_refused_or_gives_plausible_values(self):
        random_ = random.Random(3)
        texts = [(json.dumps(CURRENT).encode(), "json", OPEN_METEO), (ROWS, "csv", None)]
        texts[1:1] = [(json.dumps(MET).encode(), "json", None)]
        texts.append((b'[{"temperature_c": 1.5, "rain_mm_per_h": 2, "time": 1778400000}]', "json", None))
        for number in range(3000):
            text, form, keys = texts[number % 4]
            try:
                observation = read_weather(damaged(random_, text), form, keys)
            except UserError as error:
                assert "\n" not in str(error)  # noqa: PT017
                continue
            assert observation.values
            for name, value in observation.values.items():
                assert CATALOGUE[name].least <= value <= CATALOGUE[name].most

    def test_a_file_is_read_and_an_old_one_is_none(self, tmp_path):
        path = tmp_path / "now.csv"
        path.write_bytes(ROWS)
        feed = WeatherFeed(path, now_s=lambda: 1_778_403_700.0)
        assert asyncio.run(first(feed)) == [{"temperature_c": 11.5, "rain_mm_per_h": 0.4}]
        with pytest.raises(UserError, match="is 302 min old"):
            asyncio.run(first(WeatherFeed(path, now_s=lambda: 1_778_403_600.0 + 302 * 60)))
        with pytest.raises(UserError, match="in the future"):
            asyncio.run(first(WeatherFeed(path, now_s=lambda: 1_778_403_600.0 - 3600)))
        path.write_text("temperature_c\n4\n")
        assert asyncio.run(first(WeatherFeed(path))) == [{"temperature_c": 4.0}]
        os.utime(path, (time.time() - 7200,) * 2)
        with pytest.raises(UserError, match="is 120 min old"):
            asyncio.run(first(WeatherFeed(path)))
        with pytest.raises(UserError, match="no such file"):
            asyncio.run(first(WeatherFeed(tmp_path / "none.json")))
        with pytest.raises(UserError, match="no signal 'snow'"):
            read_weather(b"{}", "json", {"snow": WeatherKey("snow")})

    def test_its_signals_are_those_of_its_keys(self, tmp_path):
        assert set(WeatherFeed(tmp_path / "a.json", OPEN_METEO).signals) == OPEN_METEO.keys() - {"time"}
        assert set(WeatherFeed(tmp_path / "a.json").signals) == set(NAMES) - {"time"}


ALLOWED = ["https://weather.example/v1/", "http://192.168.1.1:9100/metrics"]


@pytest.mark.parametrize(
    "url",
    [
        "https://weather.example/v1/now?q=1", "https://WEATHER.example:443/v1", "http://192.168.1.1:9100/metrics",
    ],
)  # fmt: skip
def test_urls_of_the_policy_are_allowed(url):
    check_allowed(url, ALLOWED)


@pytest.mark.parametrize(
    "url",
    [
        "http://weather.example/v1/now", "https://weather.example/v2", "https://weather.example/v12",
        "https://weather.example/v1/../admin", "https://weather.example/v1/%2e%2e/admin",
        "https://weather.example@evil.example/v1/", "https://weather.example.evil/v1/", "file:///etc/passwd",
        "http://192.168.1.1/metrics", "https://weather.example:8443/v1/", "", "https://", "http://[::1", "https://a\n/",
        "https://weather.example:99999/v1/",
    ],
)  # fmt: skip
def test_other_urls_are_refused(url):
    with pytest.raises(UserError):
        check_allowed(url, ALLOWED)
    with pytest.raises(UserError):
        check_allowed(url, [])


@contextlib.asynccontextmanager
async def web_server(handler):
    from aiohttp import web

    app = web.Application()
    app.router.add_get("/{tail:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def test_fetching_is_limited():
    web = pytest.importorskip("aiohttp.web")

    async def handler(request):
        if request.path == "/moved":
            raise web.HTTPFound("/weather")
        if request.path == "/long":
            return web.Response(body=b"x" * 5000)
        if request.path == "/packed":
            return web.Response(body=b"x", headers={"Content-Encoding": "gzip"})
        if request.path == "/slow":
            await asyncio.sleep(0.5)
        if request.path == "/none":
            raise web.HTTPNotFound
        return web.json_response({"temperature_c": 3})

    async def all_of_it():
        async with web_server(handler) as base:
            feed = WeatherFeed(f"{base}/weather?key=secret", allowed=[base])
            assert await first(feed) == [{"temperature_c": 3.0}]
            for path, line in {
                "moved": "status 302",
                "long": "more than 1000 bytes",
                "packed": "packed",
                "slow": "no answer within 0.2 s",
                "none?key=secret": "status 404",
            }.items():
                with pytest.raises(UserError, match=line) as caught:
                    await fetch(f"{base}/{path}", [base], timeout_s=0.2, most_bytes=1000)
                assert "secret" not in str(caught.value)
        with pytest.raises(UserError, match="cannot be fetched"):
            await fetch(f"{base}/weather", [base], timeout_s=1)
        with pytest.raises(UserError, match="not allowed by the host"):
            await first(WeatherFeed(f"{base}/weather", allowed=["https://elsewhere.example"]))

    asyncio.run(all_of_it())


def test_a_recording_is_replayed_at_its_pace(tmp_path):
    from bentpipe.testbed.agent.signals.replay import ReplayFeed

    path = tmp_path / "dish.parquet"
    times = [1_760_000_000_000_000_000 + second * 10**9 for second in range(5)]
    table = {"t_unix_ns": times, "pop_ping_latency_ms": [30.0, 31.0, None, 33.0, -4.0], "pop_ping_drop_rate": [0.0] * 5}
    pl.DataFrame(table).write_parquet(path)
    feed = ReplayFeed(path, speed=100)
    assert {"latency_ms", "latency_smoothed_ms", "drop_rate"} == set(feed.signals)
    assert "mean of some 15 s" in feed.note
    begin_s = time.monotonic()
    taken = asyncio.run(first(feed, 5))
    assert time.monotonic() - begin_s >= 0.04
    assert [values.get("latency_smoothed_ms") for values in taken] == [30.0, 31.0, None, 33.0, None]
    with pytest.raises(UserError, match="speed"):
        ReplayFeed(path, speed=0)


class Garbling:
    """A terminal whose answers are damaged, missing or somebody else's, at random."""

    def __init__(self, transport, seed):
        self.transport, self.random = transport, random.Random(seed)

    def call(self, request):
        from bentpipe.measurements.dish.errors import DishError

        answer = self.transport.call(request)
        kind = self.random.randrange(5)
        if kind == 0:
            return damaged(self.random, answer)
        if kind == 1:
            return self.random.randbytes(self.random.randrange(200))
        if kind == 2:
            raise DishError("timeout", "no answer")
        return answer

    def reflect(self):
        return None

    def close(self):
        pass


def test_a_terminal_that_talks_nonsense_is_a_failed_feed_at_worst():
    pytest.importorskip("grpc")
    pytest.importorskip("cel")
    from dish_world import at, local

    from bentpipe.measurements.dish.client import DishClient
    from bentpipe.testbed.agent.signals.board import SignalBoard
    from bentpipe.testbed.agent.signals.dish import DishFeed
    from bentpipe.triggers.trigger import Trigger

    terminal, _ = at(30.0)
    feed = DishFeed(DishClient(Garbling(local(terminal), 4)), every_s=0.0005)
    board = SignalBoard([feed], "n", print, first_wait_s=0.0)
    for name in feed.signals:
        board.arm(name, Trigger(f"{name} > 1e12 || {name} < -1e12", window_s=0.01))

    async def follow():
        task = asyncio.create_task(board.run())
        async with asyncio.timeout(20):
            while (status := board.feeds()[0]).failures < 60 or status.samples < 30:
                assert not task.done(), task
                await asyncio.sleep(0.005)
                board._status["dish"].state = "starting"
        task.cancel()

    import bentpipe.testbed.agent.signals.board as module

    before, module.LONGEST_WAIT_S = module.LONGEST_WAIT_S, 0.001
    try:
        asyncio.run(follow())
    finally:
        module.LONGEST_WAIT_S = before
    assert board.troubles == 0
    assert all(status.firings == 0 for status in board.triggers())
    assert "\n" not in board.feeds()[0].trouble

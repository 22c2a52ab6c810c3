"""Parts of the agent that decide: clock, admission, agenda, store, spool. No time, no network."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testbed_records import START_MS, assignment, desired, policy, work

from bentpipe.errors import UserError
from bentpipe.testbed.agent.admission import Host, refusal
from bentpipe.testbed.agent.agenda import Occupant, decide, hold, next_change_ms
from bentpipe.testbed.agent.clock import OrchestratorClock
from bentpipe.testbed.agent.connection import RefusedRequestError, UnreachableError
from bentpipe.testbed.agent.describing import blurred
from bentpipe.testbed.agent.identity import Identity
from bentpipe.testbed.agent.joining import check_url, split_token
from bentpipe.testbed.agent.spool import COMMIT, Spool
from bentpipe.testbed.agent.store import AgentStore, StoredRun
from bentpipe.testbed.schemas.agent_protocol import CommitAnswer, NoteEvent
from bentpipe.testbed.schemas.identifiers import derived_id
from bentpipe.testbed.schemas.node import Place

HOUR_MS = 3_600_000


class Now:
    def __init__(self) -> None:
        self.wall_ms, self.steady_s = 0.0, 0.0


def _exchange(clock: OrchestratorClock, now: Now, true_ms: float, *, up_ms: float, down_ms: float) -> None:
    sent = now.steady_s
    now.steady_s += (up_ms + down_ms) / 1e3
    clock.add(
        sent_steady_s=sent,
        received_at_ms=true_ms + sent * 1e3 + up_ms,
        answered_at_ms=true_ms + sent * 1e3 + up_ms,
        got_steady_s=now.steady_s,
    )


def test_the_error_bound_holds_the_truth_whatever_the_asymmetry() -> None:
    now = Now()
    clock = OrchestratorClock(lambda: now.wall_ms, lambda: now.steady_s)
    for up, down in ((500, 20), (20, 30), (30, 900)):
        _exchange(clock, now, 5_000_000.0, up_ms=up, down_ms=down)
        now.steady_s += 15
        offset = clock.offset()
        assert offset is not None
        assert abs(clock.now_ms() - (5_000_000.0 + now.steady_s * 1e3)) <= offset.error_ms + 1e-6
    assert offset.error_ms < 40  # the best exchange counts


def test_a_wall_clock_that_is_set_changes_nothing() -> None:
    now = Now()
    clock = OrchestratorClock(lambda: now.wall_ms, lambda: now.steady_s)
    _exchange(clock, now, 7_000_000.0, up_ms=10, down_ms=10)
    before = clock.now_ms()
    now.wall_ms += HOUR_MS
    assert clock.now_ms() == before
    offset = clock.offset()
    assert offset is not None
    assert offset.offset_ms == pytest.approx(7_000_000.0 - HOUR_MS + now.steady_s * 1e3 * 0, abs=1e5)


def test_an_orchestrator_whose_clock_is_set_is_followed() -> None:
    now = Now()
    clock = OrchestratorClock(lambda: now.wall_ms, lambda: now.steady_s)
    for _ in range(8):
        _exchange(clock, now, 7_000_000.0, up_ms=1, down_ms=1)
    _exchange(clock, now, 7_000_000.0 + HOUR_MS, up_ms=40, down_ms=40)
    assert clock.now_ms() == pytest.approx(7_000_000.0 + HOUR_MS + now.steady_s * 1e3, abs=1)


def _host(**fields: Any) -> Host:
    values: dict[str, Any] = {
        "minute_of_day": 720,
        "free_bytes": 10**10,
        "clock_error_ms": 20.0,
        "used_bytes": lambda period_s, plan: 0,
        "runners": ("process", "bubblewrap", "docker"),
    }
    return Host(**{**values, **fields})


IMAGE = {"image": f"busybox@sha256:{'1' * 64}", "duration": 10.0}


@pytest.mark.parametrize(
    ("the_policy", "the_work", "host", "reason"),
    [
        ({}, {}, {}, None),
        ({"paused": True}, {}, {}, "paused"),
        ({"hours": ["01:00-02:00"]}, {}, {}, "outside of the host's hours"),
        ({}, {}, {"free_bytes": 10**6}, "disk full"),
        ({"builtins": ["dish"]}, {}, {}, "does not allow ping"),
        ({"runners": ["docker"]}, {}, {}, "no runner"),
        ({"images": "none"}, {"program": IMAGE}, {}, "no containers"),
        ({"images": "reviewed"}, {"program": IMAGE}, {}, "reviewed containers only"),
        ({"images": "reviewed"}, {"program": IMAGE}, {"reviewed": (IMAGE["image"],)}, None),
        ({"kernel": []}, {"kernel": {"congestion_control": "bbr"}}, {}, "cc.set"),
        ({"captures": False}, {"capture": {}}, {}, "captures"),
        ({"bytes": ["1MB/day"]}, {}, {"used_bytes": lambda period_s, plan: 999_999}, "1MB/day has 0.0 MB left"),
    ],
)
def test_the_policy_of_the_host_decides(the_policy: Any, the_work: Any, host: Any, reason: str | None) -> None:
    actual = refusal(work(**the_work), policy(**the_policy), _host(**host))
    assert (actual is None) if reason is None else (actual is not None and reason in actual)


def test_background_runs_are_limited_in_number() -> None:
    names = "abcdef"
    wanted = desired([assignment(name, 0) for name in names], {"0" * 64: work(booking_class="background")})
    decisions = decide(wanted, set(), START_MS, began_at_ms=START_MS - HOUR_MS, max_background=4)
    assert [each.action for each in decisions] == ["prepare"] * 4
    busy = [Occupant(name, "background", 9.0) for name in names[:4]]
    assert not decide(wanted, set(), START_MS, began_at_ms=START_MS - HOUR_MS, busy=busy, max_background=4)
    assert decide(wanted, set(), START_MS, began_at_ms=START_MS - HOUR_MS, busy=busy[:3], max_background=4)


def test_a_clock_that_is_off_is_in_no_run_with_two_ends() -> None:
    for error_ms in (None, 1500.0):
        host = _host(clock_error_ms=error_ms)
        assert "clock" in (refusal(work(), policy(), host, has_peer=True) or "")
        assert refusal(work(), policy(), host) is None


def _decided(wanted: Any, at_s: float, **fields: Any) -> list[tuple[str, str]]:
    values: dict[str, Any] = {"began_at_ms": START_MS - HOUR_MS, "known": set(), **fields}
    known = values.pop("known")
    names = {derived_id(name): name for name in "abcdef"}
    return [
        (names[each.assignment.run], each.action) for each in decide(wanted, known, START_MS + at_s * 1e3, **values)
    ]


def test_a_run_is_prepared_before_its_time_and_missed_after_its_slip() -> None:
    wanted = desired([assignment("a", 0)])
    assert _decided(wanted, -6) == []
    assert _decided(wanted, -4) == [("a", "prepare")]
    assert _decided(wanted, 59) == [("a", "prepare")]
    assert _decided(wanted, 61) == [("a", "miss")]
    assert _decided(wanted, 0, known={(derived_id("a"), "client")}) == []


def test_servers_are_ready_first() -> None:
    wanted = desired([assignment("a", 0, end="server")])
    assert _decided(wanted, -9) == [("a", "prepare")]


def test_an_exclusive_run_waits_and_is_waited_for() -> None:
    works = {"0" * 64: work(), "1" * 64: work(booking_class="exclusive"), "2" * 64: work(booking_class="background")}
    wanted = desired([assignment("a", 0), assignment("b", 1, work="1" * 64), assignment("c", 1, work="2" * 64)], works)
    assert _decided(wanted, 1) == [("a", "prepare"), ("c", "prepare")]
    busy = [Occupant("x", "exclusive", START_MS + 1e6)]
    assert _decided(wanted, 1, busy=busy) == [("c", "prepare")]
    assert _decided(wanted, 1, busy=[Occupant("x", "normal", 0)] * 4) == [("c", "prepare")]


@pytest.mark.parametrize(("catch_up", "made_up"), [("none", ""), ("last", "c"), ("all", "abc")])
def test_what_was_due_while_the_agent_was_off(catch_up: str, made_up: str) -> None:
    wanted = desired(
        [assignment(name, 600 * number) for number, name in enumerate("abc")], {"0" * 64: work(catch_up=catch_up)}
    )
    decisions = _decided(wanted, 3000, began_at_ms=START_MS + 2_900_000)
    assert "".join(name for name, action in decisions if action == "prepare") == made_up
    assert len(decisions) == 3
    assert _decided(wanted, 3000) == [(name, "miss") for name in "abc"]  # it was on: nothing is made up for


def test_a_trigger_does_not_take_the_time_of_a_booking() -> None:
    works = {"0" * 64: work(), "1" * 64: work(booking_class="exclusive")}
    wanted = desired([assignment("a", 12, work="1" * 64)], works)
    assert hold(wanted, work(seconds=5), START_MS) is None
    assert "e has the node" in (hold(wanted, work(seconds=10), START_MS) or "")
    assert hold(wanted, work(seconds=10), START_MS, {(derived_id("a"), "client")}) is None
    assert hold(wanted, work(booking_class="background"), START_MS) is None
    assert next_change_ms(wanted, set(), START_MS) == START_MS + 7000


@given(st.lists(st.tuples(st.integers(0, 300), st.sampled_from("012")), max_size=6), st.integers(-10, 400))
def test_no_two_runs_are_prepared_that_exclude_each_other(bookings: list[tuple[int, str]], at_s: int) -> None:
    works = {"0" * 64: work(), "1" * 64: work(booking_class="exclusive"), "2" * 64: work(booking_class="background")}
    wanted = desired([assignment("abcdef"[n], s, work=k * 64) for n, (s, k) in enumerate(bookings)], works)
    decisions = decide(wanted, set(), START_MS + at_s * 1e3, began_at_ms=START_MS - 1)
    classes = [works[each.assignment.work].booking_class for each in decisions if each.action == "prepare"]
    heavy = [each for each in classes if each != "background"]
    assert len(heavy) <= 1 or "exclusive" not in heavy


def test_what_the_store_kept_survives_and_is_numbered_on(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "a.sqlite")
    for boot in ("1" * 32, "2" * 32):
        for number in range(3):
            event = store.add_event(boot, 1.0, NoteEvent(topic="agent", text=str(number)))
            assert event.seq == number + 1
    store.set_wanted(desired([assignment("a", 0)], version=7))
    store.set_run(StoredRun("r", "p", "client", 1, "running", 5), 1.0)
    store.add_bytes("p", START_MS, 100)
    store.add_bytes("p", START_MS + 5, 11)
    store.add_bytes("q", START_MS + 120_000, 1000)
    store.close()
    store = AgentStore(tmp_path / "a.sqlite")
    boot, events = store.events(10) or ("", [])
    assert boot == "1" * 32
    assert [event.seq for event in events] == [1, 2, 3]
    store.drop_events(boot, 4)
    assert (store.events(2) or ("", []))[0] == "2" * 32
    assert store.wanted() is not None
    assert [run.state for run in store.runs()] == ["running"]
    assert store.used_bytes(START_MS - 1) == 1111
    assert store.used_bytes(START_MS - 1, "p") == 111
    assert store.used_bytes(START_MS + 60_000) == 1000
    assert store.add_firing("t", 1)
    assert not store.add_firing("t", 1)
    store.tidy(START_MS + 41 * 86_400_000.0)
    assert store.used_bytes(0) == 0
    assert len(store.runs()) == 1  # it has not ended
    store.close()


def test_a_damaged_store_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(UserError, match="is damaged"):
        AgentStore(path)


class Uploads:
    """An orchestrator that takes files, and fails at the given requests."""

    def __init__(self, failing: set[int] = frozenset()) -> None:  # type: ignore[assignment]
        self.files: dict[str, bytes] = {}
        self.commits: list[Any] = []
        self.requests = 0
        self.failing = failing

    def _count(self) -> None:
        self.requests += 1
        if self.requests in self.failing:
            raise UnreachableError("down")

    async def offset(self, run: str, end: str, path: str) -> int:
        self._count()
        return len(self.files.get(path, b""))

    async def put(self, run: str, end: str, path: str, offset: int, part: bytes) -> int:
        self._count()
        had = self.files.get(path, b"")
        if offset == len(had):
            self.files[path] = had + part[: max(1, len(part) // 2)]  # takes half
        return len(self.files[path])

    async def commit(self, run: str, end: str, request: Any) -> CommitAnswer:
        self._count()
        self.commits.append(request)
        return CommitAnswer(location="x")


@given(st.sets(st.integers(1, 30), max_size=12))
def test_an_upload_goes_on_where_it_was_cut_off(tmp_path_factory: Any, failing: set[int]) -> None:
    folder = tmp_path_factory.mktemp("spool")
    results = folder / "result"
    (results / "a").mkdir(parents=True)
    (results / "a" / "b.bin").write_bytes(b"0123456789" * 10)
    (results / "empty").write_bytes(b"")

    async def scenario() -> Uploads:
        await Spool(folder / "spool").add("1" * 32, "client", 1, "done", "", results)
        uploads = Uploads(failing)
        for _ in range(len(failing) + 1):
            spool = Spool(folder / "spool")  # as after a kill
            for result in spool.waiting():
                try:
                    await spool.send(uploads, result)  # type: ignore[arg-type]
                except UnreachableError:
                    break
        return uploads

    uploads = asyncio.run(scenario())
    assert uploads.files == {"a/b.bin": b"0123456789" * 10, "empty": b""}
    assert len(uploads.commits) == 1
    assert not list((folder / "spool").iterdir())


def test_a_result_that_is_committed_already_is_removed(tmp_path: Path) -> None:
    class Committed(Uploads):
        async def put(self, run: str, end: str, path: str, offset: int, part: bytes) -> int:
            raise RefusedRequestError(409, "committed", "the result is committed")

    async def scenario() -> list[str]:
        notes: list[str] = []
        (tmp_path / "results").mkdir()
        (tmp_path / "results/a").write_bytes(b"0123")
        spool = Spool(tmp_path / "spool", notes.append)
        await spool.add("1" * 32, "client", 1, "done", "", tmp_path / "results")
        (result,) = spool.waiting()
        await spool.send(Committed(), result)  # type: ignore[arg-type]
        return notes

    assert asyncio.run(scenario()) == []
    assert not list((tmp_path / "spool").iterdir())


@pytest.mark.parametrize(
    ("status", "code", "damage", "is_kept"),
    [
        (422, "other_hash", False, True),  # a part was damaged on its way: the orchestrator dropped the file
        (422, "other_hash", True, False),  # it is damaged here, so that it would be refused for ever
        (401, "unauthenticated", False, True),  # the certificate is expired
    ],
)
def test_a_result_that_may_still_arrive_is_kept(
    tmp_path: Path, status: int, code: str, damage: bool, is_kept: bool
) -> None:
    class Refusing(Uploads):
        async def commit(self, run: str, end: str, request: Any) -> CommitAnswer:
            raise RefusedRequestError(status, code, "no")

    async def scenario() -> None:
        spool = Spool(tmp_path / "spool")
        (tmp_path / "result").mkdir()
        (tmp_path / "result" / "run.json").write_text("{}")
        await spool.add("1" * 32, "client", 1, "done", "", tmp_path / "result")
        if damage:
            next((tmp_path / "spool").glob("*/files/run.json")).write_text("[]")
        with contextlib.suppress(UnreachableError):
            await spool.send(Refusing(), spool.waiting()[0])  # type: ignore[arg-type]
        assert bool(spool.waiting()) == is_kept

    asyncio.run(scenario())


def test_events_that_other_starts_left_are_numbered_anew(tmp_path: Path) -> None:
    store = AgentStore(tmp_path / "agent.sqlite")
    for boot, text in (("a", "1"), ("a", "2"), ("b", "3")):
        store.add_event(boot, 1.0, NoteEvent(topic="agent", text=text))
    store.drop_events("a", 2)
    store.take_over_events("b")
    boot, events = store.events(9) or ("", [])
    assert (boot, [(each.seq, each.body.text) for each in events]) == ("b", [(1, "3"), (2, "2")])  # type: ignore[union-attr]
    assert store.add_event("b", 1.0, NoteEvent(topic="agent", text="4")).seq == 3


def test_a_damaged_or_refused_result_is_set_aside(tmp_path: Path) -> None:
    class Refusing(Uploads):
        async def commit(self, run: str, end: str, request: Any) -> CommitAnswer:
            raise RefusedRequestError(409, "stale_fence", "it was assigned anew")

    async def scenario() -> list[str]:
        notes: list[str] = []
        spool = Spool(tmp_path / "spool", notes.append)
        await spool.add("1" * 32, "client", 1, "done", "", None)
        (tmp_path / "spool" / "odd").mkdir()
        (result,) = spool.waiting()
        await spool.send(Refusing(), result)  # type: ignore[arg-type]
        assert not spool.waiting()
        return notes

    notes = asyncio.run(scenario())
    assert "set aside: odd" in notes[0]
    assert "assigned anew" in notes[1]
    assert (
        json.loads((tmp_path / "spool" / f"{'1' * 32}-client~refused~damaged" / COMMIT).read_text())["run"] == "1" * 32
    )


@given(st.floats(-89, 89), st.floats(-180, 180), st.floats(0.1, 100))
def test_a_place_is_blurred_by_no_more_than_the_host_said(latitude: float, longitude: float, blur_km: float) -> None:
    import math

    place = blurred(Place(latitude_deg=latitude, longitude_deg=longitude), blur_km, "attic")
    north = (place.latitude_deg - latitude) * 111.2
    east = ((place.longitude_deg - longitude + 180) % 360 - 180) * 111.2 * math.cos(math.radians(latitude))
    assert math.hypot(north, east) <= 1.6 * blur_km + 0.02


def test_an_identity_is_private_and_asks_with_one_key(tmp_path: Path) -> None:
    from cryptography import x509

    identity = Identity(tmp_path)
    first, second = (x509.load_pem_x509_csr(identity.make_request("attic").encode()) for _ in range(2))
    assert first.public_key() == second.public_key()
    assert identity.key_path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("url", ["http://h:1", "https://", "h:1", "https://h:1/x", "file:///etc"])
def test_only_an_https_address_is_joined(url: str) -> None:
    with pytest.raises(UserError, match="https://HOST:PORT"):
        check_url(url)


@pytest.mark.parametrize("token", ["", "a.b", "bpj_1234567890123456", f"bpj_1234567890123456.{'g' * 64}"])
def test_a_token_has_a_fingerprint(token: str) -> None:
    with pytest.raises(UserError, match="no join token"):
        split_token(token)


def test_a_nodes_certificate_is_no_orchestrators(tmp_path: Path) -> None:
    """A node that was stolen cannot pose as the orchestrator: its certificate is for clients alone."""
    import ssl

    from bentpipe.testbed.orchestrator.security.authority import Authority

    authority = Authority.open(tmp_path / "authority")
    identity = Identity(tmp_path / "node")
    certificate = authority.sign_node(identity.make_request("attic"), "1" * 32, 30)
    identity.keep(certificate.pem, authority.pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(identity.certificate_path, identity.key_path)

    async def scenario() -> None:
        listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=server)
        async with listening:
            port = listening.sockets[0].getsockname()[1]
            with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
                await asyncio.open_connection("127.0.0.1", port, ssl=identity.tls())

    asyncio.run(scenario())
    assert not identity.is_due()

"""Real programs, or the kernel's own TCP, behind a Profile, in real time.

`emulate` starts the process that makes the namespaces (`bentpipe.execution.emulation.supervisor`), hands it the
request, and collects its messages: one JSON object a line, written as things happen, so that a sudden end loses
nothing written before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from bentpipe import _native
from bentpipe.errors import BentpipeError, UserError
from bentpipe.execution.emulation import lateness
from bentpipe.execution.emulation.load import BOUND_SHARE, Bound, Second, Watch, bound
from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.seeds import LARGEST_SEED
from bentpipe.times import SLOT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Profile

AtEnd = Literal["loop", "hold", "stop"]
Internet = Literal["public", "any", "none"]
"""What a program reaches beside the server: public addresses; private ones and this machine's own too; nothing."""

ENTRANCE_BOUND_MS = 10.0
"""A 99th percentile of the time since the relay last found a device's queue empty that a machine which keeps up does
not reach.

Chosen: the figure is an upper bound of how long packets waited there; Runs that kept `lateness.BOUND_MS` had up
to 2 ms, and of a path that is faster than the machine it grows without end.
"""

WALL_CLOCK_BOUND_MS = 1.0
"""How far the Profile's clock may come off the machine's, where the one is to follow the other: as near as a handover
is promised to strike at its time."""

START_BOUND_MS = 1.0
"""By how much a flow of a race may come to the path after its time without a word.

Chosen: flows that had their processor came within a tenth of it; over a path of grants, 4 ms were another slow start.
"""

WORTH_SAYING = 0.01
"""A share of stolen processor time that a message about a disturbed machine names. Chosen here."""

LOOPED = "the events are those of the first time alone"
"""What the tables of a Run lack that is longer than its Profile."""

UNKNOWN = ("losses",)
"""Columns of `samples` that the kernel does not keep: it counts what it retransmitted, not what it marked lost."""

UNKNOWN_SUMMARY = ("losses", "timeouts")

MEASURED = (
    "relay",
    "gateway",
    "capture",
    "device_drops",
    "flows_without_samples",
    "closes_missed",
    "closes_unavailable",
    "sockets_unreadable",
    "rows_lost",
    "start_late_max_ms",
)
"""What the emulator says of itself at its end, and `run.json` keeps under `summary.emulator`."""

CAPTURES = ("client.pcapng", "server.pcapng")
"""What a capture writes: each end's packets, with what the path did with them."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""To the whole group, from a terminal or a service manager: for the program inside, not for what runs it."""

LEAST_MTU = 576
"""Every host takes packets of this size (RFC 791) [bytes]."""

SAMPLE_STEP_NS = 100_000_000
MINUTE_NS = 60 * 10**9
SLOT_NS = SLOT_S * 10**9


class EmulationError(BentpipeError):
    """The emulation was killed, or failed after it had begun."""


@dataclass(frozen=True)
class Spec:
    """What is asked for. `workload` is what crates/emu's `Workload` reads.

    Args:
        offset_s: Where in the Profile to begin; None: where the machine's clock and the Profile's agree in the second
            of the minute (of the 15 s slot, if the Profile is shorter than two minutes), since reconfigurations come at
            :12, :27, :42 and :57; at 0 if the Profile is shorter than a slot.
        at_end: What happens if it runs longer than the Profile: begin anew, keep the last values, or end the program.
        mtu: Largest IP packet [bytes].
        gateway_controller: Congestion controller of the gateway's TCP towards the program, for what comes from the
            Internet; None: the kernel's default.
        internet: What a program reaches behind the gateway, as `Internet` has it.
        hosts: Settings of both ends as `HostSpec` has them; None: the kernel's own.
        capture: Folder, which exists, for what passes the two ends (`CAPTURES`); None: not captured.
        queues: Other queues than the Profile's own, as `bentpipe.profiles.queues.parse_queue` makes them, where a
            program makes the traffic; a race's are in its Experiment.
        listen_within_s: How long a server may take until it listens [s].
        grace_s: How long what runs inside has to end when it is asked to [s].
        sample_step_ns: From one row of `samples` to the next.
    """

    workload: Mapping[str, Any]
    seed: int = 0
    role: str = "path"
    offset_s: float | None = None
    at_end: AtEnd = "loop"
    mtu: int = 1500
    gateway_controller: str | None = None
    internet: Internet = "public"
    hosts: Mapping[str, Any] | None = None
    capture: Path | None = None
    queues: tuple[Mapping[str, Any], ...] = ()
    listen_within_s: float = 10.0
    grace_s: float = 3.0
    sample_step_ns: int = SAMPLE_STEP_NS

    def to_json(self, profile: Profile) -> bytes:
        """As crates/emu reads it."""
        if not LEAST_MTU <= self.mtu <= 65535:
            raise UserError(f"--mtu: {self.mtu}; wanted {LEAST_MTU} to 65535 bytes")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise UserError(f"--seed: {self.seed}; wanted 0 to {LARGEST_SEED}")
        return json.dumps(
            {
                "role": self.role,
                "seed": self.seed,
                "begin": self._begin(profile),
                "at_end": self.at_end,
                "mtu": self.mtu,
                "sample_step_ns": self.sample_step_ns,
                "listen_within_ns": round(self.listen_within_s * 1e9),
                "grace_ns": round(self.grace_s * 1e9),
                "gateway_controller": self.gateway_controller,
                "internet": self.internet,
                "hosts": self.hosts,
                "capture": self.capture and _bytes(str(self.capture.absolute())),
                "queues": [dict(rule) for rule in self.queues],
                "workload": _in_bytes(self.workload),
            }
        ).encode()

    def phase(self, profile: Profile) -> Literal["given", "wall_clock", "beginning"]:
        """What decides where in the Profile it begins: `offset_s`, the machine's clock, or neither.

        A Profile shorter than a slot has no second of it for every moment: it is played from its beginning.
        """
        if self.offset_s is not None:
            return "given"
        return "wall_clock" if "wall_clock" in self._begin(profile) else "beginning"

    def _begin(self, profile: Profile) -> dict[str, int]:
        if self.offset_s is not None:
            if not 0 <= self.offset_s < profile.duration_s:
                raise UserError(
                    f"--offset: {self.offset_s:g} s; wanted 0 to the Profile's {profile.duration_s:g} s, its end not "
                    "included"
                )
            return {"at": round(self.offset_s * 1e9)}
        for period_ns, least_s in ((MINUTE_NS, 120.0), (SLOT_NS, 15.0)):
            if profile.duration_s >= least_s:
                return {"wall_clock": period_ns}
        return {"at": 0}


def _bytes(text: str) -> dict[str, list[int]]:
    """What the system takes for `text`, which need be no UTF-8, as serde reads an `OsString`."""
    return {"Unix": list(os.fsencode(text))}


def _in_bytes(workload: Mapping[str, Any]) -> dict[str, Any]:
    """A program's words and files as bytes; anything else as it is."""
    if "program" not in workload:
        return dict(workload)
    program = workload["program"]
    words = [_bytes(word) for word in program["command"]]
    texts = {name: text if text is None else _bytes(text) for name, text in program.items() if name != "command"}
    return {"program": {"command": words, **texts}}


@dataclass
class Emulated:
    """What came of it. `tables` are columns by name; `done` is None if it ended before its end.

    `stolen_share` is the part of the processors' time that a hypervisor gave to others; None: this kernel does not say.
    `bound` is where the machine was the limit; None: nowhere, or this kernel does not say.
    """

    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    started: dict[str, Any] | None = None
    done: dict[str, Any] | None = None
    stolen_share: float | None = None
    bound: Bound | None = None

    @property
    def why_invalid(self) -> str | None:
        """What makes the Run untrustworthy, in one line; None: nothing."""
        if self.done is None:
            return "the emulation ended before its end"
        reasons = self._lateness()
        if lost := sum(self.done["device_drops"]):
            reasons.append(f"{lost} packets were lost in the queue of a device at the path's ends")
        if kernel_rejected := self.done["relay"]["kernel_rejected"]:
            reasons.append(f"{kernel_rejected} packets were not taken by a kernel behind the path")
        reasons += self._lost_beside()
        if unknown := sum(not flow["is_complete"] for flow in self.done["flows"]):
            why = self.done["closes_unavailable"] or "its records were lost"
            reasons.append(f"the kernel did not tell what {unknown} TCP flows had carried when they closed ({why})")
        if unreadable := self.done.get("sockets_unreadable"):
            reasons.append(f"{unreadable} of the kernel's records of sockets could not be read: samples lack some")
        off_ms = self.done["relay"].get("wall_clock_off_ms")
        if off_ms is not None and off_ms > WALL_CLOCK_BOUND_MS:
            reasons.append(
                f"this machine's wall clock was set, or the machine slept: it is {off_ms:.3g} ms off the Profile's, "
                "whose reconfigurations no longer come at their second of the minute"
            )
        if self.bound is not None and self.bound.share > BOUND_SHARE:
            reasons.append(f"{self.bound}: the figures are the machine's")
        if reasons and self.stolen_share is not None and self.stolen_share >= WORTH_SAYING:
            reasons.append(f"the hypervisor took {self.stolen_share:.0%} of the processors' time")
        return "; ".join(reasons) or None

    def _lost_beside(self) -> list[str]:
        """What was lost, or does not fit, beside the path: before it, in the gateway behind it, or in the tables."""
        done = self.done or {}
        relay, gateway = done["relay"], done["gateway"] or {}
        count = gateway.get
        causes = (
            (relay.get("too_large"), "packets were larger than the path's MTU and did not enter it (--mtu)"),
            (relay.get("malformed"), "packets could not be taken apart, and were lost before the path"),
            (
                count("dropped_busy", 0) + count("dropped_unread", 0),
                "packets found the gateway to the Internet too busy",
            ),
            (
                count("dropped_limit"),
                f"SYNs and datagrams found no place at the gateway, which has {count('places')} for connections and as "
                "many for flows (`ulimit -Hn`, a quarter of it)",
            ),
            (count("flows_evicted"), "flows of datagrams in use lost their place at the gateway to others"),
            (count("dropped_outside"), "packets were not taken by this machine's own network, behind the path"),
            (
                count("dropped_echo_not_allowed"),
                "echo requests were not let out by this machine (net.ipv4.ping_group_range)",
            ),
            (count("dropped_fragments"), "fragments were too many at once for the gateway to put together"),
            (done.get("rows_lost"), "rows of its tables are missing, since this command stood still"),
        )
        return [f"{found} {what}" for found, what in causes if found]

    def _lateness(self) -> list[str]:
        """What the relay's lateness makes untrustworthy."""
        relay = (self.done or {})["relay"]
        n, late, most_ms = relay["lateness_n"], relay["late"], relay["lateness_max_ms"]
        sure = f"with {lateness.CONFIDENCE:.0%} confidence more than {lateness.SHARE:.0%}"
        reasons = []
        if lateness.verdict(late, n) == "late":
            reasons.append(
                f"{late} of {n} packets were over {lateness.BOUND_MS:g} ms late, {sure} of such packets, the latest "
                f"{most_ms:.3g} ms: the machine is too busy or too slow for this path"
            )
        elif most_ms is not None and most_ms > (bound_ms := lateness.largest_bound_ms(n)):
            reasons.append(f"one of {n} packets was {most_ms:.3g} ms late (bound {bound_ms:g} ms): the machine stalled")
        wakeups, wakeups_late = relay["wakeups"], relay["wakeups_late"]
        if lateness.verdict(wakeups_late, wakeups) == "late":
            reasons.append(
                f"the relay awoke over {lateness.BOUND_MS:g} ms late {wakeups_late} of {wakeups} times, {sure} of the "
                "time, and packets that waited for it came in late: the machine is too busy"
            )
        if n < lateness.ENOUGH:
            return reasons
        waited_ms = relay["ingress_wait_p99_ms"]
        if waited_ms is not None and waited_ms > ENTRANCE_BOUND_MS:
            reasons.append(
                f"1 % of the packets may have waited {waited_ms:.3g} ms before the path began (bound "
                f"{ENTRANCE_BOUND_MS:g} ms): the programs send more than this machine can carry"
            )
        return reasons

    @property
    def verdict(self) -> lateness.Verdict | None:
        """What the packets' lateness says about this machine; None: it ended before its end."""
        relay = (self.done or {}).get("relay")
        return None if relay is None else lateness.verdict(relay["late"], relay["lateness_n"])

    @property
    def capture_failed(self) -> str | None:
        """Why the capture could not be written to its end; None: it could, or there was none."""
        failed = ((self.done or {}).get("capture") or {}).get("failed")
        return None if failed is None else str(failed)

    @property
    def why_incomplete(self) -> str | None:
        """What is missing in the capture, or astray, in one line; None: nothing, or there was none."""
        capture = (self.done or {}).get("capture") or {}
        reasons = []
        if missed := capture.get("not_captured"):
            reasons.append(f"{missed} packets came faster than they could be written, and are in neither file")
        if astray := capture.get("out_of_order"):
            reasons.append(f"{astray} packets stand behind later ones, which passed them inside the path")
        if self.capture_failed is not None:
            reasons.append(f"it could not be written to its end, and is not kept: {self.capture_failed}")
        return "; ".join(reasons) or None

    @property
    def warning(self) -> str | None:
        """What may go wrong on this machine though the Run is valid, in one line; None: nothing."""
        warnings = []
        refused = (self.started or {}).get("offload_refused")
        if refused is not None:
            warnings.append(
                f"this kernel does not cut up bursts other than TCP's for a veth pair ({refused}): of what the "
                "relay cannot take apart nothing enters the path, and a Run with any of it is not valid (`malformed` "
                "in run.json); a TUN device has no such limit"
            )
        late_ms = (self.done or {}).get("start_late_max_ms")
        if late_ms is not None and late_ms > START_BOUND_MS:
            warnings.append(
                f"a flow of the race began {late_ms:.3g} ms after its time: what it met on the path is not what a flow "
                "in time meets"
            )
        if unnumbered := ((self.done or {}).get("relay") or {}).get("unnumbered"):
            warnings.append(
                f"{unnumbered} packets of TCP connections beyond those that are told apart took the path: these "
                "connections are not in the summary"
            )
        if loops := ((self.done or {}).get("relay") or {}).get("loops"):
            warnings.append(f"the Profile was played {loops + 1} times (--at-end loop): {LOOPED}")
        if self.bound is not None and self.bound.share <= BOUND_SHARE < self.bound.share + self.bound.unknown_share:
            warnings.append(f"{self.bound}: the throughput may be the machine's")
        return "; ".join(warnings) or None

    @property
    def why_ended(self) -> str | None:
        """Who ended the program, in one line; None: it ended by itself, or there was none."""
        done = self.done or {}
        reasons = {"profile_ended": "the Profile was over (--at-end stop)", "requested": "it was requested"}
        if done.get("stopped") not in reasons:
            return None
        how = "asked to end" if done.get("ending") else "asked to end, did not, and was ended"
        return f"{reasons[done['stopped']]}: the program was {how}"

    @property
    def exit_code(self) -> int:
        """The program's, as a shell has it; 124 (as `timeout` says) if it was ended because the Profile was over."""
        done = self.done or {}
        if done.get("stopped") == "profile_ended":
            return 124
        ending = done.get("ending") or {"signal": int(signal.SIGKILL)}
        return int(ending["code"]) if "code" in ending else 128 + int(ending["signal"])

    def samples(self) -> dict[str, Any]:
        """The `samples` table's columns, as the simulator gives them; what the kernel does not keep is NaN."""
        columns = self._table("samples")
        return {name: values * float("nan") if name in UNKNOWN else values for name, values in columns.items()}

    def links(self) -> dict[str, Any]:
        """The `links` table's columns."""
        return self._table("links")

    def events(self) -> dict[str, Any]:
        """The `events` table's columns."""
        return self._table("events")

    def summary_json(self) -> str:
        """The summary, with the emulator's own measurements of itself."""
        done = self.done or {}
        summary: dict[str, Any] = self._summary() if done else {"flows": [], "packets": 0}
        for flow in summary["flows"]:
            flow.update(dict.fromkeys(UNKNOWN_SUMMARY))
        why = self.why_invalid
        measured = {name: done.get(name) for name in MEASURED}
        machine = {
            "lateness_verdict": self.verdict,
            "stolen_share": self.stolen_share,
            "machine_bound": None if self.bound is None else asdict(self.bound),
        }
        emulator = {**measured, **machine, **(self.started or {})}
        return json.dumps({**summary, "valid": why is None, "why_invalid": why, "emulator": emulator})

    def _summary(self) -> dict[str, Any]:
        samples = self.tables.get("samples", {})
        columns = ("t_s", "flow", "goodput_bytes", "inflight_bytes", "retransmits", "rtt_smoothed_ms")
        summary = _native.summarise_emulation(json.dumps(self.done), *(samples.get(name, []) for name in columns))
        return dict(json.loads(summary))

    def content_hash(self) -> str:
        """Hex SHA-256 of tables and summary."""
        return hashlib.sha256(json.dumps([self.tables, self.summary_json()], sort_keys=True).encode()).hexdigest()

    def _table(self, name: str) -> dict[str, Any]:
        import numpy as np

        columns = self.tables.get(name, {})
        return {
            column: columns[column]
            if kind == "str" and columns.get(column)
            else np.array(columns.get(column, []), dtype=kind)
            for column, kind in self.types[name].items()
        }

    def tell_stolen(self, seconds: Iterable[Second]) -> None:
        """Add to the events in which of these windows the hypervisor took time from the processors, and how much."""
        if "events" not in self.types:  # it ended before it said what there is
            return
        events = self.tables.setdefault("events", {name: [] for name in self.types["events"]})
        stolen = [(one.t_s, -1, "stolen", f"{1e3 * one.stolen_s:.0f} ms") for one in seconds if one.stolen_s > 0]
        rows = [*zip(*(events[name] for name in ("t_s", "flow", "kind", "detail")), strict=True), *stolen]
        rows.sort(key=lambda row: row[0])
        for place, name in enumerate(("t_s", "flow", "kind", "detail")):
            events[name] = [row[place] for row in rows]

    def _renumber(self, flows: Sequence[int | None]) -> None:
        """Give flows the numbers that the Experiment has; `flows` are theirs in the tables. All others come after."""
        columns = [self.tables[name]["flow"] for name in ("samples", "links") if name in self.tables]
        numbers = {number: place for place, number in enumerate(flows) if number is not None}
        others = sorted({flow for column in columns for flow in column if flow >= 0} - numbers.keys())
        numbers |= {number: place for place, number in enumerate(others, start=len(flows))}
        for column in columns:
            column[:] = [numbers.get(flow, flow) for flow in column]

    def take(self, line: Mapping[str, Any]) -> None:
        """One line of the emulator's."""
        if line["kind"] == "table":
            table = self.tables.setdefault(line["table"], {name: [] for name in line["columns"]})
            for name, values in line["columns"].items():
                table[name].extend(values)
        elif line["kind"] == "types":
            self.types[line["table"]] = dict(line["types"])
        elif line["kind"] == "started":
            self.started = dict(line)
        elif line["kind"] == "done":
            self.done = dict(line)
            self._renumber([flow["number"] for flow in line["flows"]])


def emulate(
    profile: Profile,
    spec: Spec,
    *,
    on_line: Callable[[Mapping[str, Any]], None] | None = None,
    stdout: int | None = None,
) -> Emulated:
    """Run one emulation to its end. `stdout` is the program's descriptor for it; None: this process's own.

    Ctrl-C and SIGQUIT are the program's: whoever has the terminal hears them. A second Ctrl-C, SIGTERM or SIGHUP asks
    the program to end, and a third Ctrl-C ends everything. A signal that this process ignores is ignored inside, too.

    Raises:
        UserError: what cannot be run: no namespaces, neither TUN nor veth, no such program, a server that does not
            listen; or what runs inside took the path's device away.
        EmulationError: it did not start, or it failed after it had begun.
    """
    request = spec.to_json(profile)
    result = Emulated()
    watch = Watch()
    with _Supervisor(stdout) as supervisor:
        supervisor.send(request, _native.encode_profile(profile))
        processors = ProcessorTime.now()
        for line in supervisor.lines():
            if line["kind"] == "error":
                raise (UserError if line.get("is_user_error", True) else EmulationError)(line["message"])
            result.take(line)
            watch.hear(line)
            if on_line is not None:
                on_line(line)
        status = supervisor.wait()
    result.stolen_share = processors.stolen_share_since() if processors else None
    tcp_bytes = sum(flow["delivered_bytes"] for flow in (result.done or {}).get("flows", ()))
    result.tell_stolen(watch.seconds)
    result.bound = bound(result.tables.get("links", {}), watch.seconds, tcp_bytes=tcp_bytes)
    if result.started is None:
        raise EmulationError(f"the emulation did not start (status {status}); see above")
    return result


class _Supervisor:
    """The process of `bentpipe.execution.emulation.supervisor` with its two pipes."""

    def __init__(self, stdout: int | None) -> None:
        self._stdout = stdout

    def __enter__(self) -> _Supervisor:
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        command = [sys.executable, "-P", "-m", "bentpipe.execution.emulation.supervisor", str(control), str(report)]
        # They wait until it has handlers: an interpreter that is interrupted while it starts prints a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self._process = subprocess.Popen(command, pass_fds=(control, report), stdout=self._stdout)
        except OSError as error:
            os.close(self._control)
            os.close(self._report)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            real = os.path.realpath(sys.executable)
            python = sys.executable if real == sys.executable else f"{sys.executable} (which is {real})"
            raise EmulationError(f"the emulation was not started: {python}: {error.strerror}") from error
        finally:
            os.close(control)
            os.close(report)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except KeyboardInterrupt:  # it came meanwhile
            self._close()
            raise
        self._interrupts = 0
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, handler)
                for number, handler in (
                    (signal.SIGINT, self._on_sigint),
                    (signal.SIGTERM, lambda *_: self.ask()),
                    (signal.SIGHUP, lambda *_: self.ask()),
                    (signal.SIGQUIT, lambda *_: None),
                )
                if signal.getsignal(number) != signal.SIG_IGN  # by nohup(1), or for what a script runs behind `&`
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._close()

    def _close(self) -> None:
        self.end()
        self._process.wait()
        os.close(self._report)

    def _on_sigint(self, *_: object) -> None:
        self._interrupts += 1
        if self._interrupts == 2:
            self.ask()
        elif self._interrupts > 2:
            self.end()

    def send(self, *parts: bytes) -> None:
        """Hand over what is asked for; a supervisor that could not start says why on the other pipe."""
        with contextlib.suppress(BrokenPipeError):
            for part in parts:
                rest = memoryview(struct.pack("<Q", len(part)) + part)
                while rest:
                    rest = rest[os.write(self._control, rest) :]

    def lines(self) -> Iterator[dict[str, Any]]:
        """What it says, until it ends; a line cut short by a sudden end is left out."""
        with os.fdopen(os.dup(self._report), "rb") as report:
            for line in report:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def ask(self) -> None:
        """Ask the program to end."""
        if self._control >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"T")

    def end(self) -> None:
        """End everything inside, now."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    def wait(self) -> int:
        """The exit status of the supervisor."""
        return self._process.wait()

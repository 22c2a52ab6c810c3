"""Emulation of a Profile in real time, for programs or for the kernel's TCP.

`emulate` starts the process that makes the namespaces (`bentpipe.execution.emulation.supervisor`), sends it the
request, and collects its messages: one JSON object a line, each written at once, so that a sudden end loses nothing
written before it.
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
from bentpipe.execution.emulation.load import (
    MAX_LIMITED_SHARE,
    MachineLimit,
    MachineMonitor,
    Second,
    machine_limit,
)
from bentpipe.execution.emulation.processors import ProcessorTime
from bentpipe.seeds import LARGEST_SEED
from bentpipe.times import SLOT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bentpipe._native import Profile

AtEnd = Literal["loop", "hold", "stop"]
Internet = Literal["public", "any", "none"]
"""Destinations of a program besides the server: public addresses; also private ones and this machine's own; none."""

INGRESS_BOUND_MS = 10.0
"""Largest valid 99th percentile of the time since the relay last found a device's queue empty [ms].

Chosen here: the figure is an upper bound of the packets' wait. Runs within `lateness.BOUND_MS` had up to 2 ms; on a
path faster than the machine it grows without limit.
"""

WALL_CLOCK_BOUND_MS = 1.0
"""Largest valid drift of the Profile's clock from the machine's wall clock, where it follows it [ms]: the promised
accuracy of a handover's time."""

START_BOUND_MS = 1.0
"""Largest late start of a race's flow without a warning [ms].

Chosen here: flows with a free processor started within a tenth of it; on a path with grants, 4 ms changed slow start.
"""

MIN_REPORTED_STOLEN_SHARE = 0.01
"""Share of stolen processor time from which `why_invalid` mentions it. Chosen here."""

LOOP_NOTE = "the events are those of the first passage alone"
"""Note on the tables of a Run that is longer than its Profile."""

UNKNOWN = ("losses",)
"""Columns of `samples` that the kernel does not count: it counts retransmitted segments, not those marked lost."""

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
"""The emulator's measurements of itself, stored in `run.json` under `summary.emulator`."""

CAPTURES = ("client.pcapng", "server.pcapng")
"""Files of a capture: each end's packets, with their fate on the path."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals to the process group, from a terminal or a service manager: for the program inside, not for the emulator."""

MIN_MTU = 576
"""Size that every host accepts (RFC 791) [bytes]."""

SAMPLE_STEP_NS = 100_000_000
MINUTE_NS = 60 * 10**9
SLOT_NS = SLOT_S * 10**9


class EmulationError(BentpipeError):
    """The emulation was killed, or failed after it had started."""


@dataclass(frozen=True)
class Spec:
    """Request for one emulation. `workload` has the form of crates/emu's `Workload`.

    Args:
        offset_s: Profile time at which to start [s]; None: where the machine's clock and the Profile's agree in the
            second of the minute (of the 15 s slot, if the Profile is shorter than two minutes), since reconfigurations
            happen at :12, :27, :42 and :57; at 0 if the Profile is shorter than a slot.
        at_end: Behaviour after the Profile's end: restart it, hold its last values, or stop the program.
        mtu: Largest IP packet [bytes].
        gateway_controller: Congestion controller of the gateway's TCP towards the program, for traffic from the
            Internet; None: the kernel's default.
        internet: Destinations of a program behind the gateway (`Internet`).
        hosts: Settings of both ends (`HostSpec`); None: the kernel's defaults.
        capture: Existing folder for packet captures of both ends (`CAPTURES`); None: no capture.
        queues: Queues that replace the Profile's, from `bentpipe.profiles.queues.parse_queue`, for a program; a race's
            are in its Experiment.
        listen_within_s: Timeout for a server to listen [s].
        grace_s: Time between the signal to stop and the end [s].
        sample_step_ns: Interval of `samples` [ns].
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
        """Return the request as crates/emu's `Spec` in JSON.

        Raises:
            UserError: MTU, seed or offset out of range.
        """
        if not MIN_MTU <= self.mtu <= 65535:
            raise UserError(f"--mtu: {self.mtu}; expected {MIN_MTU} to 65535 bytes")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise UserError(f"--seed: {self.seed}; expected 0 to {LARGEST_SEED}")
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
        """Return the source of the start time: `offset_s`, the machine's clock, or the Profile's beginning.

        A Profile shorter than a slot cannot follow the machine's clock and starts at its beginning.
        """
        if self.offset_s is not None:
            return "given"
        return "wall_clock" if "wall_clock" in self._begin(profile) else "beginning"

    def _begin(self, profile: Profile) -> dict[str, int]:
        if self.offset_s is not None:
            if not 0 <= self.offset_s < profile.duration_s:
                raise UserError(
                    f"--offset: {self.offset_s:g} s; expected 0 to the Profile's {profile.duration_s:g} s, its end not "
                    "included"
                )
            return {"at": round(self.offset_s * 1e9)}
        for period_ns, least_s in ((MINUTE_NS, 120.0), (SLOT_NS, 15.0)):
            if profile.duration_s >= least_s:
                return {"wall_clock": period_ns}
        return {"at": 0}


def _bytes(text: str) -> dict[str, list[int]]:
    """Encode `text`, which need not be UTF-8, as serde reads an `OsString`."""
    return {"Unix": list(os.fsencode(text))}


def _in_bytes(workload: Mapping[str, Any]) -> dict[str, Any]:
    """Encode a program's words and file names as bytes; return any other workload unchanged."""
    if "program" not in workload:
        return dict(workload)
    program = workload["program"]
    words = [_bytes(word) for word in program["command"]]
    texts = {name: text if text is None else _bytes(text) for name, text in program.items() if name != "command"}
    return {"program": {"command": words, **texts}}


@dataclass
class EmulationResult:
    """Result of an emulation. `tables` are columns by name; `done` is None after a sudden end.

    `stolen_share`: part of the processors' time that a hypervisor gave to others; None: unknown on this kernel.
    `limit`: where the machine limited the throughput; None: nowhere, or unknown on this kernel.
    """

    tables: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    types: dict[str, dict[str, str]] = field(default_factory=dict)
    started: dict[str, Any] | None = None
    done: dict[str, Any] | None = None
    stolen_share: float | None = None
    limit: MachineLimit | None = None

    @property
    def why_invalid(self) -> str | None:
        """Why the Run is invalid, in one line; None: it is valid."""
        if self.done is None:
            return "the emulation ended before its end"
        reasons = self._lateness()
        if lost := sum(self.done["device_drops"]):
            reasons.append(f"{lost} packets were lost in the queue of a device at the path's ends")
        if rejected := self.done["relay"]["kernel_rejected"]:
            reasons.append(f"{rejected} packets were rejected by the kernel at the path's end")
        reasons += self._losses_outside_path()
        if unknown := sum(not flow["is_complete"] for flow in self.done["flows"]):
            why = self.done["closes_unavailable"] or "its records were lost"
            reasons.append(f"the bytes of {unknown} closed TCP flows are unknown ({why})")
        if unreadable := self.done.get("sockets_unreadable"):
            reasons.append(f"{unreadable} of the kernel's socket records could not be read: `samples` is incomplete")
        off_ms = self.done["relay"].get("wall_clock_off_ms")
        if off_ms is not None and off_ms > WALL_CLOCK_BOUND_MS:
            reasons.append(
                f"this machine's wall clock was set, or the machine was suspended: it is {off_ms:.3g} ms off the "
                "Profile's, so reconfigurations are not at their second of the minute"
            )
        if self.limit is not None and self.limit.share > MAX_LIMITED_SHARE:
            reasons.append(f"{self.limit}: the machine limited the throughput")
        if reasons and self.stolen_share is not None and self.stolen_share >= MIN_REPORTED_STOLEN_SHARE:
            reasons.append(f"the hypervisor took {self.stolen_share:.0%} of the processors' time")
        return "; ".join(reasons) or None

    def _losses_outside_path(self) -> list[str]:
        """Describe losses outside the path: before it, in the gateway behind it, or in the tables."""
        done = self.done or {}
        relay, gateway = done["relay"], done["gateway"] or {}
        count = gateway.get
        causes = (
            (relay.get("too_large"), "packets were larger than the path's MTU and did not enter it (--mtu)"),
            (relay.get("malformed"), "buffers could not be split into packets, and were dropped before the path"),
            (
                count("dropped_busy", 0) + count("dropped_unread", 0),
                "packets were dropped because the gateway to the Internet was too busy",
            ),
            (
                count("dropped_limit"),
                f"SYNs and datagrams were dropped because the gateway has room for {count('places')} connections and "
                "as many flows (a quarter of `ulimit -Hn`)",
            ),
            (count("flows_evicted"), "datagram flows in use were evicted from the gateway by others"),
            (count("dropped_outside"), "packets were rejected by this machine's own network, behind the path"),
            (
                count("dropped_echo_not_allowed"),
                "echo requests were not allowed by this machine (net.ipv4.ping_group_range)",
            ),
            (count("dropped_fragments"), "fragments were dropped because the gateway had too many to reassemble"),
            (done.get("rows_lost"), "rows of its tables are missing, because this command was stopped"),
        )
        return [f"{number} {text}" for number, text in causes if number]

    def _lateness(self) -> list[str]:
        """Describe lateness of the relay that makes the Run invalid."""
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
                f"the relay woke over {lateness.BOUND_MS:g} ms late {wakeups_late} of {wakeups} times, {sure} of the "
                "time, and packets waited for it: the machine is too busy"
            )
        if n < lateness.ENOUGH:
            return reasons
        waited_ms = relay["ingress_wait_p99_ms"]
        if waited_ms is not None and waited_ms > INGRESS_BOUND_MS:
            reasons.append(
                f"1 % of the packets may have waited {waited_ms:.3g} ms before they entered the path (bound "
                f"{INGRESS_BOUND_MS:g} ms): the programs send more than this machine can carry"
            )
        return reasons

    @property
    def verdict(self) -> lateness.Verdict | None:
        """Verdict on the packets' lateness; None after a sudden end."""
        relay = (self.done or {}).get("relay")
        return None if relay is None else lateness.verdict(relay["late"], relay["lateness_n"])

    @property
    def capture_failed(self) -> str | None:
        """Why the capture could not be written to its end; None: it was, or there is no capture."""
        failed = ((self.done or {}).get("capture") or {}).get("failed")
        return None if failed is None else str(failed)

    @property
    def why_incomplete(self) -> str | None:
        """Why the capture is incomplete or out of order, in one line; None: it is neither, or there is none."""
        capture = (self.done or {}).get("capture") or {}
        reasons = []
        if missed := capture.get("not_captured"):
            reasons.append(f"{missed} packets came faster than they could be written, and are in neither file")
        if astray := capture.get("out_of_order"):
            reasons.append(f"{astray} packets stand behind later ones, which overtook them on the path")
        if self.capture_failed is not None:
            reasons.append(f"it could not be written to its end, and is not stored: {self.capture_failed}")
        return "; ".join(reasons) or None

    @property
    def warning(self) -> str | None:
        """Warnings about a valid Run, in one line; None: none."""
        warnings = []
        refused = (self.started or {}).get("offload_refused")
        if refused is not None:
            warnings.append(
                f"this kernel cannot disable offloads other than TCP's on a veth pair ({refused}): buffers that the "
                "relay cannot split do not enter the path and make a Run invalid (`malformed` in run.json); a TUN "
                "device has no such limit"
            )
        late_ms = (self.done or {}).get("start_late_max_ms")
        if late_ms is not None and late_ms > START_BOUND_MS:
            warnings.append(
                f"a flow of the race began {late_ms:.3g} ms after its time, so it met other conditions on the path"
            )
        if unnumbered := ((self.done or {}).get("relay") or {}).get("unnumbered"):
            warnings.append(
                f"{unnumbered} packets belong to TCP connections beyond the largest flow number: these connections "
                "are not in the summary"
            )
        if loops := ((self.done or {}).get("relay") or {}).get("loops"):
            warnings.append(f"the Profile was played {loops + 1} times (--at-end loop): {LOOP_NOTE}")
        if (
            self.limit is not None
            and self.limit.share <= MAX_LIMITED_SHARE < self.limit.share + self.limit.unknown_share
        ):
            warnings.append(f"{self.limit}: the machine may have limited the throughput")
        return "; ".join(warnings) or None

    @property
    def why_ended(self) -> str | None:
        """Why the program was stopped, in one line; None: it ended by itself, or there was none."""
        done = self.done or {}
        reasons = {"profile_ended": "the Profile was over (--at-end stop)", "requested": "by request"}
        if done.get("stopped") not in reasons:
            return None
        how = "stopped" if done.get("ending") else "killed, since it ignored the signal to stop"
        return f"{reasons[done['stopped']]}: the program was {how}"

    @property
    def exit_code(self) -> int:
        """The program's exit code as in a shell; 124, as from timeout(1), if the Profile's end stopped it."""
        done = self.done or {}
        if done.get("stopped") == "profile_ended":
            return 124
        ending = done.get("ending") or {"signal": int(signal.SIGKILL)}
        return int(ending["code"]) if "code" in ending else 128 + int(ending["signal"])

    def samples(self) -> dict[str, Any]:
        """Return the `samples` table's columns, in the simulator's form; columns that the kernel lacks are NaN."""
        columns = self._table("samples")
        return {name: values * float("nan") if name in UNKNOWN else values for name, values in columns.items()}

    def links(self) -> dict[str, Any]:
        """Return the `links` table's columns."""
        return self._table("links")

    def events(self) -> dict[str, Any]:
        """Return the `events` table's columns."""
        return self._table("events")

    def summary_json(self) -> str:
        """Return the summary, with the emulator's measurements of itself, as JSON."""
        done = self.done or {}
        summary: dict[str, Any] = self._summary() if done else {"flows": [], "packets": 0}
        for flow in summary["flows"]:
            flow.update(dict.fromkeys(UNKNOWN_SUMMARY))
        why = self.why_invalid
        measured = {name: done.get(name) for name in MEASURED}
        machine = {
            "lateness_verdict": self.verdict,
            "stolen_share": self.stolen_share,
            "machine_bound": None if self.limit is None else asdict(self.limit),
        }
        emulator = {**measured, **machine, **(self.started or {})}
        return json.dumps({**summary, "valid": why is None, "why_invalid": why, "emulator": emulator})

    def _summary(self) -> dict[str, Any]:
        samples = self.tables.get("samples", {})
        columns = ("t_s", "flow", "goodput_bytes", "inflight_bytes", "retransmits", "rtt_smoothed_ms")
        summary = _native.summarise_emulation(json.dumps(self.done), *(samples.get(name, []) for name in columns))
        return dict(json.loads(summary))

    def content_hash(self) -> str:
        """Return the hex SHA-256 of tables and summary."""
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

    def add_stolen_events(self, seconds: Iterable[Second]) -> None:
        """Add an event for each window in which the hypervisor took processor time."""
        if "events" not in self.types:  # it ended before the column types arrived
            return
        events = self.tables.setdefault("events", {name: [] for name in self.types["events"]})
        stolen = [(one.t_s, -1, "stolen", f"{1e3 * one.stolen_s:.0f} ms") for one in seconds if one.stolen_s > 0]
        rows = [*zip(*(events[name] for name in ("t_s", "flow", "kind", "detail")), strict=True), *stolen]
        rows.sort(key=lambda row: row[0])
        for place, name in enumerate(("t_s", "flow", "kind", "detail")):
            events[name] = [row[place] for row in rows]

    def _renumber(self, flows: Sequence[int | None]) -> None:
        """Renumber flows as in the Experiment; `flows` are their numbers in the tables. Other flows follow."""
        columns = [self.tables[name]["flow"] for name in ("samples", "links") if name in self.tables]
        numbers = {number: place for place, number in enumerate(flows) if number is not None}
        others = sorted({flow for column in columns for flow in column if flow >= 0} - numbers.keys())
        numbers |= {number: place for place, number in enumerate(others, start=len(flows))}
        for column in columns:
            column[:] = [numbers.get(flow, flow) for flow in column]

    def add(self, line: Mapping[str, Any]) -> None:
        """Add one message of the emulator."""
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
) -> EmulationResult:
    """Run one emulation to its end.

    Ctrl-C and SIGQUIT go to the program, as from any terminal. A second Ctrl-C, SIGTERM or SIGHUP stops the program,
    and a third Ctrl-C kills everything. A signal that this process ignores is ignored inside, too.

    Args:
        profile: The path.
        spec: The request.
        on_line: Called with each message.
        stdout: Descriptor for the program's standard output; None: this process's own.

    Raises:
        UserError: the request cannot be run: no namespaces, neither TUN nor veth, no such program, a server that does
            not listen; or a program inside removed the path's device.
        EmulationError: it did not start, or failed after it had started.
    """
    request = spec.to_json(profile)
    result = EmulationResult()
    monitor = MachineMonitor()
    with _Supervisor(stdout) as supervisor:
        supervisor.send(request, _native.encode_profile(profile))
        processors = ProcessorTime.now()
        for line in supervisor.lines():
            if line["kind"] == "error":
                raise (UserError if line.get("is_user_error", True) else EmulationError)(line["message"])
            result.add(line)
            monitor.update(line)
            if on_line is not None:
                on_line(line)
        status = supervisor.wait()
    result.stolen_share = processors.stolen_share_since() if processors else None
    tcp_bytes = sum(flow["delivered_bytes"] for flow in (result.done or {}).get("flows", ()))
    result.add_stolen_events(monitor.seconds)
    result.limit = machine_limit(result.tables.get("links", {}), monitor.seconds, tcp_bytes=tcp_bytes)
    if result.started is None:
        raise EmulationError(f"the emulation did not start (status {status}); see above")
    return result


class _Supervisor:
    """The supervisor's process (`bentpipe.execution.emulation.supervisor`) with its two pipes."""

    def __init__(self, stdout: int | None) -> None:
        self._stdout = stdout

    def __enter__(self) -> _Supervisor:
        control, self._control = os.pipe()
        self._report, report = os.pipe()
        command = [sys.executable, "-P", "-m", "bentpipe.execution.emulation.supervisor", str(control), str(report)]
        # Blocked until the child has handlers: an interpreter that is interrupted while it starts prints a traceback.
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
        except KeyboardInterrupt:  # pending from before
            self._close()
            raise
        self._interrupts = 0
        self._before: dict[signal.Signals, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, handler)
                for number, handler in (
                    (signal.SIGINT, self._on_sigint),
                    (signal.SIGTERM, lambda *_: self.request_stop()),
                    (signal.SIGHUP, lambda *_: self.request_stop()),
                    (signal.SIGQUIT, lambda *_: None),
                )
                if signal.getsignal(number) != signal.SIG_IGN  # by nohup(1), or by a shell script for `&`
            }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._close()

    def _close(self) -> None:
        self.kill()
        self._process.wait()
        os.close(self._report)

    def _on_sigint(self, *_: object) -> None:
        self._interrupts += 1
        if self._interrupts == 2:
            self.request_stop()
        elif self._interrupts > 2:
            self.kill()

    def send(self, *parts: bytes) -> None:
        """Send the request; a supervisor that could not start reports the error on the other pipe."""
        with contextlib.suppress(BrokenPipeError):
            for part in parts:
                rest = memoryview(struct.pack("<Q", len(part)) + part)
                while rest:
                    rest = rest[os.write(self._control, rest) :]

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield its messages until it ends; skip a line truncated by a sudden end."""
        with os.fdopen(os.dup(self._report), "rb") as report:
            for line in report:
                if line.endswith(b"\n"):
                    yield json.loads(line)

    def request_stop(self) -> None:
        """Stop the program with a signal, and a grace period."""
        if self._control >= 0:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"T")

    def kill(self) -> None:
        """Kill everything inside, now."""
        if self._control >= 0:
            os.close(self._control)
            self._control = -1

    def wait(self) -> int:
        """Wait for the supervisor; return its exit status."""
        return self._process.wait()

"""The result of an emulation: its tables, its summary, and whether it is valid."""

from __future__ import annotations

import hashlib
import json
import signal
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.execution.emulation import lateness
from bentpipe.execution.emulation.load import (
    MAX_LIMITED_SHARE,
    MachineLimit,
    Second,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


TABLES = {"sample": "samples", "link": "links", "event": "events", "application": "applications"}
"""Table of a Run by the type of its rows."""

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
    "datagrams_unread",
    "flows_without_samples",
    "closes_missed",
    "closes_unavailable",
    "sockets_unreadable",
    "rows_lost",
    "start_late_max_ms",
)
"""The emulator's measurements of itself, stored in `run.json` under `summary.emulator`."""


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
    _items: dict[tuple[int, int], int] = field(default_factory=dict, repr=False)

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
            (relay.get("too_large"), "packets were larger than the path's MTU and did not enter it (`mtu`)"),
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
        """Describe lateness of the relays that makes the Run invalid."""
        done = self.done or {}
        reasons = self._lateness_of(done["relay"])
        if beside := done.get("beside"):
            reasons += [f"on the path beside: {reason}" for reason in self._lateness_of(beside)]
        return reasons

    @staticmethod
    def _lateness_of(relay: Mapping[str, Any]) -> list[str]:
        packets = ("packets", relay["late"], relay["lateness_n"], relay["lateness_max_ms"])
        wakeups = ("wake-ups of the relay", relay["wakeups_late"], relay["wakeups"], relay["wakeup_max_ms"])
        reasons = []
        for events, late, n, largest_ms in (packets, wakeups):
            if lateness.verdict(late, n, largest_ms) != "late":
                continue
            if largest_ms > (bound_ms := lateness.largest_bound_ms(n)):
                reasons.append(
                    f"one of {n} {events} was {largest_ms:.3g} ms late (bound {bound_ms:g} ms): the machine stalled"
                )
            else:
                reasons.append(
                    f"{late} of {n} {events} were over {lateness.BOUND_MS:g} ms late, with {lateness.CONFIDENCE:.0%} "
                    f"confidence more than {lateness.SHARE:.0%} of such {events}, the latest {largest_ms:.3g} ms: the "
                    "machine is too busy or too slow for this path"
                )
        if relay["lateness_n"] < lateness.ENOUGH:
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
        if relay is None:
            return None
        return lateness.verdict(relay["late"], relay["lateness_n"], relay["lateness_max_ms"])

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
        for end, unread in zip(("client", "server"), (self.done or {}).get("datagrams_unread", ()), strict=False):
            if unread:
                warnings.append(
                    f"{unread} datagrams crossed the path and were dropped at the {end}, whose program did not read "
                    "them in time (RcvbufErrors of UDP): the path did not lose them"
                )
        if loops := ((self.done or {}).get("relay") or {}).get("loops"):
            warnings.append(f"the Profile was played {loops + 1} times (`at_end` loop): {LOOP_NOTE}")
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
        reasons = {"profile_ended": "the Profile was over (`at_end` stop)", "requested": "by request"}
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

    def applications(self) -> dict[str, Any]:
        """Return the `applications` table's columns."""
        return self._table("applications")

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

    def add(self, message: Mapping[str, Any]) -> None:
        """Add one message of the emulator: a row of a table, or one of its own."""
        kind = message["type"]
        if kind in TABLES:
            name = TABLES[kind]
            table = self.tables.setdefault(name, {column: [] for column in self.types[name]})
            # Of an item of an application, the last row counts.
            item = (message["flow"], message["id"]) if kind == "application" else None
            place = self._items.get(item) if item else None
            if item and place is None:
                self._items[item] = len(table["id"])
            for column, values in table.items():
                if place is None:
                    values.append(message[column])
                else:
                    values[place] = message[column]
        elif kind == "columns":
            self.types[message["table"]] = dict(message["columns"])
        elif kind == "started":
            self.started = dict(message)
        elif kind == "done":
            self.done = dict(message)
            self._renumber([flow["number"] for flow in message["flows"]])

"""The request of an emulation, as `crates/emu` reads it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bentpipe.errors import BentpipeError, UserError
from bentpipe.seeds import LARGEST_SEED
from bentpipe.times import SLOT_S, aligned_ns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Host, Recovery
    from bentpipe.profiles.queue_rules import QueueRule

AtEnd = Literal["loop", "hold", "stop"]
Internet = Literal["public", "any", "none"]
"""Destinations of a program besides the server: public addresses; also private ones and this machine's own; none."""

CAPTURES = ("client.pcapng", "server.pcapng")
"""Files of a capture: each end's packets, with their fate on the path."""

DISSECTOR = Path(__file__).with_name("nodes.lua")
"""Wireshark's dissector of the frames between nodes. A Run with their capture has a copy."""

MIN_MTU = 576
"""Size that every host accepts (RFC 791) [bytes]."""

SAMPLE_STEP_NS = 100_000_000


class EmulationError(BentpipeError):
    """The emulation was killed, or failed after it had started."""


@dataclass(frozen=True)
class Spec:
    """Request for one emulation. `workload` has the form of crates/emu's `Workload`.

    Args:
        offset_s: Profile time at which to start [s]; None: where the machine's clock and the Profile's agree in the
            second of the minute (of the 15 s slot, if the Profile is shorter than two minutes), since reconfigurations
            happen at :12, :27, :42 and :57; at 0 if the Profile is shorter than a slot.
        aligned_ns: A start at `offset_s` waits, for less than this period, until the machine's clock and the Profile's
            agree modulo it [ns]; None: it does not wait.
        at_end: Behaviour after the Profile's end: restart it, hold its last values, or stop the program.
        mtu: Largest IP packet [bytes].
        gateway_controller: Congestion controller of the gateway's TCP towards the program, for traffic from the
            Internet; None: the kernel's default.
        internet: Destinations of a program behind the gateway (`Internet`).
        hosts: Settings of both ends (`HostSpec`); None: the kernel's defaults.
        capture: Existing folder for packet captures of both ends (`CAPTURES`); None: no capture.
        queues: Queues that replace the Profile's, from `bentpipe.profiles.queues.parse_queue`, for a program; a race's
            are in its Experiment.
        recovery: Loss recovery on the path, for a program; a race's is in its Experiment. None: there is none.
        nodes: The path is processes of their own, terminal, satellites and ground station, that exchange real packets.
            They do not repeat the Profile: with `at_end` ``loop`` they hold its last values. A capture then has the
            frames that each node sends.
        beside: Profile of a second path between the hosts, on a device of its own (``bentpipe1``, in the next network:
            100.64.1.0/24 if the first is 100.64.0.0/24), with a program alone. It has the first one's start and end;
            the tables are those of the first. None: there is one path.
        listen_within_s: Timeout for a server to listen [s].
        grace_s: Time between the signal to stop and the end [s].
        sample_step_ns: Interval of `samples` [ns].
        apps: Applications in Python of a race's flows (``FILE.py:CLASS``).
    """

    workload: Mapping[str, Any]
    seed: int = 0
    role: str = "path"
    offset_s: float | None = None
    aligned_ns: int | None = None
    at_end: AtEnd = "loop"
    mtu: int = 1500
    gateway_controller: str | None = None
    internet: Internet = "public"
    hosts: Host | None = None
    capture: Path | None = None
    queues: tuple[QueueRule, ...] = ()
    recovery: Recovery | None = None
    nodes: bool = False
    beside: Profile | None = None
    listen_within_s: float = 10.0
    grace_s: float = 3.0
    sample_step_ns: int = SAMPLE_STEP_NS
    apps: tuple[str, ...] = ()

    def to_json(self, profile: Profile) -> bytes:
        """Return the request as crates/emu's `Spec` in JSON.

        Raises:
            UserError: MTU, seed or offset out of range, or `beside` with `nodes`.
        """
        if self.nodes and self.beside is not None:
            raise UserError("a second path", where="nodes", expected="one path")
        if not MIN_MTU <= self.mtu <= 65535:
            raise UserError(str(self.mtu), where="mtu", expected=f"{MIN_MTU} to 65535 bytes")
        if not 0 <= self.seed <= LARGEST_SEED:
            raise UserError(str(self.seed), where="seed", expected=f"0 to {LARGEST_SEED}")
        return json.dumps(
            {
                "role": self.role,
                "seed": self.seed,
                "begin": self._begin(profile),
                "at_end": "hold" if self.nodes and self.at_end == "loop" else self.at_end,
                "mtu": self.mtu,
                "sample_step_ns": self.sample_step_ns,
                "listen_within_ns": round(self.listen_within_s * 1e9),
                "grace_ns": round(self.grace_s * 1e9),
                "gateway_controller": self.gateway_controller,
                "internet": self.internet,
                "hosts": self.hosts and self.hosts.to_dict(),
                "capture": self.capture and _bytes(str(self.capture.absolute())),
                "recovery": self.recovery and self.recovery.to_dict(),
                "beside": self.beside is not None,
                "queues": [rule.to_dict() for rule in self.queues],
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

    def _begin(self, profile: Profile) -> dict[str, Any]:
        if self.offset_s is not None:
            if not 0 <= self.offset_s < profile.duration_s:
                raise UserError(
                    f"{self.offset_s:g} s",
                    where="offset_s",
                    expected=f"0 to the Profile's {profile.duration_s:g} s, its end not included",
                )
            at_ns = round(self.offset_s * 1e9)
            if self.aligned_ns is None:
                return {"at": at_ns}
            return {"at_second": {"at": at_ns, "period": self.aligned_ns}}
        duration_ns = round(profile.duration_s * 1e9)
        return {"wall_clock": aligned_ns(duration_ns)} if duration_ns >= SLOT_S * 10**9 else {"at": 0}


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

"""Rules of nftables for runs: one table for each run, and one for an agent that had to switch on forwarding."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

from bentpipe.testbed.runners.base import RunnerError
from bentpipe.testbed.runners.reach import prohibited_ipv4, split_allowed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bentpipe.testbed.runners.request import Uplink

SBIN = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def run_rules(
    name: str,
    address: str,
    uplinks: Sequence[str],
    network: Uplink,
    allowed: Sequence[str],
    refused: Sequence[str] = (),
    up_bps: int | None = None,
) -> str:
    """Return the rules of a run: translate its address, refuse networks and this machine, open its ports.

    The routes inside the run refuse the same networks; these rules hold even if a run got round them.

    Args:
        name: Name of the run, its table and its interface on this machine.
        address: The run's address.
        uplinks: This machine's interfaces to the Internet.
        network: The request's network.
        allowed: Granted networks, which win.
        refused: Networks that are refused beside the special ones.
        up_bps: Cap of the rate that the run sends [bit/s].
    """
    granted, _ = split_allowed(allowed)
    prohibited = prohibited_ipv4(allowed, refused)
    mine = f'iifname "{name}"'
    accept = [f"{mine} ip daddr {{ {_set(granted)} }} accept"] if granted else []
    ports = [
        (kind, _set(numbers)) for kind, numbers in (("tcp", network.tcp_ports), ("udp", network.udp_ports)) if numbers
    ]
    cap = (
        []
        if up_bps is None
        else [f"{mine} limit rate over {up_bps // 8} bytes/second burst {_burst(up_bps)} bytes drop"]
    )
    return _table(
        name,
        {
            "forward": (
                "filter hook forward priority -10",
                [
                    f"{mine} ip saddr != {address} drop",
                    *cap,
                    *accept,
                    f"{mine} ip daddr {{ {_set(prohibited)} }} reject with icmp type admin-prohibited",
                    f"{mine} accept",
                    f'oifname "{name}" ct state established,related accept',
                    f'oifname "{name}" ct status dnat accept',
                    f'oifname "{name}" drop',
                ],
            ),
            "input": ("filter hook input priority -10", [*accept, f"{mine} drop"]),
            "source": (
                "nat hook postrouting priority 100",
                [f'ip saddr {address} oifname != "{name}" masquerade'],
            ),
            **(
                {
                    "ports": (
                        "nat hook prerouting priority -100",
                        [
                            f"iifname {{ {_names(uplinks)} }} {kind} dport {{ {numbers} }} dnat to {address}"
                            for kind, numbers in ports
                        ],
                    )
                }
                if ports and uplinks
                else {}
            ),
        },
    )


def guard_rules(name: str, interfaces: Iterable[str]) -> str:
    """Return rules that keep interfaces, whose forwarding was off, from forwarding anything but runs' packets."""
    incoming = f"iifname {{ {_names(sorted(interfaces))} }}"
    return _table(name, {"forward": ("filter hook forward priority -20", [f'{incoming} oifname != "bp*" drop'])})


def _burst(rate_bps: int) -> int:
    """Return the bytes that may pass at once: 20 ms of the rate, at least ten packets."""
    return max(15_000, rate_bps // 8 // 50)


def _set(members: Iterable[object]) -> str:
    return ", ".join(str(member) for member in members)


def _names(interfaces: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in interfaces)


def _table(name: str, chains: dict[str, tuple[str, list[str]]]) -> str:
    lines = [f"table ip {name} {{"]
    for chain, (hook, rules) in chains.items():
        lines += [f"  chain {chain} {{", f"    type {hook}; policy accept;", *(f"    {rule}" for rule in rules), "  }"]
    return "\n".join([*lines, "}", ""])


def apply(rules: str) -> None:
    """Load rules in this thread's network namespace, all or none.

    Raises:
        RunnerError: There is no `nft`, or the kernel refused.
    """
    _nft(["-f", "-"], rules)


def remove_table(name: str) -> None:
    """Remove a table; without effect if there is none. Raises `RunnerError`."""
    _nft(["-f", "-"], f"table ip {name}\ndelete table ip {name}\n")  # the first line makes the second succeed


def tables(tag: str) -> list[str]:
    """Return the names of the tables that start with `tag`. Raises `RunnerError`."""
    listed = json.loads(_nft(["-j", "list", "tables"]))["nftables"]
    return sorted(each["table"]["name"] for each in listed if each.get("table", {}).get("name", "").startswith(tag))


def _nft(arguments: list[str], text: str | None = None) -> str:
    program = shutil.which("nft", path=SBIN)
    if program is None:
        raise RunnerError("nft: not installed; expected nftables; try `apt install nftables`")
    done = subprocess.run([program, *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunnerError(f"nft: {' '.join(done.stderr.split())[:300]}")
    return done.stdout

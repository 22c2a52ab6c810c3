"""What this machine's kernel must be set to, so that both worlds have the same hosts."""

from __future__ import annotations

from pathlib import Path

from bentpipe.errors import UserError
from bentpipe.files import read_text
from bentpipe.report.path import HOST_BUFFERS

BUFFERS = {"tcp_rmem": "rmem_max_bytes", "tcp_wmem": "wmem_max_bytes"}
"""Settings whose last number bounds a flow's window, which a network namespace takes over from the machine's."""


def check_buffers(folder: Path = Path("/proc/sys/net/ipv4")) -> None:
    """The kernel's largest TCP buffers are those of a simulated host.

    Raises:
        UserError: They are others: the geostationary path's figures are theirs.
    """
    for setting, field in BUFFERS.items():
        found = read_text(folder / setting).split()
        if int(found[-1]) != HOST_BUFFERS[field]:
            wanted = " ".join([*found[:-1], str(HOST_BUFFERS[field])])
            raise UserError(
                f"net.ipv4.{setting} is {' '.join(found)}; wanted {HOST_BUFFERS[field]} at most, as the simulator has "
                f"it: sysctl -w net.ipv4.{setting}='{wanted}' for as long as this takes"
            )

"""What `bentpipe kernel check` says in the end."""

import socket

import pytest
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.execution.emulation import check
from bentpipe.execution.emulation.check import Check, KernelReport


@pytest.mark.parametrize(
    ("lacking", "usable", "report", "code"),
    [
        ((), True, "This machine can emulate; nothing is missing.", 0),
        (("tcp_rmem",), True, "This machine can emulate; missing: tcp_rmem (effects above).", 0),
        (("lateness", "tcp_rmem"), True, "This machine can emulate, but it was late just now", 0),
        (("emulation",), False, "This machine cannot emulate: see the first `no`.", 2),
    ],
)
def test_the_last_line_is_the_verdict(lacking, usable, report, code, monkeypatch):
    names = ("emulation", "lateness", "tcp_rmem")
    checks = [Check(name, name not in lacking, "found", "means") for name in names]
    monkeypatch.setattr(check, "check_kernel", lambda trial: KernelReport(checks, usable=usable))
    done = CliRunner().invoke(app, ["kernel", "check"])
    assert done.exit_code == code
    assert done.output.strip().splitlines()[-1].startswith(report)


@pytest.mark.parametrize(("error", "groups"), [(None, ""), (PermissionError, "1\t0"), (PermissionError, "")])
def test_whether_pings_reach_the_internet(error, groups, monkeypatch):
    class Socket:
        def __init__(self, *kind):
            assert kind == (socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
            if error is not None:
                raise error

        def close(self):
            pass

    monkeypatch.setattr(check.socket, "socket", Socket)
    monkeypatch.setattr(check, "_sysctl", lambda name: {"ping_group_range": groups}[name])
    result = check._echo()
    assert result.ok == (error is None)
    if error is not None:
        assert result.found == f"not allowed (ping_group_range {groups.replace(chr(9), ' ') or 'unknown'})"
        assert "net.ipv4.ping_group_range" in result.means

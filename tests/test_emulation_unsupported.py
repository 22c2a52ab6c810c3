"""Machines that allow no emulation: one sentence that says what to change, and exit code 2.

Each is a user namespace of the test's own, whose limits are its own, too: the machine's stay as they are.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from emulation import bentpipe, cannot, dumbbell_file, need

#: Somebody else than root, and without a capability; what comes before it is done with all of them.
SOMEBODY = ("unshare", "-Um", "--map-user=1000", "--map-group=1000", "--keep-caps")
AS_SOMEBODY = 'exec setpriv --ambient-caps=-all --inh-caps=-all "$@"'
ROOT = ("unshare", "-Urm")
AS_ROOT = 'exec "$@"'

NO_USER_NAMESPACES = "echo 0 > /proc/sys/user/max_user_namespaces"
#: The two of the path's ends: a veth pair takes another one.
NO_THIRD_NETWORK = "echo 2 > /proc/sys/user/max_net_namespaces"
NO_TUN = "[ ! -e /dev/net ] || mount -t tmpfs none /dev/net"


def machine(who, *settings):
    """Return the command prefix that runs a command on such a machine."""
    need("unshare", "setpriv", "mount")
    script = " && ".join((*settings, AS_SOMEBODY if who == SOMEBODY else AS_ROOT))
    before = [*who, "sh", "-c", script, "sh"]
    tried = subprocess.run([*before, "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        cannot(f"no such namespace to try it in: {tried.stderr.strip()[-200:]}")
    return before


@pytest.fixture
def file(tmp_path):
    return dumbbell_file(tmp_path)


@pytest.mark.usefixtures("emulation")
@pytest.mark.parametrize(
    ("settings", "result", "then"),
    [
        ([NO_USER_NAMESPACES], "user namespace: the kernel refuses it", "run as root, or `sysctl user.max_user_nam"),
        ([NO_TUN, NO_THIRD_NETWORK], "no device for the path: /dev/net/tun: No such file", "`modprobe tun` or"),
    ],
    ids=["no user namespaces", "neither TUN nor veth"],
)
def test_an_unsupported_machine_is_one_sentence_and_exit_code_2(settings, result, then, file, tmp_path):
    before = machine(SOMEBODY, *settings)
    for done in (
        bentpipe("run", file, "-o", tmp_path / "out", "--", "true", before=before),
        bentpipe("race", file, "--cc", "reno", "--on-kernel", "--duration", 1, "-o", tmp_path / "race", before=before),
    ):
        assert done.returncode == 2, done.stderr
        (output,) = done.stderr.splitlines()
        assert output.startswith(f"error: {result}")
        assert then in output
        assert done.stdout == ""
    assert not (tmp_path / "out").exists()
    checked = bentpipe("kernel", "check", "--json", before=before)
    assert checked.returncode == 2
    report = json.loads(checked.stdout)
    assert report["usable"] is False
    (emulation,) = (check for check in report["checks"] if check["name"] == "emulation")
    assert (emulation["ok"], emulation["found"]) == (False, output.removeprefix("error: "))


@pytest.mark.usefixtures("emulation")
def test_the_same_user_can_emulate_with_user_namespaces_and_tun(file):
    """A check that the other tests fail only because of the removed feature."""
    done = bentpipe("run", file, "--", "sh", "-c", "exit $(($(id -u) == 1000 ? 7 : 8))", before=machine(SOMEBODY))
    assert done.returncode == 7, done.stderr


@pytest.mark.usefixtures("emulation")
def test_root_needs_no_user_namespaces(file):
    limit = Path("/proc/sys/user/max_user_namespaces").read_text()
    done = bentpipe("run", file, "--", "sh", "-c", "exit 7", before=machine(ROOT, NO_USER_NAMESPACES))
    assert done.returncode == 7, done.stderr
    assert Path("/proc/sys/user/max_user_namespaces").read_text() == limit
    if os.getuid() == 0:
        assert bentpipe("run", file, "--", "sh", "-c", "exit 7").returncode == 7

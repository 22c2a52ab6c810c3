"""Parts of the runners that need no namespaces."""

import errno
import os
import struct

import pytest

from bentpipe.testbed.runners import cgroups
from bentpipe.testbed.runners.cgroups import Cgroup, own_folders
from bentpipe.testbed.runners.firewall import guard_rules, run_rules
from bentpipe.testbed.runners.inside.sandbox import outermost
from bentpipe.testbed.runners.inside.seccomp import seccomp_filter
from bentpipe.testbed.runners.inside.spec import Order
from bentpipe.testbed.runners.inside.usage import ENTRY_BYTES, MAX_DEPTH, folder_bytes
from bentpipe.testbed.runners.request import Uplink


def test_folders_count_files_and_stop_at_the_limit(tmp_path):
    (tmp_path / "a").write_bytes(bytes(100_000))
    assert 100_000 < folder_bytes(str(tmp_path), 10**9) < 120_000
    for number in range(50):
        (tmp_path / f"e{number}").touch()
    assert folder_bytes(str(tmp_path), 10 * ENTRY_BYTES) > 10 * ENTRY_BYTES


def test_a_sparse_file_counts_with_its_length(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        file.truncate(10**10)
    assert folder_bytes(str(tmp_path), 10**9) > 10**9


def test_folders_follow_no_links(tmp_path):
    (tmp_path / "up").symlink_to("/usr")
    (tmp_path / "self").symlink_to(".")
    assert folder_bytes(str(tmp_path), 10**9) < 3 * ENTRY_BYTES


def test_a_deep_folder_is_too_large(tmp_path):
    place = os.open(tmp_path, os.O_RDONLY)
    for _ in range(MAX_DEPTH + 2):
        os.mkdir("d", dir_fd=place)
        inner = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inner
    os.close(place)
    assert folder_bytes(str(tmp_path), 10**9) > 10**9


def evaluate(program, number, architecture, argument=0):
    """Run a classic BPF program on a system call; return its verdict."""
    data = struct.pack("=IIQQ", number, architecture, 0, argument)
    instructions = [struct.unpack_from("=HBBI", program, 8 * n) for n in range(len(program) // 8)]
    at, accumulator = 0, 0
    while True:
        code, true, false, value = instructions[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        else:
            matches = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[code]
            at += true if matches else false


ALLOW = 0x7FFF0000


@pytest.mark.parametrize(
    ("machine", "architecture", "read", "mount", "clone"),
    [("x86_64", 0xC000003E, 0, 165, 56), ("aarch64", 0xC00000B7, 63, 40, 220)],
)
def test_the_filter_refuses_what_no_measurement_needs(machine, architecture, read, mount, clone):
    program = seccomp_filter(machine)
    assert evaluate(program, read, architecture) == ALLOW
    assert evaluate(program, mount, architecture) == 0x00050000 | errno.EPERM
    assert evaluate(program, clone, architecture) == ALLOW
    assert evaluate(program, clone, architecture, 0x10000000) == 0x00050000 | errno.EPERM  # CLONE_NEWUSER
    assert evaluate(program, 435, architecture) == 0x00050000 | errno.ENOSYS
    assert evaluate(program, read, 0x40000003) == 0x80000000  # 32-bit calls


def test_other_machines_have_no_filter():
    assert seccomp_filter("riscv64") == b""


def test_orders_survive_json():
    order = Order(folder="f", command=["a b", "c"], environment={"X": "é"}, output="o", network=5)
    assert Order.from_json(order.to_json()) == order


def test_control_groups_of_both_versions_are_recognised(tmp_path):
    for controller in ("memory", "pids", "cpu"):
        (tmp_path / controller / "a").mkdir(parents=True)
        (tmp_path / controller / "a/cgroup.procs").touch()
    membership = "3:memory:/a\n2:pids:/a\n1:cpu,cpuacct:/a\n0::/\n"
    version, folders = own_folders(tmp_path, membership)
    assert (version, folders["memory"]) == (1, tmp_path / "memory/a")
    (tmp_path / "u").mkdir()
    (tmp_path / "u/cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    version, folders = own_folders(tmp_path, "0::/u\n")
    assert (version, folders["pids"]) == (2, tmp_path / "u")
    assert own_folders(tmp_path / "nothing", "0::/u\n") is None


def test_rules_name_only_what_was_asked():
    allowed, refused = ("192.168.5.0/24",), ("203.0.113.0/24",)
    uplink = Uplink(tcp_ports=(80, 443))
    rules = run_rules("bp1234567890123", "198.18.0.2", ["eth0"], uplink, allowed, refused, 800_000)
    assert "dport { 80, 443 } dnat to 198.18.0.2" in rules
    assert "ip daddr { 192.168.5.0/24 } accept" in rules
    assert "240.0.0.0/4, 203.0.113.0/24 } reject" in rules
    assert "over 100000 bytes/second" in rules
    assert 'iifname { "a", "b" } oifname != "bp*" drop' in guard_rules("bpxguard", ["b", "a"])
    assert "dnat to" not in run_rules("b", "198.18.0.2", ["eth0"], Uplink(), ())


def test_a_folder_below_a_hidden_one_is_not_hidden_again():
    folders = ["/run", "/var/node", "/var/node/runs/process", "/var/node-2"]
    assert outermost(folders) == ["/run", "/var/node", "/var/node-2"]


def test_a_group_that_does_not_go_is_logged_and_left_to_the_next_sweep(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(cgroups, "REMOVE_S", 0.05)
    (tmp_path / "bp1").mkdir()
    (tmp_path / "bp1/cgroup.procs").write_text("0\n")  # a process of another PID namespace: kill(0) would be ours
    group = Cgroup("bp1", dict.fromkeys(cgroups.CONTROLLERS, tmp_path / "bp1"), 2)
    assert not group.remove()
    assert "left behind: Directory not empty; processes: [0]" in caplog.text
    (tmp_path / "bp1/cgroup.procs").unlink()
    assert group.remove()

"""Which maps and processes hold a task of a kernel."""

from __future__ import annotations

import os

import pytest

from bentpipe.errors import UserError
from bentpipe.kernel import libbpf, only_one

RIGHTS, NONE = 1 << 21, 0
HERE, APART = "user:[4026531837]", "user:[4026532000]"
INIT, CONTAINER = "pid:[4026531836]", "pid:[4026532001]"
NAME = "bpl_clock"


def info(number, name=NAME, kind=(libbpf.ARRAY, 4, 128)):
    return libbpf.MapInfo(number, kind[0], name, *kind[1:])


LOCK, OWN = info(7), info(9)


@pytest.mark.parametrize(
    ("other", "is_lock"),
    [
        (LOCK, True),
        (info(7, kind=(libbpf.LRU_HASH, 4, 128)), False),
        (info(7, kind=(libbpf.ARRAY, 4, 8)), False),
        (info(7, kind=(libbpf.ARRAY, 8, 128)), False),
        (info(7, "bpl_clock_x"), False),
    ],
)
def test_a_lock_has_its_type_and_sizes(other, is_lock):
    assert only_one.is_lock(other, NAME) is is_lock


def process(proc, name, *, number=None, rights=NONE, users=HERE, pids=INIT):
    for folder in ("fd", "fdinfo", "ns"):
        (proc / name / folder).mkdir(parents=True)
    (proc / name / "ns/user").symlink_to(users)
    (proc / name / "ns/pid").symlink_to(pids)
    (proc / name / "status").write_text(f"Name:\tx\nCapEff:\t{rights:016x}\n")
    (proc / name / "fd/0").symlink_to("/dev/null")
    if number is not None:
        (proc / name / "fd/3").symlink_to("anon_inode:bpf-map")
        (proc / name / "fdinfo/3").write_text(f"pos:\t0\nmap_type:\t2\nmap_id:\t{number}\n")


@pytest.fixture
def proc(tmp_path, monkeypatch):
    monkeypatch.setattr(only_one, "PROC", tmp_path)
    process(tmp_path, "self", rights=RIGHTS)
    (tmp_path / "uptime").write_text("1")
    return tmp_path


def test_a_live_process_with_rights_holds_it(proc):
    process(proc, "12", number=7, rights=RIGHTS)
    assert only_one.is_held(7)
    assert not only_one.is_held(70)


def test_a_user_without_rights_does_not_hold_it(proc):
    process(proc, "12", number=7)
    process(proc, "13", number=7, rights=RIGHTS, users=APART)  # rights of a user namespace of its own
    assert not only_one.is_held(7)


def test_a_pinned_map_without_a_process_is_not_held(proc):
    process(proc, "12", number=8, rights=RIGHTS)
    assert not only_one.is_held(7)


def test_in_a_container_a_map_without_a_visible_process_is_held(proc):
    (proc / "self/ns/pid").unlink()
    (proc / "self/ns/pid").symlink_to(CONTAINER)
    assert only_one.is_held(7)


def test_another_map_of_the_name_does_not_block(proc, monkeypatch):
    read, write = os.pipe()
    os.close(write)
    monkeypatch.setattr(libbpf, "new_array", lambda *_: os.dup(read))
    monkeypatch.setattr(libbpf, "set_value", lambda *_: None)
    monkeypatch.setattr(libbpf, "info_of", lambda _: OWN)
    monkeypatch.setattr(only_one, "_holder", lambda _: "15 on a host")
    known = [info(3, kind=(libbpf.LRU_HASH, 4, 128)), info(4, "bpl_clock_x"), LOCK, OWN, info(11)]
    monkeypatch.setattr(libbpf, "maps", lambda _: known)
    process(proc, "12", number=7)
    process(proc, "14", number=11, rights=RIGHTS)  # a newer one gives way
    with only_one.only_one("clock", "keeps the clock of this host"):
        pass
    process(proc, "15", number=7, rights=RIGHTS)
    with (
        pytest.raises(UserError, match="process 15 on a host keeps the clock of this host already"),
        only_one.only_one("clock", "keeps the clock of this host"),
    ):
        pass
    os.close(read)

"""What a kernel, its rights, the library or a program lacks is one line, never a traceback."""

from __future__ import annotations

import errno
import hashlib
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.kernel import controllers, libbpf, requirements

WRAPPER = "bpf_struct_ops_tcp_congestion_ops"
PROGRAM = controllers.OBJECTS.joinpath("hybla.bpf.o")
needs_programs = pytest.mark.skipif(not PROGRAM.is_file(), reason="no programs are compiled here (make kernel)")


def has_libbpf():
    try:
        libbpf.structures_of(Path("/nowhere"), [])
    except UserError:
        return False
    except libbpf.KernelRefusedError:
        return True
    return True


needs_libbpf = pytest.mark.skipif(not has_libbpf(), reason="no libbpf here")


def types(arguments, structures=("tcp_congestion_ops", WRAPPER)):
    """A kernel's types in BTF: structures whose member `cong_control` points to a function of so many arguments."""
    names = b"\0"

    def name(text):
        nonlocal names
        at = len(names)
        names += text.encode() + b"\0"
        return at

    def kind(number, members=0):
        return number << 24 | members

    parts = [struct.pack("<IIII", name("int"), kind(1), 4, 32)]
    parts.append(struct.pack("<III", 0, kind(13, arguments), 0) + struct.pack("<II", 0, 1) * arguments)
    parts.append(struct.pack("<III", 0, kind(2), 2))  # to the function
    parts.extend(
        struct.pack("<III", name(each), kind(4, 2), 16)
        + struct.pack("<III", name("flags"), 1, 0)
        + struct.pack("<III", name("cong_control"), 3, 64)
        for each in structures
    )
    data = b"".join(parts)
    return struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(data), len(data), len(names)) + data + names


@pytest.fixture
def btf(monkeypatch, tmp_path):
    file = tmp_path / "vmlinux"
    monkeypatch.setattr(requirements, "BTF", file)
    return file


@pytest.fixture
def root(monkeypatch, tmp_path):
    """The rights of root on a host, as far as they can be asked."""
    for constant, text in (("STATUS", "CapEff:\t000001ffffffffff\n"), ("USERS", "0 0 4294967295\n")):
        file = tmp_path / constant
        file.write_text(text)
        monkeypatch.setattr(requirements, constant, file)


@needs_libbpf
@pytest.mark.parametrize(("arguments", "place"), [(4, 3), (2, 1)])
def test_the_place_of_the_rate_sample_is_that_of_the_kernels_types(btf, arguments, place):
    btf.write_bytes(types(arguments))
    assert requirements.rate_sample_argument() == place


@needs_libbpf
@pytest.mark.parametrize(
    ("data", "says"),
    [
        (types(3), "calls cong_control with 3 arguments; expected 4 or 2"),
        (types(4, ["tcp_congestion_ops"]), "takes no controllers from BPF programs"),
        (types(4, ["other"]), "takes no controllers from BPF programs"),
        (b"no types", "no description of a kernel's types"),
        (types(4)[:-20], "no description of a kernel's types"),
        (b"", "no description of a kernel's types"),
    ],
)
def test_a_kernel_without_controllers_from_programs_is_one_line(btf, data, says):
    btf.write_bytes(data)
    with pytest.raises(UserError, match=says):
        requirements.rate_sample_argument()


@pytest.mark.usefixtures("root")
def test_a_kernel_that_describes_no_types_is_one_line(btf):
    with pytest.raises(UserError, match=f"does not describe its types: {btf} is missing"):
        requirements.check()


@pytest.mark.parametrize(
    ("capabilities", "users"),
    [
        (0, "0 0 4294967295"),  # an ordinary user
        (1 << 12, "0 0 4294967295"),  # a container that may set up networks
        (1 << 39 | 1 << 12, "0 0 4294967295"),  # CAP_BPF loads programs, but finds none again
        (2**41 - 1, "0 1000 1"),  # root of a user namespace
    ],
)
@pytest.mark.usefixtures("root")
def test_rights_that_do_not_suffice_are_one_line(capabilities, users):
    requirements.STATUS.write_text(f"CapEff:\t{capabilities:016x}\n")
    requirements.USERS.write_text(users)
    with pytest.raises(UserError, match="may not load programs into the kernel"):
        requirements.check()


@pytest.mark.parametrize(
    ("mode", "number", "lines", "says"),
    [
        ("confidentiality", errno.EPERM, (), r"locked down \(confidentiality\)"),
        ("confidentiality", errno.EINVAL, ("unknown func bpf_probe_read_kernel#113",), "locked down"),
        ("confidentiality", errno.EEXIST, (), "has a controller called hybla already"),
        ("integrity", errno.EPERM, (), "the kernel refused it: Operation not permitted"),
        ("none", errno.EACCES, ("R1 invalid mem access", "processed 12 insns"), "the verifier of this kernel"),
        ("none", errno.EINVAL, (), "the verifier of this kernel"),
    ],
)
def test_a_refusal_is_one_line(monkeypatch, tmp_path, mode, number, lines, says):
    modes = " ".join(f"[{each}]" if each == mode else each for each in ("none", "integrity", "confidentiality"))
    (tmp_path / "lockdown").write_text(modes + "\n")
    monkeypatch.setattr(requirements, "LOCKDOWN", tmp_path / "lockdown")
    error = requirements.why("hybla", libbpf.KernelRefusedError(number, lines))
    assert "\n" not in str(error)
    with pytest.raises(UserError, match=says):
        raise error


@pytest.mark.parametrize(
    ("library", "says"),
    [("libnothing.so.9", "libnothing.so.9 is not on this machine"), ("libc.so.6", "has no libbpf_set_print")],
)
def test_a_library_that_is_missing_or_too_old_is_one_line(monkeypatch, library, says):
    monkeypatch.setattr(libbpf, "LIBRARY", library)
    libbpf._library.cache_clear()
    try:
        with pytest.raises(UserError, match=says):
            libbpf.maps("bpc_")
    finally:
        libbpf._library.cache_clear()


@pytest.fixture
def programs(monkeypatch, tmp_path, root, btf):
    """A folder of programs of its own, with the real one of hybla; the kernel's types are those of now."""
    del root
    folder = tmp_path / "objects"
    folder.mkdir()
    monkeypatch.setattr(controllers, "OBJECTS", folder)
    btf.write_bytes(types(4))
    return folder


def put(folder, data, digest=None):
    (folder / "hybla.bpf.o").write_bytes(data)
    digest = digest or hashlib.sha256(data).hexdigest()
    (folder / controllers.DIGESTS).write_text(f"{digest}  hybla.bpf.o\n")


@needs_programs
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_program_is_one_line(programs, data):
    whole = PROGRAM.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    other = data.draw(st.sampled_from([whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :], whole[at:]]))
    put(programs, other, hashlib.sha256(whole).hexdigest())
    if other != whole:
        with pytest.raises(UserError, match="is damaged, or of another build"):
            controllers.load_controller("hybla")


@needs_programs
@needs_libbpf
@pytest.mark.parametrize("other", ["satcp", None])
def test_a_program_of_another_build_is_one_line(programs, monkeypatch, other):
    monkeypatch.setattr(controllers, "loaded_controllers", list)
    put(programs, b"no program" if other is None else PROGRAM.with_name(f"{other}.bpf.o").read_bytes())
    with pytest.raises(UserError, match="is of another version of bentpipe"):
        controllers.load_controller("hybla")


@needs_programs
def test_a_program_without_a_digest_is_one_line(programs):
    put(programs, PROGRAM.read_bytes())
    (programs / controllers.DIGESTS).unlink()
    with pytest.raises(UserError, match="its digest is not that of SHA256SUMS"):
        controllers.load_controller("hybla")


@pytest.mark.parametrize("options", [{"rtt0_ms": 0.0}, {"rtt0_ms": 1e9}, {"rtt0_ms": "x"}, {"no": 1.0}])
@needs_programs
def test_options_out_of_range_are_one_line_before_the_kernel_is_asked(options):
    for function in (controllers.load_controller, controllers.set_controller_options):
        with pytest.raises(UserError):
            function("hybla", options)

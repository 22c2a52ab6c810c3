"""Controllers in this machine's kernel: load, unload, list, set options, and see what sockets do."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import time
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bentpipe import _native
from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.kernel import connections, libbpf, owned, requirements, tunables
from bentpipe.kernel.clock import record
from bentpipe.kernel.libbpf import FIRST_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bentpipe.kernel.connections import SocketState

OBJECTS = files("bentpipe.kernel").joinpath("objects")
"""Folder of the compiled programs, one file ``<controller>.bpf.o`` each, and their digests (`make kernel`)."""
DIGESTS = "SHA256SUMS"
DEFAULT = Path("/proc/sys/net/ipv4/tcp_congestion_control")
STATES = ("being made", "loaded", "ends with its last reference", "ready")
"""States of a registration (`enum bpf_struct_ops_state`)."""


@dataclass(frozen=True)
class Loaded:
    """A controller in the kernel.

    Attributes:
        name: Name in the registry; `kernel_name` is that for ``TCP_CONGESTION`` and the sysctl.
        id: Number of its registration in the kernel.
        state: One of `STATES`.
        connections: Connections that have sent data, as `controller_sockets` yields them.
        references: How many use it, as the kernel counts: connections, other sockets, and defaults of namespaces.
        tunables: In force; None: those of another version, or not written by bentpipe.
    """

    name: str
    id: int
    state: str
    connections: int
    references: int
    tunables: Mapping[str, float | str] | None

    @property
    def other_references(self) -> int:
        """Users that are no shown connection: sockets that listen or have sent nothing, and namespaces' defaults."""
        return max(self.references - self.connections, 0)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "name": self.name,
            "id": self.id,
            "state": self.state,
            "connections": self.connections,
            "other_references": self.other_references,
            "tunables": None if self.tunables is None else dict(self.tunables),
        }


def kernel_name(name: str) -> str:
    """Return the name that the kernel has for a controller: a program's name takes no dash.

    Example:
        >>> from bentpipe.kernel.controllers import kernel_name
        >>> kernel_name("bbr3-leo")
        'bbr3_leo'
    """
    return name.replace("-", "_")


def available() -> list[str]:
    """Return the controllers whose programs are compiled here.

    Example:
        >>> from bentpipe.kernel.controllers import available
        >>> isinstance(available(), list)
        True
    """
    names = sorted(file.name.removesuffix(".bpf.o") for file in OBJECTS.iterdir()) if OBJECTS.is_dir() else []
    known = _names()
    return [known[name] for name in names if name in known]


def check_name(name: str) -> None:
    """Refuse a name for which no program is compiled here, with the nearest one.

    Raises:
        UserError: There is none.

    Example:
        >>> from bentpipe.kernel.controllers import check_name
        >>> check_name("hibla")
        Traceback (most recent call last):
        ...
        bentpipe.errors.UserError: no program for 'hibla'...
    """
    names = available()
    if name not in names:
        raise UserError(
            f"no program for {shown(name)}{did_you_mean(name, names)}",
            expected=", ".join(names) or "none is compiled here",
            hint="" if names else "make kernel (it needs clang)",
        )


def _names() -> dict[str, str]:
    return {kernel_name(entry["name"]): entry["name"] for entry in _native.controllers()}


def load_controller(name: str, options: Mapping[str, float | str] | None = None) -> Loaded:
    """Load a controller into the kernel; sockets of all users may choose it.

    It stays until `unload_controller`, also when this process ends. All network namespaces share it.

    Args:
        name: Controller, as in the registry.
        options: Its options.

    Raises:
        UserError: No such program, an option out of range, or what the kernel lacks.

    Example:
        >>> import bentpipe as bp
        >>> bp.load_controller("bbr3", {"loss_thresh": 0.05}).state  # doctest: +SKIP
        'loaded'
    """
    program = _program(name)
    words = tunables.option_words(name, options or {})
    requirements.check()
    rate_sample_at = requirements.rate_sample_argument()
    if (old := _find(name)) is not None and old.state == STATES[1]:
        raise UserError(f"{name} is loaded already", hint=f"bentpipe kernel unload {name}, or kernel set {name}")
    key = kernel_name(name)
    first = {f"bpo_{key}": tunables.stored_words(0, words), f"{record.PREFIX}{key}": record.first_record().to_bytes()}
    try:
        libbpf.register(
            program, f"{owned.REGISTRATION}{key}", first, {".rodata.kernel": struct.pack("<I", rate_sample_at)}
        )
    except libbpf.KernelRefusedError as error:
        raise requirements.why(name, error) from None
    except libbpf.OtherBuildError as error:
        raise UserError(
            f"the program of {name} is of another version of bentpipe: {error}",
            hint="install bentpipe again, or make kernel",
        ) from None
    registration = _find(name)
    assert registration is not None
    return registration.described()


def _program(name: str) -> bytes:
    check_name(name)
    file = f"{kernel_name(name)}.bpf.o"
    data, digests = OBJECTS.joinpath(file).read_bytes(), OBJECTS.joinpath(DIGESTS)
    words = digests.read_bytes().decode(errors="replace").split() if digests.is_file() else []
    if dict(zip(words[1::2], words[::2], strict=False)).get(file) != hashlib.sha256(data).hexdigest():
        raise UserError(
            f"the program of {name} is damaged, or of another build: its digest is not that of {DIGESTS}",
            hint="install bentpipe again, or make kernel",
        )
    return data


def loaded_controllers() -> list[Loaded]:
    """Return the controllers that bentpipe loaded into this machine's kernel, oldest first.

    Raises:
        UserError: This process may not ask the kernel.

    Example:
        >>> import bentpipe as bp
        >>> [each.name for each in bp.loaded_controllers()]  # doctest: +SKIP
        ['bbr3']
    """
    loaded = []
    for each in _registrations():
        with contextlib.suppress(libbpf.KernelRefusedError):  # it is gone
            loaded.append(each.described())
    return loaded


@dataclass(frozen=True)
class _Registration:
    """A registration in the kernel, without what takes a system call for each connection."""

    info: libbpf.MapInfo
    name: str
    state: str
    references: int

    def described(self) -> Loaded:
        """Return it with its connections and tunables. Raises `KernelRefusedError`."""
        shown_connections, stored = connections.count(self.info), tunables.stored_in(self.info)
        is_known = self.name in _names().values()
        values = tunables.values_of(self.name, stored) if is_known and stored is not None else None
        return Loaded(self.name, self.info.id, self.state, shown_connections, self.references, values)


def _registrations() -> list[_Registration]:
    requirements.check()
    registrations, names = [], _names()
    for info in owned.registrations():
        try:
            with libbpf.open_map(info.id) as file:
                count, number = struct.unpack_from("<iI", libbpf.value_of(file, FIRST_KEY, info.value_bytes))
        except libbpf.KernelRefusedError:
            continue  # it is gone
        key = info.name.removeprefix(owned.REGISTRATION)
        state = STATES[min(number, len(STATES) - 1)]
        references = max(count - (state == STATES[1]), 0)  # one that is loaded counts as one
        registrations.append(_Registration(info, names.get(key, key), state, references))
    return registrations


def _find(name: str) -> _Registration | None:
    same = [each for each in _registrations() if each.name == name]
    return next((each for each in same if each.state == STATES[1]), same[-1] if same else None)


def _find_loaded(name: str, hint: str = "") -> _Registration:
    registration = _find(name)
    if registration is None:
        check_name(name)
    if registration is None or registration.state != STATES[1]:
        known = ", ".join(each.name for each in _registrations() if each.state == STATES[1])
        state = f"{name} is not loaded" if registration is None else f"{name} is unloaded; its connections keep it"
        raise UserError(state, expected=f"a loaded one: {known}" if known else "", hint=hint)
    return registration


def unload_controller(name: str) -> Loaded:
    """End the registration of a controller; sockets that use it keep it until they close. Return what is left.

    Raises:
        UserError: It is not loaded, or it is a namespace's default.

    Example:
        >>> import bentpipe as bp
        >>> bp.unload_controller("bbr3").connections  # doctest: +SKIP
        0
    """
    registration = _find_loaded(name)
    if DEFAULT.read_text().strip() == kernel_name(name):
        raise UserError(
            f"{name} is the default of this network namespace",
            hint="setting net.ipv4.tcp_congestion_control to what it was before (mostly cubic), then unloading it",
        )
    left = registration.described()
    with libbpf.open_map(registration.info.id) as file:
        libbpf.delete_value(file, FIRST_KEY)
    return left


def set_controller_options(name: str, options: Mapping[str, float | str]) -> None:
    """Set all options of a loaded controller: those given, and the defaults of the others; sockets use them at once.

    Raises:
        UserError: It is not loaded, or an option is out of range.

    Example:
        >>> import bentpipe as bp
        >>> bp.set_controller_options("bbr3", {"loss_thresh": 0.05})  # doctest: +SKIP
    """
    words = tunables.option_words(name, options)
    with _options_map(name) as (file, value_bytes):
        if tunables.is_of_another_version(libbpf.value_of(file, FIRST_KEY, value_bytes), words):
            raise _other_version(name)
        # A generation that was never there: the sum tells a hook whether it met half of the change.
        libbpf.set_value(file, FIRST_KEY, tunables.stored_words(time.monotonic_ns(), words))


def has_default_options(name: str) -> bool:
    """Return whether a loaded controller's sockets have the default options.

    Raises:
        UserError: It is not loaded.

    Example:
        >>> from bentpipe.kernel.controllers import has_default_options
        >>> has_default_options("bbr3")  # doctest: +SKIP
        True
    """
    with _options_map(name) as (file, value_bytes):
        stored = libbpf.value_of(file, FIRST_KEY, value_bytes)
    (generation,) = struct.unpack_from("<Q", stored)
    return stored == tunables.stored_words(generation, tunables.option_words(name, {}))


@contextlib.contextmanager
def _options_map(name: str) -> Iterator[tuple[int, int]]:
    """Open the options of a loaded controller; yield the descriptor and the size of a value [bytes]."""
    try:
        own = tunables.maps_of(_find_loaded(name, f"bentpipe kernel load {name}").info)
        if not own:
            raise _other_version(name)
        with libbpf.open_map(own[0].id) as file:
            yield file, own[0].value_bytes
    except libbpf.KernelRefusedError as error:
        raise UserError(f"{name}: the kernel refused its options: {error}", hint="is it being unloaded?") from None


def _other_version(name: str) -> UserError:
    return UserError(f"{name} was loaded by another version of bentpipe", hint="unload it and load it again")


def controller_sockets(name: str | None = None) -> Iterator[SocketState]:
    """Yield the connections of loaded controllers, or of one, in all network namespaces.

    Raises:
        UserError: This process may not ask the kernel.

    Example:
        >>> import bentpipe as bp
        >>> [(each.remote, each.phase) for each in bp.controller_sockets("bbr3")]  # doctest: +SKIP
        [('203.0.113.7:443', 'probe_bw_cruise')]
    """
    requirements.check()
    now_ns, names = time.monotonic_ns(), _names()
    # Also those of an unloaded controller that connections keep.
    for info in owned.owned_maps("bps_", connections.KIND):
        controller = names.get(info.name.removeprefix("bps_"), info.name)
        if name not in (None, controller):
            continue
        with contextlib.suppress(libbpf.KernelRefusedError), libbpf.open_map(info.id) as file:
            for key in libbpf.keys(file, info.key_bytes):
                try:
                    value = libbpf.value_of(file, key, info.value_bytes)
                except libbpf.KernelRefusedError:
                    continue  # it closed meanwhile
                yield connections.socket_state(controller, key, value, now_ns)

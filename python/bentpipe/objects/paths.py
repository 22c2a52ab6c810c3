"""Paths that applications run over: Profiles, and Networks of a constellation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.objects.network import Network
from bentpipe.objects.profile import Profile, profile_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Network as NativeNetwork
    from bentpipe._native import Profile as NativeProfile
    from bentpipe.objects.arguments import FileLike

    PathLike = Profile | Network | FileLike


def native_paths(paths: PathLike | Sequence[PathLike]) -> list[NativeProfile | NativeNetwork]:
    """Return one path or a list of them as the simulator takes them. Raises `UserError`."""
    every = [paths] if isinstance(paths, (Profile, Network, str, os.PathLike)) else list(paths)
    return [_native(path, f"paths[{i}]") for i, path in enumerate(every)]


def native_profiles(paths: PathLike | Sequence[PathLike]) -> list[NativeProfile]:
    """Return one Profile or a list of them as the emulator takes them. Raises `UserError`, also for a network."""
    every = [paths] if isinstance(paths, (Profile, Network, str, os.PathLike)) else list(paths)
    if any(isinstance(path, Network) for path in every):
        raise UserError("a Network", where="paths", expected="Profiles: a browser has one path")
    return [profile_of(path, f"paths[{i}]").native for i, path in enumerate(every) if not isinstance(path, Network)]


def _native(path: PathLike, where: str) -> NativeProfile | NativeNetwork:
    if isinstance(path, Network):
        if path.native is None:
            raise UserError("a Network of Profiles", where=where, expected="a Profile, or a Network of a constellation")
        return path.native
    return profile_of(path, where).native

"""The given Profiles, stored beside their Runs so that Runs can be repeated."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bentpipe._native import Profile
from bentpipe.errors import UserError, shown
from bentpipe.profiles.parquet import read_either, write_network, write_profile
from bentpipe.runs import store
from bentpipe.runs.work import Base

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def profile_file(out: Path, label: str) -> Path:
    """Return the file in which to store the Profile with this label.

    Raises:
        UserError: The label is no name of a file.
    """
    if not _names_a_file(label):
        raise UserError(shown(label), where="label of a Profile", expected="a name without folders")
    return out / "profiles" / f"{label}.parquet"


def stored_profile(out: Path, label: str) -> Path | None:
    """Return the file of the Profile with this label, which may come from a foreign folder; None: there is none."""
    file = profile_file(out, label) if _names_a_file(label) else None
    return file if file is not None and file.is_file() else None


def _names_a_file(label: str) -> bool:
    return label not in {"", ".", ".."} and not any(c in label for c in "/\\\0")


def store_profiles(bases: Sequence[Base], out: Path, *, fresh: bool) -> None:
    """Store the Profiles; `fresh` replaces existing ones.

    Raises:
        UserError: Another Profile with this name exists.
        StoreError: The disk cannot be written.
    """
    with store.storing(out):
        for base in {base.label: base for base in bases}.values():
            file = profile_file(out, base.label)
            if fresh or not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                if base.network is None:
                    write_profile(base.profile, file)
                else:
                    write_network(base.network, file)
            elif read_either(file).content_hash() != (base.network_hash or base.hash):
                raise UserError(
                    "another Profile of that name was raced here",
                    where=str(file),
                    hint="another folder (`out`), or `fresh`",
                )


def free_label(base: Base, out: Path) -> str:
    """Return the label under which the Profile is or can be stored: with ``~2`` and so on if another one has it."""
    for n in count(1):
        label = base.label if n == 1 else f"{base.label}~{n}"
        file = profile_file(out, label)
        if not file.exists() or read_either(file).content_hash() == base.hash:
            return label
    raise AssertionError  # `count` has no end


def read_given(file: Path) -> Callable[[str], Base]:
    """Read a stored Profile or network; return a function from a role to the Profile, or to the path of that name.

    Raises:
        UserError: The file cannot be read. The function raises it for a role that is no path of the network.
    """
    content = read_either(file)
    content_hash = content.content_hash()
    if isinstance(content, Profile):
        return lambda role: Base(role, file.stem, content, content_hash)
    paths = dict(zip(content.path_names, content.profiles(), strict=True))

    def path_of(role: str) -> Base:
        if role not in paths:
            raise UserError(f"has no path {shown(role)}", where=str(file), expected="the Network that was raced")
        return Base(role, file.stem, paths[role], paths[role].content_hash(), content, content_hash)

    return path_of

"""The given Profiles beside their Runs: without them no Run could be repeated."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bentpipe.errors import UserError
from bentpipe.profiles.parquet import read_profile, write_profile
from bentpipe.runs import store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bentpipe.runs.work import Base


def profile_file(out: Path, label: str) -> Path:
    """Where the Profile of that label is kept."""
    return out / "profiles" / f"{label}.parquet"


def keep_profiles(bases: Sequence[Base], out: Path, *, fresh: bool) -> None:
    """Keep the Profiles; `fresh` replaces those that are there.

    Raises:
        UserError: another Profile of that name is there.
        StoreError: the disk refuses.
    """
    with store.storing(out):
        for base in bases:
            file = profile_file(out, base.label)
            if fresh or not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                write_profile(base.profile, file)
            elif read_profile(file).content_hash() != base.hash:
                raise UserError(
                    f"{file}: another Profile of that name was raced here; choose another folder with -o, or --fresh"
                )


def free_label(base: Base, out: Path) -> str:
    """The label under which the Profile is, or can be, kept: where another one has it, ``~2`` and so on behind it."""
    for n in count(1):
        label = base.label if n == 1 else f"{base.label}~{n}"
        file = profile_file(out, label)
        if not file.exists() or read_profile(file).content_hash() == base.hash:
            return label
    raise AssertionError  # `count` has no end

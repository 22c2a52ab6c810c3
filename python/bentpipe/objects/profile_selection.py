"""Selection of Runs by their Profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.errors import UserError, did_you_mean, shown
from bentpipe.objects import arguments
from bentpipe.objects.profile import Profile
from bentpipe.runs.store import safe_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bentpipe.runs.store import Run


def is_over(profile: Profile | str, where: str) -> Callable[[Run], bool]:
    """Return the test of whether a Run is over a Profile: one given as such, or that of this label.

    Profiles of one name have labels of their own (``name``, ``name~2``), so a Profile is compared by its content.

    Raises:
        UserError: It is neither a Profile nor text.
    """
    if isinstance(profile, Profile):
        base_hash = profile.content_hash
        return lambda run: any(each.base_hash == base_hash for each in run.record.profiles)
    label = safe_name(arguments.text(profile, where, "a Profile or its name"))
    return lambda run: run.label == label


def no_such_profile(profile: Profile | str, labels: Sequence[str]) -> UserError:
    """Return the error that no Run is over a Profile, given as such or by its label."""
    hint = did_you_mean(profile, list(labels)) if isinstance(profile, str) else ""
    return UserError(f"{shown(profile)}{hint}", where="profile", expected=f"one of {', '.join(labels)}")

"""Cache of Profiles realised with a seed: the first thread that needs one draws it for all Runs over that path."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.runs.work import Base


class DrawnProfiles:
    """The most recently used realised Profiles.

    Runs over one path are planned one after the other, so a few more entries than threads suffice.
    """

    def __init__(self, most: int) -> None:
        """Hold at most `most` Profiles."""
        self._most = most
        self._lock = threading.Lock()
        self._drawn: OrderedDict[tuple[str, int], Future[Profile]] = OrderedDict()

    def take(self, bases: Sequence[Base], seed: int) -> list[Profile]:
        """Return the realised Profiles of a Run with `seed`: `drawn` of each `Base`."""
        return [self._one(base, seed) for base in bases]

    def _one(self, base: Base, seed: int) -> Profile:
        key = (base.hash, seed)
        with self._lock:
            is_first = key not in self._drawn
            future = self._drawn.setdefault(key, Future())
            self._drawn.move_to_end(key)
            while len(self._drawn) > self._most:
                self._drawn.popitem(last=False)
        if is_first:
            try:
                future.set_result(base.drawn(seed))
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()


def with_references(experiment: Experiment, paths: Sequence[Profile]) -> Experiment:
    """Return the Experiment with references to the realised Profiles `paths`."""
    references = tuple(
        reference.replace(hash=path.content_hash()) for reference, path in zip(experiment.profiles, paths, strict=True)
    )
    return experiment.replace(profiles=references)

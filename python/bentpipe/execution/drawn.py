"""Profiles drawn with a seed: once for all Runs that meet the same path, by whatever thread comes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bentpipe._native import Profile
    from bentpipe.experiments.experiment import Experiment
    from bentpipe.runs.work import Base


class DrawnProfiles:
    """The Profiles that were asked for last.

    Work is planned so that Runs over one path come after each other: a few more than there are threads are enough.
    """

    def __init__(self, most: int) -> None:
        """Keeps `most` Profiles at a time."""
        self._most = most
        self._lock = threading.Lock()
        self._drawn: OrderedDict[tuple[str, int], Future[Profile]] = OrderedDict()

    def take(self, bases: Sequence[Base], seed: int) -> list[Profile]:
        """What a Run with `seed` meets: of each `Base` its `drawn`."""
        return [self._one(base, seed) for base in bases]

    def _one(self, base: Base, seed: int) -> Profile:
        key = (base.hash, seed)
        with self._lock:
            mine = key not in self._drawn
            future = self._drawn.setdefault(key, Future())
            self._drawn.move_to_end(key)
            while len(self._drawn) > self._most:
                self._drawn.popitem(last=False)
        if mine:
            try:
                future.set_result(base.drawn(seed))
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()


def referring_to(experiment: Experiment, paths: Sequence[Profile]) -> Experiment:
    """The Experiment as a Run's: it refers to the Profiles as they were drawn."""
    references = tuple(
        replace(reference, hash=path.content_hash()) for reference, path in zip(experiment.profiles, paths, strict=True)
    )
    return replace(experiment, profiles=references)

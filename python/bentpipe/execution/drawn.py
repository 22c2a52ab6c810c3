"""Cache of Profiles realised with a seed: the first thread that needs one draws it for all Runs over that path."""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Network, Profile
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
        self._drawn: OrderedDict[tuple[str, int], Future[_Drawn]] = OrderedDict()

    def take(self, bases: Sequence[Base], seed: int) -> list[Profile]:
        """Return the realised Profiles of a Run with `seed`: `drawn` of each `Base`."""
        if bases[0].network_hash is None:
            return [self._one(base.hash, seed, partial(_alone, base, seed)).paths[ALONE] for base in bases]
        whole = self._network(bases[0], seed)
        return [whole.paths[base.role] for base in bases]

    def network(self, bases: Sequence[Base], seed: int) -> Network | None:
        """Return the realised network of a Run whose Profiles are its paths; None: they are of none."""
        return None if bases[0].network_hash is None else self._network(bases[0], seed).network

    def _network(self, base: Base, seed: int) -> _Drawn:
        assert base.network_hash is not None  # of a path of a network
        return self._one(base.network_hash, seed, partial(_whole, base, seed))

    def _one(self, content_hash: str, seed: int, draw: Callable[[], _Drawn]) -> _Drawn:
        key = (content_hash, seed)
        with self._lock:
            is_first = key not in self._drawn
            future = self._drawn.setdefault(key, Future())
            self._drawn.move_to_end(key)
            while len(self._drawn) > self._most:
                self._drawn.popitem(last=False)
        if is_first:
            try:
                future.set_result(draw())
            except BaseException as error:
                future.set_exception(error)
                raise
        return future.result()


ALONE = ""
"""Role of a Profile that is no path of a network: Runs may have it in different roles."""


@dataclass(frozen=True)
class _Drawn:
    """A realised Profile, or a realised network with its paths, by role."""

    paths: Mapping[str, Profile]
    network: Network | None = None


def _alone(base: Base, seed: int) -> _Drawn:
    return _Drawn({ALONE: base.drawn(seed)})


def _whole(base: Base, seed: int) -> _Drawn:
    network = base.drawn_network(seed)
    return _Drawn(dict(zip(network.path_names, network.profiles(), strict=True)), network)


def with_references(experiment: Experiment, paths: Sequence[Profile]) -> Experiment:
    """Return the Experiment with references to the realised Profiles `paths`."""
    references = tuple(
        reference.replace(hash=path.content_hash()) for reference, path in zip(experiment.profiles, paths, strict=True)
    )
    return experiment.replace(profiles=references)

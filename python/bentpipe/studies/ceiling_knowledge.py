"""The value of each piece of knowledge in `cc-ceiling`: alone, left out of all, and of a clock in longer Runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bentpipe.experiments.schemes import parse_scheme
from bentpipe.studies import field
from bentpipe.studies.ceiling_scores import Ceilings, figure_row
from bentpipe.studies.study import Row


@dataclass(frozen=True)
class Pieces:
    """Schemes of a controller that knows each piece of a set alone, all but it, and all.

    Attributes:
        name: Name of the set.
        alone: Scheme by piece.
        left_out: Scheme that knows all but the piece.
        whole: Scheme that knows all.
    """

    name: str
    alone: Mapping[str, str]
    left_out: Mapping[str, str]
    whole: str

    @classmethod
    def of(cls, name: str, options: Mapping[str, str]) -> Pieces:
        """Make the schemes of a set from the options of `informed` that each piece sets.

        Example:
            >>> pieces = Pieces.of("two", {"schedule": "hints=schedule", "losses": "known_losses=1"})
            >>> pieces.alone["losses"], pieces.left_out["losses"]
            ('informed:hints=none,known_losses=1', 'informed:hints=schedule')
            >>> pieces.whole
            'informed:hints=schedule,known_losses=1'
        """
        others = {piece: [each for other, each in options.items() if other != piece] for piece in options}
        return cls(
            name,
            {piece: _informed([each]) for piece, each in options.items()},
            {piece: _informed(rest) for piece, rest in others.items()},
            _informed(list(options.values())),
        )

    def schemes(self) -> list[str]:
        """Return all schemes."""
        return [*self.alone.values(), *self.left_out.values(), self.whole]


def _informed(options: list[str]) -> str:
    hints = [] if any("hints=" in each for each in options) else ["hints=none"]
    return parse_scheme("informed:" + ",".join([*hints, *options]))


def knowledge_rows(of: Ceilings, knowledge: Mapping[str, str], basis: str, head: str = "knowledge") -> list[Row]:
    """Return what each piece of knowledge adds to the goodput and to the queue of the first entry, which has none."""
    (_, base), *others = knowledge.items()
    rows = [figure_row(f"{head}: none, share of the oracle's goodput", "", field.bootstrap(of.shares[base]), basis)]
    for name, scheme in others:
        rows += _difference_rows(of, f"{head}: {name}", scheme, base, basis)
    return rows


def piece_rows(of: Ceilings, sets: list[Pieces], none: str, basis: str) -> list[Row]:
    """Return what each piece adds alone, and what it adds when all others are known; `none`: nothing is known."""
    rows: list[Row] = []
    for pieces in sets:
        head = f"knowledge {pieces.name}"
        rows += _difference_rows(of, f"{head}: all", pieces.whole, none, basis)
        for piece, alone in pieces.alone.items():
            rows += _difference_rows(of, f"{head}: {piece} alone", alone, none, basis)
            last = f"{head}: {piece} beside the others"
            rows += _difference_rows(of, last, pieces.whole, pieces.left_out[piece], basis)
    return rows


def clock_rows(of: Ceilings, cases: Mapping[str, str], basis: str) -> list[Row]:
    """Return what a clock adds in longer Runs, and on how many Profiles it changes anything at all."""
    (_, base), *others = cases.items()
    rows = knowledge_rows(of, cases, basis, "clock")
    for name, scheme in others:
        differs = sum(a != b for a, b in zip(of.shares[scheme], of.shares[base], strict=True))
        rows.append(
            Row(f"clock: {name}, Profiles whose Run differs", "", None, differs, f"of {len(of.profiles)}", basis)
        )
    return rows


def _difference_rows(of: Ceilings, name: str, scheme: str, base: str, basis: str) -> list[Row]:
    return [
        figure_row(f"{name}, added share of the oracle's goodput", "", of.gain(scheme, base), basis),
        figure_row(f"{name}, added mean queueing delay", "ms", of.queue_cost_ms(scheme, base), basis),
    ]

"""Goodput and queueing delay of controllers that use path hints, by the error of the hint."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bentpipe.plots.error_curves import plot_error_curves
from bentpipe.studies import field
from bentpipe.studies.agreement import Claim, all_hold, ratio_of, ratio_text
from bentpipe.studies.files import HintError, HintUser
from bentpipe.studies.scenario import Published
from bentpipe.studies.study import Request, Result, Row, Study, Verdict


@dataclass(frozen=True)
class _Part:
    """Controllers with Runs of the same length.

    Attributes:
        users: The controllers by name.
        offsets_ms: Errors of their hints [ms].
        paths: Their paths.
        times_s: Duration of a Run and its warm-up [s].
    """

    users: Mapping[str, HintUser]
    offsets_ms: Sequence[int]
    paths: Sequence[field.Path]
    times_s: tuple[float, float]

    @property
    def basis(self) -> str:
        """Origin of the values."""
        return (
            f"simulated: {len(self.paths)} Profiles × {self.times_s[0]:g} s, the first {self.times_s[1]:g} s left out"
        )

    def schemes(self) -> list[str]:
        """Return all schemes."""
        late = [user.late(offset) for user in self.users.values() for offset in self.offsets_ms]
        others = [scheme for user in self.users.values() for scheme in (user.wrong, user.none, user.parent)]
        return list(dict.fromkeys([*late, *others]))


def _parts(file: HintError, quick: bool) -> list[_Part]:
    """Return the controllers that are told, and those that have to learn a clock first."""

    def part(learn: bool, offsets_ms: Sequence[int], texts: Sequence[str], times_s: tuple[float, float]) -> _Part:
        users = {name: user for name, user in file.users.items() if (name in file.learned.users) == learn}
        offsets_ms = [min(offsets_ms), 0, max(offsets_ms)] if quick else list(offsets_ms)
        return _Part(users, offsets_ms, field.make_paths(texts[: 1 if quick else None], times_s[0]), times_s)

    learned = file.learned
    return [
        part(False, file.offsets_ms, file.paths, (file.duration_s, file.warmup_s)),
        part(True, learned.offsets_ms, file.paths[: learned.paths], (learned.duration_s, learned.warmup_s)),
    ]


def _run(request: Request) -> Result:
    file = HintError.load()
    kept = file.published["kept"]
    rows: list[Row] = []
    verdicts: list[Verdict] = []
    curves: dict[str, tuple[Sequence[int], list[float]]] = {}
    queues: dict[str, tuple[Sequence[int], list[float]]] = {}
    parts = _parts(file, request.quick)
    for number, part in enumerate(parts):
        progress = (number / len(parts), (number + 1) / len(parts))
        scores = field.race_field(request, part.paths, part.schemes(), part.times_s, shares=progress)
        for name, user in part.users.items():
            judged = _judge(name, user, part, scores, kept)
            rows += judged.rows
            verdicts.append(judged.verdict)
            curves[name] = (part.offsets_ms, judged.gains)
            queues[name] = (part.offsets_ms, judged.queues_ms)
    figures = {
        "goodput": plot_error_curves(
            curves, error="hint later than the handover by [ms]", quantity="goodput over the parent's"
        ),
        "queue": plot_error_curves(
            queues, error="hint later than the handover by [ms]", quantity="mean queueing delay [ms]"
        ),
    }
    notes = [
        f"{len(verdicts)} verdicts of four parts, each part at 5 %; on {len(parts[0].paths)} paths or "
        f"{len(parts[1].paths)}, so a cost of less than a few percent stays undecided",
        "no hint for leocc and satpipe: their clock's one moment an hour lies outside every Run, so the rest of them "
        "(filters, gains, own visits to PROBE_RTT) stays",
        "bbr3-leo and cubic-leo: the learned clock's expectation is moved by the error; a period of 13 s makes a clock "
        "that the path contradicts; their Runs are longer, as a clock is set after a minute or later; "
        "bbr3-leo-schedule receives the Profile's handovers instead",
    ]
    return Result(rows, verdicts, [part.basis for part in parts], figures, notes)


@dataclass(frozen=True)
class _Judged:
    """Rows, verdict and curves of a controller: goodput over its parent's and queueing delay, by offset."""

    rows: list[Row]
    verdict: Verdict
    gains: list[float]
    queues_ms: list[float]


def _judge(
    name: str,
    user: HintUser,
    part: _Part,
    scores: Mapping[tuple[str, str], Sequence[field.Score]],
    kept: Published,
) -> _Judged:
    names, basis = [path.name for path in part.paths], part.basis

    def over_parent(scheme: str, least: float = 1.0, case: str = "") -> Claim:
        mine, theirs = ([scores[path, e][0].goodput_bps[0] for path in names] for e in (scheme, user.parent))
        return Claim(case, mine, theirs, least)

    def queue(scheme: str) -> float | None:
        known = [wait for path in names if (wait := scores[path, scheme][0].queue_ms) is not None]
        return float(np.mean(known)) if known else None

    late = {f"{offset:+d} ms": user.late(offset) for offset in part.offsets_ms}
    cases = late | {user.wrong_is: user.wrong, "no hint": user.none}
    gains = {case: ratio_of(over_parent(scheme)) for case, scheme in cases.items()}
    waits = {case: queue(scheme) for case, scheme in cases.items()}
    rows = []
    for case in cases:
        gain, ratio_note = gains[case], ratio_text(gains[case])
        quantity = f"{name}, {case}: goodput over {user.parent}'s"
        rows.append(Row(quantity, "", None, gain.mean if gain else None, "", f"{basis}; {ratio_note}"))
        quantity = f"{name}, {case}: mean queueing delay"
        rows.append(Row(quantity, "ms", None, waits[case], "from the link elements", basis))
    # Chosen before any Run: the largest errors, a wrong hint and none. The least of eleven noisy ratios would be below
    # one by chance.
    first, last = (f"{offset:+d} ms" for offset in (min(part.offsets_ms), max(part.offsets_ms)))
    hardest = [first, last, user.wrong_is, "no hint"]
    known_gains = [gain.mean for case in hardest if (gain := gains[case]) is not None]
    rows.append(
        kept.row(min(known_gains) if len(known_gains) == len(hardest) else None, basis, of=f"{name} over {user.parent}")
    )
    verdict = all_hold(
        f"{name} keeps {100 * kept.value:g} % of {user.parent}'s goodput with a hint that is {hardest[0]} or "
        f"{hardest[1]} off, with {user.wrong_is}, and with none",
        [over_parent(cases[case], kept.value, case) for case in hardest],
        kept.source,
        basis,
        f"with a perfect hint {ratio_text(gains['+0 ms'])}",
    )
    return _Judged(
        rows,
        verdict,
        [_known(gain.mean if (gain := gains[case]) else None) for case in late],
        [_known(waits[case]) for case in late],
    )


def _known(value: float | None) -> float:
    """Return NaN, a gap in a line, for an unknown value."""
    return math.nan if value is None else value


STUDY = Study(
    name="hint-error",
    title="The cost of a wrong hint: errors from −2 to +2 s, a wrong period or schedule, no hint",
    source="bentpipe's own question; docs/design/007-leo-controllers.md",
    takes="five minutes on two cores; --quick: under one",
    run=_run,
    sweeps=True,
)

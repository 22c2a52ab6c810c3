"""Goodput and queueing delay of controllers that use path hints, by the error of the hint."""

from __future__ import annotations

import math

import numpy as np

from bentpipe.plots.error_curves import plot_error_curves
from bentpipe.studies import field
from bentpipe.studies.agreement import Claim, all_hold, ratio_of, ratio_text
from bentpipe.studies.files import HintError, HintUser
from bentpipe.studies.study import Request, Result, Row, Study


def _run(request: Request) -> Result:
    file = HintError.load()
    published, duration_s, warmup_s, users = file.published, file.duration_s, file.warmup_s, file.users
    offsets_ms = list(file.offsets_ms)
    paths = field.make_paths(file.paths[: 1 if request.quick else None], duration_s)
    if request.quick:
        offsets_ms = [min(offsets_ms), 0, max(offsets_ms)]
    schemes = list(
        dict.fromkeys(
            scheme
            for user in users.values()
            for scheme in (*(user.late(offset) for offset in offsets_ms), user.wrong, user.none, user.parent)
        )
    )
    scores = field.race_field(request, paths, schemes, (duration_s, warmup_s))
    names = [path.name for path in paths]
    basis = f"simulated: {len(paths)} Profiles × {duration_s:g} s, the first {warmup_s:g} s left out"

    def over_parent(scheme: str, user: HintUser, least: float = 1.0, case: str = "") -> Claim:
        mine, theirs = ([scores[name, e][0].goodput_bps[0] for name in names] for e in (scheme, user.parent))
        return Claim(case, mine, theirs, least)

    def queue(scheme: str) -> float | None:
        known = [wait for name in names if (wait := scores[name, scheme][0].queue_ms) is not None]
        return float(np.mean(known)) if known else None

    kept = published["kept"]
    rows, verdicts, curves, queues = [], [], {}, {}
    for name, user in users.items():
        late = {f"{offset:+d} ms": user.late(offset) for offset in offsets_ms}
        cases = late | {user.wrong_is: user.wrong, "no hint": user.none}
        gains = {case: ratio_of(over_parent(scheme, user)) for case, scheme in cases.items()}
        waits = {case: queue(scheme) for case, scheme in cases.items()}
        for case in cases:
            gain, ratio_note = gains[case], ratio_text(gains[case])
            quantity = f"{name}, {case}: goodput over {user.parent}'s"
            rows.append(Row(quantity, "", None, gain.mean if gain else None, "", f"{basis}; {ratio_note}"))
            quantity = f"{name}, {case}: mean queueing delay"
            rows.append(Row(quantity, "ms", None, waits[case], "from the link elements", basis))
        curves[name] = (offsets_ms, [_known(gain.mean if (gain := gains[case]) else None) for case in late])
        queues[name] = (offsets_ms, [_known(waits[case]) for case in late])
        # Chosen before any Run: the largest errors, a wrong hint and none. The least of eleven noisy ratios would be
        # below one by chance.
        first, last = (f"{offset:+d} ms" for offset in (min(offsets_ms), max(offsets_ms)))
        hardest = [first, last, user.wrong_is, "no hint"]
        known_gains = [gain.mean for case in hardest if (gain := gains[case]) is not None]
        rows.append(
            kept.row(
                min(known_gains) if len(known_gains) == len(hardest) else None, basis, of=f"{name} over {user.parent}"
            )
        )
        verdicts.append(
            all_hold(
                f"{name} keeps {100 * kept.value:g} % of {user.parent}'s goodput with a hint that is {hardest[0]} or "
                f"{hardest[1]} off, with {user.wrong_is}, and with none",
                [over_parent(cases[case], user, kept.value, case) for case in hardest],
                kept.source,
                basis,
                f"with a perfect hint {ratio_text(gains['+0 ms'])}",
            )
        )
    figures = {
        "goodput": plot_error_curves(
            curves, error="hint later than the handover by [ms]", quantity="goodput over the parent's"
        ),
        "queue": plot_error_curves(
            queues, error="hint later than the handover by [ms]", quantity="mean queueing delay [ms]"
        ),
    }
    notes = [
        f"{len(users)} verdicts of four parts, each part at 5 %; on {len(paths)} paths, so a cost of less than a few "
        "percent stays undecided",
        "no hint for leocc and satpipe: their clock's one moment an hour lies outside every Run, so the rest of them "
        "(filters, gains, own visits to PROBE_RTT) stays",
        "bbr3-leo and cubic-leo: the learned clock's expectation is moved by the error; a period of 13 s makes a clock "
        "that the path contradicts; bbr3-leo-schedule receives the Profile's handovers instead",
    ]
    return Result(rows, verdicts, [basis], figures, notes)


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

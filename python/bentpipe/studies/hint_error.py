"""How wrong may a hint be? Goodput and queueing delay of the controllers that use one, as its error grows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bentpipe.plots import error_curves
from bentpipe.studies import field
from bentpipe.studies.scenario import load_scenario
from bentpipe.studies.study import Request, Result, Row, Study, Verdict


@dataclass(frozen=True)
class _User:
    """A controller as an entrant: with a hint, with one of a wrong period, with none; and what it is built on."""

    hinted: str
    wrong: str
    none: str
    parent: str

    def late(self, offset_ms: int) -> str:
        """Told that much later than handovers happen."""
        if not offset_ms:
            return self.hinted
        name, _, tunables = self.hinted.partition(":")
        return f"{name}:{','.join(filter(None, [f'hint_offset_ms={offset_ms}', tunables]))}"


def _run(request: Request) -> Result:
    loaded = load_scenario("hint-error")
    scenario, published = loaded.table, loaded.published
    duration_s, warmup_s = scenario.number("duration_s", 20, 3600), scenario.number("warmup_s", 0, 600)
    offsets_ms = scenario.integers("offsets_ms", -15_000, 15_000)
    paths = field.take_paths(scenario, duration_s, quick=1 if request.quick else None)
    users = {}
    for name, table in scenario.named_tables("users").items():
        users[name] = _User(*(table.text(key) for key in ("hinted", "wrong", "none", "parent")))
        table.done()
    scenario.done()
    if request.quick:
        offsets_ms = [min(offsets_ms), 0, max(offsets_ms)]
    entrants = list(
        dict.fromkeys(
            entrant
            for user in users.values()
            for entrant in (*(user.late(offset) for offset in offsets_ms), user.wrong, user.none, user.parent)
        )
    )
    scores = field.race_field(request, paths, entrants, (duration_s, warmup_s))
    names = [path.name for path in paths]
    basis = f"simulated: {len(paths)} Profiles × {duration_s:g} s, the first {warmup_s:g} s left out"

    def goodput(entrant: str, base: str) -> float:
        mine, theirs = ([scores[name, e][0].goodput_bps[0] for name in names] for e in (entrant, base))
        return field.bootstrap_ratio(mine, theirs)[0]

    def queue(entrant: str) -> float:
        return float(np.mean([scores[name, entrant][0].queue_ms or 0.0 for name in names]))

    rows, verdicts, curves, queues = [], [], {}, {}
    for name, user in users.items():
        curve = [goodput(user.late(offset), user.parent) for offset in offsets_ms]
        curves[name], queues[name] = (
            (offsets_ms, curve),
            (offsets_ms, [queue(user.late(offset)) for offset in offsets_ms]),
        )
        cases = {f"{offset:+d} ms": user.late(offset) for offset in offsets_ms} | {
            "wrong period": user.wrong,
            "no hint": user.none,
        }
        for case, entrant in cases.items():
            rows.append(
                Row(f"{name}, {case}: goodput over {user.parent}'s", "", None, goodput(entrant, user.parent), "", basis)
            )
            rows.append(
                Row(f"{name}, {case}: mean queueing delay", "ms", None, queue(entrant), "from the link elements", basis)
            )
        worst = min([*curve, goodput(user.wrong, user.parent), goodput(user.none, user.parent)])
        row = published["kept"].row(worst, basis, of=f"{name} over {user.parent}")
        rows.append(row)
        verdicts.append(
            Verdict(
                f"{name} has never less than 98 % of {user.parent}'s goodput, however wrong its hint",
                worst >= (row.published or 0.0),
                row.source,
                basis,
                f"least {worst:.3f}; with a perfect hint {goodput(user.hinted, user.parent):.3f}, "
                f"without one {goodput(user.none, user.parent):.3f}",
            )
        )
    figures = {
        "goodput": error_curves.plot(curves, "hint later than the handover by [ms]", "goodput over the parent's"),
        "queue": error_curves.plot(queues, "hint later than the handover by [ms]", "mean queueing delay [ms]"),
    }
    notes = [
        "wrong period: 13 s for clocks; for schedules an error of each announcement of up to 7.5 s",
        "bbr3-leo and cubic-leo: the learned clock's expectation is moved by the error; "
        "bbr3-leo-schedule is told the Profile's handovers instead",
    ]
    return Result(rows, verdicts, [basis], figures, notes)


STUDY = Study(
    name="hint-error",
    title="What a wrong hint costs: errors from −2 to +2 s, a wrong period, no hint",
    source="bentpipe's own question; docs/design/007-ours.md",
    takes="ten minutes on two cores; --quick: one",
    run=_run,
    sweeps=True,
)

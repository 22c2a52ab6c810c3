"""LEO and fibre together: a scheduler that uses forecasts against those of MPTCP (T3P, section 7.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.value_cdfs import plot_value_cdfs
from bentpipe.studies import field
from bentpipe.studies.agreement import Claim, all_hold, ratio_of
from bentpipe.studies.multi_access_file import MultiAccess
from bentpipe.studies.multi_access_runs import SCHEMES, Field, Paths, Plan, run_case
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Cases = Mapping[str, Mapping[str, Field]]

#: Quantity → its unit, and its values of a scheme, one for each test.
QUANTITIES: dict[str, tuple[str, Callable[[Field], Sequence[float]]]] = {
    "bulk goodput": ("Mbit/s", lambda own: [bps / 1e6 for bps in own.goodput_bps]),
    "message, median": ("ms", lambda own: [each[0] for each in own.message_ms]),
    "message, 95th percentile": ("ms", lambda own: [each[1] for each in own.message_ms]),
    "message, 99th percentile": ("ms", lambda own: [each[2] for each in own.message_ms]),
    "stream, median delay": ("ms", lambda own: [each[0] for each in own.delay_ms]),
    "stream, 99th percentile": ("ms", lambda own: [each[1] for each in own.delay_ms]),
    "stream, 99.9th percentile": ("ms", lambda own: [each[2] for each in own.delay_ms]),
}
BULK, MESSAGE = "bulk goodput", "message, 95th percentile"
MEDIAN, STREAM = "stream, median delay", "stream, 99th percentile"
#: Schemes of MPTCP.
MPTCP = ("min-rtt", "round-robin", "linger")


def _run(request: Request) -> Result:
    file = MultiAccess.load()
    plan = Plan(file, request.quick)
    cases: dict[str, dict[str, Field]] = {}
    paths: list[Paths] = []
    for number, (name, case) in enumerate(file.case.items()):

        def advance(done: float, before: int = number) -> None:
            request.on_progress((before + done) / len(file.case))

        cases[name], tested = run_case(plan, case, advance)
        paths += tested
    basis = f"simulated: {plan.tests} tests of {plan.bulk_s:g} s (bulk) and {plan.app_s:g} s"
    lines = [
        basis,
        *(f"{name}: {case.site} to {case.to}, {case.fibre}; {case.description}" for name, case in file.case.items()),
        f"a subflow with {file.controller} on each path; messages of {file.message_bytes / 1e6:g} MB every "
        f"{file.message_every_s:g} s; a stream of {file.stream_bps / 1e6:g} Mbit/s",
        f"forecasts: {file.predictor} and the slot clock, learned from pings of the {file.learn_s:g} s before",
    ]
    rows = [*_required(cases, file, basis), *_rows(cases, basis), *_clock_rows(paths, basis)]
    return Result(rows, _verdicts(cases, file, basis), lines, _figures(cases), _notes())


def _values(own: Field, quantity: str) -> list[float]:
    return list(QUANTITIES[quantity][1](own))


def _claim(case: Mapping[str, Field], quantity: str, ours: str, theirs: str, least: float, most: float) -> Claim:
    return Claim(f"{ours} over {theirs}", _values(case[ours], quantity), _values(case[theirs], quantity), least, most)


def _required(cases: Cases, file: MultiAccess, basis: str) -> list[Row]:
    """Return the ratios to min-rtt in the case that is worst for forecasts."""
    rows = []
    for key, quantity, worst in (("bulk", BULK, min), ("message", MESSAGE, max), ("stream", STREAM, max)):
        claims = [_claim(case, quantity, "forecast", "min-rtt", 0.0, 1.0) for case in cases.values()]
        ratios = [ratio.mean for claim in claims if (ratio := ratio_of(claim)) is not None]
        rows.append(file.published[key].row(worst(ratios, default=None), basis))
    return rows


def _rows(cases: Cases, basis: str) -> list[Row]:
    rows = []
    for name, case in cases.items():
        for quantity, (unit, _) in QUANTITIES.items():
            for scheme in SCHEMES:
                mean, low, high = field.bootstrap(_values(case[scheme], quantity))
                rows.append(
                    Row(f"{name}: {quantity}, {scheme}", unit, None, mean, f"95 %: {low:.4g} to {high:.4g}", basis)
                )
        for scheme in (*MPTCP, "forecast", "forecast-tail", "oracle"):
            share = float(np.mean(case[scheme].leo_share))
            rows.append(Row(f"{name}: share of the stream over LEO, {scheme}", "", None, share, "acknowledged", basis))
    return rows


def _clock_rows(paths: Sequence[Paths], basis: str) -> list[Row]:
    share = float(np.mean([each.has_slots for each in paths]))
    errors = [1e3 * each.clock_error_s for each in paths if np.isfinite(each.clock_error_s)]
    error = float(np.median(errors)) if errors else None
    return [
        Row("tests in which the pings before show the slot clock", "", None, share, "not in the paper", basis),
        Row("error of the learned edges, median", "ms", None, error, "not in the paper", basis),
    ]


def _verdicts(cases: Cases, file: MultiAccess, basis: str) -> list[Verdict]:
    return [verdict for name, case in cases.items() for verdict in _case_verdicts(name, case, file, basis)]


def _case_verdicts(name: str, case: Mapping[str, Field], file: MultiAccess, basis: str) -> list[Verdict]:
    published = file.published

    def sooner(quantity: str, text: str, scheme: str, other: str, key: str) -> Verdict:
        claim = _claim(case, quantity, scheme, other, 0.0, 1.0)
        return all_hold(f"{name}: {text} with {scheme} than with {other}", [claim], published[key].source, basis)

    tail = "the stream's 99th percentile is less"
    kept = published["bulk"].value
    return [
        all_hold(
            f"{name}: forecast keeps {100 * kept:g} % of min-rtt's bulk goodput",
            [_claim(case, BULK, "forecast", "min-rtt", kept, np.inf)],
            published["bulk"].source,
            basis,
        ),
        sooner(MESSAGE, "95 % of messages are complete sooner", "forecast", "min-rtt", "message"),
        sooner(MEDIAN, "the stream's median delay is less", "forecast", "min-rtt", "stream"),
        sooner(STREAM, tail, "forecast", "min-rtt", "stream"),
        sooner(STREAM, tail, "forecast", "linger", "stream"),
        sooner(STREAM, tail, "forecast-tail", "linger", "stream"),
        _falls_short(name, case, basis),
    ]


def _falls_short(name: str, case: Mapping[str, Field], basis: str) -> Verdict:
    """Judge that MPTCP's schedulers do worse than the better path alone in the stream's tail."""
    alone = min(("leo alone", "fibre alone"), key=lambda scheme: float(np.mean(_values(case[scheme], STREAM))))
    claims = [_claim(case, STREAM, scheme, alone, 1.0, np.inf) for scheme in MPTCP]
    return all_hold(
        f"{name}: MPTCP-like solutions fall short: the stream's 99th percentile is above that of {alone}",
        claims,
        "section 7.1",
        basis,
    )


def _figures(cases: Cases) -> dict[str, Figure]:
    return {
        f"stream-{name}": plot_value_cdfs(
            {scheme: case[scheme].samples_ms for scheme in SCHEMES}, label="delay of the stream, in order [ms]"
        )
        for name, case in cases.items()
    }


def _notes() -> list[str]:
    return [
        "the paper asks how a transport could use both accesses, and has no figures: the requirements are bentpipe's",
        "min-rtt is the default of MPTCP v0.9x; Linux has had linger's rule since 5.11, which is no minimum of RTTs",
        "subflows are uncoupled, open at the start and have the hosts of a Run; path management is not modelled",
        "after one time-out without progress, the first data that is missing is retransmitted on a path with nothing "
        "outstanding, as Linux does",
        "forecasts come from pings over LEO without other traffic; the oracle knows delays, interruptions and losses "
        "of its own packets' path, and is no scheduler that could be built",
        "a bulk flow meets the losses of a path that it fills (busy), messages and the stream those of the case",
        "an oracle of delays minimises each segment's completion, so it is a bound on means and not on tails",
        "each verdict is wrong in 5 % of cases, one or two of 35",
    ]


STUDY = Study(
    name="multi-access",
    title="LEO and fibre together: a scheduler that uses forecasts against those of MPTCP",
    source="T3P (arXiv:2310.11835), section 7.1",
    takes="twenty minutes on two cores; --quick: one",
    run=_run,
)

"""SatGuard (WWW 2024): recovery inside the network against what it was compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.plots.value_cdfs import plot_value_cdfs
from bentpipe.studies.agreement import Claim, all_hold
from bentpipe.studies.files import SatGuard
from bentpipe.studies.satguard_runs import SCHEMES, Field, Plan, bulk_rates, run_calls, run_delays, run_pages
from bentpipe.studies.study import Request, Result, Row, Study, Verdict

if TYPE_CHECKING:
    from bentpipe._native import Network

#: Scheme → its name in the publication.
NAMES = {
    "none": "no recovery",
    "satcp": "SaTCP",
    "linkguardian": "LinkGuardian",
    "tambur": "Tambur",
    "mpep": "M-PEP",
    "satguard": "SatGuard",
}
OTHERS = ("satcp", "tambur", "linkguardian", "mpep")

Fields = Mapping[str, Field]


def _run(request: Request) -> Result:
    file = SatGuard.load()
    plan = Plan(file, request.quick)
    networks = plan.networks()
    fields = _run_all(request, plan, networks)
    variants = run_delays(plan, [network for _, network in networks], file.ablation, "cubic")
    request.on_progress(1.0)
    pairs = [pair for pair, _ in networks]
    basis = f"simulated: {len(plan.pairs)} pairs, {plan.draws} draws each, loss {file.loss}"
    rows = [
        *_delay_rows(fields, pairs, file, basis),
        *_rate_rows(fields, file, basis),
        *_app_rows(fields, pairs, file, basis),
        *_cost_rows(fields, basis),
        *_ablation_rows(variants, basis),
    ]
    lines = [
        f"{basis}: {', '.join(plan.pairs)}",
        f"figures 5, 12: {file.delay_app}, {plan.seconds('delay'):g} s; figure 13: {file.bulk_controller} for "
        f"{plan.seconds('bulk'):g} s; figure 14: page {file.page}, {plan.loads} loads over HTTP/2; figures 15 to 17: "
        f"calls of {plan.seconds('call'):g} s",
    ]
    figures = {
        "figure-12": plot_value_cdfs(
            {NAMES[scheme]: own.owd_p99_ms for scheme, own in fields.items()},
            label="99th percentile of the one-way delay [ms]",
        ),
        "figure-13": plot_value_cdfs(
            {NAMES[scheme]: [bps / 1e6 for each in own.rates_bps for bps in each] for scheme, own in fields.items()},
            label="goodput of a second [Mbit/s]",
        ),
        "figure-14": plot_value_cdfs(
            {NAMES[scheme]: own.plt_ms for scheme, own in fields.items()},
            label="page load time [ms]",
        ),
        "figure-15": plot_value_cdfs(
            {NAMES[scheme]: own.call_ms for scheme, own in fields.items() if own.call_ms}, label="delay of frames [ms]"
        ),
    }
    return Result(rows, _verdicts(fields, basis), lines, figures, _notes())


def _run_all(request: Request, plan: Plan, networks: Sequence[tuple[str, Network]]) -> dict[str, Field]:
    every = [network for _, network in networks]
    inside = [recovery for controller, recovery in SCHEMES.values() if controller == "cubic"]
    fields = run_delays(plan, every, inside, "cubic")
    fields |= {"satcp": run_delays(plan, every, ["none"], "satcp")["none"]}
    fields = {scheme: fields[scheme] for scheme in SCHEMES}
    request.on_progress(0.15)
    for step, (scheme, (controller, recovery)) in enumerate(SCHEMES.items()):
        into = fields[scheme]
        into.plt_ms += run_pages(plan, every, recovery, controller)
        if scheme != "satcp":  # a call has no TCP: over this scheme it is one without recovery
            run_calls(plan, every, recovery, into)
        bulk = controller if scheme == "satcp" else plan.file.bulk_controller
        for network in every[:: plan.draws]:
            into.rates_bps.append(bulk_rates(plan, network, recovery, bulk))
        request.on_progress(0.15 + 0.8 * (step + 1) / len(SCHEMES))
    return fields


def _largest(values: Sequence[float]) -> float:
    return float(np.nanmax(values))


def _mean(values: Sequence[float]) -> float:
    return float(np.nanmean(values))


def _less(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return by how much `ours` are below `theirs` [%]."""
    return [100 * (1 - a / b) for a, b in zip(ours, theirs, strict=True)]


def _delay_rows(fields: Fields, pairs: Sequence[str], file: SatGuard, basis: str) -> list[Row]:
    published, none, satguard = file.published, fields["none"], fields["satguard"]
    ratios = [tail / median for tail, median in zip(none.owd_p99_ms, none.owd_p50_ms, strict=True)]
    less = [each for other in OTHERS for each in _less(satguard.owd_p99_ms, fields[other].owd_p99_ms)]
    syd = [ms for pair, ms in zip(pairs, fields["satcp"].owd_p99_ms, strict=True) if pair == "SYD-NYC"]
    rows = [
        published["tail-over-median"].row(_largest(ratios), basis),
        published["tail-less"].row(_largest(less), basis),
        published["tail-satcp"].row(_mean(syd) if syd else None, basis),
        published["tail-tambur"].row(_largest(fields["tambur"].owd_p99_ms), basis),
        published["tail-linkguardian"].row(_largest(fields["linkguardian"].owd_p99_ms), basis),
        published["tail-mpep"].row(_largest(fields["mpep"].owd_p99_ms), basis),
    ]
    for scheme, own in fields.items():
        for name, values in (("median", own.owd_p50_ms), ("99th percentile", own.owd_p99_ms)):
            rows.append(Row(f"one-way delay, {name}, mean: {NAMES[scheme]}", "ms", None, _mean(values), "–", basis))
        again = _mean(own.retransmits)
        rows.append(Row(f"segments that the sender retransmits, mean: {NAMES[scheme]}", "", None, again, "–", basis))
    return rows


def _rate_rows(fields: Fields, file: SatGuard, basis: str) -> list[Row]:
    published = file.published
    seconds = {scheme: np.array([bps for each in own.rates_bps for bps in each]) for scheme, own in fields.items()}
    least = min(float(np.mean(each)) for each in fields["linkguardian"].rates_bps)
    rows = [
        published["fast-satguard"].row(100 * float((seconds["satguard"] > 800e6).mean()), basis),
        published["slow-satcp"].row(100 * float((seconds["satcp"] < 500e6).mean()), basis),
        published["slow-tambur"].row(100 * float((seconds["tambur"] < 500e6).mean()), basis),
        published["mean-linkguardian"].row(least / 1e6, basis),
    ]
    for scheme, rates in seconds.items():
        name = NAMES[scheme]
        rows.append(Row(f"goodput, mean: {name}", "Mbit/s", None, float(rates.mean()) / 1e6, "–", basis))
        share = 100 * float((rates > 800e6).mean())
        rows.append(Row(f"seconds with more than 800 Mbit/s, all schemes: {name}", "%", None, share, "–", basis))
    return rows


def _app_rows(fields: Fields, pairs: Sequence[str], file: SatGuard, basis: str) -> list[Row]:
    published, satguard = file.published, fields["satguard"]
    rows = [
        published[f"load-{other}"].row(_mean(_less(satguard.plt_ms, fields[other].plt_ms)), basis) for other in OTHERS
    ]
    called = {"satcp": "none"}  # a call has no TCP
    for scheme in ("satguard", "satcp", "linkguardian", "mpep"):
        own = fields[called.get(scheme, scheme)]
        rows.append(published[f"call-{scheme}"].row(_mean(own.call_ms), basis))
    for scheme in ("satguard", "linkguardian"):
        largest = max(_mean(_of_pair(fields[scheme].buffer_ms, pairs, pair)) for pair in dict.fromkeys(pairs))
        rows.append(published[f"buffer-{scheme}"].row(largest, basis))
    large = 100 * float(np.mean(np.array(fields["mpep"].buffer_ms) > 150))
    rows.append(published["buffer-mpep"].row(large, basis))
    steady = ("satguard", "tambur", "linkguardian")
    rows += [published[f"fps-{scheme}"].row(_mean(fields[scheme].fps), basis) for scheme in steady]
    for other in steady[1:]:
        ratio = _mean(fields[other].fps_sd) / max(_mean(satguard.fps_sd), 1e-9)
        rows.append(published[f"fps-sd-{other}"].row(ratio, basis))
    for scheme, own in fields.items():
        rows.append(Row(f"page load time, mean: {NAMES[scheme]}", "ms", None, _mean(own.plt_ms), "–", basis))
        if own.call_ms:
            figures = (("delay of frames", "ms", own.call_ms), ("jitter buffer", "ms", own.buffer_ms))
            named = (*figures, ("standard deviation of frames per second", "", own.fps_sd))
            rows += [Row(f"{name}, mean: {NAMES[scheme]}", unit, None, _mean(v), "–", basis) for name, unit, v in named]
    return rows


def _of_pair(values: Sequence[float], pairs: Sequence[str], pair: str) -> list[float]:
    return [value for name, value in zip(pairs, values, strict=True) if name == pair]


def _cost_rows(fields: Fields, basis: str) -> list[Row]:
    """Return what each scheme costs, with the flow of figure 12."""
    rows = []
    for scheme in ("linkguardian", "tambur", "mpep", "satguard"):
        own, name = fields[scheme], NAMES[scheme]
        added = [each.get("header_bytes", 0) + each.get("control_bytes", 0) for each in own.overhead]
        share = 100 * sum(added) / max(1.0, sum(own.delivered_bytes))
        rows.append(Row(f"headers and control packets over data: {name}", "%", None, share, "–", basis))
        for key, label in (("peak_buffer_bytes", "largest buffer of a link end"), ("peak_held_bytes", "largest hold")):
            largest = max(each.get(key, 0) for each in own.overhead)
            rows.append(Row(f"{label}: {name}", "kB", None, largest / 1e3, "–", basis))
    return rows


def _ablation_rows(variants: Fields, basis: str) -> list[Row]:
    rows = []
    for variant, own in variants.items():
        tail, again = _mean(own.owd_p99_ms), _mean(own.retransmits)
        rows.append(Row(f"ablation, 99th percentile, mean: {variant}", "ms", None, tail, "–", basis))
        rows.append(
            Row(f"ablation, segments that the sender retransmits, mean: {variant}", "", None, again, "–", basis)
        )
    return rows


def _verdicts(fields: Fields, basis: str) -> list[Verdict]:
    satguard = fields["satguard"]
    verdicts = []
    for other in OTHERS:
        own, name = fields[other], NAMES[other]
        tail = Claim("99th percentile of the one-way delay over SatGuard's", own.owd_p99_ms, satguard.owd_p99_ms)
        verdicts.append(all_hold(f"SatGuard's tail delay is below {name}'s", [tail], "figure 12", basis))
        rates = [[float(np.mean(each)) for each in of.rates_bps] for of in (satguard, own)]
        rate = Claim("SatGuard's goodput over it", rates[0], rates[1])
        verdicts.append(all_hold(f"SatGuard's throughput is above {name}'s", [rate], "figure 13", basis))
        load = Claim("page load time over SatGuard's", own.plt_ms, satguard.plt_ms)
        verdicts.append(all_hold(f"pages load sooner with SatGuard than with {name}", [load], "figure 14", basis))
    for scheme, name in (("none", "SaTCP"), *((other, NAMES[other]) for other in OTHERS[1:])):
        own = fields[scheme]
        delay = Claim("delay of frames over SatGuard's", own.call_ms, satguard.call_ms)
        verdicts.append(
            all_hold(f"a call's delay with SatGuard is below that with {name}", [delay], "figure 15", basis)
        )
        buffer = Claim("jitter buffer over SatGuard's", own.buffer_ms, satguard.buffer_ms)
        verdicts.append(
            all_hold(f"the jitter buffer with SatGuard is below that with {name}", [buffer], "figure 16", basis)
        )
        steady = Claim("standard deviation over SatGuard's", own.fps_sd, satguard.fps_sd)
        verdicts.append(
            all_hold(f"frames per second vary less with SatGuard than with {name}", [steady], "figure 17", basis)
        )
    return verdicts


def _notes() -> list[str]:
    return [
        "SaTCP changes TCP alone, so a call with it is one without recovery; M-PEP's proxies pass the datagrams of "
        "a call, and hold them while connections move to the next satellite",
        "nothing is drawn in the simulator: the Speed Index of figure 14 is missing",
        "the paper's pages are the Alexa top 200, its calls Kurento's; these are one page with the median's bytes and "
        "requests, and libwebrtc's algorithms",
        "the jitter buffer of the calls does not wait for retransmissions; one that does is larger where losses stay",
        "figures 5 and 6 are measurements over Starlink: only the ratio of figure 5 is compared",
        "the paper's emulator has 1.7 times the delays of straight paths, as StarryNet has, so its levels are higher",
        "the paper does not name its congestion controller; the bulk flow has BBR, as CUBIC takes minutes to 1 Gbit/s; "
        "SaTCP is a CUBIC, so its goodput in figure 13 is low for that alone",
    ]


STUDY = Study(
    name="satguard",
    title="Losses recovered inside the network: delay, throughput, pages and calls over Starlink's first shell",
    source="SatGuard: Concealing Endless and Bursty Packet Losses in LEO Satellite Networks, WWW 2024",
    takes="twenty minutes on two cores; --quick: two",
    run=_run,
)

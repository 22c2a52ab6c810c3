"""Pages and calls with and without recovery inside the network, between browsers and in the simulator: the same order.

README.md beside this file states the claim and its tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bentpipe.apps.browser.chromium import find_chromium
from bentpipe.errors import UserError
from bentpipe.execution.browser_calls import call_browsers
from bentpipe.execution.browser_pages import load_in_browser
from bentpipe.execution.calls import call
from bentpipe.execution.pages import load_page
from bentpipe.profiles.make import make_profile
from bentpipe.runs.estimates import estimate, paired_ratio
from bentpipe.runs.text import interval, number
from bentpipe.times import parse_utc
from bentpipe.validation import OnProgress, Outcome, Row
from bentpipe.validation.calls import PICTURE, START_S
from bentpipe.validation.measured import measured

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bentpipe._native import Profile

OUT = Path("out") / "applications"
"""Default folder for what the browsers did; ``--quick`` has its own beside it."""
SITE, TO, LOSS = "louvain", "london", "satguard"
"""The path: bursts of 3 to 15 % of a second, and one at each reconfiguration."""
PARTS, PARTS_QUICK = 5, 1
"""Parts of the path, each with its loads and its call under every scheme, so that schemes are compared pairwise."""
PART_S = 60.0
"""Duration of a part and of its call [s]."""
LOADS = 4
"""Loads of the page in each part."""
PAGE, HTTP = "median", "2"
SCHEMES = ("none", "satguard")
QUANTITIES = {
    "page load time [ms]": "plt_ms",
    "mean delay of a call [ms]": "delay_mean_ms",
    "99th percentile of the delay [ms]": "delay_p99_ms",
    "jitter buffer [ms]": "jitter_buffer_ms",
}
"""Name of a quantity → key of a part's figures. Small ones are the better."""


@dataclass(frozen=True)
class World:
    """Where the applications run: a name, loads and calls over a path with a scheme, from an offset [s] on."""

    name: str
    load: Callable[[Profile, str, float], list[dict[str, Any]]]
    call: Callable[[Profile, str, float], list[dict[str, Any]]]


def path_of() -> Profile:
    """Return the path of the claim; browsers need some seconds after its last part."""
    start_unix_ns = parse_utc("2026-05-10T09:00:00Z")
    return make_profile(SITE, TO, start_unix_ns=start_unix_ns, duration_s=(PARTS + 1) * PART_S, loss=LOSS)


def real_time_s(*, quick: bool) -> float:
    """Return about how long the browsers take [s]."""
    return (PARTS_QUICK if quick else PARTS) * len(SCHEMES) * (PART_S + 3 * START_S)


def check(data: Path | None, on_progress: OnProgress, *, quick: bool = False, out: Path | None = None) -> Outcome:
    """Load pages and hold calls in both worlds with each scheme, and compare the orders; needs no data."""
    del data
    try:
        find_chromium()
    except UserError as error:
        return Outcome("applications", skipped=str(error))
    folder = out or (OUT.with_name(f"{OUT.name}-quick") if quick else OUT)
    path, parts = path_of(), PARTS_QUICK if quick else PARTS
    done = 0

    def figures_of(world: World, part: int, scheme: str) -> dict[str, float]:
        offset_s = part * PART_S
        settings = {"path": path.name, "offset_s": offset_s, "scheme": scheme, "loads": LOADS, "call_s": PART_S}

        def stored(kind: str, make: Callable[[Profile, str, float], list[dict[str, Any]]]) -> list[dict[str, Any]]:
            file = folder / world.name / f"{kind}-{part}-{scheme}.json"
            return measured(file, settings, lambda: make(path, scheme, offset_s))

        return figures(stored("page", world.load), stored("call", world.call))

    every: dict[str, dict[str, list[dict[str, float]]]] = {}
    for part in range(parts):
        for scheme in SCHEMES:
            every.setdefault("browsers", {}).setdefault(scheme, []).append(figures_of(BROWSERS, part, scheme))
            done += 1
            on_progress(done / (parts * len(SCHEMES)))
    for scheme in SCHEMES:
        own = [
            figures(SIMULATOR.load(path, scheme, part * PART_S), SIMULATOR.call(path, scheme, part * PART_S))
            for part in range(parts)
        ]
        every.setdefault("simulator", {})[scheme] = own
    rows = [compare(quantity, key, every["simulator"], every["browsers"]) for quantity, key in QUANTITIES.items()]
    notes = [
        f"{path.name}, loss {LOSS}: {parts} parts of {PART_S:g} s, in each {LOADS} loads of {PAGE} and a call in both "
        "directions with each scheme; ratio satguard ÷ none over the parts, and its 95 % interval",
        "within: the orders are the same; –: an interval contains 1, so that there is no order",
    ]
    for world, of in every.items():
        freezes = ", ".join(f"{scheme} {sum(part['freezes'] for part in of[scheme]):g}" for scheme in SCHEMES)
        invalid = sum(part["invalid"] for scheme in SCHEMES for part in of[scheme])
        notes.append(
            f"freezes, {world}: {freezes}" + (f"; {invalid:g} loads or directions not valid" if invalid else "")
        )
    return Outcome("applications", rows, notes)


def figures(loads: Sequence[Mapping[str, Any]], calls: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the figures of a part: means over its loads, and over both directions of its call."""
    return {
        "plt_ms": fmean(each["plt_ms"] for each in loads),
        **{key: fmean(each[key] for each in calls) for key in ("delay_mean_ms", "delay_p99_ms", "jitter_buffer_ms")},
        "freezes": sum(each["freezes"] for each in calls),
        "invalid": sum(not each["valid"] for each in [*loads, *calls]),
    }


def compare(
    quantity: str,
    key: str,
    simulated: Mapping[str, Sequence[Mapping[str, float]]],
    real: Mapping[str, Sequence[Mapping[str, float]]],
) -> Row:
    """Compare the order of the schemes in both worlds by a quantity."""
    texts: list[str] = []
    orders: list[bool | None] = []
    for world in (simulated, real):
        none, satguard = ([part[key] for part in world[scheme]] for scheme in SCHEMES)
        means = " → ".join(number(estimate(values).mean) for values in (none, satguard))
        ratio = paired_ratio(satguard, none)
        if ratio is None or ratio.low is None or ratio.high is None:
            texts.append(means)
            orders.append(None)
            continue
        texts.append(f"{means}: {number(ratio.mean)} ({interval(ratio)})")
        orders.append(None if ratio.low <= 1 <= ratio.high else ratio.mean < 1)
    within = None if None in orders else orders[0] == orders[1]
    return Row(quantity, texts[0], texts[1], "same order", within)


def _rows(results: Sequence[Any]) -> list[dict[str, Any]]:
    return [dict(vars(each)) for each in results]


def _load_real(path: Profile, scheme: str, offset_s: float) -> list[dict[str, Any]]:
    return _rows(load_in_browser(PAGE, [path], http=HTTP, loads=LOADS, recovery=[scheme], offset_s=offset_s))


def _call_real(path: Profile, scheme: str, offset_s: float) -> list[dict[str, Any]]:
    return _rows(call_browsers([path], duration_s=PART_S, picture=PICTURE, recovery=[scheme], offset_s=offset_s))


def _load_simulated(path: Profile, scheme: str, offset_s: float) -> list[dict[str, Any]]:
    loads = load_page(PAGE, [path], ["cubic"], http=HTTP, loads=LOADS, phase_s=offset_s, recovery=scheme)
    return _rows(loads)


def _call_simulated(path: Profile, scheme: str, offset_s: float) -> list[dict[str, Any]]:
    app = f"call:max={PICTURE.max_bps}bit,fps={PICTURE.fps}"
    return _rows(call([path], app=app, duration_s=PART_S, phase_s=offset_s, recovery=scheme))


BROWSERS = World("browsers", _load_real, _call_real)
SIMULATOR = World("simulator", _load_simulated, _call_simulated)

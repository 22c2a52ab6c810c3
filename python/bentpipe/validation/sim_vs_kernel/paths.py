"""The four paths: two presets, one computed, one measured (or a generated trace of the same form)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bentpipe.errors import UserError
from bentpipe.files import read_text
from bentpipe.profiles.build import Points, Provenance, Side, single_hop_profile
from bentpipe.profiles.convert import read_as, write_as
from bentpipe.profiles.convert.reading import ReadOptions
from bentpipe.profiles.convert.writing import WriteOptions
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.times import parse_utc

if TYPE_CHECKING:
    from bentpipe._native import Profile

SLACK_S = 15.0
"""Time by which a Profile is longer than a Run: one slot, so that a Run starts at any phase of a slot [s]."""

START = "2026-05-10T09:00:00Z"
CONSTELLATION = "starlink-gen1"

TRACE = "throughput_leocc_example"
"""Folder of the measurement: a trace of SpaceNetLab/LeoCC (MIT), `leoreplayer/replayer/example/Cubic`."""

DELAY_STEP_S = 0.01
"""Time between the lines of its delay file [s] (`traces/README.md` there)."""

GENERATED_SEED = 1
"""Seed of the computed path that replaces the measured one. Not 0, which is `leo-computed` itself."""


def make_paths(duration_s: float, data: Path | None, scratch: Path) -> tuple[dict[str, Profile], list[str]]:
    """Make `fibre`, `geo`, `leo-computed` and `leo-measured`, by name, and a note on the origin of the last.

    Args:
        duration_s: Duration of a Run [s]; the Profiles are `SLACK_S` longer, but a measurement has its own duration.
        data: Folder that contains the folder `TRACE`; without it `leo-measured` is made from a generated trace.
        scratch: Folder for the generated trace.
    """
    span_s = duration_s + SLACK_S
    computed = make_profile(
        "melbourne",
        "sydney",
        start_unix_ns=parse_utc(START),
        duration_s=span_s,
        constellation=CONSTELLATION,
        name="leo-computed",
    )
    measured, note = _measured(computed, span_s, data, scratch)
    paths = [
        preset_profile("fibre", span_s, name="fibre"),
        preset_profile("geo", span_s, name="geo"),
        computed,
        measured,
    ]
    return {path.name: path for path in paths}, [note]


def _measured(computed: Profile, span_s: float, data: Path | None, scratch: Path) -> tuple[Profile, str]:
    folder = None if data is None else data / TRACE
    if folder is not None and folder.is_dir():
        trace, delays = folder / "bw_example.txt", folder / "delay_example.txt"
        profile = read_trace(trace, delays, f"{TRACE}: a packet-delivery trace and one-way delays of Starlink")
        return profile, f"leo-measured: {TRACE} (SpaceNetLab/LeoCC)"
    other = computed.reseed(GENERATED_SEED)
    scratch.mkdir(parents=True, exist_ok=True)
    written = write_as("mahimahi", other, scratch / "generated", WriteOptions())
    trace = next(file for file in written.files if file.suffix == ".down")
    delays = scratch / "generated.delay"
    at_s = np.arange(0.0, span_s, DELAY_STEP_S)
    # An outage has no delay: the last known one is kept, and the trace has no packet in it.
    ms = other.delay_ms("down", at_s)
    known = np.maximum.accumulate(np.where(np.isfinite(ms), np.arange(ms.size), 0))
    delays.write_text("".join(f"{value:.3f}\n" for value in np.nan_to_num(ms[known], nan=0.0)), encoding="ascii")
    profile = read_trace(trace, delays, "generated: what a computed path with another seed would have measured")
    return profile, f"leo-measured: generated (no {TRACE}; give its folder as `data`)"


def read_trace(trace: Path, delays: Path, description: str) -> Profile:
    """Read a packet-delivery trace of the downlink, and the one-way delays of both directions.

    The delays are in ms, one per line every `DELAY_STEP_S`.

    Raises:
        UserError: A file has another content.
    """
    ms = _delays_ms(delays)
    options = ReadOptions(delay_s=float(ms[0]) / 1e3)
    capacity = PathView(read_as("mahimahi", [trace], options).profile).capacity("down")
    duration_s = min(capacity.end_s, ms.size * DELAY_STEP_S)
    delay = Points.of(np.arange(ms.size) * DELAY_STEP_S, ms / 1e3)
    within = capacity.t_s < duration_s
    down = Points.of(capacity.t_s[within], capacity.value[within])
    return single_hop_profile(
        name="leo-measured",
        hop="measured",
        start_unix_ns=0,
        duration_s=duration_s,
        basis="one_way",
        provenance=Provenance("measured", description),
        up=Side(delay_s=delay, queue=options.limit()),
        down=Side(delay_s=delay, capacity_bps=down, queue=options.limit()),
    )


def _delays_ms(path: Path) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    lines = read_text(path).split()
    try:
        ms = np.array([float(line) for line in lines], np.float64)
    except ValueError as error:
        raise UserError(f"{path}: {error}; expected one delay [ms] per line") from error
    if not ms.size or not np.isfinite(ms).all() or ms.min() < 0:
        raise UserError(f"{path}: delays are missing or negative; expected delays of at least 0 ms, one per line")
    return ms

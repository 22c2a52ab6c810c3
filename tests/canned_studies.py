"""Run studies without a simulator: the Runs' measures are canned, and all code after them runs."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import numpy as np

from bentpipe.profiles.presets import preset_profile
from bentpipe.studies import find_study
from bentpipe.studies.flows import RunBatch, StudyRun
from bentpipe.studies.running import check, run_study
from bentpipe.studies.study import Request

#: Replaces every path; other tests make real paths.
DUMBBELL = "dumbbell:rate=100mbit,rtt=40ms"
#: Factors by which tests differ, so that intervals have a width.
SPREAD = (1.0, 1.02, 0.99, 1.01, 0.98)


def wobble(number):
    """Return a test's factor near 1, by its number."""
    return SPREAD[number % len(SPREAD)]


def no_paths(monkeypatch, *places):
    """Replace a study's computed paths by static ones, each with its own name; `places` are dotted names."""
    made = count()

    def path(*args, name=None, **kwargs):
        duration_s = kwargs.get("duration_s") or next(value for value in args[1:] if isinstance(value, (int, float)))
        return preset_profile(DUMBBELL, float(duration_s), name=name or f"path-{next(made)}")

    for place in places:
        monkeypatch.setattr(place, path)


def canned_flows(monkeypatch, world):
    """Replace Runs by `world(key, number, flow)`, which returns a flow's `Track` columns; `number` counts a key's Runs.

    `goodput_bps` (a value, or a function of the times), and optionally `retransmits`, `cwnd_bytes`, `rtt_ms`,
    `rtt_var_ms`.
    """

    def run(self, request, shares=(0.0, 1.0)):
        runs = {}
        for key, job in zip(self._keys, self._jobs, strict=True):
            number = len(runs.setdefault(key, []))
            runs[key].append(StudyRun(swept(job, {"flows": tracks(job, key, number)})))
        request.on_progress(shares[1])
        return runs

    def tracks(job, key, number):
        experiment = job.work.experiment
        step_s = experiment.sample_step_ns / 1e9
        flows = []
        for i, flow in enumerate(experiment.flows):
            start_s, end_s = flow.start_ns / 1e9, experiment.duration_ns / 1e9
            t_s = np.arange(np.floor(start_s / step_s + 1e-6) + 1, round(end_s / step_s) + 1) * step_s
            columns = {"retransmits": 0.0, "cwnd_bytes": 1e6, "rtt_ms": 50.0, "rtt_var_ms": 3.0}
            columns |= world(key, number, i)
            flows.append(
                {"t_s": t_s}
                | {
                    name: np.broadcast_to(value(t_s) if callable(value) else value, t_s.shape)
                    for name, value in columns.items()
                }
            )
        return flows

    monkeypatch.setattr(RunBatch, "run", run)


def canned_sweeps(monkeypatch, places, measures):
    """Replace the results of sweeps in `places` (dotted names) by `measures(scheme, label, seed, seconds)`."""

    def run_sweep(jobs, *, out, on=None, on_progress=None, **_):
        runs = []
        for job in jobs:
            work = job.work
            seconds = min(30, round(work.experiment.duration_ns / 1e9))  # more samples add nothing
            runs.append(swept(job, measures(work.scheme, work.bases[0].label, work.seed, seconds)))
        on_progress(SimpleNamespace(share=1.0))
        return SimpleNamespace(whole=lambda: runs, runs=runs, failed={})

    for place in places:
        monkeypatch.setattr(place, run_sweep)


def swept(job, measures):
    """Return the part of a `SweptRun` that studies use."""
    summary = {"cross": [{"transfers": 10, "mean_s": 0.5}]}
    return SimpleNamespace(
        scheme=job.work.scheme,
        label=job.work.bases[0].label,
        seed=job.work.seed,
        offset_s=0.0,
        warmup_s=10.0,
        record=SimpleNamespace(valid=True, summary=summary),
        flows=measures.get("run_flows", []),
        measures=measures,
    )


def verdicts(name, tmp_path, *, quick=False, saved=True):
    """Run a study and check its result; `saved`: also write figures and page, as the command does."""
    shares = []
    if saved:
        done = run_study(name, tmp_path, quick=quick, on_progress=shares.append)
        assert done.page.stat().st_size > 0
        result = done.result
    else:
        study = find_study(name)
        result = study.run(Request(tmp_path, quick, on_progress=shares.append))
        check(study, result)
    assert shares == sorted(shares)
    quantities = [row.quantity for row in result.rows]
    assert len(set(quantities)) == len(quantities)
    assert all(verdict.why and verdict.basis for verdict in result.verdicts)
    return result

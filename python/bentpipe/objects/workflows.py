"""Whole workflows: the demo, published studies, and the validation of bentpipe's claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bentpipe.objects import arguments
from bentpipe.objects.run import Run
from bentpipe.objects.run_set import RunSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from bentpipe.objects.arguments import FileLike
    from bentpipe.studies.running import Done
    from bentpipe.studies.study import Study
    from bentpipe.validation import Outcome

    OnProgress = Callable[[float], object]


def run_demo(out: FileLike = "out/demo", *, jobs: int | None = None, on_progress: OnProgress | None = None) -> RunSet:
    """Race NewReno, CUBIC and BBR from Melbourne to Sydney and London, and write ``OUT/report.html``.

    Args:
        out: Folder for Profiles, Runs and the report; results of an earlier demo there are replaced.
        jobs: Number of threads; default: all cores.
        on_progress: Called with the share done, 0 to 1.

    Example:
        >>> import bentpipe as bp
        >>> runs = bp.run_demo("out/demo")  # doctest: +SKIP
        >>> runs.schemes  # doctest: +SKIP
        ['reno', 'cubic', 'bbr', 'cubic+bbr']
    """
    from bentpipe import demo

    threads = None if jobs is None else arguments.integer(jobs, "jobs", 1)
    result, _ = demo.run_demo(
        arguments.file(out, "out"), jobs=threads, on_progress=arguments.callback(on_progress, "on_progress")
    )
    return RunSet((Run(run) for run in result.runs), failed=result.failed)


def list_studies() -> list[Study]:
    """List the published experiments that bentpipe repeats: name, title, source and run time.

    Example:
        >>> import bentpipe as bp
        >>> "huston-ping" in [study.name for study in bp.list_studies()]
        True
    """
    from bentpipe.studies import STUDIES, find_study

    return [find_study(name) for name in STUDIES]


def run_study(
    name: str,
    out: FileLike | None = None,
    *,
    quick: bool = False,
    data: FileLike | None = None,
    on: str | None = None,
    trials: int | None = None,
    on_progress: OnProgress | None = None,
) -> Done:
    """Run a study; write its figures, its values and a page with published and reproduced values.

    Args:
        name: A name of `list_studies`.
        out: Folder; default: ``out/studies/NAME``.
        quick: Fewer and shorter Runs: larger errors.
        data: Measurements that replace simulated probes; default: simulate.
        on: A Dask scheduler, ``tcp://host:8786``; default: this machine.
        trials: Number of trials of a study in real time; default: its own.
        on_progress: Called with the share done, 0 to 1.

    Raises:
        UserError: An unknown study, or an option that it does not take.
        StoreError: The files cannot be written.

    Example:
        >>> import bentpipe as bp
        >>> done = bp.run_study("t3p-spikes", "out/spikes", quick=True)
        >>> [row.quantity for row in done.result.rows][0]
        'median RTT to 8.8.8.8: BCN-1'
        >>> done.page.name
        't3p-spikes.html'
    """
    from bentpipe.studies import running

    title = arguments.text(name, "name", "a name of bentpipe.list_studies()")
    return running.run_study(
        title,
        Path("out/studies") / title if out is None else arguments.file(out, "out"),
        quick=quick,
        data=None if data is None else arguments.file(data, "data"),
        on=arguments.optional_text(on, "on"),
        trials=None if trials is None else arguments.integer(trials, "trials"),
        on_progress=arguments.callback(on_progress, "on_progress"),
    )


def validate(
    claim: str,
    *,
    data: FileLike | None = None,
    quick: bool = False,
    out: FileLike | None = None,
    on_progress: OnProgress | None = None,
) -> Outcome:
    """Check one of bentpipe's claims against its reference; takes minutes (``docs/guides/validation.md``).

    Args:
        claim: Its name, such as ``kernel-figures``.
        data: Folder with measurements; default: claims that need them are skipped.
        quick: Shorter, for claims that support it.
        out: Folder for the Runs of sim-vs-kernel.
        on_progress: Called with the share done, 0 to 1.

    Returns:
        Our value, the reference and the tolerance of each row; `holds` says whether all that
        have a limit are within, and is None for a skipped claim.

    Raises:
        UserError: An unknown claim, an option that it does not take, or a missing extra.

    Example:
        >>> import bentpipe as bp
        >>> bp.validate("measured-profile").holds
        True
    """
    from bentpipe import validation

    return validation.check(
        arguments.text(claim, "claim"),
        None if data is None else arguments.file(data, "data"),
        arguments.callback(on_progress, "on_progress"),
        quick=quick,
        out=None if out is None else arguments.file(out, "out"),
    )

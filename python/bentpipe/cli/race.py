"""`bentpipe race`: congestion controllers over the same paths."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bentpipe.cli import options
from bentpipe.cli.live import Live, Rows
from bentpipe.cli.made_profile import MadeProfile
from bentpipe.errors import ControllerError, UserError
from bentpipe.times import SLOT_S

if TYPE_CHECKING:
    from bentpipe._native import Network, Profile
    from bentpipe.execution.racing import RaceResult

Out = Annotated[Path, typer.Option("-o", "--out", help="Folder for the Runs.", show_default=False)]
Profiles = Annotated[
    list[Path] | None,
    typer.Argument(help="Profiles (.parquet), as `bentpipe profile make` writes them, unless --site."),
]
Schemes = Annotated[
    str | None,
    typer.Option(
        "--cc",
        help="Schemes, separated by commas; the flows of a+b share the path. `bentpipe cc` lists the controllers. "
        "[default: reno,cubic,bbr]",
        show_default=False,
    ),
]
Tunables = Annotated[
    list[str] | None,
    typer.Option(
        "--cc-opt",
        help="Tunables of every flow of a controller, for example bbr:min_rtt_win_s=20,probe_rtt_mode_ms=100. Set "
        "those of one flow in --cc. `bentpipe cc` lists them. [repeatable] [default: the controller's own]",
        show_default=False,
    ),
]
DirectionOption = Annotated[
    str | None,
    typer.Option(help="Direction of the data: down (to the terminal) or up. [default: down]", show_default=False),
]
Duration = Annotated[
    float | None,
    typer.Option(
        parser=options.duration,
        help="Duration of a run: 60 (seconds), 60s, 5m. [default: that of the shortest Profile]",
        show_default=False,
    ),
]
Seeds = Annotated[int, typer.Option(help="Number of seeds N: one run for each of 0 … N−1.")]
Phase = Annotated[
    float | None,
    typer.Option(
        parser=options.duration,
        help="Offset in the Profile at which a run begins, such as 10s. [default: drawn from the seed, within a "
        "15 s slot]",
        show_default=False,
    ),
]
Aqm = Annotated[
    list[str] | None,
    typer.Option(
        "--aqm",
        help="Queue discipline that replaces the Profiles' own: drop_tail, codel, fq_codel, red or step, with "
        "parameters as in codel:target_ms=5, of one direction as in down=fq_codel, of a hop as in "
        "'sat:*/up=step:threshold_ms=1'. [repeatable] [default: the Profiles' own]",
        show_default=False,
    ),
]
Traffic = Annotated[
    str | None,
    typer.Option(help="Cross traffic on the path: peak or off-peak. [default: none]", show_default=False),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        help="Application of every flow: bulk, transfers:SIZE[,every=TIME][,n=COUNT], paced:RATE, "
        "request:SIZE/SIZE[,n=COUNT][,think=TIME], web:PAGE.har[,http=1|2|3][,n=COUNT][,pause=TIME], "
        "call[:max=RATE], video:VIDEO, or a class in Python, ./FILE.py:CLASS. [default: bulk]",
        show_default=False,
    ),
]
HostTimingOption = Annotated[
    str | None,
    typer.Option(
        "--host-timing",
        help="Model of the time that simulated hosts take: linux-vm (as measured on a virtual machine) or ideal (none)."
        " [default: linux-vm]",
        show_default=False,
    ),
]
TestOption = Annotated[
    str | None,
    typer.Option(
        "--test",
        help="Test of latency under load, after flent: pings beside flows of each controller: rrul (four flows each "
        "way), tcp_down, tcp_up (one flow) or latency_under_load (four down, four up, then both). [default: none]",
        show_default=False,
    ),
]
RecoveryOption = Annotated[
    str | None,
    typer.Option(
        "--recovery",
        help="Loss recovery inside the network, tambur's between the hosts, each scheme with Runs of its own: none, "
        "satguard, linkguardian, tambur, mpep, with tunables as in satguard:tries=2 (`bentpipe recovery` lists "
        "them). Runs then have one-way delays. [default: none]",
        show_default=False,
    ),
]
OnKernel = Annotated[
    bool,
    typer.Option(
        "--on-kernel",
        help="Use this machine's own TCP, in real time, instead of the simulator. `bentpipe kernel check` tells "
        "whether it can.",
    ),
]
Capture = Annotated[
    bool,
    typer.Option(
        "--capture",
        help="With --on-kernel: store the packets of both ends in each Run, as pcapng, each with its fate on the path.",
    ),
]
HookTrace = Annotated[
    bool,
    typer.Option(
        "--hook-trace",
        help="Store every call of each flow's controller, on its first connection, in each Run, for `bentpipe replay`.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "-j",
        "--jobs",
        help="Number of parallel runs; it does not affect results. [default: all cores; with --on-kernel 1]",
        show_default=False,
    ),
]
ExperimentOption = Annotated[
    Path | None,
    typer.Option(
        "-x",
        "--experiment",
        help="An Experiment (TOML) in place of Profiles, --cc and other options that define a Run.",
        show_default=False,
    ),
]
RepeatOption = Annotated[
    Path | None,
    typer.Option(
        "--repeat",
        help="Folder of races whose Runs are made once more, over its Profiles, in place of Profiles and all options "
        "that define a Run.",
        show_default=False,
    ),
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Run again and replace the Runs in the folder.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print every run as JSON instead of the table.")]


@options.shared
def race(
    out: Out,
    profiles: Profiles = None,
    cc: Schemes = None,
    cc_opt: Tunables = None,
    direction: DirectionOption = None,
    duration: Duration = None,
    seeds: Seeds = 1,
    phase: Phase = None,
    aqm: Aqm = None,
    traffic: Traffic = None,
    app: AppOption = None,
    host_timing: HostTimingOption = None,
    test: TestOption = None,
    recovery: RecoveryOption = None,
    on_kernel: OnKernel = False,
    capture: Capture = False,
    hook_trace: HookTrace = False,
    jobs: Jobs = None,
    experiment: ExperimentOption = None,
    repeat: RepeatOption = None,
    fresh: Fresh = False,
    live: Live = False,
    rows: Rows = None,
    as_json: AsJson = False,
    *,
    made: MadeProfile,
) -> None:
    """Race congestion controllers: one Run per Profile, scheme and seed, in the simulator on all cores.

    With --on-kernel the Runs use this machine's own TCP, one after the other, each in real time. A Run that is invalid
    because the machine was too busy is tried again.

    Finished, valid Runs are stored, so the same command continues after Ctrl-C. Exit code 1: some Runs stayed invalid.

    Example:
        bentpipe race P.parquet --cc cubic,bbr,cubic+bbr --duration 60 --seeds 5 -o out/race

    Over a Profile that the command makes, a slot longer than --duration:
        bentpipe race --site louvain --to london --cc cubic,bbr --duration 60 -o out/race

    On the kernel:
        bentpipe race P.parquet --cc reno,cubic,bbr --on-kernel --duration 60 -o out/kernel

    Requests of 200 bytes for 100 kB each, instead of flows that always have data:
        bentpipe race P.parquet --app request:200bytes/100kb --cc cubic,bbr -o out/requests

    Rows of the Runs while they go on, as lines of JSON (a stored Run gives none; the table is then not printed):
        bentpipe race P.parquet --cc cubic -o out/rows --rows - | jq -c 'select(.type == "sample")'

    Latency under load, with pings beside four flows each way:
        bentpipe race P.parquet --test rrul --cc cubic,bbr --duration 60 -o out/rrul

    With another queue discipline, and flows that use ECN:
        bentpipe race P.parquet --aqm fq_codel --cc cubic,cubic:ecn=on,bbr3:ecn=on -o out/marks

    With and without loss recovery inside the network, with one-way delays:
        bentpipe race P.parquet --recovery none,satguard --cc cubic,bbr -o out/recovery --json

    The Runs of a folder once more:
        bentpipe race --repeat out/race -o again
    """
    from bentpipe.cli.console import reporting_interrupts

    if rows == "-" and as_json:
        raise UserError("--rows - and --json both write to standard output; expected one of them, or --rows FILE")
    # A fresh race that has not begun has no Runs of its own: without --fresh it would count earlier Runs as its own.
    with reporting_interrupts(out, "the same command starts over" if fresh else "the same command runs the rest"):
        settings = {"out": out, "seeds": seeds, "jobs": jobs, "fresh": fresh, "on_kernel": on_kernel}
        settings |= {"capture": capture, "hook_trace": hook_trace}
        watch = {"rows": rows, "live": live}
        defining = {
            "PROFILES": profiles,
            "--cc": cc,
            "--cc-opt": cc_opt,
            "--direction": direction,
            "--duration": duration,
            "--phase": phase,
            "--aqm": aqm,
            "--traffic": traffic,
            "--app": app,
            "--host-timing": host_timing,
            "--test": test,
            "--recovery": recovery,
        }
        given = [name for name, value in defining.items() if value is not None and value != []] + made.given()
        if repeat is not None:
            others = {"--experiment": experiment is not None, "--seeds": seeds != 1, "--on-kernel": on_kernel}
            given += [name for name, is_given in others.items() if is_given]
            if given:
                raise UserError(f"--repeat: the folder defines the runs, so {given[0]} cannot be given with it")
            result = _run_again(repeat, settings, watch)
        elif experiment is not None:
            if given:
                raise UserError(f"--experiment: the file defines the runs, so {given[0]} cannot be given with it")
            result = _run_file(experiment, settings, watch)
        elif profiles or made.site is not None:
            made.refuse_without_site()
            decided = {"--direction": direction, "--app": app, "--traffic": traffic}
            if test is not None and (also := [name for name, value in decided.items() if value is not None]):
                raise UserError(f"--test: the test decides its flows, so {also[0]} cannot be given with it")
            settings |= {
                "direction": "down" if direction is None else direction,
                "duration_s": duration,
                "phase_s": phase,
            }
            settings["queues"] = aqm or []
            settings["traffic"] = traffic
            settings["app"] = "bulk" if app is None else app
            settings["host_timing"] = "linux-vm" if host_timing is None else host_timing
            settings["test"] = test
            settings["recovery"] = recovery
            schemes = "reno,cubic,bbr" if cc is None else cc
            result = _race(profiles or [], made, schemes, cc_opt or [], settings, watch)
        else:
            made.refuse_without_site()
            raise UserError(
                "PROFILES: none given; expected Profile files (bentpipe profile make writes them), --site and --to to "
                "make one, or -x FILE"
            )
        show_result(result, as_json, has_table=rows != "-")
        if result.failed:
            from bentpipe.cli import console
            from bentpipe.runs.failed import by_scheme

            for line in by_scheme(result.failed):
                console.error(line)
            raise typer.Exit(ControllerError.exit_code)
        if not all(run.record.valid for run in result.runs):
            raise typer.Exit(1)


def _run_file(experiment: Path, settings: dict[str, Any], watch: dict[str, Any]) -> RaceResult:
    from bentpipe.cli.live import race_sinks
    from bentpipe.cli.run import note_if_fast
    from bentpipe.execution import racing
    from bentpipe.experiments.file import read_experiment
    from bentpipe.profiles.parquet import read_profile

    file = read_experiment(experiment)
    paths = [read_profile(path) for path in file.files.values()]
    if settings["on_kernel"]:
        note_if_fast(paths)
    with race_sinks(**watch) as (on_rows, advance):
        settings |= {"on_progress": lambda each: advance(each.share), "on_rows": on_rows}
        return racing.run_experiment(file, paths, **settings)


def _run_again(folder: Path, settings: dict[str, Any], watch: dict[str, Any]) -> RaceResult:
    from bentpipe.cli.live import race_sinks
    from bentpipe.execution import racing

    names = ("out", "jobs", "fresh", "capture", "hook_trace")
    with race_sinks(**watch) as (on_rows, advance):
        kept = {name: settings[name] for name in names}
        return racing.repeat(folder, **kept, on_progress=lambda each: advance(each.share), on_rows=on_rows)


def _race(
    profiles: list[Path], made: MadeProfile, cc: str, cc_opt: list[str], settings: dict[str, Any], watch: dict[str, Any]
) -> RaceResult:
    from bentpipe.cli.live import race_sinks
    from bentpipe.cli.run import note_if_fast
    from bentpipe.execution import racing
    from bentpipe.experiments.schemes import parse_options, parse_schemes
    from bentpipe.profiles.parquet import is_network

    schemes = parse_schemes(cc, parse_options(cc_opt))
    if made.site is None:
        paths = _read_profiles(profiles, cc)
    elif profiles:
        raise UserError(f"PROFILES: {profiles[0]}: --site makes the Profile; expected either of them")
    else:
        settings |= {"duration_s": MADE_RUN_S if settings["duration_s"] is None else settings["duration_s"]}
        paths = [made.make(_made_duration_s(settings["duration_s"], settings["phase_s"]))]
    if settings["on_kernel"]:
        note_if_fast(path for path in paths if not is_network(path))
    with race_sinks(**watch) as (on_rows, advance):
        settings |= {"on_progress": lambda each: advance(each.share), "on_rows": on_rows}
        return racing.race(paths, schemes, **settings)


def _read_profiles(files: list[Path], cc: str) -> list[Profile | Network]:
    from bentpipe.experiments.schemes import known_controllers
    from bentpipe.profiles.parquet import read_either

    known = known_controllers()
    for path in files:
        if not path.exists() and all(part in known for part in str(path).lower().replace(",", "+").split("+")):
            raise UserError(
                f"PROFILES: {path}: no such file; expected a Profile; try one --cc, with commas: --cc {cc},{path}"
            )
    return [read_either(path) for path in files]


MADE_RUN_S = 300.0
"""Duration of a Run over a made Profile without --duration [s], as that of a Profile without one."""


def _made_duration_s(run_s: float, phase_s: float | None) -> float:
    """Return the duration of a made Profile: one slot more than a Run, so that each seed begins elsewhere in a slot.

    Raises:
        UserError: The Run would be too short.
    """
    from bentpipe.experiments.experiment import SAMPLE_STEP_NS

    least_s = SAMPLE_STEP_NS / 1e9
    if run_s < least_s:
        raise UserError(f"{run_s:g} s", where="duration_s", expected=f"at least {least_s:g} s")
    return run_s + (SLOT_S if phase_s is None else phase_s)


def show_result(result: RaceResult, as_json: bool, *, has_table: bool = True) -> None:
    """Print a race: every Run as JSON, or a table of means over the seeds, or only notes."""
    from bentpipe.cli.console import hint, note, print_json, table, warn
    from bentpipe.runs import summary
    from bentpipe.runs.apart import distinguish
    from bentpipe.runs.latency import latencies
    from bentpipe.runs.text import latency_tables, plural, result_tables

    excluded = summary.left_out(result.runs)
    if as_json:
        print_json(result.to_dict())
    elif has_table:
        # The flows of a test differ in direction and time: its table has them together, load by load.
        runs = distinguish(result.runs)
        of_flows = [run for run in runs if run.record.experiment.test is None]
        tables = result_tables(summary.summarise(of_flows), summary.left_out(of_flows))
        for results in (*tables, *latency_tables(latencies(runs))):
            table(results.title, results.columns, results.rows)
    if excluded:
        invalid = sum(each.invalid for each in excluded)
        warn(f"{invalid} of {len(result.runs)} Runs excluded as invalid; the first: {excluded[0].why}")
        hint(
            "the same command repeats only those; end other work on this machine or use a slower path; `bentpipe "
            "kernel check` measures how late packets are now"
        )
    if as_json:
        return
    if result.resumed:
        note(f"{result.resumed} of {len(result.runs)} Runs were stored already (--fresh repeats them)")
    if len({run.seed for run in result.runs if run.record.phase == "drawn"}) > 1:
        for label in dict.fromkeys(run.label for run in result.runs):
            if len({run.offset_s for run in result.runs if run.label == label}) == 1:
                note(f"{label} is as long as a run, so all seeds begin at the same offset; 15 s more let it vary")
    count = plural(len(result.runs), "Run")
    note(f"{count} in {result.out}; figures and tables: bentpipe report {result.out}")

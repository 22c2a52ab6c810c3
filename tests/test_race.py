"""Races: their plan, repetition, interruption and continuation."""

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from race_profiles import RACE, START_UNIX_NS, computed, dumbbell, files, outage

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.execution.plan import drawn_phase_ns
from bentpipe.execution.racing import race, run_experiment
from bentpipe.execution.service import PathWarning
from bentpipe.experiments.file import read_experiment
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.table import DIRECTIONS, KINDS
from bentpipe.report.build import write_report
from bentpipe.runs.store import DamagedRunWarning, find_runs, read_run
from bentpipe.runs.summary import compare, summarise, total_goodput_bps
from bentpipe.runs.text import result_rows


def test_one_run_per_profile_scheme_and_seed(tmp_path):
    result = race([dumbbell(), dumbbell(name="other")], ["reno", "cubic+bbr"], out=tmp_path, duration_s=2.0, seeds=2)
    assert [(run.label, run.seed, run.scheme) for run in result.runs] == [
        (label, seed, scheme) for label in ("dumbbell", "other") for seed in (0, 1) for scheme in ("reno", "cubic+bbr")
    ]
    assert sorted(run.path for run in find_runs(tmp_path)) == sorted(run.path for run in result.runs)
    for run in result.runs:
        assert run.record.experiment.seed == run.seed
        assert [flow["controller"] for flow in run.flows] == run.scheme.split("+")
        assert run.record.valid


def test_folders_may_be_text_and_a_result_is_shown_in_one_line(tmp_path):
    out = str(tmp_path / "out")
    result = race([dumbbell()], ["reno"], out=out, duration_s=1.0, seeds=3)
    assert repr(result) == f"RaceResult(out={out!r}, runs=3, resumed=0)"
    assert repr(result.runs[0]) == f"Run(path={result.runs[0].path!r})"
    assert write_report(out) == tmp_path / "out" / "report.html"
    assert read_run(str(result.runs[0].path)).seed == 0


def test_race_json_has_its_stable_keys(tmp_path):
    document = race([dumbbell()], ["cubic+bbr"], out=tmp_path, duration_s=2.0).to_dict()
    (row,) = json.loads(json.dumps(document, allow_nan=False))["runs"]
    assert list(row)[:5] == ["profile", "scheme", "seed", "world", "flows"]
    assert (row["profile"], row["scheme"], row["seed"], row["world"]) == ("dumbbell", "cubic+bbr", 0, "simulated")
    for flow in row["flows"]:
        assert list(flow)[:5] == ["controller", "goodput_bps", "rtt_median_ms", "rtt_p95_ms", "retransmits"]
        assert 0 < flow["goodput_bps"] < 10e6
        assert 40 <= flow["rtt_median_ms"] <= flow["rtt_p95_ms"]


def test_the_number_of_threads_changes_nothing(tmp_path):
    paths = [dumbbell(), dumbbell(name="other")]
    for jobs in (1, 4):
        race(paths, ["reno", "bbr", "cubic+bbr"], out=tmp_path / str(jobs), duration_s=2.0, seeds=2, jobs=jobs)
    assert files(tmp_path / "1") == files(tmp_path / "4")


def test_a_run_can_be_repeated_from_its_stored_profile(tmp_path):
    from bentpipe.profiles.parquet import read_profile

    first = race([dumbbell()], ["bbr"], out=tmp_path / "a", duration_s=2.0, seeds=2)
    kept = read_profile(tmp_path / "a" / "profiles" / "dumbbell.parquet")
    second = race([kept], ["bbr"], out=tmp_path / "b", duration_s=2.0, seeds=2)
    assert [run.record.content_hash for run in first.runs] == [run.record.content_hash for run in second.runs]


def test_finished_runs_are_reused_and_only_the_rest_is_run(tmp_path):
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0)
    before = {run.path: (run.path / "run.json").stat().st_mtime_ns for run in find_runs(tmp_path)}
    result = race([dumbbell()], ["reno", "cubic"], out=tmp_path, duration_s=2.0, seeds=2)
    assert (result.resumed, len(result.runs)) == (1, 4)
    for path, when in before.items():
        assert (path / "run.json").stat().st_mtime_ns == when


def test_seed_0_uses_the_given_profile_and_others_redraw_it(tmp_path):
    base = computed(seed=7)
    result = race([base], ["reno"], out=tmp_path, duration_s=1.0, seeds=3)
    drawn = [run.record.profiles[0] for run in result.runs]
    assert [profile.provenance["seed"] for profile in drawn] == [7, 8, 9]
    assert drawn[0].hash == base.content_hash()
    assert drawn[1].hash == base.reseed(8).content_hash()
    assert race([base], ["reno"], out=tmp_path, duration_s=1.0, seeds=3).resumed == 3


def test_the_largest_seed_of_a_profile_wraps_around(tmp_path):
    result = race([computed(seed=2**64 - 1)], ["reno"], out=tmp_path, duration_s=1.0, seeds=2)
    assert [run.record.profiles[0].provenance["seed"] for run in result.runs] == [2**64 - 1, 0]


def test_seeds_without_effect_are_one_result(tmp_path):
    # One phase for all: a packet a nanosecond later can be in the next sample, and the overshoot another.
    alike = race([dumbbell()], ["reno", "cubic"], out=tmp_path / "alike", duration_s=2.0, seeds=3, phase_s=0.0)
    first, _ = summarise(alike.runs)
    assert (first.n, first.valid, first.runs) == (1, 3, 3)
    assert first.total_bps.low is None
    assert result_rows([first])[0][-1] == "1 (3 alike)"
    assert compare(alike.runs, "reno", "cubic", total_goodput_bps)["dumbbell"].n == 1
    differing = race([dumbbell(rate="10mbit,loss=1%")], ["reno"], out=tmp_path / "lossy", duration_s=2.0, seeds=3)
    assert summarise(differing.runs)[0].n == 3
    assert summarise(differing.runs)[0].total_bps.low is not None
    assert result_rows(summarise(differing.runs))[0][-1] == "3"


@pytest.mark.parametrize(
    ("key", "message"),
    [("build", "another build of"), ("bentpipe", "another version of"), ("kernel", "another kernel, whose results")],
)
def test_runs_of_another_build_or_version_are_refused(tmp_path, key, message):
    (run,) = race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0).runs
    assert race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0).resumed == 1
    for versions in ({**run.record.versions, key: "0123456789abcdef"}, {}):
        (run.path / "run.json").write_text(
            json.dumps(run.record.replace(versions=versions).to_dict()), encoding="utf-8"
        )
        with pytest.raises(UserError, match=message if versions else "another version") as caught:
            race([dumbbell()], ["reno", "cubic"], out=tmp_path, duration_s=2.0)
        assert len(str(caught.value).splitlines()) == 1
        assert "`fresh`" in str(caught.value)
    assert len(find_runs(tmp_path)) == 1
    assert race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0, fresh=True).resumed == 0
    assert race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0).resumed == 1


def test_a_race_on_a_path_without_service_is_refused(tmp_path):
    path = outage()
    with pytest.raises(UserError, match=r"'mid-ocean' has no service from beginning to end.*`gateways`") as caught:
        race([path], ["reno"], out=tmp_path / "out", duration_s=2.0)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "out").exists()
    # Beside a path with service it is a result like any other.
    with pytest.warns(PathWarning, match="'mid-ocean' has no service in its Runs"):
        runs = race([dumbbell(), path], ["reno"], out=tmp_path / "out", duration_s=2.0).runs
    assert [run.flows[0]["goodput_bps"] > 0 for run in runs] == [True, False]


def stepped(direction, kind, times_s, values):
    """A dumbbell with another series."""
    whole = dumbbell()
    metadata, table = whole.metadata_json(), whole.table()
    codes = (DIRECTIONS.index(direction), KINDS.index(kind))
    others = (table["direction"] != codes[0]) | (table["kind"] != codes[1])
    added = {"t_s": times_s, "direction": codes[0], "kind": codes[1], "value": values, "hop": 0, "valid": True}
    rows = {
        name: np.concatenate([column[others], np.broadcast_to(added[name], len(times_s)).astype(column.dtype)])
        for name, column in table.items()
    }
    order = np.lexsort([rows["t_s"], rows["kind"], rows["direction"], rows["hop"]])
    return Profile.from_table(metadata, **{name: column[order] for name, column in rows.items()})


@pytest.mark.parametrize("direction", ["up", "down"])
@pytest.mark.parametrize(("kind", "closed", "opened"), [("capacity_bps", 0.0, 1e7), ("loss_probability", 1.0, 0.0)])
def test_a_race_while_a_direction_passes_nothing_is_refused(tmp_path, direction, kind, closed, opened):
    path = stepped(direction, kind, [0.0, 2.0], [closed, opened])
    refused = rf"has no service in the time that is raced: it has capacity 0 or loses every packet {direction}wards"
    for phase_s in (0.0, 1.0):
        with pytest.raises(UserError, match=refused):
            race([path], ["reno"], out=tmp_path / "none", duration_s=1.0, phase_s=phase_s)
    assert not (tmp_path / "none").exists()
    race([path], ["reno"], out=tmp_path / "some", duration_s=1.0, phase_s=1.1)


def test_a_run_in_an_outage_counts_where_another_run_has_service(tmp_path):
    whole = dumbbell()
    metadata = json.loads(whole.metadata_json())
    metadata["routes"] = [{"at_ns": 0, "hops": []}, {"at_ns": 2_000_000_000, "hops": [0]}]
    path = Profile.from_table(json.dumps(metadata), *whole.table().values())
    with pytest.raises(UserError, match="has no service in the time that is raced"):
        race([path], ["reno"], out=tmp_path / "none", duration_s=1.0, phase_s=0.0)
    runs = race([path], ["reno"], out=tmp_path / "some", duration_s=1.0, seeds=4).runs
    goodput = [run.flows[0]["goodput_bps"] for run in runs]
    assert min(goodput) == 0 < max(goodput)


def test_a_damaged_run_is_run_again_with_a_warning(tmp_path):
    first, second = race([dumbbell()], ["reno", "cubic"], out=tmp_path, duration_s=2.0).runs
    (first.path / "run.json").write_bytes(b'{"format"')
    (second.path / "run.json").unlink()
    with pytest.warns(DamagedRunWarning) as caught:
        again = race([dumbbell()], ["reno", "cubic"], out=tmp_path, duration_s=2.0)
    assert [str(w.message).startswith("a damaged Run is replaced: ") for w in caught] == [True, True]
    assert again.resumed == 0
    assert [r.record.content_hash for r in find_runs(tmp_path)] == [
        r.record.content_hash for r in sorted((first, second), key=lambda r: r.path)
    ]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "file").write_bytes(b"mine")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="file: is a file; expected a folder"):
            race([dumbbell()], ["reno"], out=out, duration_s=2.0)
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_a_profile_too_short_to_race_is_named(tmp_path):
    with pytest.raises(UserError, match=r"the Profile 'dumbbell' lasts 0\.05 s; expected at least 0\.1 s"):
        race([dumbbell(0.05)], ["reno"], out=tmp_path)


def test_other_runs_in_the_folder_are_overwritten_only_with_fresh(tmp_path):
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0)
    with pytest.raises(UserError, match="holds a Run of another Experiment"):
        race([dumbbell()], ["reno"], out=tmp_path, duration_s=3.0)
    with pytest.raises(UserError, match="another Profile of that name"):
        race([dumbbell(rate="5mbit")], ["cubic"], out=tmp_path, duration_s=2.0)
    assert [run.duration_s for run in find_runs(tmp_path)] == [2.0]
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=3.0, fresh=True)
    assert [run.duration_s for run in find_runs(tmp_path)] == [3.0]


@pytest.mark.parametrize(
    ("schemes", "options", "message"),
    [
        (["bbbr"], {}, "did you mean 'bbr'"),
        (["reno"], {"duration_s": 5.0}, "5 s exceeds the Profile 'dumbbell'; expected at most 4 s in all"),
        (["reno"], {"duration_s": 2.0, "phase_s": 2.5}, "2 s from 2.5 s on exceeds"),
        (["reno"], {"duration_s": 0.0}, "duration_s: 0"),
        (["reno"], {"duration_s": -1.0}, "duration_s: -1"),
        (["reno"], {"duration_s": float("nan")}, "duration_s: nan"),
        (["reno"], {"duration_s": 2.0, "phase_s": -1.0}, "phase_s: -1"),
        (["reno"], {"seeds": 0}, "seeds: 0"),
        (["reno"], {"jobs": 0}, "jobs: 0"),
        (["reno"], {"direction": "sideways"}, "direction: 'sideways'"),
        ([], {}, "no Profile or no scheme"),
    ],
)
def test_an_impossible_race_is_refused_before_anything_runs(tmp_path, schemes, options, message):
    with pytest.raises(UserError) as caught:
        race([dumbbell()], schemes, out=tmp_path / "out", **options)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_profiles_of_one_name_get_labels_and_a_repeated_profile_is_refused(tmp_path):
    result = race([dumbbell(), dumbbell(rate="5mbit")], ["reno"], out=tmp_path / "two", duration_s=2.0)
    assert [run.label for run in result.runs] == ["dumbbell", "dumbbell~2"]
    with pytest.raises(UserError, match="given twice"):
        race([dumbbell(), dumbbell()], ["reno"], out=tmp_path / "same", duration_s=2.0)


def test_the_start_phase_is_drawn_by_seed_or_given(tmp_path):
    drawn = race([dumbbell(30.0)], ["reno"], out=tmp_path / "drawn", duration_s=1.0, seeds=3)
    offsets = [run.offset_s for run in drawn.runs]
    assert len(set(offsets)) == 3
    assert all(0 <= offset <= 15 for offset in offsets)
    given_ = race([dumbbell(30.0)], ["reno"], out=tmp_path / "given", duration_s=1.0, seeds=2, phase_s=7.25)
    assert [run.offset_s for run in given_.runs] == [7.25, 7.25]
    assert drawn.runs[0].start_unix_ns == START_UNIX_NS + round(offsets[0] * 1e9)


def test_start_phases_spread_evenly_over_the_slot():
    phases = sorted(drawn_phase_ns(seed, 999) for seed in range(2000))
    # Kolmogorov–Smirnov: the 0.1 % point of the largest distance for 2000 draws is 1.95/√2000.
    assert max(abs(phase / 1000 - i / 2000) for i, phase in enumerate(phases)) < 1.95 / 2000**0.5


@given(st.integers(0, 2**64), st.integers(0, 10**12))
def test_a_start_phase_never_leaves_its_span(seed, span_ns):
    assert 0 <= drawn_phase_ns(seed, span_ns) <= span_ns


def test_progress_rises_to_one_and_counts_earlier_runs(tmp_path):
    reports = []
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0)
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0, seeds=3, on_progress=reports.append)
    shares = [each.share for each in reports]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert (reports[-1].done, reports[-1].total) == (3, 3)


def test_an_experiment_file_is_run_for_each_seed(tmp_path):
    from bentpipe.profiles.parquet import read_profile, write_profile

    write_profile(dumbbell(), tmp_path / "p.parquet")
    (tmp_path / "e.toml").write_text(
        'name = "late"\nseed = 4\nduration_s = 3\n[[profiles]]\nrole = "access"\nfile = "p.parquet"\n'
        '[[flows]]\ncontroller = "cubic"\n[[flows]]\ncontroller = "bbr"\nstart_s = 1\napp = "transfers:100kb,n=1"\n',
        encoding="utf-8",
    )
    file = read_experiment(tmp_path / "e.toml")
    paths = [read_profile(path) for path in file.files.values()]
    result = run_experiment(file, paths, out=tmp_path / "out", seeds=2)
    assert [run.seed for run in result.runs] == [4, 5]
    assert result.runs[0].path.parts[-4] == "late"
    assert result.runs[0].flows[1]["completed_s"] is not None
    assert run_experiment(file, paths, out=tmp_path / "out", seeds=2).resumed == 2


def test_a_full_disk_keeps_finished_runs(tmp_path):
    # A limit on the size of files stands in for the full disk: Runs of two flows are over it, Runs of one are not. One
    # job, so that a Run of one flow is finished when the first of two strikes.
    out = tmp_path / "out"
    limited = (
        RACE.replace(
            "path = preset",
            "import resource, signal\n"
            "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)\n"
            "path = preset",
            1,
        )
        .replace('"cubic", "bbr"', '"cubic+bbr"')
        .replace("jobs=2", "jobs=1")
    )
    first = race(
        [preset_profile("dumbbell:rate=50mbit", 30.0, start_unix_ns=0, name="dumbbell")],
        ["reno", "cubic+bbr"],
        out=tmp_path / "whole",
        duration_s=30.0,
    )
    small, large = (max(p.stat().st_size for p in run.path.iterdir()) for run in first.runs)
    assert small < large
    limit = str((small + large) // 2)
    done = subprocess.run([sys.executable, "-c", limited, str(out), limit], capture_output=True, text=True, check=True)
    kept = find_runs(out)
    assert kept, done.stderr
    assert all(run.scheme == "reno" for run in kept)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert "File too large" in done.stdout
    assert f"{len(kept)} of 800 Runs are stored" in done.stdout
    assert not list(out.glob("race-down/*/*/.partial-*"))


def test_two_races_at_once_into_one_folder_are_refused(tmp_path):
    """The second would mix its Runs with those of the first; the report says that a race is writing."""
    out, second = tmp_path / "out", []

    def other(progress):
        if not second and progress.done >= 2:
            with pytest.raises(UserError, match="another race writes there; wait for its end") as error:
                race([dumbbell(rate="20mbit")], ["reno"], out=out, duration_s=2.0)
            second.append(str(error.value))
            with pytest.warns(UserWarning, match="a race is writing there"):
                page = write_report(out).read_text(encoding="utf-8")
            assert "A race was writing into this folder when this page was made" in page

    race([dumbbell()], ["reno", "cubic"], out=out, duration_s=4.0, seeds=8, jobs=1, on_progress=other)
    assert second == [f"{out}: another race writes there; wait for its end, or choose another folder (`out`)"]
    assert {run.scheme for run in find_runs(out)} == {"reno", "cubic"}
    assert "was writing" not in write_report(out).read_text(encoding="utf-8")
    race([dumbbell()], ["reno"], out=out, duration_s=4.0, seeds=8)  # the lock is free again

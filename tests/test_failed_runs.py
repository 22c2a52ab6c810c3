"""Failed Runs stay with the others: in selections, on disk, in the summary and in reports."""

import html

import pytest
from object_profiles import dumbbell

import bentpipe as bp

BAD = """
from bentpipe.plugin import Controller


class Bad(Controller):
    def on_ack(self, ack):
        raise ValueError("no")
"""


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    file = tmp_path_factory.mktemp("controllers") / "bad.py"
    file.write_text(BAD, encoding="utf-8")
    return f"{file}:Bad"


@pytest.fixture(scope="module")
def runs(bad):
    race = bp.Experiment([dumbbell(duration=2), dumbbell(duration=3, name="other")], schemes=[bad, "cubic"], seeds=2)
    with pytest.warns(UserWarning, match="failed"):
        return race.simulate()


def test_a_warning_says_how_many_runs_failed_which_and_why(bad, tmp_path):
    race = bp.Experiment(dumbbell(duration=2), schemes=[bad, "cubic"], seeds=2)
    for out in (None, tmp_path):
        with pytest.warns(UserWarning, match="failed") as warned:
            runs = race.simulate(out)
        (text,) = [str(each.message) for each in warned]
        assert text.startswith(
            f"2 Runs of 4 failed (listed in `failed` of the RunSet): {bad}: 2 Runs ended early; seed"
        )
        assert text.endswith("raised ValueError: no (line 7)")
        assert "\n" not in text
        assert warned[0].filename == __file__
        assert len(runs.failed) == len(runs) == 2


def test_selections_keep_the_failed_runs_of_their_kind(runs, bad):
    assert [(run.profile, run.seed) for run in runs.failed] == [
        ("dumbbell", 0),
        ("dumbbell", 1),
        ("other", 0),
        ("other", 1),
    ]
    assert len(runs[bad]) == 0
    assert len(runs[bad].failed) == 4
    assert runs["cubic"].failed == ()
    assert [run.profile for run in runs.filter(seed=1).failed] == ["dumbbell", "other"]
    other = dumbbell(duration=3, name="other")
    for profile in ("other", other):
        assert [run.seed for run in runs.filter(profile=profile).failed] == [0, 1]
    assert runs.filter(valid=True).failed == ()
    assert len(runs.filter(valid=False).failed) == 4
    assert len(runs.filter(lambda run: run.seed == 0).failed) == 4
    assert runs[:2].failed == ()
    with pytest.raises(bp.UserError, match=r"the Run failed: .*ValueError: no"):
        runs["other", bad, 1]
    with pytest.raises(bp.UserError, match=r"report: there is no Run in this set, and 4 failed \(.*ValueError: no"):
        runs[bad].report("page.html")


def test_the_summary_counts_failed_runs(runs, bad):
    rows = runs.summary().select("profile", "scheme", "n", "runs", "failed", "goodput_bps").rows()
    assert [row[:5] for row in rows] == [
        ("dumbbell", "cubic", 1, 2, 0),
        ("other", "cubic", 1, 2, 0),
        ("dumbbell", bad, 0, 0, 2),
        ("other", bad, 0, 0, 2),
    ]
    assert [row[5] is None for row in rows] == [False, False, True, True]
    assert "failed: " in runs._repr_html_()


def test_failed_runs_are_written_and_read(runs, bad, tmp_path):
    one = runs.filter(profile="other")
    one.write(tmp_path / "out")
    read = bp.RunSet.read(tmp_path / "out")
    assert read.failed == one.failed
    assert read.summary().equals(one.summary())
    both = read.compare(one)
    assert both.notes[:2] == ("A: 2 Runs failed, left out", "B: 2 Runs failed, left out")


def test_the_report_of_runs_in_memory_lists_failed_ones(runs, bad, tmp_path):
    text = html.unescape(runs.filter(seed=0).report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"Failed: {bad}: 2 Runs ended early; seed 0 on dumbbell: " in text


def test_a_scheme_without_a_valid_run_has_a_row(runs):
    stored = runs["dumbbell", "cubic", 0].stored
    void = type(stored)(
        stored.path, stored.record.replace(valid=False, why_invalid="late"), stored.tables, stored.bases
    )
    (row,) = bp.RunSet([bp.Run(void)]).summary().rows(named=True)
    assert (row["scheme"], row["n"], row["runs"], row["goodput_bps"]) == ("cubic", 0, 1, None)


def test_failed_runs_count_with_the_experiment_of_their_settings(bad):
    done = []
    for queue in ((), "codel"):
        race = bp.Experiment(dumbbell(duration=2), schemes=[bad, "cubic"], queue=queue)
        with pytest.warns(UserWarning, match="1 Run of 2 failed"):
            done.append(race.simulate())
    failed = [run for runs in done for run in runs.failed]
    both = bp.RunSet([run for runs in done for run in runs], failed=failed)
    names = ["race-down · the Profile's queues", "race-down · codel"]
    assert both.summary().select("experiment", "runs", "failed").rows() == [
        *((name, 1, 0) for name in names),
        *((name, 0, 1) for name in names),
    ]
    first = bp.RunSet(done[0], failed=failed)  # no Run has the settings of the second race's failed one
    assert first.summary()["experiment"].to_list() == ["race-down", "race-down", "race-down · other settings"]

"""The command that a report prints makes the same Runs, however the race was requested."""

import html
import json
import re
import shlex
import shutil

import pytest
from race_profiles import START_UNIX_NS, computed, dumbbell
from typer.testing import CliRunner

import bentpipe as bp
from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.execution import racing
from bentpipe.execution.repetition import RepetitionWarning
from bentpipe.profiles.parquet import write_profile
from bentpipe.profiles.presets import preset_profile
from bentpipe.report.build import write_report
from bentpipe.report.place import Place
from bentpipe.report.repeat import repeat_commands
from bentpipe.runs.manifest import read_manifest
from bentpipe.runs.store import find_runs

OWN = """
from bentpipe.plugin import App

class Poll(App):
    every_s = 0.5

    def on_started(self, now_s):
        self.stream = self.open()

    def on_opened(self, now_s, stream):
        self.write(stream, 1000, answer_bytes=20_000)
        self.set_timer(now_s + self.every_s, 1)

    def on_timer(self, now_s, number):
        self.on_opened(now_s, self.stream)
"""


def bentpipe(*arguments):
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, done.stderr
    return done


def hashes(out):
    return {
        (run.experiment, run.world, run.label, run.scheme, run.seed): (run.record.phase, run.record.content_hash)
        for run in find_runs(out)
    }


def printed_commands(out):
    return repeat_commands(Place.in_folder(out), find_runs(out))


def run_again(out, again):
    race, report = printed_commands(out)
    assert report == "bentpipe report again"
    program, *arguments = shlex.split(race)
    assert program == "bentpipe"
    assert arguments[-2:] == ["-o", "again"]
    bentpipe(*arguments[:-1], again)


@pytest.mark.parametrize(
    "options",
    [
        "--cc cubic,cubic+bbr:min_rtt_win_s=20 --seeds 3 --duration 2",
        "--cc cubic --cc-opt cubic:fast_convergence=0 --phase 0.5 --duration 1",
        "--cc cubic:ecn=on --aqm fq_codel --aqm up=red",
        "--cc bbr --traffic peak --seeds 2",
        "--cc cubic,bbr --app transfers:100kb,every=500ms",
        "--cc cubic --app request:200bytes/100kb,n=5 --direction up",
        "--cc cubic --host-timing ideal --direction up",
    ],
)
def test_the_printed_command_makes_the_same_runs(tmp_path, options):
    near, drawn = tmp_path / "near.parquet", tmp_path / "drawn.parquet"
    write_profile(dumbbell(name="near"), near)
    write_profile(computed(3), drawn)
    out, again = tmp_path / "out", tmp_path / "again"
    bentpipe("race", near, drawn, *options.split(), "-o", out)
    run_again(out, again)
    assert hashes(again) == hashes(out)


def test_the_page_prints_the_command(tmp_path):
    racing.race([dumbbell()], ["reno"], out=tmp_path, duration_s=1.0, queues=["fq_codel"])
    text = html.unescape(write_report(tmp_path).read_text(encoding="utf-8"))
    shown = re.search(r'<section id="repeat">.*?<pre>(.*?)</pre>', text, re.DOTALL)[1]
    assert shown.splitlines() == printed_commands(tmp_path)


def test_races_and_an_experiment_file_of_one_folder_are_repeated_together(tmp_path):
    write_profile(dumbbell(name="near"), tmp_path / "near.parquet")
    (tmp_path / "both.toml").write_text(
        'name = "both"\nduration_s = 2\nseed = 4\n[[profiles]]\nrole = "home"\nfile = "near.parquet"\n'
        '[[flows]]\ncontroller = "cubic"\n[[flows]]\ncontroller = "reno"\ndirection = "up"\nstart_s = 0.5\n'
        "[hosts.server]\nfq = true\n",
        encoding="utf-8",
    )
    out, again = tmp_path / "out", tmp_path / "again"
    bentpipe("race", "-x", tmp_path / "both.toml", "--seeds", 2, "-o", out)
    bentpipe("race", tmp_path / "near.parquet", "--cc", "cubic", "-o", out)
    bentpipe("race", tmp_path / "near.parquet", "--cc", "reno", "--direction", "up", "-o", out)
    run_again(out, again)
    assert hashes(again) == hashes(out)


def test_a_test_of_latency_under_load_is_repeated(tmp_path):
    path = dumbbell(duration_s=20.0)
    racing.race([path], ["cubic", "bbr"], out=tmp_path / "out", duration_s=20.0, test="rrul")
    run_again(tmp_path / "out", tmp_path / "again")
    assert hashes(tmp_path / "again") == hashes(tmp_path / "out")


def test_a_python_application_is_found_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    write_profile(dumbbell(), tmp_path / "P.parquet")
    bentpipe("race", "P.parquet", "--cc", "cubic", "--app", "./own.py:Poll:every_s=0.2", "-o", "out")
    done = bentpipe("race", "--repeat", "out", "-o", "again")
    listed = "warning: these Runs execute Python files that the folder names: ./own.py:Poll"
    assert done.stderr.splitlines()[:-1] == [f"{listed} (as recorded)"]
    assert hashes(tmp_path / "again") == hashes(tmp_path / "out")
    (tmp_path / "own.py").write_text(OWN + "# edited\n", encoding="utf-8")
    for folder in ("out", "again"):  # with the hash in race.json, and in run.json alone
        done = bentpipe("race", "--repeat", folder, "-o", f"{folder}-edited")
        assert done.stderr.splitlines()[:-1] == [
            f"{listed} (changed since these Runs were recorded, so they may differ)"
        ]
        (tmp_path / "again" / "race.json").unlink(missing_ok=True)


def test_a_python_file_is_named_before_it_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    race = racing.race([dumbbell()], ["cubic"], out="out", duration_s=1.0, app="./own.py:Poll")
    assert len(race.runs) == 1
    (tmp_path / "own.py").write_text(OWN + "open('loaded', 'w').close()\n", encoding="utf-8")
    with pytest.raises(RepetitionWarning, match=r"own\.py:Poll \(changed since"):  # as an error, it ends the repetition
        racing.repeat("out", out="again")
    document = json.loads((tmp_path / "out" / "race.json").read_text())
    del document["requested"][0]["requests"][0]["plugins"]
    (tmp_path / "out" / "race.json").write_text(json.dumps(document))
    (run,) = find_runs("out")
    shutil.rmtree(run.path)
    with pytest.raises(RepetitionWarning, match=r"own\.py:Poll \(its hash is not recorded"):
        racing.repeat("out", out="again")
    assert not (tmp_path / "loaded").exists()


def test_experiments_of_one_name_are_requested_apart(tmp_path):
    out, again = tmp_path / "out", tmp_path / "again"
    racing.race([dumbbell()], ["reno"], out=out, duration_s=2.0, seeds=3)
    racing.race([dumbbell()], ["reno"], out=out, duration_s=1.0, fresh=True)
    racing.repeat(out, out=again)
    (entry,) = read_manifest(again)
    requested = [(request.seeds, request.experiment.duration_ns / 1e9) for request in entry.requests]
    assert sorted(requested) == [((0,), 1.0), ((1, 2), 2.0)]
    racing.repeat(again, out=tmp_path / "third")
    assert hashes(tmp_path / "third") == hashes(again) == hashes(out)


def test_start_phases_that_were_given_are_requested_apart(tmp_path):
    out, again = tmp_path / "out", tmp_path / "again"
    racing.race([computed(3)], ["reno"], out=out, duration_s=1.0, seeds=2, phase_s=0.0)
    racing.race([computed(3)], ["reno"], out=out, duration_s=1.0, phase_s=0.5, fresh=True)
    racing.repeat(out, out=again)
    racing.repeat(again, out=tmp_path / "third")
    assert hashes(tmp_path / "third") == hashes(again) == hashes(out)


@pytest.mark.parametrize("damage", ["{", '{"format": 3, "requested": []}', '{"format": 4}'])
def test_a_damaged_manifest_is_refused_and_stays(tmp_path, damage):
    out, again = tmp_path / "out", tmp_path / "again"
    racing.race([dumbbell()], ["reno"], out=out, duration_s=1.0)
    racing.race([dumbbell()], ["reno"], out=again, duration_s=1.0)
    whole = (out / "race.json").read_text()
    (out / "race.json").write_text(damage)
    for source, target in ((out, out), (out, tmp_path / "new"), (again, out)):
        done = CliRunner().invoke(app, ["race", "--repeat", str(source), "-o", str(target)])
        assert done.exit_code == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"error: {out}/race.json: ")
    assert (out / "race.json").read_text() == damage
    assert not (tmp_path / "new").exists()
    (out / "race.json").write_text(whole)
    assert len(racing.repeat(out, out=out).runs) == 1


def test_a_foreign_request_has_a_label_for_each_profile(tmp_path):
    racing.race([dumbbell()], ["reno"], out=tmp_path, duration_s=1.0)
    file = tmp_path / "race.json"
    document = json.loads(file.read_text())
    document["requested"][0]["requests"][0]["profiles"] = ["dumbbell", "dumbbell"]
    file.write_text(json.dumps(document))
    message = r"race\.json: requested\[0\]\.requests\[0\]: profiles: 2 labels; expected 1, one for each Profile"
    with pytest.raises(UserError, match=message):
        racing.repeat(tmp_path, out=tmp_path / "again")


def test_runs_without_a_manifest_and_missing_ones_are_repeated(tmp_path):
    out = tmp_path / "out"
    racing.race([dumbbell()], ["reno", "cubic"], out=out, duration_s=2.0, seeds=2, queues=["codel"])
    whole = hashes(out)
    shutil.rmtree(find_runs(out)[0].path)
    assert racing.repeat(out, out=out).resumed == 3
    assert hashes(out) == whole
    (out / "race.json").unlink()
    run_again(out, tmp_path / "again")
    assert hashes(tmp_path / "again") == whole


def test_runs_written_from_memory_are_repeated(tmp_path):
    path = bp.Profile.preset("dumbbell:rate=10mbit", duration=4, name="home")
    flows = [bp.Flow("cubic"), bp.Flow("bbr", start="1s", app="paced:480kbit", direction="up")]
    bp.Experiment(path, flows=flows, queue="fq_codel", phase="1s", duration=2).simulate().write(tmp_path / "out")
    run_again(tmp_path / "out", tmp_path / "again")
    assert hashes(tmp_path / "again") == hashes(tmp_path / "out")


def test_what_defines_the_runs_is_refused_beside_the_folder(tmp_path):
    racing.race([dumbbell()], ["reno"], out=tmp_path / "out", duration_s=1.0)
    for options in (["--cc", "reno"], ["--seeds", "2"], ["--on-kernel"], ["-x", "e.toml"], ["P.parquet"]):
        done = CliRunner().invoke(app, ["race", "--repeat", str(tmp_path / "out"), *options, "-o", str(tmp_path / "a")])
        assert done.exit_code == 2
        assert "error: --repeat: the folder defines the runs, so" in done.stderr


def test_another_profile_in_place_of_the_raced_one_is_refused(tmp_path):
    racing.race([dumbbell()], ["reno"], out=tmp_path / "out", duration_s=1.0)
    other = preset_profile("dumbbell:rate=5mbit", 4.0, start_unix_ns=START_UNIX_NS, name="dumbbell")
    write_profile(other, tmp_path / "out" / "profiles" / "dumbbell.parquet")
    with pytest.raises(UserError, match=r"dumbbell\.parquet: is not the Profile that was raced; expected content hash"):
        racing.repeat(tmp_path / "out", out=tmp_path / "again")
    with pytest.raises(UserError, match="no such folder"):
        racing.repeat(tmp_path / "nowhere", out=tmp_path / "again")

"""Loss recovery inside the network: `bentpipe recovery`, `race --recovery` and `Experiment(recovery=…)`."""

import json

import pytest
from typer.testing import CliRunner

import bentpipe
from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.experiments.recovery import parse_recoveries, recovery_name
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.parquet import write_profile

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """An access path of 40 s with handovers and losses under load."""
    file = tmp_path_factory.mktemp("recovery") / "louvain.parquet"
    write_profile(make_profile("louvain", "london", start_unix_ns=START_UNIX_NS, duration_s=40.0), file)
    return file


def test_the_schemes_are_listed_with_their_tunables():
    rows = json.loads(run("recovery", "--json").stdout)
    assert [row["name"] for row in rows] == ["linkguardian", "mpep", "none", "satguard", "tambur"]
    tries = next(tunable for tunable in rows[3]["tunables"] if tunable["name"] == "tries")
    assert (tries["default"], tries["min"], tries["max"]) == (3, 1, 16)
    assert all(tunable["meaning"] and tunable["source"] for row in rows for tunable in row["tunables"])
    assert "satguard: tunables" in run("recovery").stdout


def test_a_race_has_runs_with_and_without_recovery(path, tmp_path):
    arguments = ["--recovery", "none,satguard", "--cc", "cubic", "--duration", 30, "-o", tmp_path, "--json"]
    done = run("race", path, *arguments)
    assert done.exit_code == 0, done.output
    runs = {each["recovery"]: each for each in json.loads(done.stdout)["runs"]}
    assert list(runs) == ["none", "satguard"]
    flows = {name: each["flows"][0] for name, each in runs.items()}
    assert all(0 < flow["owd_p50_ms"] < flow["owd_p99_ms"] for flow in flows.values())
    # Losses in flight are concealed, so the flow is faster.
    assert flows["satguard"]["goodput_bps"] > 1.1 * flows["none"]["goodput_bps"]
    record = json.loads((tmp_path / runs["satguard"]["path"] / "run.json").read_text())
    overhead = record["summary"]["recovery"]["overhead"]
    assert overhead["retransmitted"] > 0
    assert overhead["header_bytes"] > 0
    assert overhead["peak_buffer_bytes"] > 0


def test_proxies_split_connections_and_move_at_handovers(path, tmp_path):
    arguments = ["--recovery", "none,mpep", "--cc", "cubic", "--duration", 30, "-o", tmp_path, "--json"]
    done = run("race", path, *arguments)
    assert done.exit_code == 0, done.output
    runs = {each["recovery"]: each for each in json.loads(done.stdout)["runs"]}
    record = json.loads((tmp_path / runs["mpep"]["path"] / "run.json").read_text())
    overhead = record["summary"]["recovery"]["overhead"]
    assert overhead["migrated"] >= 1
    assert overhead["migrated_bytes"] > 0
    # A loss on the satellite link is repaired over that link's RTT alone.
    goodputs = [runs[name]["flows"][0]["goodput_bps"] for name in ("mpep", "none")]
    assert goodputs[0] > 1.2 * goodputs[1]


def test_a_race_without_recovery_has_no_delays_and_its_name(path, tmp_path):
    done = run("race", path, "--cc", "cubic", "--duration", 2, "-o", tmp_path, "--json")
    (row,) = json.loads(done.stdout)["runs"]
    assert "recovery" not in row
    assert "owd_p99_ms" not in row["flows"][0]


def test_recovery_from_python(path):
    race = bentpipe.Experiment(str(path), schemes="cubic", recovery="satguard:tries=1,hold=longest", duration=2)
    (only,) = race.simulate()
    assert only is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "satgard",
            "unknown recovery scheme `satgard` (did you mean `satguard`?); known: linkguardian, mpep, none, "
            "satguard, tambur",
        ),
        ("satguard:trie=2", "has no option `trie` (did you mean `tries`?)"),
        ("satguard:tries=0", "option `tries` is 0; expected a whole number from 1 to 16"),
        ("satguard:tries", "has no value"),
        ("none,", "unknown recovery scheme ``"),
    ],
)
def test_what_is_wrong_is_refused_in_one_line(path, tmp_path, text, message):
    with pytest.raises(UserError) as raised:
        parse_recoveries(text)
    assert message in str(raised.value)
    done = run("race", path, "--recovery", text, "-o", tmp_path)
    assert done.exit_code == 2
    assert "--recovery" in done.output
    assert len(done.output.splitlines()) <= 3


def test_a_scheme_is_written_as_users_write_it():
    parsed = parse_recoveries("none,satguard:tries=2,hold=longest,none")
    assert [recovery_name(each) for each in parsed] == ["none", "satguard:hold=longest,tries=2"]


def test_a_scheme_at_the_hosts_is_refused_on_an_emulated_path(path, tmp_path):
    expected = (
        "--recovery: tambur changes the transports, and only the simulator has it; expected linkguardian or none or"
    )
    done = run("race", path, "--recovery", "tambur", "--on-kernel", "--duration", 2, "-o", tmp_path)
    assert done.exit_code == 2
    assert expected.removeprefix("--recovery: ") in done.output
    done = run("run", path, "--recovery", "tambur", "--", "true")
    assert done.exit_code == 2
    assert expected in done.output


def test_an_experiment_with_flows_has_one_scheme(path):
    profile = bentpipe.Profile.read(path)
    experiment = bentpipe.Experiment(
        profile, flows=[bentpipe.Flow("cubic", app="paced:5mbit")], duration=4, phase=0, recovery="satguard"
    )
    run = experiment.simulate()[0]
    assert run.record.experiment.recovery.scheme == "satguard"
    assert run.summary()["owd_p99_ms"][0] > 10
    with pytest.raises(UserError, match="recovery: 2 schemes; expected one"):
        bentpipe.Experiment(profile, flows=[bentpipe.Flow("cubic")], recovery="none,satguard")


def test_an_experiment_file_names_a_scheme(path, tmp_path):
    text = f"""
    name = "mine"
    duration_s = 4
    recovery = "satguard:tries=2"
    profiles = [{{role = "home", file = "{path}"}}]
    flows = [{{controller = "cubic"}}]
    """
    (tmp_path / "mine.toml").write_text(text)
    assert run("race", "-x", tmp_path / "mine.toml", "-o", tmp_path / "out", "--json").exit_code == 0
    (tmp_path / "mine.toml").write_text(text.replace("satguard:tries=2", "satgard"))
    done = run("race", "-x", tmp_path / "mine.toml", "-o", tmp_path / "other")
    assert done.exit_code == 2
    assert "mine.toml: recovery: unknown recovery scheme `satgard`" in done.stderr

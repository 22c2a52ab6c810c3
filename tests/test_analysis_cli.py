"""`bentpipe analyze`: JSON as documented, figures, and errors of one line."""

import json

import numpy as np
import polars as pl
import pytest
from analysis_series import shifting, slotted, table
from typer.testing import CliRunner

from bentpipe.analysis.handovers import analyze_handovers
from bentpipe.analysis.loss import loss_episodes
from bentpipe.analysis.spikes import latency_spikes
from bentpipe.analysis.tables import only_series
from bentpipe.cli.main import app
from bentpipe.plots.analysis_episodes import plot_loss, plot_spikes
from bentpipe.studies.measured import probe_series

run = CliRunner().invoke


@pytest.fixture
def pings(tmp_path):
    file = tmp_path / "pings.parquet"
    rows = slotted().with_columns(site=pl.lit("home"), target=pl.lit("pop"))
    rows.write_parquet(file)
    return file


def test_handovers_print_json_and_draw(pings, tmp_path):
    figure = tmp_path / "slots.png"
    result = run(app, ["analyze", "handovers", str(pings), "--json", "--plot", str(figure)])
    assert result.exit_code == 0, result.output
    output = json.loads(result.stdout)
    assert output["found"] is True
    assert output["period_s"] == 15.0
    assert output["p_value"] < 0.01
    assert len(output["slots"]) > 55
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_no_slots_is_a_result(tmp_path):
    file = tmp_path / "none.parquet"
    shifting(0).write_parquet(file)
    figure = tmp_path / "none.svg"
    result = run(app, ["analyze", "handovers", str(file), "--json", "--plot", str(figure)])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert (document["found"], document["undecided"], document["enough_s"]) == (
        False,
        True,
        3600.0,
    )  # 900 s of a probe every 50 ms
    assert figure.stat().st_size > 1000
    plain = run(app, ["analyze", "handovers", str(file)])
    assert "undecided" in plain.stdout
    assert "too short to tell (900 s; expected 3600 s" in plain.stdout


@pytest.mark.parametrize("analysis", ["latency", "loss", "spikes"])
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_other_analyses_print_and_draw(pings, tmp_path, analysis, options):
    figure = tmp_path / "f.png"
    result = run(app, ["analyze", analysis, str(pings), "--target", "pop", *options, "--plot", str(figure)])
    assert result.exit_code == 0, result.output
    if options:
        json.loads(result.stdout)
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("analysis", ["loss", "spikes"])
@pytest.mark.parametrize("rtt_ms", [[None] * 60, [20.0] * 60, [None, 5.0], [7.0]], ids=["lost", "whole", "two", "one"])
def test_empty_results_are_drawn(tmp_path, analysis, rtt_ms):
    file, figure = tmp_path / "p.parquet", tmp_path / "f.svg"
    rows = {"unix_ns": [k * 10**9 for k in range(len(rtt_ms))], "rtt_ms": pl.Series(rtt_ms, dtype=pl.Float64)}
    pl.DataFrame(rows).write_parquet(file)
    result = run(app, ["analyze", analysis, str(file), "--plot", str(figure)])
    assert result.exit_code == 0, result.output
    assert figure.stat().st_size > 1000


def test_figures_of_loss_and_spikes_state_the_result():
    rows = slotted(loss=0.02).with_columns(
        rtt_ms=pl.when(pl.int_range(pl.len()).is_between(6000, 6400)).then(400.0).otherwise("rtt_ms")
    )
    slots = analyze_handovers(rows)
    lost = loss_episodes(rows, slots.period_s, slots.edge_unix_ns)
    over_time, lengths, phases = plot_loss(only_series(rows), lost, period_s=slots.period_s).axes
    title = f"{lost.lost} of {lost.probes} probes lost in {lost.episodes.height} episodes"
    assert over_time.get_title("left") == title
    assert over_time.lines[0].get_ydata().sum() == lost.lost
    assert lengths.lines[0].get_ydata()[1] == pytest.approx(lost.multi_share)
    assert [bar.get_height() for bar in phases.patches] == pytest.approx([100 * share for share in lost.by_phase])
    spikes = latency_spikes(rows, slots.period_s)
    lasting = spikes.spikes.filter("lasting")
    assert lasting.height >= 1
    left, right = plot_spikes(only_series(rows), spikes, period_s=slots.period_s).axes
    assert left.get_title("left") == f"{spikes.spikes.height} spikes, of which {lasting.height} last"
    shaded_s = [60 * patch.get_width() for patch in left.patches]
    assert shaded_s == pytest.approx(lasting["duration_s"].to_list())
    assert max(line.get_ydata()[0] for line in left.lines) == pytest.approx(spikes.threshold_ms)
    assert sum(bar.get_height() for bar in right.patches) == lasting.height


def test_a_figure_without_a_loss_says_so():
    for t_s, message in (
        (np.arange(600.0), "no lost probe"),
        (np.arange(600.0)[np.arange(600) // 60 % 2 == 0], "may contain unrecorded losses"),
    ):
        rows = table(t_s, np.full(t_s.size, 20.0))
        over_time, lengths, phases = plot_loss(only_series(rows), loss_episodes(rows)).axes
        assert message in over_time.texts[0].get_text()
        assert not lengths.axison
        assert not phases.axison


def test_notes_of_readers_and_invalid_runs_are_reported(tmp_path):
    log = tmp_path / "ping.txt"
    lines = [f"64 bytes from 8.8.8.8: icmp_seq={k} ttl=116 time={30 + k % 9}.5 ms" for k in range(1, 100)]
    end = "--- 8.8.8.8 ping statistics ---\n99 packets transmitted, 99 received, 0% packet loss, time 98000ms"
    log.write_text("\n".join(["PING 8.8.8.8 (8.8.8.8) 56(84) bytes of data.", *lines, "", end, ""]))
    result = run(app, ["analyze", "latency", str(log)])
    assert "slots have no phase" in result.stderr
    assert run(app, ["read", str(log), "-o", str(tmp_path / "r")]).exit_code == 0
    file = next(tmp_path.glob("r/*/*/run.json"))
    file.write_text(json.dumps(json.loads(file.read_text()) | {"valid": False, "why_invalid": "late"}))
    result = run(app, ["analyze", "latency", str(tmp_path / "r"), "--json"])
    assert result.exit_code == 0, result.output
    assert "the Run says it is not to be trusted: late" in result.stderr
    assert "slots have no phase" in result.stderr
    part = probe_series(tmp_path / "r")[0]
    assert part.text.endswith("s by no wall clock; the Run says it is not to be trusted: late")


def read_probes(out, rows):
    """One more measured Run of probes below `out`: (unix_ns, kind, rtt_ms)."""
    probes = pl.DataFrame(rows, schema={"unix_ns": pl.Int64, "kind": pl.String, "rtt_ms": pl.Float64}, orient="row")
    file = out.with_suffix(f".{len(rows)}.parquet")
    probes.with_columns(pl.lit("h").alias("target")).write_parquet(file)
    assert run(app, ["read", str(file), "-o", str(out)]).exit_code == 0


def test_speed_tests_of_two_runs_stay_two_tests(tmp_path):
    for day, mbps in enumerate((50, 150)):
        (tmp_path / "t.csv").write_text(f"unix_s,download_mbps\n{1795199963 + day * 86400},{mbps}\n")
        assert run(app, ["read", str(tmp_path / "t.csv"), "-o", str(tmp_path / "r")]).exit_code == 0
    summary = json.loads(run(app, ["analyze", "throughput", str(tmp_path / "r"), "--json"]).stdout)["summary"]
    assert [(row["tests"], row["median_bps"]) for row in summary] == [(2, 100e6)]


def test_overlapping_runs_are_not_combined(tmp_path):
    second, start = 10**9, 1795199963 * 10**9
    read_probes(tmp_path / "r", [(start + k * second, "icmp", 20.0) for k in range(60)])
    read_probes(tmp_path / "r", [(start + k * second, "icmp", 20.0) for k in range(90)])
    result = run(app, ["analyze", "latency", str(tmp_path / "r")])
    assert result.exit_code == 2
    assert "overlap in time; try one of them" in result.stderr
    for one in (tmp_path / "r").glob("*/*"):
        assert run(app, ["analyze", "latency", str(one)]).exit_code == 0
    read_probes(tmp_path / "s", [(start + k * second, "icmp", 20.0) for k in range(60)])
    read_probes(tmp_path / "s", [(start + (60 + k) * second, "icmp", 20.0) for k in range(30)])
    output = json.loads(run(app, ["analyze", "latency", str(tmp_path / "s"), "--json"]).stdout)
    assert [row["probes"] for row in output] == [90]


def test_separately_read_logs_without_timestamps_are_not_combined(tmp_path):
    for name, count in (("a", 50), ("b", 60)):
        lines = [f"64 bytes from 8.8.8.8: icmp_seq={k} ttl=116 time=30.5 ms" for k in range(1, count)]
        sent = f"{count - 1} packets transmitted, {count - 1} received, 0% packet loss, time 9ms"
        end = f"--- 8.8.8.8 ping statistics ---\n{sent}"
        text = "\n".join(["PING 8.8.8.8 (8.8.8.8) 56(84) bytes of data.", *lines, "", end, ""])
        (tmp_path / name).write_text(text)
        assert run(app, ["read", str(tmp_path / name), "-o", str(tmp_path / "r")]).exit_code == 0
    result = run(app, ["analyze", "latency", str(tmp_path / "r")])
    assert result.exit_code == 2
    assert "has no clock" in result.stderr
    together = ["read", str(tmp_path / "a"), str(tmp_path / "b"), "-o", str(tmp_path / "s")]
    assert run(app, together).exit_code == 0
    assert run(app, ["analyze", "latency", str(tmp_path / "s")]).exit_code == 0


def test_kinds_of_probes_to_one_host_are_series_of_their_own(tmp_path):
    second, start = 10**9, 1795199963 * 10**9
    rows = [(start + k * second, kind, rtt) for k in range(60) for kind, rtt in (("icmp", 20.0), ("tcp", 40.0))]
    read_probes(tmp_path / "r", rows)
    output = json.loads(run(app, ["analyze", "latency", str(tmp_path / "r"), "--json"]).stdout)
    assert [(row["kind"], row["probes"], row["median_ms"]) for row in output] == [("icmp", 60, 20.0), ("tcp", 60, 40.0)]
    refused = run(app, ["analyze", "loss", str(tmp_path / "r")])
    assert refused.exit_code == 2
    assert "several series (here → h (icmp), here → h (tcp)); expected one (--site, --target, --kind)" in (
        refused.stderr.replace("\n", " ")
    )
    one = json.loads(run(app, ["analyze", "loss", str(tmp_path / "r"), "--kind", "tcp", "--json"]).stdout)
    assert one["probes"] == 60


def test_a_kind_that_is_a_number_is_a_name(tmp_path):
    rows = {"unix_ns": [10**18 + k * 10**9 for k in range(20)], "rtt_ms": [20.0] * 20, "kind": [8] * 20}
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    output = json.loads(run(app, ["analyze", "latency", str(tmp_path / "t.parquet"), "--kind", "8", "--json"]).stdout)
    assert [(row["kind"], row["probes"]) for row in output] == [("8", 20)]


def test_a_parquet_of_probes_keeps_its_flags_and_needs_no_order(tmp_path):
    start = 1795199963 * 10**9
    rows = [(start + k * 10**9, 20.0, k == 7) for k in range(20)]
    flagged = pl.DataFrame(rows, schema=["unix_ns", "rtt_ms", "duplicate"], orient="row")
    mixed = flagged.drop("duplicate").with_columns(seq=pl.Series(range(20)))[[5, 3, *range(6, 20), 0, 1, 2, 4]]
    unnumbered = flagged.drop("duplicate").with_columns(seq=pl.lit(None, pl.Int64))[::-1]
    for name, table_of, expected in (
        ("flagged", flagged, (1, 0)),
        ("mixed", mixed, (0, 0)),
        ("unnumbered", unnumbered, (0, 0)),
    ):
        table_of.write_parquet(tmp_path / f"{name}.parquet")
        result = run(app, ["read", str(tmp_path / f"{name}.parquet"), "-o", str(tmp_path / name), "--json"])
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout)["summary"]
        assert (summary["duplicates"], summary["clock_jumps"], summary["out_of_order"]) == (*expected, 0), name


def test_a_gap_of_decades_costs_no_memory(tmp_path):
    """A machine without a hardware clock starts in 1970, and then sets its clock."""
    t_s = np.concatenate([np.arange(60.0), 1.7952e9 + np.arange(60.0)])
    spikes = latency_spikes(table(t_s, np.where(np.arange(120) % 60 < 40, 20.0, 100.0)))
    assert spikes.spikes["duration_s"].to_list() == [20.0, 20.0]
    assert spikes.share_lasting == pytest.approx(1 / 3)


def test_throughput_of_nothing_at_peak_has_no_ratio(tmp_path):
    file = tmp_path / "t.parquet"
    rows = {"unix_ns": [h * 3600 * 10**9 for h in range(24)], "direction": ["down"] * 24}
    bps = [0.0 if 19 <= h < 23 else 1e8 for h in range(24)]
    pl.DataFrame({**rows, "throughput_bps": bps}).write_parquet(file)
    result = run(app, ["analyze", "throughput", str(file), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["summary"][0]["off_peak_over_peak"] is None


def test_paths_orientation_and_throughput_draw(tmp_path):
    tables = {
        "path": {
            "probe": ["p", "p"],
            "target": ["8.8.8.8"] * 2,
            "unix_ns": [0, 0],
            "ttl": [1, 2],
            "address": ["100.64.0.1", "8.8.8.8"],
            "rtt_ms": [30.0, 50.0],
        },
        "orientation": {
            "azimuth_deg": [1.0] * 30,
            "elevation_deg": [60.0] * 30,
            "latency_ms": [float(k) for k in range(30)],
        },
        "throughput": {
            "unix_ns": [k * 86_400 * 10**9 for k in range(60)],
            "direction": ["down"] * 60,
            "throughput_bps": [1e8 + k for k in range(60)],
        },
    }
    for analysis, rows in tables.items():
        file, figure = tmp_path / f"{analysis}.parquet", tmp_path / f"{analysis}.png"
        pl.DataFrame(rows).write_parquet(file)
        result = run(app, ["analyze", analysis, str(file), "--json", "--plot", str(figure)])
        assert result.exit_code == 0, result.output
        json.loads(result.stdout)
        assert figure.stat().st_size > 1000


def test_errors_are_one_line_and_exit_2(pings, tmp_path):
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1" + bytes(100))
    for arguments, message in (
        ([str(tmp_path / "absent.parquet")], "no such file"),
        ([str(broken)], "does not read as Parquet"),
        ([str(pings), "--target", "mars"], "no rows with target 'mars'"),
    ):
        result = run(app, ["analyze", "handovers", *arguments])
        assert result.exit_code == 2
        assert message in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1

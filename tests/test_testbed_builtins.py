"""Built-in experiments on loopback: their figures, their measured Runs, and failures of the network as results."""

import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from chromium import PROGRAM
from emulation import need
from testbed_builtins import free_port, run_builtin, serving, start
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.measurements.runs.store import find_measured, read_measured
from bentpipe.runs.store import find_runs
from bentpipe.testbed.builtins.registry import BUILTINS, Builtin
from bentpipe.testbed.schemas.builtins import BUILTINS as DECLARED

SERVED = {
    "iperf3": {"seconds": 1, "interval": 0.5, "bitrate": "5mbit"},
    "irtt": {"seconds": 0.5},
    "call": {"seconds": 1},
    "http3": {"size": 1_000_000, "count": 2},
    "video": {"seconds": 10, "policy": "buffer"},
}


def test_every_declared_experiment_is_there():
    assert set(BUILTINS) == set(DECLARED)
    for name, declared in DECLARED.items():
        assert (BUILTINS[name].server is not None) == declared.needs_server, name


def test_a_missing_program_or_package_is_named():
    builtin = Builtin(print, programs=("no-such-program|neither", "sh"), packages=("no_such_package", "json"))
    assert builtin.missing == ("no-such-program|neither", "no_such_package")
    assert not builtin.is_here


@pytest.fixture(scope="module", params=SERVED)
def served(request, tmp_path_factory):
    """A result of each experiment with a server: its folder and its outcome."""
    name, args = request.param, SERVED[request.param]
    need(*BUILTINS[name].programs)
    folder = tmp_path_factory.mktemp(name)
    with serving(name, args) as ports:
        outcome = run_builtin(folder, name, args, server="127.0.0.1", ports=ports)
    return folder / "out", outcome


def test_its_result_is_a_measured_run(served):
    folder, outcome = served
    assert outcome.error is None
    run = read_measured(folder)
    assert run.site == "attic"
    if outcome.builtin in ("irtt", "call"):
        assert run.probes["up_ms"].null_count() <= run.summary["lost"]
        return
    assert run.samples["bytes"].sum() > 100_000
    assert run.samples["goodput_bps"].min() > 0


def test_the_commands_read_it_as_it_is_downloaded(served, tmp_path):
    folder, outcome = served
    run = tmp_path / "bbr/attic/20261128T100000Z/0123"
    shutil.copytree(folder, run)
    (run / "testbed.json").write_text("{}")
    has_probes = outcome.builtin in ("irtt", "call")
    for place in (run, run.parent, tmp_path):
        done = CliRunner().invoke(app, ["analyze", "latency" if has_probes else "throughput", str(place)])
        assert done.exit_code == 0, done.output
        if has_probes:
            done = CliRunner().invoke(app, ["profile", "from", str(place), "-o", str(tmp_path / "P.parquet")])
            assert done.exit_code == 0, done.output
        with pytest.raises(UserError, match=r"holds measured Runs only.*bentpipe analyze"):
            find_runs(place)
    done = CliRunner().invoke(app, ["report", str(run)])
    assert done.exit_code == 0, done.output
    assert outcome.builtin in (run / "report.html").read_text()


def test_the_terminals_run_lies_beside(served, tmp_path):
    folder, _ = served
    run = tmp_path / "e/attic/20261128T100000Z/0123"
    shutil.copytree(folder, run)
    shutil.copytree(folder, run / "terminal")
    (run / "testbed.json").write_text("{}")
    assert [each.path for each in find_measured(tmp_path)] == [run, run / "terminal"]


def test_the_figures_of_each(served):
    _, outcome = served
    figures = outcome.figures
    if outcome.builtin == "call":
        assert figures["packets"] == pytest.approx(1.5e6 / 8 / 1228, rel=0.1)
        assert figures["up"]["mos"] > 4
        assert figures["down"]["loss"] < 0.05
    elif outcome.builtin == "http3":
        first, second = figures["downloads"]
        assert first["bytes"] == second["bytes"] == 1_000_000
        assert 0 < first["handshake_ms"] < 5000
    elif outcome.builtin == "video":
        assert [chunk["buffer_s"] > 0 for chunk in figures["chunks"]] == [True] * 3
        assert figures["stall_s"] == 0


@pytest.mark.parametrize("name", SERVED)
def test_a_server_that_does_not_answer_is_a_result(name, tmp_path):
    need(*BUILTINS[name].programs)
    if name in ("irtt", "call", "http3"):
        pytest.skip("UDP without an answer takes its time-out: test_emul_testbed_builtins.py")
    ports = {each: free_port() for each in BUILTINS[name].ports}
    outcome = run_builtin(tmp_path, name, SERVED[name], server="127.0.0.1", ports=ports)
    assert "refused" in outcome.error
    assert "\n" not in outcome.error
    assert not (tmp_path / "out/run.json").exists()


def test_a_name_that_does_not_resolve_is_a_result(tmp_path):
    outcome = run_builtin(tmp_path, "ping", {"target": "no-such-host.invalid"})
    assert "'no-such-host.invalid': no such host" in outcome.error


def test_a_missing_server_is_an_error_in_a_line(tmp_path):
    done = start(tmp_path, "http3", {})
    assert (done.returncode, done.stderr) == (1, "bentpipe: http3: no server; expected a server node with its ports\n")


class Page(BaseHTTPRequestHandler):
    """A page with one image."""

    def do_GET(self):
        body = b"<h1>Hello</h1><img src=/a.png>" if self.path == "/" else bytes(50_000)
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "image/png")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.mark.skipif(PROGRAM is None, reason="no chromium on this machine")
def test_a_page_in_a_browser(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        outcome = run_builtin(tmp_path / "a", "web", {"url": f"http://127.0.0.1:{server.server_port}/", "loads": 2})
        server.shutdown()
    assert outcome.error is None
    for load in outcome.figures["loads"]:
        assert 0 < load["fcp_ms"] <= load["lcp_ms"] < 60_000
        assert load["bytes"] > 50_000
        assert load["protocols"] == ["http/1.0"]
    assert read_measured(tmp_path / "a/out").samples.height == 2

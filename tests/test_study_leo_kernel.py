"""The study `leo-kernel`: verdicts and rows from goodputs in both worlds."""

from types import SimpleNamespace

import pytest

from bentpipe.studies import leo_kernel
from bentpipe.studies.files import LeoKernel
from bentpipe.studies.study import Request


def result(request, monkeypatch, goodput_mbps):
    """Run the study; `goodput_mbps` returns goodputs by world, scheme and number of the path, None: invalid."""
    calls = []

    def race(paths, schemes, *, out, duration_s, on_kernel):
        world = "kernel" if on_kernel else "simulator"
        calls.append((world, paths[0].name))
        runs = []
        for scheme in schemes:
            mbps = goodput_mbps(world, scheme, (len(calls) - 1) // 2)
            bps = None if mbps is None else mbps * 1e6
            flow = {"goodput_bps": bps, "rtt_median_ms": 80.0, "rtt_p95_ms": 100.0}
            runs.append(SimpleNamespace(record=SimpleNamespace(valid=bps is not None, summary={"flows": [flow]})))
        return SimpleNamespace(runs=runs)

    file = LeoKernel.load()
    monkeypatch.setattr(leo_kernel.LeoKernel, "load", lambda: file.replace(duration_s=20, paths=file.paths[:3]))
    monkeypatch.setattr(leo_kernel, "race", race)
    done = leo_kernel.STUDY.run(request)
    assert [world for world, _ in calls] == ["kernel", "simulator"] * 3
    return done


@pytest.mark.parametrize(("kernels", "holds"), [(130.0, True), (100.0, False)])
def test_a_ratio_that_the_kernel_does_not_reach_is_refuted(tmp_path, monkeypatch, kernels, holds):
    def goodput_mbps(world, scheme, number):
        ours = {"kernel": kernels, "simulator": 130.0}[world] if scheme == "bbr3-leo" else 100.0
        return ours * (1 + 0.1 * number)

    done = result(Request(tmp_path), monkeypatch, goodput_mbps)
    verdicts = {verdict.statement.partition(":")[0]: verdict for verdict in done.verdicts}
    assert {verdicts[f"bbr3-leo over {other}"].holds for other in ("the kernel's own BBR", "bbr3")} == {holds}
    assert verdicts["cubic-leo over the kernel's own CUBIC"].holds is True
    rows = {row.quantity: row.ours for row in done.rows}
    assert rows["simulator: goodput, bbr3-leo"] == pytest.approx(143.0)
    assert rows["kernel: median RTT, bbr"] == 80.0


@pytest.mark.parametrize("mbps", [None, 0.0])
def test_a_path_with_an_invalid_run_is_left_out_and_named(tmp_path, monkeypatch, mbps):
    def goodput_mbps(world, scheme, number):
        return mbps if (world, scheme, number) == ("kernel", "bbr", 1) else 100.0

    done = result(Request(tmp_path), monkeypatch, goodput_mbps)
    assert done.basis == ["emulated, and simulated: 2 Profiles × 20 s"]
    left = "1 of 3 Profiles are left out, as a Run there was disturbed or had no goodput"
    assert f"{left}; london-amsterdam-304: bbr, kernel" in done.notes

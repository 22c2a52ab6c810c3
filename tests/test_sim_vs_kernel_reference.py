"""Stored reference results of the kernel: writing, reading, extending and judging them."""

import json
import math
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe._native import Profile
from bentpipe.errors import UserError
from bentpipe.runs.figures import Figures, Side
from bentpipe.validation.sim_vs_kernel import __main__ as again
from bentpipe.validation.sim_vs_kernel import reference as reference_module
from bentpipe.validation.sim_vs_kernel.cells import CELLS, FULL, Cell, Effort
from bentpipe.validation.sim_vs_kernel.paths import make_paths
from bentpipe.validation.sim_vs_kernel.reference import (
    HERE,
    KernelReference,
    extend,
    judge_reference,
    read,
    store_reference,
)
from bentpipe.validation.sim_vs_kernel.worlds import Worlds, met, side, simulate

CELL = Cell("geo", "cubic")
PAIR = Cell("fibre", "cubic+bbr")
HOST = {"wmem_segment_bytes": 2304}
SHORT = Effort(alone_s=14.0, alone=(2,))
VERSIONS = {"bentpipe": "0.1.0", "build": "0" * 16, "kernel": "Linux 6.18", "machine": "x86_64"}
FIGURES = Figures(30e6, (0.25, 0.75), 450.5, 0.001, (0.1, 0.2), {11: (4505.0, 10), 12: (4505.0, 10)}, frozenset({12}))


def run(seed: int):
    """The parts of a kernel's Run that are stored, without its results."""
    record = SimpleNamespace(
        valid=True,
        profiles=[SimpleNamespace(hash="ab")],
        experiment=SimpleNamespace(offset_ns=7),
        versions=VERSIONS,
        summary={"emulator": {"clock_unix_ns": 1_795_419_485_551_468_359, "start_late_max_ms": None}},
    )
    return SimpleNamespace(record=record, seed=seed)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(reference_module, "side", lambda runs: Side((FIGURES,) * len(runs)))
    store_reference(tmp_path, Worlds(PAIR, (), (run(0), run(1)), repeated=(run(0),), host=HOST))
    return tmp_path / "kernel" / "fibre.cubic+bbr.json"


def test_stored_results_are_read_back(file):
    stored = read(file)
    assert (stored.cell, stored.why_invalid, stored.days) == (PAIR, None, ("2026-11-23",))
    assert stored.figures == Side((FIGURES, FIGURES))
    assert stored.repeated == Side((FIGURES,))
    assert stored.made_on == (VERSIONS,)
    assert stored.met == (met(run(0)), met(run(1)))


def test_further_looks_are_appended(file, tmp_path, monkeypatch):
    assert extend(file, PAIR, [run(2), run(3)], HOST) == 4
    stored = read(file)
    assert [json.loads(one)[2] for one in stored.met] == [0, 1, 2, 3]
    assert stored.repeated == Side((FIGURES,))
    with pytest.raises(ValueError, match=r"seeds \[3\] do not follow the 4"):
        extend(file, PAIR, [run(3)], HOST)
    with pytest.raises(UserError, match=r"its kernel has .*2304.*, this one .*4352"):
        extend(file, PAIR, [run(4)], {"wmem_segment_bytes": 4352})
    new = tmp_path / "kernel" / "geo.cubic.json"
    monkeypatch.setattr(reference_module, "side", lambda runs: Side((replace(FIGURES, shares=(1.0,)),) * len(runs)))
    assert extend(new, CELL, [run(0)], HOST) == 1
    assert read(new).cell == CELL


def test_a_look_ends_at_an_invalid_run_and_continues_there(file, tmp_path, monkeypatch):
    requested_seeds, bad = [], {5}

    def calm(cell, path, effort, seeds, out, on_progress):
        requested_seeds.extend(seeds)
        why = None if seeds[0] not in bad else "the hypervisor took 9% of the processors' time"
        one = run(seeds[0])
        one.record.valid, one.record.why_invalid = why is None, why
        return [one]

    monkeypatch.setattr(again, "make_paths", lambda *_: ({"fibre": None}, []))
    monkeypatch.setattr(again, "calm", calm)
    monkeypatch.setattr(again, "kernel_host", lambda: HOST)
    message = again.run_next_look(PAIR, tmp_path / "runs", None, file.parent)
    why = "seed 5 is invalid: the hypervisor took 9% of the processors' time"
    assert message == f"fibre/cubic+bbr: {why}; the same command continues there"
    assert len(read(file).met) == 2, "a look is stored whole or not at all"
    bad.clear()
    assert again.run_next_look(PAIR, tmp_path / "runs", None, file.parent) == "fibre/cubic+bbr: 10 seeds stored"
    assert requested_seeds == [2, 3, 4, 5, *range(2, 10)], "finished Runs are in the folder, and are not run again"
    assert len(read(file).met) == 10


@given(st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(file, data):
    text = file.read_text()
    whole = read(file)
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, min(len(text), begin + 40)))
    new = file.with_name("damaged.json")
    new.write_text(text[:begin] + data.draw(st.text('{}[]",:0123456789.-ae\n', max_size=4)) + text[end:])
    # Whole, or refused in one line: either way it comes back.
    with suppress(UserError):
        stored = read(new)
        assert len(stored.met) == len(stored.figures.runs) <= len(whole.met) + 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"runs": [', '"runs": [], "not": ['),
        ('"shares": [0.25, 0.75]', '"shares": "ab"'),
        ('"shares": [0.25, 0.75]', '"shares": [0.25]'),
        ('"goodput_bps": 30000000', '"goodput_bps": NaN'),
        ('"retransmit_rate": 0.001', '"retransmit_rate": -1'),
        ('"kernel": ', '"colonel": '),
        ('"flows": "cubic+bbr"', '"flows": "vegas"'),
    ],
)
def test_invalid_values_are_refused_in_one_line(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(UserError, match=r"^[^\n]*: no stored kernel results [^\n]*$"):
        read(file)


def test_an_unmeasured_delay_is_stored_as_null(tmp_path, monkeypatch):
    without = replace(FIGURES, delay_ms=math.nan)
    monkeypatch.setattr(reference_module, "side", lambda runs: Side((without,) * len(runs)))
    store_reference(tmp_path, Worlds(PAIR, (), (run(0),), host=HOST))
    assert math.isnan(read(tmp_path / "kernel" / "fibre.cubic+bbr.json").figures.mean("delay_ms"))


def test_a_claim_without_judged_cells_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(reference_module, "HERE", tmp_path)
    assert "could be judged" in reference_module.check(None, lambda _: None).skipped


@pytest.mark.parametrize("cut", [0, 1, 100, 400])
def test_a_truncated_file_is_refused_in_one_line(file, cut):
    file.write_text(file.read_text()[:cut])
    with pytest.raises(UserError, match=r"^[^\n]*json: no stored kernel results [^\n]*$"):
        read(file)


def path_of(cell: Cell, effort: Effort, tmp_path) -> Profile:
    return make_paths(effort.duration_s(cell), None, tmp_path / "trace")[0][cell.profile]


def simulated(tmp_path, cell=CELL, effort=SHORT) -> KernelReference:
    """The simulator's own results in place of the kernel's."""
    runs = simulate(cell, path_of(cell, effort, tmp_path), effort, effort.seeds(cell)[0], tmp_path, HOST)
    return KernelReference(cell, tuple(met(run) for run in runs), side(runs), None, HOST, (), (), None)


def test_the_simulator_is_within_its_own_results(tmp_path):
    verdict = judge_reference(
        simulated(tmp_path / "kernel"), path_of(CELL, SHORT, tmp_path), tmp_path / "again", effort=SHORT
    )
    assert verdict.within
    assert (verdict.n, verdict.goodput_ratio, verdict.delay_diff_ms) == (2, 1.0, 0.0)


def test_slower_flows_are_outside_and_another_path_is_not_judged(tmp_path):
    reference = simulated(tmp_path)
    slower = [
        Figures(0.9 * one.goodput_bps, one.shares, one.delay_ms, one.retransmit_rate, None)
        for one in reference.figures.runs
    ]
    new = KernelReference(reference.cell, reference.met, Side(tuple(slower)), None, HOST, (), (), None)
    assert judge_reference(new, path_of(CELL, SHORT, tmp_path), tmp_path, effort=SHORT).outside == ("goodput",)
    elsewhere = KernelReference(
        reference.cell, tuple(reversed(reference.met)), reference.figures, None, HOST, (), (), None
    )
    assert "another path" in judge_reference(elsewhere, path_of(CELL, SHORT, tmp_path), tmp_path, effort=SHORT)


@pytest.mark.parametrize("name", sorted(file.stem for file in HERE.glob("*.json")))
def test_the_stored_results_are_complete(name):
    reference = read(HERE / f"{name}.json")
    assert f"{reference.cell.profile}.{reference.cell.flows}" == name
    assert reference.cell in CELLS
    assert reference.why_invalid is None
    assert len(reference.met) in FULL.seeds(reference.cell)
    assert [json.loads(one)[2] for one in reference.met] == list(range(len(reference.met)))
    releases = {versions["kernel"].partition("-")[0] for versions in reference.made_on}
    assert len(releases) == 1, "one kernel's, of whatever machines and in whatever looks"


@pytest.mark.parametrize("name", ["geo.reno", "geo.cubic", "geo.bbr", "fibre.reno"])
def test_the_simulator_is_within_the_stored_results_of_the_kernel(name, tmp_path):
    """The cheapest cells; `bentpipe validate kernel-reference` judges all."""
    file = HERE / f"{name}.json"
    reference = read(file)
    verdict = judge_reference(reference, path_of(reference.cell, FULL, tmp_path), tmp_path)
    assert not isinstance(verdict, str), verdict
    assert verdict.within, verdict.outside

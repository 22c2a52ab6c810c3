"""The 33 fixed Runs give the values that are stored: a change that is not meant to change behaviour does not."""

import json

import pytest
import reference_runs

STORED = json.loads(reference_runs.KEPT.read_text())


@pytest.mark.parametrize("name", list(reference_runs.cases()))
def test_a_fixed_run_gives_the_stored_values(name):
    case, stored = reference_runs.cases()[name], STORED[name]
    measured = reference_runs.measure(name, case)
    if measured["profiles"] != stored["profiles"]:
        pytest.skip("this machine's mathematics makes another Profile, so its Run is another")
    assert measured["run"] == stored["run"], "values changed: tests/reference_runs.py says how to store them anew"


def test_the_set_covers_every_controller():
    flown = {flow.controller for case in reference_runs.cases().values() for flow in case.flows}
    assert {entry["name"] for entry in reference_runs.controllers()} <= flown
    assert set(STORED) == set(reference_runs.cases())
    assert len(STORED) == 33

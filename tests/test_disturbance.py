"""When a Run that is not valid is the machine's, and when the emulator's."""

import disturbance
import pytest
from disturbance import Witness, first_valid

LATE = "late"


class Seen:
    """A witness that says of one attempt after the other what it is told to."""

    def __init__(self, disturbed):
        self._disturbed = iter(disturbed)

    def __call__(self):
        return self

    def __enter__(self):
        self.was_disturbed = next(self._disturbed)
        return self

    def __exit__(self, *_):
        pass


def tried(monkeypatch, disturbed, reasons):
    monkeypatch.setattr(disturbance, "Witness", Seen(disturbed))
    made = iter(enumerate(reasons))
    return first_valid(lambda: next(made), len(disturbed))


def test_the_first_valid_one_is_taken_whatever_the_machine_does(monkeypatch):
    assert tried(monkeypatch, [False, True, True], [LATE, LATE, None]) == 2


@pytest.mark.parametrize("disturbed", [[True, True], [True, False, True], [True, True, False, True, False]])
def test_on_a_disturbed_machine_the_emulator_is_excused(disturbed, monkeypatch):
    assert "since this machine is disturbed: late" in tried(monkeypatch, disturbed, [LATE] * 5)


@pytest.mark.parametrize("disturbed", [[False], [True, False], [True, False, True, False, False]])
def test_on_a_calm_one_it_is_not(disturbed, monkeypatch):
    with pytest.raises(pytest.fail.Exception, match="not valid on a calm machine"):
        tried(monkeypatch, disturbed, [LATE] * 5)


def test_a_witness_says_something_of_each_moment():
    with Witness() as witness:
        pass
    assert 0.0 <= witness.still <= 1.0
    assert f"{witness.still:.2%}" in str(witness)

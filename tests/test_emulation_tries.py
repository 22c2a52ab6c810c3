"""The tries of an emulated Run: which result counts if none is valid."""

from types import SimpleNamespace

import pytest
from race_profiles import dumbbell

from bentpipe.execution import kernel
from bentpipe.execution.drawn import DrawnProfiles
from bentpipe.execution.emulation.spec import CAPTURES, EmulationError
from bentpipe.execution.plan import label_profiles, plan_race

LATE = SimpleNamespace(done={}, why_invalid="late")
ENDED = SimpleNamespace(done=None, why_invalid="the emulation ended before its end")


@pytest.fixture
def run(monkeypatch, tmp_path):
    (item,) = plan_race(label_profiles([dumbbell()]), ["cubic"], "down", 2.0, 1, tmp_path, None, "emulated")

    def tries(*results):
        rest = list(results)

        def emulated(experiment, path, on_share, captured, on_rows):
            for name in CAPTURES:
                (captured / name).write_text(str(len(rest)))
            return rest.pop(0)

        monkeypatch.setattr(kernel, "run_on_kernel", emulated)
        notes = []
        made = kernel.Emulations(3).run(item, DrawnProfiles(2), lambda _: None, notes.append, tmp_path)
        assert rest == []
        return made.data

    return tries


def test_a_finished_try_counts_if_the_last_one_ended_early(run, tmp_path):
    assert run(ENDED, LATE, ENDED) is LATE
    assert not any((tmp_path / name).exists() for name in CAPTURES)  # they would be of another try
    assert run(ENDED, ENDED, LATE) is LATE
    assert all((tmp_path / name).exists() for name in CAPTURES)


def test_a_run_that_ended_early_in_every_try_is_an_error(run):
    with pytest.raises(EmulationError, match="cubic, seed 0, on dumbbell: the emulation ended before its end"):
        run(ENDED, ENDED, ENDED)

"""What would have to be different: changes from a study's file, the paths that they make, and how they are told."""

import pytest

from bentpipe.errors import UserError
from bentpipe.profiles.access import loss_process
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.records import Name, Record
from bentpipe.scenarios.losses import find_loss
from bentpipe.studies.counterfactual import CounterfactualEntry, counterfactuals_of
from bentpipe.studies.files import Apnic2022, Bbr3Starlink, Huston2024
from bentpipe.studies.flows import on_day
from bentpipe.studies.study import Row, Verdict
from bentpipe.studies.t3p_files import T3pUplink

ENTRY = '[counterfactual.one]\nchange = "half as good"\nsource = "figure 1"\ntests = 2\n'


class Changes(Record):
    counterfactual: dict[Name, CounterfactualEntry]


def taken(text):
    return counterfactuals_of(Changes.from_toml(text, "x.toml").counterfactual)


@pytest.mark.parametrize("file", [Apnic2022, Bbr3Starlink, Huston2024, T3pUplink])
def test_the_loss_of_a_counterfactual_is_an_environment_at_a_level_of_its_source(file):
    for each in counterfactuals_of(file.load().counterfactual):
        if each.loss:
            assert each.parameters == {"loss": loss_process(each.loss)}
            assert find_loss(each.loss).level.lost < 0.05


def test_a_changed_loss_leaves_the_rest_of_the_path_unchanged():
    (one,) = taken(ENTRY + 'loss = "t3p"\n')
    own, changed = (on_day("leo-2024", 30.0, 3, parameters) for parameters in (None, one.parameters))
    assert own.content_hash() != changed.content_hash()
    for view in (lambda path: path.capacity("down").value, lambda path: path.capacity("down").t_s):
        assert list(view(PathView(own))) == list(view(PathView(changed)))


def test_a_static_path_has_no_access_model_to_change():
    with pytest.raises(
        UserError, match=r"preset geo: a static path has no access model; give its own, as in NAME:loss"
    ):
        preset_profile("geo", 10.0, parameters={"loss": {}})


def test_rows_of_a_counterfactual_name_the_change_and_its_source():
    (one,) = taken(ENTRY + 'on = "leo"\ntraffic = "peak"\n')
    assert (one.on, one.traffic, one.preset, one.parameters) == ("leo", "peak", None, {})
    (row,) = one.rows([Row("rate", "Mbit/s", 10.0, 5.0, "figure 2", "simulated")])
    assert (row.quantity, row.published, row.ours) == ("counterfactual, half as good: rate", 10.0, 5.0)
    assert (row.source, row.basis) == ("figure 2", "simulated; figure 1")
    (statement,) = one.statements([Verdict("it holds", True, "figure 2", "simulated", "why")])
    assert (statement.statement, statement.holds, statement.why) == (
        "counterfactual, half as good: it holds",
        True,
        "why",
    )
    path = preset_profile("dumbbell:loss=0.01", 10.0)
    assert one.lost_row([path], "down", "simulated").ours == pytest.approx(1.0)


def test_an_invalid_counterfactual_is_refused_in_one_line():
    with pytest.raises(UserError, match=r"x.toml: counterfactual.one: key 'tests' is missing"):
        taken(ENTRY.replace("tests = 2\n", ""))
    with pytest.raises(
        UserError, match=r"counterfactual.one: loss: unknown loss environment 't4p'; did you mean 't3p'"
    ):
        taken(ENTRY + 'loss = "t4p"\n')
    with pytest.raises(UserError, match=r"counterfactual.one: unknown key 'los'; did you mean 'loss'"):
        taken(ENTRY + 'los = "t3p"\n')

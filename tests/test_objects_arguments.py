"""Arguments of the Python objects: times, durations, and mistakes."""

import contextlib
import datetime
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from object_profiles import DUMBBELL, dumbbell

import bentpipe as bp
from bentpipe.execution.racing import race
from bentpipe.objects import arguments


@pytest.mark.parametrize(
    "value",
    [
        "2026-05-10T09:00Z",
        "2026-05-10T11:00+02:00",
        datetime.datetime(2026, 5, 10, 9),  # noqa: DTZ001 - without an offset it is UTC
        datetime.datetime(2026, 5, 10, 11, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        1778403600,
        1778403600.0,
        np.int64(1778403600),
    ],
)
def test_a_time_is_text_a_datetime_or_seconds(value):
    assert arguments.unix_ns(value, "start") == 1_778_403_600 * 10**9


@given(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)))  # noqa: DTZ001 - as above
def test_every_datetime_keeps_its_microseconds(when):
    aware = when.replace(tzinfo=datetime.UTC)
    microseconds = (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    assert arguments.unix_ns(when, "start") == microseconds * 1000
    assert arguments.unix_ns(when.isoformat(), "start") == microseconds * 1000


@pytest.mark.parametrize("value", [300, 300.0, "300", "300s", "5min", datetime.timedelta(minutes=5), np.float64(300)])
def test_a_duration_is_seconds_text_or_a_timedelta(value):
    assert arguments.seconds(value, "duration") == 300.0


NAMES = st.characters(exclude_categories=("C", "Zl", "Zp"))  # a file's name stands in its message as it is
ANYTHING = st.one_of(
    st.none(), st.booleans(), st.floats(), st.integers(), st.text(NAMES, max_size=5), st.binary(max_size=3),
    st.lists(st.integers(), max_size=2), st.just({}), st.just(object), st.just(complex(1, 2)),
)  # fmt: skip


@contextlib.contextmanager
def refused_in_one_line():
    """Any error but a UserError of one line fails the test."""
    try:
        yield
    except bp.UserError as error:
        if len(str(error).splitlines()) != 1:
            raise AssertionError(str(error)) from error
        raise


@given(ANYTHING)
def test_any_argument_is_taken_or_refused_in_one_line(value):
    for convert in (
        arguments.unix_ns, arguments.seconds, arguments.number, arguments.integer, arguments.text, arguments.texts,
        arguments.file, arguments.page, arguments.mapping, arguments.callback,
    ):  # fmt: skip
        with contextlib.suppress(bp.UserError), refused_in_one_line():
            convert(value, "x")


@given(ANYTHING)
@settings(max_examples=40)
def test_any_value_for_an_object_is_refused_in_one_line(value):
    path = dumbbell()
    for call in (
        lambda: bp.Profile(value),
        lambda: bp.Profile.make(site=value, to="london", duration=1),
        lambda: bp.Profile.preset(value),
        lambda: bp.Profile.preset(DUMBBELL, start=value),
        lambda: bp.Experiment(value, schemes=["cubic"]),
        lambda: bp.Experiment(path, flows=value),
        lambda: bp.Network(value),
        lambda: bp.Comparison(value, value),
        lambda: bp.Run(value),
        lambda: bp.read(value),
    ):
        with contextlib.suppress(bp.UserError), refused_in_one_line():
            call()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bp.Profile("P.parquet"), r"expected Profile\.make, \.preset, \.measured or \.read"),
        (lambda: bp.Profile.make(site="nowhere", to="london"), "unknown site 'nowhere'"),
        (lambda: bp.Profile.make(site=(91.0, 0.0), to="london"), "latitude is 91.0; expected -90 to 90"),
        (lambda: bp.Profile.make(site="louvain", to="london", duration="soon"), "duration: 'soon' is not a duration"),
        (lambda: bp.Profile.make(site="louvain", to="london", start=[1]), "start: .*expected ISO-8601 text"),
        (lambda: bp.Profile.read("a", "b"), "files: 2 given; expected one"),
        *(
            (lambda option=option: bp.Profile.read("a", **dict([option])), f"^{option[0]}: given without format")
            for option in {
                "delay": 0.02, "queue": "64kb", "direction": "down", "bin": 1, "start": "2026-05-10", "name": "home"
            }.items()
        ),
        (lambda: dumbbell().write("a", step=0.1), "^step: given without format"),
        (lambda: dumbbell().delay_ms("left", [0]), "direction: 'left'; expected up or down"),
        (lambda: dumbbell().delay_ms("up", "x"), "at_s: 'x'; expected numbers"),
        (lambda: dumbbell().agreement(), "has no measured ping"),
        (lambda: dumbbell().with_seed(1), "has no random process"),
        (lambda: bp.Experiment([]), "paths: none given"),
        (lambda: bp.Experiment(3), "paths: 3; expected a Profile or the file of one"),
        (lambda: bp.Experiment(dumbbell(), schemes=["cubik"]), "no controller 'cubik'; did you mean 'cubic'"),
        (lambda: bp.Experiment(dumbbell(), schemes=[]), "schemes: none given"),
        (lambda: bp.Experiment(dumbbell(), schemes=5), r"schemes: 5; expected a list"),
        (lambda: bp.Experiment(dumbbell(), queue="fq_codle"), "queue: no queue discipline 'fq_codle'; did you mean"),
        (lambda: bp.Experiment(dumbbell(), seeds=0), "seeds: 0; expected an integer of at least 1"),
        (lambda: bp.Experiment(dumbbell(), seeds=2.5), "seeds: 2.5; expected an integer"),
        (lambda: bp.Experiment(dumbbell(), direction="left"), "direction: 'left'; expected up or down"),
        (lambda: bp.Experiment(dumbbell(), warmup=1), "^warmup: given without flows"),
        (lambda: bp.Experiment(dumbbell(), ["cubic"], warmup=1), "^warmup: given without flows"),
        (lambda: bp.Experiment(dumbbell(), traffic="pek"), "^traffic: unknown traffic 'pek'; did you mean 'peak'"),
        (lambda: bp.Experiment(dumbbell(), duration=99), "^duration: 99 s exceeds the Profile .* expected at most 4 s"),
        (lambda: bp.Experiment(dumbbell(), duration=0), "^duration: 0 s; expected at least 0.1 s"),
        (lambda: bp.Experiment(dumbbell(), phase=1), "^duration: 4 s from 1 s on exceeds the Profile"),
        (lambda: bp.Experiment(dumbbell(), flows=[bp.Flow("bbr")], duration=99), "^duration: 99 s exceeds the Profile"),
        (lambda: bp.Flow("bbr", direction="left"), "^direction: 'left'; expected up or down"),
        (lambda: bp.Flow("cubik"), "no controller 'cubik'; did you mean 'cubic'"),
        (lambda: bp.Flow("cubic+bbr"), "^controller: 'cubic.bbr' is 2 flows; expected one controller"),
        (lambda: bp.Flow("bbr", start="soon"), "^start: 'soon' is not a duration"),
        (lambda: bp.Flow("bbr", stop=-1), "^stop: -1 s; expected at least 0 s"),
        (lambda: bp.Flow("bbr", path=3), "^path: 3; expected text"),
        (lambda: bp.Flow("bbr", sender=3), "^sender: 3; expected text"),
        (lambda: bp.Flow("bbr", ecn="on"), "^ecn: 'on'"),
        (lambda: bp.Profile.make(site="louvain", to="london", start=datetime.date(2026, 5, 10)),
         r"^start: datetime\.date\(2026, 5, 10\); expected ISO-8601 text, a datetime"),
        (lambda: bp.sky("london", datetime.date(2026, 5, 10)), r"^at: datetime\.date"),
        (lambda: bp.Experiment(dumbbell(), "cubic", flows=[bp.Flow("bbr")]), "flows: given with schemes"),
        (lambda: bp.Experiment(dumbbell(), flows=[]), "flows: none given"),
        (lambda: bp.Experiment(dumbbell(), "cubic", app="bulky"), "app: no application 'bulky'"),
        (lambda: bp.Experiment(dumbbell(), "cubic", app=7), "app: 7; expected text"),
        (lambda: bp.Experiment(dumbbell(), flows=[bp.Flow("bbr")], app="bulk"), "flows: given with app"),
        (lambda: bp.Experiment(dumbbell(), "bbr", app="paced:1mbit").tune({"x": [1]}, out="o"), "has app"),
        *(
            (
                lambda way=way: bp.Experiment(dumbbell(), flows=[bp.Flow("bbr")], direction=way),
                "direction: given with flows",
            )
            for way in ("up", "down")
        ),
        (lambda: bp.Experiment(dumbbell(), flows=[bp.Flow("cubic", path="home")]), "path: 'home'; expected path"),
        (lambda: bp.Experiment(dumbbell(), flows=[bp.Flow("cubic", app="bulky")]), "app: no application 'bulky'"),
        (lambda: bp.Experiment(dumbbell(), flows=[bp.Flow("cubic", app=7)]), "app: 7; expected text"),
        (lambda: bp.Experiment(bp.Network({"a": dumbbell()})), "flows: none given; expected flows over the paths"),
        (lambda: bp.Experiment(dumbbell()).tune({"x": [1]}, out="o"), "tune: the Experiment races 3 schemes"),
        (lambda: bp.Experiment(dumbbell(), "bbr").fairness(out="o"), "is one flow; expected at least two"),
        (lambda: bp.Network({"a": dumbbell()}).share("x", as_="y"), "0 paths have it"),
        (lambda: bp.RunSet([1]), "RunSet: 1; expected a Run"),
        (lambda: bp.RunSet([]).report("a.html"), "report: there is no Run"),
        (lambda: bp.RunSet.read("nowhere"), "nowhere: no such folder"),
        (bp.read, "files: none given"),
        (lambda: bp.read("nowhere.txt"), "nowhere.txt: no such file"),
        (lambda: bp.Dish(5), "host: 5; expected text"),
        (lambda: bp.probe("localhost", "o", method="pong"), "method: 'pong'; did you mean 'ping'"),
        (lambda: bp.validate("everything"), "unknown claim 'everything'"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_the_expected_value(make, message):
    with pytest.raises(bp.UserError, match=message) as caught:
        make()
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aqm", "no argument aqm; expected queue="),
        ("cc", "no argument cc; expected schemes="),
        ("seed", "no argument seed; expected seeds="),
    ],
)
def test_an_argument_that_an_experiment_does_not_have_is_one_line(name, message):
    with pytest.raises(bp.UserError, match=re.escape(message)) as error:
        bp.Experiment(dumbbell(), **{name: "fq_codel"})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("make", [bp.Experiment, bp.Flow, bp.Network, bp.Profile.make])
def test_any_other_unknown_argument_is_a_type_error(make):
    with pytest.raises(TypeError, match="unexpected keyword argument 'seedz'"):
        make(dumbbell(), seedz=1)


def test_a_start_of_zero_is_a_duration_in_any_form():
    path = dumbbell()
    flows = [bp.Flow("cubic", start=start) for start in (0, "0s", "0", datetime.timedelta())]
    runs = bp.Experiment(path, flows=flows, phase="0s").simulate()
    assert [flow.start_ns for flow in runs[0].record.experiment.flows] == [0, 0, 0, 0]


@pytest.mark.parametrize("read", [arguments.seconds, arguments.number, arguments.unix_ns])
def test_an_integer_beyond_a_float_is_refused_in_one_line(read):
    with pytest.raises(bp.errors.UserError, match=r"duration: 1000.*expected") as error:
        read(10**400, "duration")
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 200


def test_two_paths_of_a_network_may_have_equal_profiles():
    network = bp.Network({"a": dumbbell(), "b": dumbbell()})
    runs = bp.Experiment(network, flows=[bp.Flow("cubic", path="a"), bp.Flow("cubic", path="b")]).simulate()
    assert runs[0].summary()["path"].to_list() == runs.summary()["path"].to_list() == ["a", "b"]
    both = runs[0].summary()["goodput_bps"].to_list()
    alone = bp.Experiment(dumbbell(), flows=[bp.Flow("cubic")]).simulate()[0].record.summary["flows"][0]["goodput_bps"]
    assert both == pytest.approx([alone, alone], rel=0.05), "each path has its own queue"


def test_an_application_of_every_flow_of_the_schemes(tmp_path):
    path = dumbbell(duration=2)
    app = "request:200bytes/20kb,n=3"
    runs = bp.Experiment(path, ["cubic", "cubic+bbr"], app=app).simulate()
    assert [run.applications().height for run in runs] == [3, 6]
    raced = race([path.native], ["cubic"], out=None, app=app).runs
    assert runs[0].content_hash == raced[0].record.content_hash

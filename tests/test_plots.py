"""Every plot function: it draws into given axes or a new figure, and the example of its docstring runs."""

import doctest
import importlib
import inspect
import pkgutil
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import bentpipe.plots
from bentpipe.errors import UserError
from bentpipe.execution.racing import race
from bentpipe.plots import style
from bentpipe.plots.distributions import plot_cdfs, plot_destinations
from bentpipe.plots.load_test import plot_load_test
from bentpipe.plots.overview import plot_overview
from bentpipe.plots.pareto import plot_pareto
from bentpipe.plots.profile import plot_profile
from bentpipe.plots.timeline import plot_sharing, plot_timeline
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs.store import Run, find_runs

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


def plot_functions():
    functions = []
    for module in pkgutil.iter_modules(bentpipe.plots.__path__, "bentpipe.plots."):
        for name, value in inspect.getmembers(importlib.import_module(module.name), inspect.isfunction):
            if name.startswith("plot_") and value.__module__ == module.name:
                functions.append(pytest.param(value, id=name))
    return functions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the examples read: a race, pings with slots, a traceroute, a dish's history and speed tests."""
    root = tmp_path_factory.mktemp("examples")
    path = preset_profile("dumbbell:rate=20mbit", 5.0, start_unix_ns=START_UNIX_NS, name="near")
    race([path], ["cubic", "bbr", "cubic+bbr"], out=root / "out" / "race", duration_s=5.0, seeds=2)
    idle = preset_profile("dumbbell:rate=20mbit", 15.0, start_unix_ns=START_UNIX_NS, name="near")
    race([idle], ["cubic", "bbr"], out=root / "out" / "rrul", test="rrul")
    rtt_ms = 30 + np.arange(1500) // 150 % 3 * 8 + np.arange(1500) % 7 / 2
    replies = [
        f"[{1778403600 + i / 10:.6f}] 64 bytes from 1.1.1.1: icmp_seq={i + 1} ttl=58 time={rtt:.1f} ms"
        for i, rtt in enumerate(rtt_ms)
        if i % 100
    ]
    (root / "ping.txt").write_text("PING 1.1.1.1 (1.1.1.1) 56(84) bytes of data.\n" + "\n".join(replies) + "\n")
    trace = {"probe": "p", "target": "8.8.8.8", "unix_ns": START_UNIX_NS}
    answers = (("192.168.1.1", 1.0), ("100.64.0.1", 30.0), ("8.8.8.8", 45.0))
    pl.DataFrame(
        [{**trace, "ttl": i, "address": address, "rtt_ms": rtt_ms} for i, (address, rtt_ms) in enumerate(answers, 1)]
    ).write_parquet(root / "hops.parquet")
    pl.DataFrame(
        {"azimuth_deg": [10.0, 50.0] * 50, "elevation_deg": [40.0, 70.0] * 50, "latency_ms": np.arange(100.0)}
    ).write_parquet(root / "orientation.parquet")
    pl.DataFrame(
        {"unix_ns": [START_UNIX_NS] * 4, "direction": ["up", "down"] * 2, "throughput_bps": [1e7, 1e8, 2e7, 2e8]}
    ).write_parquet(root / "speed.parquet")
    return root


@pytest.mark.parametrize("function", plot_functions())
def test_the_example_of_a_plot_function_runs(function, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = vars(importlib.import_module(function.__module__))
    (test,) = doctest.DocTestFinder(recurse=False).find(function, function.__name__, globs=dict(names))
    assert test.examples
    doctest.DebugRunner().run(test, clear_globs=False)
    assert isinstance(test.globs["figure"], Figure)
    style.save(test.globs["figure"], folder / "figure.png")
    assert not any("$" in text.get_text() for text in test.globs["figure"].findobj(Text))


@pytest.mark.parametrize("function", plot_functions())
def test_a_plot_function_takes_data_first_and_the_rest_by_keyword(function):
    parameters = list(inspect.signature(function).parameters.values())
    assert parameters[-1].name == "ax"
    assert parameters[-1].default is None
    positional = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert 1 <= len(positional) <= 2
    assert all(p.default is p.empty for p in positional)


def single(folder):
    return [run for run in find_runs(folder / "out" / "race") if len(run.flows) == 1 and run.seed == 0]


@pytest.mark.parametrize(
    ("count", "draw"),
    [
        (5, lambda folder, ax: plot_timeline(single(folder), ax=ax)),
        (3, lambda folder, ax: plot_cdfs(single(folder), ax=ax)),
        (3, lambda folder, ax: plot_load_test(find_runs(folder / "out" / "rrul"), ax=ax)),
        (4, lambda folder, ax: plot_destinations(single(folder), ax=ax)),
        (1, lambda folder, ax: plot_overview(single(folder), ax=ax)),
        (3, lambda _, ax: plot_profile(preset_profile("dumbbell:rate=9mbit", 2.0), ax=ax)),
        (1, lambda _, ax: plot_pareto({"bbr": ([1.0], [2.0])}, cost="cost", gain="gain", ax=ax)),
    ],
)
def test_a_plot_draws_into_the_given_axes_and_adds_none(folder, count, draw):
    figure = Figure()
    grid = figure.subplots(count + 1, 1)
    given = grid[0] if count == 1 else grid[:count].reshape(-1, 1)
    assert draw(folder, given) is figure
    assert figure.axes == grid.tolist()
    assert all(axis.has_data() for axis in grid[:count])
    assert not grid[count].has_data()
    assert not figure.legends
    style.save(figure, folder / "given.png")
    for wrong in (grid[0] if count > 1 else grid[:2], grid[: count + 1], "axes", []):
        with pytest.raises(UserError, match=rf"^ax: .*; expected {count} Matplotlib axes; try pyplot"):
            draw(folder, wrong)


@pytest.mark.parametrize("name", [r"$\frac$", "costs $5 to $6", "a\x1b[2Jb\x9c", "</script>\ud800", "雪 naïve"])
def test_a_hostile_name_is_drawn_literally_also_without_the_style(folder, name):
    runs = [
        Run(run.path, run.record.with_labels({run.record.profiles[0].role: name}))
        for run in find_runs(folder / "out" / "race")
    ]
    sharing = [run for run in runs if len(run.flows) > 1 and run.seed == 0]
    figures = [plot_overview(runs), plot_destinations([*runs, *single(folder)]), plot_sharing(sharing)]
    for figure in figures:
        figure.savefig(folder / "figure.svg") if "雪" not in name else style.save(figure, folder / "figure.svg")
        texts = [text for axis in figure.axes for text in axis.findobj(Text)]
        assert not any(text.get_parse_math() for text in texts if "$" in text.get_text())
        assert all(text.get_text().isprintable() for text in texts if "\n" not in text.get_text())
    shown = name.replace("\x1b", "�").replace("\x9c", "�").replace("\ud800", "�")
    assert figures[0].axes[0].get_title(loc="left") == shown
    assert "".join(figures[1].axes[0].get_xticklabels()[0].get_text().split("\n")) == shown


def test_a_legend_of_given_axes_is_inside_them(folder):
    axes = Figure().subplots(5, 1)
    plot_timeline(single(folder), ax=axes)
    names = [text.get_text() for text in axes[1].get_legend().get_texts()]
    assert {"CUBIC", "BBR", "capacity"} <= set(names)
    assert SimpleNamespace(figure=axes[0].figure).figure.legends == []

"""Every example in the docstrings of the Python objects runs as a user would paste it."""

import doctest
import functools
import importlib
import inspect
import pkgutil
import warnings

import pytest
from reader_texts import RATES, TRACEROUTE, half_a_minute_of_pings

import bentpipe
import bentpipe.objects

MODULES = [
    *(f"bentpipe.objects.{module.name}" for module in pkgutil.iter_modules(bentpipe.objects.__path__)),
    "bentpipe.errors",
    "bentpipe.experiments.hook_traces",
    "bentpipe.measurements.probing.reflector",
    "bentpipe.testbed.agent.signals.dry_run",
    "bentpipe.testbed.client",
    "bentpipe.testbed.client.experiments",
    "bentpipe.testbed.client.nodes",
    "bentpipe.testbed.orchestrator.starting",
]

NOT_RUN = {
    "Experiment.emulate": "takes real time and a kernel that allows namespaces",
    "Profile.run": "takes real time and a kernel that allows namespaces",
    "check_kernel": "the result is this machine's",
    "controller_sockets": "needs root, and changes this machine's kernel",
    "keep_clock": "needs root, and changes this machine's kernel",
    "load_controller": "needs root, and changes this machine's kernel",
    "loaded_controllers": "needs root, and changes this machine's kernel",
    "set_controller_options": "needs root, and changes this machine's kernel",
    "unload_controller": "needs root, and changes this machine's kernel",
    "finish_probe": "needs a prober that was killed",
    "run_demo": "takes half a minute; tests/test_race_cli.py runs it",
    "serve_laptop_testbed": "runs until Ctrl-C; tests/test_testbed_laptop.py runs it",
    "serving": "needs a dish recording and elements of the day",
}
"""Names with examples that are marked `+SKIP`, and the reason."""

WITHOUT = {
    "__version__": "text",
    "Flow.to_record": "for the inner packages: the record of an Experiment",
    "Profile.of_measured": "for the inner packages: wraps their Profile",
    "UserError.within": "for the inner packages: adds a place to an error",
    **dict.fromkeys(
        ("Comparison.to_pandas", "Measurement.to_pandas", "Network.to_pandas", "Profile.to_pandas"), "as to_polars"
    ),
    **dict.fromkeys(("Run.to_pandas", "RunSet.to_pandas"), "as to_polars"),
}
"""Public names that need no example, and the reason."""


def public_names():
    """Yield every public name, method and property of `bentpipe`, its docstring, and whether it can be called."""
    for name in bentpipe.__all__:
        value = getattr(bentpipe, name)
        yield name, "" if isinstance(value, str) else value.__doc__, True
        for key in dir(value) if isinstance(value, type) else ():
            member = inspect.getattr_static(value, key)
            if not key.startswith("_") and not hasattr(Exception, key):
                is_property = isinstance(member, (property, functools.cached_property))
                if is_property or inspect.isroutine(member):
                    yield f"{name}.{key}", member.__doc__, not is_property


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ping.txt").write_text(half_a_minute_of_pings(), encoding="ascii")
    (tmp_path / "trace.txt").write_bytes(TRACEROUTE)
    (tmp_path / "rates.csv").write_bytes(RATES)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    messages = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a published route is missing, for example
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            runner.run(test, out=messages.append, clear_globs=True)
    assert not runner.failures, "".join(messages)


def test_every_public_name_has_a_docstring_and_every_callable_an_example():
    entries = list(public_names())
    assert not [name for name, text, _ in entries if not text and name not in WITHOUT]
    bare = [name for name, text, is_method in entries if is_method and ">>> " not in (text or "")]
    assert sorted(bare) == sorted(WITHOUT)


def test_an_example_is_skipped_for_a_stated_reason_only():
    assert sorted(NOT_RUN) == [name for name, text, _ in sorted(public_names()) if "+SKIP" in (text or "")]

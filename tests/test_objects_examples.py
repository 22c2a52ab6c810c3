"""Every example in the docstrings of the Python objects runs as a user would paste it."""

import doctest
import importlib
import pkgutil
import warnings

import pytest
from reader_texts import half_a_minute_of_pings

import bentpipe.objects

MODULES = sorted(module.name for module in pkgutil.iter_modules(bentpipe.objects.__path__))
CLASSES = ("profile", "network", "experiment", "run", "run_set", "comparison", "measurement")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ping.txt").write_text(half_a_minute_of_pings(), encoding="ascii")
    module = importlib.import_module(f"bentpipe.objects.{name}")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    messages = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a published route is missing, for example
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            runner.run(test, out=messages.append, clear_globs=True)
    assert not runner.failures, "".join(messages)
    assert runner.tries or name not in CLASSES

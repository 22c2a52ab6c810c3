"""`tools/check_words.py` refuses the words that the project retired, in texts and in names."""

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parent.parent / "tools" / "check_words.py"


@pytest.fixture(scope="module")
def words():
    spec = importlib.util.spec_from_file_location("check_words", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def joined(*parts):
    """A retired text that this file itself does not contain."""
    return " ".join(parts)


@pytest.mark.parametrize(
    "text",
    [
        joined("since the", "beginning of the Run"),
        joined("packets lost on", "the way"),
        joined("lost in a full", "queue"),
        joined("the file is cut", "off"),
        joined("the path", "closes"),
        joined("what held the flows", "back"),
        joined("without", "one, 300 s"),
    ],
)
def test_retired_texts_are_refused(words, text):
    assert words.retired_in(text)
    assert not words.retired_in("the start of the Run; 3 packets in flight; the file is truncated; one fate")


@pytest.mark.parametrize("name", ["found", "printed", "told_apart", "_found_rows", "asked_for_s"])
def test_retired_names_are_refused_in_both_languages(words, name):
    for source in (f"{name} = 1", f"def {name}(): ...", f"for {name} in (): ..."):
        assert [bad for _, bad, _ in words.bad_names_in(source)] == [name]
    for source in (
        f"let {name} = 1;",
        f"fn {name}() {{}}",
        f"struct S {{\n    pub {name}: bool,\n}}",
        f"|{name}: u8| 0",
    ):
        assert [bad for _, bad, _ in words.bad_rust_names_in(source)] == [name]


def test_parts_of_errors_and_names_of_tests_are_allowed(words):
    assert not words.bad_names_in("class E:\n    found: str\ndef f(found): ...\ndef test_all_are_found(): ...")
    assert not words.bad_rust_names_in("#[test]\nfn all_are_found() {} // let found = 1;\nfn founded() {}")

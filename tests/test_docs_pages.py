"""Pages of the documentation: their links lead somewhere, and the glossary has each object and a place that exists."""

import importlib
import re
import sys
from pathlib import Path

import pytest

import bentpipe

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TARGET = re.compile(r"\]\(([^)\s#]+)(?:#[^)\s]*)?\)")
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_to_files(page):
    targets = [target for target in TARGET.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    dead = [target for target in targets if not (page.parent / target).exists()]
    assert not dead


def test_places_in_the_glossary_exist():
    places = [place for place in re.findall(r"`([^`\s]+)`", GLOSSARY) if "/" in place]
    folders = [ROOT, ROOT / "python" / "bentpipe"]
    assert len(places) > 20
    assert not [place for place in places if not any(list(folder.glob(place)) for folder in folders)]


def test_the_glossary_has_every_object():
    classes = {name for name in bentpipe.__all__ if isinstance(getattr(bentpipe, name), type)}
    objects = {f"bentpipe.{name}" for name in classes if not name.endswith("Error")} | {"bentpipe.plugin.App"}
    assert not {name for name in objects if f"`{name}`" not in GLOSSARY}


def test_the_python_page_has_every_public_name(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools" / "docs")
    page = importlib.import_module("python_page").python_page()
    objects = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    named = re.findall(r"^## `bentpipe\.(\w+)`$", page, re.MULTILINE)
    assert not [name for name in bentpipe.__all__ if name not in named and not _is_shown(name, objects)]


def _is_shown(name, objects):
    """Whether an entry of the page is the object of that name, with a docstring that mkdocstrings can read."""
    value = getattr(bentpipe, name)
    home = value.__module__
    is_there = f"{home}.{name}" in objects or home in objects
    return is_there and value.__doc__ and Path(sys.modules[home].__file__).suffix == ".py"

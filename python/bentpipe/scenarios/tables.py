"""Packaged TOML files by name."""

from __future__ import annotations

from importlib import resources


def packaged_text(path: str) -> str:
    """Return the text of a file of this package, `path` relative to the ``scenarios`` folder."""
    return resources.files("bentpipe.scenarios").joinpath(path).read_text(encoding="utf-8")


def packaged_names(folder: str) -> list[str]:
    """Return the names (without ``.toml``) of the files in a folder of this package, sorted."""
    entries = resources.files("bentpipe.scenarios").joinpath(folder).iterdir()
    return sorted(e.name.removesuffix(".toml") for e in entries if e.name.endswith(".toml"))

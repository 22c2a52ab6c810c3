"""The tree is the architecture: these arrows and no others (ARCHITECTURE.md)."""

import ast
import graphlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

ALLOWED = {
    "bentpipe-profile": set(),
    "bentpipe-orbit": {"bentpipe-profile"},
    "bentpipe-link": {"bentpipe-profile"},
    "bentpipe-cc": {"bentpipe-profile"},
    "bentpipe-transport": {"bentpipe-profile", "bentpipe-cc"},
    "bentpipe-apps": {"bentpipe-profile"},
    "bentpipe-recovery": {"bentpipe-profile", "bentpipe-link"},
    "bentpipe-sim": {
        "bentpipe-profile",
        "bentpipe-link",
        "bentpipe-cc",
        "bentpipe-transport",
        "bentpipe-apps",
        "bentpipe-recovery",
    },
    "bentpipe-emu": {"bentpipe-profile", "bentpipe-link", "bentpipe-apps", "bentpipe-recovery"},
    "bentpipe-logs": set(),
    "bentpipe-signals": set(),
    "bentpipe-twins": {"bentpipe-profile", "bentpipe-cc"},
    "bentpipe-py": {
        "bentpipe-profile",
        "bentpipe-orbit",
        "bentpipe-link",
        "bentpipe-cc",
        "bentpipe-transport",
        "bentpipe-apps",
        "bentpipe-recovery",
        "bentpipe-sim",
        "bentpipe-emu",
        "bentpipe-logs",
        "bentpipe-signals",
        "bentpipe-twins",
    },
}

# The only modules that touch the native half; everything else goes through them.
NATIVE_DOORS = {
    "__init__.py",
    "execution",
    "experiments",
    "kernel",
    "measurements",
    "objects",
    "orbits",
    "plugin.py",
    "predict",
    "profiles",
    "runs",
}


def cargo_packages() -> dict[str, dict]:
    out = subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked", "--offline"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return {p["name"]: p for p in json.loads(out)["packages"]}


def test_crates_use_only_what_the_architecture_draws():
    packages = cargo_packages()
    assert set(packages) == set(ALLOWED)
    for name, package in packages.items():
        used = {d["name"] for d in package["dependencies"] if d["name"].startswith("bentpipe-")}
        assert used <= ALLOWED[name], f"{name} uses {used - ALLOWED[name]}"


RUST_PATH = re.compile(r"\b(crate|self|super(?:::super)*)((?:::\w+)+)(?:::\{([^}]*)\})?")


def rust_modules(source: Path) -> dict[tuple[str, ...], str]:
    """Return the text of each module of a crate by its path, without comments and tests."""
    modules, tests = {}, set()
    for file in source.rglob("*.rs"):
        names = file.relative_to(source).with_suffix("").parts
        module = names[:-1] if names[-1] in ("mod", "lib") else names
        text = re.sub(r"^\s*//.*$", "", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        tests |= {(*module, name) for name in re.findall(r"#\[cfg\(test\)\]\s+(?:pub(?:\(\w+\))? )?mod (\w+);", text)}
        modules[module] = re.split(r"#\[cfg\(test\)\]\s+mod \w+ \{", text)[0]
    return {module: text for module, text in modules.items() if not any(module[: len(test)] == test for test in tests)}


def used_modules(module: tuple[str, ...], text: str, modules: Iterable[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """Return the modules of its crate that a module names."""
    used = set()
    for base, names, group in RUST_PATH.findall(text):
        start = {"crate": (), "self": module}.get(base, module[: len(module) - base.count("super")])
        path = (*start, *names.split("::")[1:])
        for last in re.findall(r"(?:^|,)\s*(\w+)", group) or [""]:
            whole = (*path, last)
            used.add(next(whole[:length] for length in range(len(whole), -1, -1) if whole[:length] in modules))
    return used


@pytest.mark.parametrize("crate", sorted(path.name for path in (ROOT / "crates").iterdir()))
def test_modules_of_a_rust_folder_do_not_use_each_other_in_a_circle(crate):
    modules = rust_modules(ROOT / "crates" / crate / "src")
    folders: dict[tuple[str, ...], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for module, text in modules.items():
        for other in used_modules(module, text, modules):
            # Where one of them is in the other, no place differs.
            place = next(
                (place for place, names in enumerate(zip(module, other, strict=False)) if len({*names}) > 1), None
            )
            if place is not None and other[place] != "registry":  # it lists its neighbours, which use its types
                folders[module[:place]][module[place]].add(other[place])
    for uses in folders.values():
        graphlib.TopologicalSorter(uses).prepare()  # raises CycleError, which names the circle


def test_core_crates_know_nothing_of_python():
    for name, package in cargo_packages().items():
        names = {d["name"] for d in package["dependencies"]}
        if name != "bentpipe-py":
            assert not names & {"pyo3", "numpy"}, name


def test_every_crate_takes_the_workspace_lints():
    for name, package in cargo_packages().items():
        manifest = Path(package["manifest_path"]).read_text()
        assert "[lints" in manifest, name


@pytest.mark.parametrize("heavy", ["polars", "matplotlib", "numpy"])
def test_the_command_line_starts_without(heavy):
    code = f"import sys, bentpipe.cli.main; sys.exit({heavy!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def imports(path: Path) -> set[str]:
    """Modules that a file imports when it runs; imports for types alone do not count."""
    names = set()
    tree = ast.parse(path.read_text())
    types = {node for block in ast.walk(tree) if is_type_checking(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if node in types:
            continue
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names |= {f"{node.module}.{a.name}" for a in node.names}
    return names


def test_only_the_doors_import_the_native_module():
    package = ROOT / "python" / "bentpipe"
    users = {
        path.relative_to(package)
        for path in package.rglob("*.py")
        if any(name.startswith("bentpipe._native") for name in imports(path))
    }
    strangers = {str(u) for u in users if u.parts[0] not in NATIVE_DOORS}
    assert not strangers, strangers


def test_the_command_line_only_translates():
    """No numeric or table library in cli/: the work is the library's."""
    for path in (ROOT / "python" / "bentpipe" / "cli").rglob("*.py"):
        top = {name.split(".")[0] for name in imports(path)}
        assert not top & {"numpy", "polars", "matplotlib", "scipy"}, path

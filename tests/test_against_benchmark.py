"""The benchmark against an older commit: its worktree, its counts, and its arguments."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

sys.path.insert(0, str(BENCHMARKS))
import against  # noqa: E402 - the path above

GIT = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with two commits of one file."""
    root = tmp_path / "clone"
    root.mkdir()
    subprocess.run([*GIT, "init", "--quiet"], cwd=root, check=True)
    for text in ("old", "new"):
        (root / "file").write_text(text, encoding="ascii")
        subprocess.run([*GIT, "add", "file"], cwd=root, check=True)
        subprocess.run([*GIT, "commit", "--quiet", "-m", text], cwd=root, check=True)
    monkeypatch.setattr(against, "ROOT", root)
    monkeypatch.setattr(against, "OUT", tmp_path / "out")
    return root


def test_the_tree_of_a_commit_is_removed_after_its_use(clone):
    for _ in range(2):
        with against.tree_of(against.name_of("HEAD~1")) as tree:
            assert (tree / "file").read_text(encoding="ascii") == "old"
        assert not tree.exists()
    assert (clone / "file").read_text(encoding="ascii") == "new"


def test_a_tree_that_a_killed_benchmark_left_is_replaced(clone):
    left = against.OUT / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(left), "HEAD"], cwd=clone, check=True)
    with against.tree_of(against.name_of("HEAD~1")) as tree:
        assert (tree / "file").read_text(encoding="ascii") == "old"


def test_a_tree_that_a_killed_benchmark_left_is_replaced_without_its_folder(clone):
    left = against.OUT / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(left), "HEAD"], cwd=clone, check=True)
    shutil.rmtree(against.OUT)
    with against.tree_of(against.name_of("HEAD~1")) as tree:
        assert (tree / "file").read_text(encoding="ascii") == "old"


def test_the_program_of_a_commit_is_built_once_by_each_compiler_and_flags(clone, tmp_path, monkeypatch):
    rustc = tmp_path / "bin" / "rustc"
    rustc.parent.mkdir()
    monkeypatch.setenv("PATH", str(rustc.parent), prepend=os.pathsep)
    monkeypatch.setattr(against, "build_example", lambda tree, _target: tree / "file")
    programs = []
    for version, flags in [("1.90.0", ""), ("1.90.0", ""), ("1.91.0", ""), ("1.91.0", "-Ctarget-cpu=native")]:
        rustc.write_text(f"#!/bin/sh\necho 'rustc {version}'\n", encoding="ascii")
        rustc.chmod(0o755)
        monkeypatch.setenv("RUSTFLAGS", flags)
        programs.append(against.dumbbell_of(against.name_of("HEAD")))
        assert programs[-1].read_text(encoding="ascii") == "new"
    assert programs[0] == programs[1]
    assert len(set(programs)) == 3


def test_an_unknown_commit_is_refused_in_one_line(clone):
    with pytest.raises(SystemExit, match="no commit 'nowhere'; expected one of this clone"):
        against.name_of("nowhere")


def test_instructions_are_those_that_callgrind_prints(tmp_path, monkeypatch):
    valgrind = tmp_path / "valgrind"
    valgrind.write_text("#!/bin/sh\necho '==7== Collected : 1234567' >&2\n", encoding="ascii")
    valgrind.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert against.count(Path("dumbbell"), "instructions") == 1234567
    assert against.count(Path("/bin/true"), "seconds of CPU") < 10


@pytest.mark.parametrize("words", [[], ["HEAD", "HEAD~1"]])
def test_one_commit_is_needed(words):
    command = [sys.executable, str(BENCHMARKS / "run.py"), "against", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "against: expected one commit, as in `python benchmarks/run.py against HEAD~10`"
    ]

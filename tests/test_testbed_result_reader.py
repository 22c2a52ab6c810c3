"""What reads results of nodes reaches neither the orchestrator's keys nor its processes."""

import asyncio
import os
import sys

import pytest

from bentpipe.testbed.namespaces.landlock import landlock_version
from bentpipe.testbed.orchestrator.security.authority import Authority
from bentpipe.testbed.orchestrator.services.limited import run_limited
from bentpipe.testbed.orchestrator.services.result_checks import check_result

PROBE = """
import os, sys
from pathlib import Path
from bentpipe.testbed.orchestrator.services.limited import limit_process

folder, key, link = map(Path, sys.argv[1:4])
written = int(sys.argv[5])
limit_process(10, folder, written)

def tries(name, action):
    try:
        action()
        print(name)
    except OSError:
        pass

tries("result", (folder / "run.json").read_bytes)
tries("key", key.read_bytes)
tries("link", link.read_bytes)
tries("list", lambda: list(key.parent.iterdir()))
tries("memory", Path(f"/proc/{sys.argv[4]}/environ").read_bytes)
tries("signal", lambda: os.kill(int(sys.argv[4]), 0))
tries("write", lambda: (folder / "new").write_text("x"))
tries("outside", lambda: (key.parent / "new").write_text("x"))
"""


def probe(tmp_path, written):
    Authority.open(tmp_path / "home" / "keys")
    key = tmp_path / "home" / "keys" / "authority.key"
    folder, uploads, module = (tmp_path / name for name in ("folder", "uploads", "module"))
    for each in (folder, uploads, module):
        each.mkdir()
    (uploads / "part").write_text("{}")
    (folder / "run.json").symlink_to(uploads / "part")
    (module / "probe_of_reader.py").write_text(PROBE)
    sys.path.append(str(module))
    try:
        arguments = (str(folder), str(key), f"/proc/self/root{key}", str(os.getpid()), str(written))
        code, text = asyncio.run(run_limited("probe_of_reader", *arguments, seconds=60))
    finally:
        sys.path.remove(str(module))
    assert code == 0, text
    assert key.read_bytes().startswith(b"-----BEGIN")
    return text.split()


@pytest.mark.parametrize(("written", "possible"), [(0, ["result"]), (1000, ["result", "write"])])
def test_what_reads_results_cannot_read_the_authoritys_key(tmp_path, written, possible):
    if (version := landlock_version()) == 0:
        pytest.skip("this kernel has no Landlock")
    assert [each for each in probe(tmp_path, written) if each != "signal" or version >= 6] == possible


def test_a_result_is_read_all_the_same(tmp_path):
    (tmp_path / "testbed.json").write_text('{"run": 1}')
    assert asyncio.run(check_result({"testbed.json": tmp_path / "testbed.json"})) is None
    (tmp_path / "testbed.json").write_text("[")
    assert "JSONDecodeError" in asyncio.run(check_result({"testbed.json": tmp_path / "testbed.json"}))

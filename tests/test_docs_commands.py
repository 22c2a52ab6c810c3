"""The commands of the README and the guides, pasted in order into an empty folder; shortened, and without a network."""

import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from emulation import can_emulate
from reader_texts import half_a_minute_of_pings

ROOT = Path(__file__).resolve().parent.parent
SHORTER = (
    (r"--duration 60(?= -o out/(?:kernel|simulated))", "--duration 4"),
    (r"--duration (?:315|6000|60)\b", "--duration 20"),
    (r"-- curl -s http://server:8000/ -o page.html", "-- true"),
    (r"--duration 300\b", "--duration 5"),
    (r"--seeds 5\b", "--seeds 1"),
    (r'"\$\(date -u \+%FT%TZ\)"', "2026-05-10T09:00:00Z"),  # the day of the elements below: no test has a clock
)
ELSEWHERE = re.compile(
    r"make |bentpipe (probe|validate)|curl -o starlink\.tle |ping .* > ping\.txt$|\. \.venv/bin/activate$"
)
"""What needs a network, the clone, or minutes; its files are laid there by the test."""
REAL_TIME = re.compile(r"bentpipe (kernel|run|shell|race .*--on-kernel|report out/kernel|compare .*out/kernel)")
"""What needs namespaces."""


def fenced(text):
    return [
        line.split("  #")[0].strip()
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
        if not language
        for line in block.splitlines()
    ]


def inline(text):
    return re.findall(r"^\|[^|]*\|[^`]*`(bentpipe [^`]*)`", text, re.M)


def commands(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    return [*fenced(text), *inline(text)]


def lay_examples(folder):
    """Copy the examples' data to where a clone has them."""
    (folder / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "ping.txt", folder / "examples")


def checksum(line):
    return f"{line}{sum(int(c) if c.isdigit() else c == '-' for c in line) % 10}"


def walker_tle(epoch):
    """Starlink's first shell, 72 planes of 22 at 550 km and 53°, as a TLE file of that day."""
    year, day = epoch.year % 100, epoch.timetuple().tm_yday + epoch.hour / 24 + epoch.minute / 1440
    lines = []
    for i in range(72 * 22):
        plane, place = divmod(i, 22)
        anomaly = (place * 360 / 22 + plane * 5) % 360
        first = f"1 {i + 1:05d}U 19074A   {year:02d}{day:012.8f}  .00000000  00000-0  00000-0 0  999"
        second = f"2 {i + 1:05d}  53.0000 {plane * 5:8.4f} 0000001   0.0000 {anomaly:8.4f} 15.06000000    1"
        lines += [f"SHELL-{i + 1}", checksum(first), checksum(second)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", ["README.md", "docs/guides/getting-started.md", "docs/guides/live.md"])
def test_every_command_can_be_pasted(page, tmp_path):
    day = datetime.datetime(2026, 5, 10, 9, tzinfo=datetime.UTC)
    (tmp_path / "starlink.tle").write_text(walker_tle(day), encoding="ascii")
    (tmp_path / "ping.txt").write_text(half_a_minute_of_pings(), encoding="ascii")
    lay_examples(tmp_path)
    pasted = [line for line in commands(page) if line and not ELSEWHERE.match(line)]
    assert len(pasted) >= 4
    assert all(line.startswith("bentpipe ") for line in pasted), pasted
    if not can_emulate():
        pasted = [line for line in pasted if not REAL_TIME.match(line)]
    for command in pasted:
        short = command
        for long, brief in SHORTER:
            short = re.sub(long, brief, short)
        done = subprocess.run(
            ["bash", "-c", short],
            cwd=tmp_path,
            env={"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        # A machine too busy for real time says so, and its Runs do not count.
        busy = "--on-kernel" in short and done.returncode == 1 and "excluded as invalid" in done.stderr
        busy |= " compare " in short and "no valid Run" in done.stderr
        assert done.returncode == 0 or busy, f"{short}\n{done.stderr}"
        assert "Traceback" not in done.stderr


def test_the_python_of_the_readme_runs(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    for long, brief in (("duration=315", "duration=20"), ("duration=300", "duration=4"), ("seeds=5", "seeds=1")):
        assert long in block
        block = block.replace(long, brief)
    lay_examples(tmp_path)  # and nothing else: a reader has a clone
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cubic+bbr" in done.stdout
    assert "jitter_ms" in done.stdout
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "report.html").is_file()


def test_the_blocks_of_the_python_guide_run_in_one_session(tmp_path):
    text = (ROOT / "docs/guides/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    assert len(blocks) >= 7
    (tmp_path / "ping.txt").write_text(half_a_minute_of_pings(), encoding="ascii")
    code = "\n".join(blocks)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert {"P.parquet", "path.png", "timeline.png", "latency.png"} <= {each.name for each in tmp_path.iterdir()}
    assert (tmp_path / "out" / "report.html").is_file()

"""Fuzzing of the converters: any bytes give a Profile or a one-line error."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.profiles.convert import FORMATS, read_as, write_as
from bentpipe.profiles.convert.reading import ReadOptions
from bentpipe.profiles.parquet import read_profile
from bentpipe.profiles.presets import preset_profile

OPTIONS = ReadOptions(delay_s=0.02)
#: StarryNet's is a folder: its own test is below.
READERS = [name for name, entry in FORMATS.items() if entry.read is not None and name != "starrynet"]

IPERF3 = json.dumps(
    {
        "start": {
            "version": "iperf 3.12",
            "timestamp": {"timesecs": 1_700_000_000},
            "test_start": {"protocol": "TCP", "reverse": 1},
        },
        "intervals": [
            {
                "streams": [
                    {"socket": 5, "start": i, "end": i + 1, "bits_per_second": 1e6 * i, "omitted": i == 2}
                    | {"bytes": 10**5, "sender": False, "rtt": 30_000}
                ],
                "sum": {},
            }
            for i in range(5)
        ],
    }
)


class Seeds(dict[str, str]):
    """A good file of each format."""

    def __repr__(self) -> str:
        return "Seeds()"  # Hypothesis shows a test's arguments, and warns of 44 kB of them


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    folder = tmp_path_factory.mktemp("seeds")
    profile = preset_profile("dumbbell", 1.0)
    texts = {"iperf3": IPERF3}
    for name in ("csv", "hypatia", "leoreplayer", "mahimahi", "netem"):
        texts[name] = write_as(name, profile, folder / name).files[0].read_text()
    return Seeds(texts)


def harmless(name: str, path: Path) -> None:
    """Reads; anything but a Profile or a `UserError` of one line fails the test."""
    line = ""
    try:
        read_as(name, [path], OPTIONS)
    except UserError as error:
        line = str(error)
    assert not line or str(path) in line
    assert "\n" not in line


@pytest.mark.parametrize("name", READERS)
def test_the_seed_files_are_valid(name: str, seeds: Seeds, tmp_path: Path) -> None:
    path = tmp_path / "good"
    path.write_text(seeds[name])
    assert read_as(name, [path], OPTIONS).profile.duration_s > 0


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=60)
@given(data=st.binary(max_size=400))
def test_any_bytes(name: str, tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "noise"
    path.write_bytes(data)
    harmless(name, path)


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=150)
@given(
    change=st.sampled_from(["cut", "line", "swap", "number", "insert"]),
    places=st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)),
    number=st.sampled_from(
        ["-1", "0", "1e999", "nan", "9" * 30, "1.5", "", "true", "null", "-0", "4611686018427387904"]
    ),
    noise=st.text(max_size=20),
)
def test_mutated_files_are_read_or_refused(
    name: str, seeds: Seeds, tmp_path: Path, change: str, places: tuple[int, int], number: str, noise: str
) -> None:
    text = seeds[name]
    lines = text.splitlines(keepends=True)
    at = places[0] % (len(text) + 1)
    i, j = (place % len(lines) for place in places)
    if change == "cut":
        text = text[:at]
    elif change == "line":
        del lines[i]
        text = "".join(lines)
    elif change == "swap":
        lines[i], lines[j] = lines[j], lines[i]
        text = "".join(lines)
    elif change == "number":
        numbers = list(re.finditer(r"\d+", text))
        match = numbers[places[0] % len(numbers)]
        text = text[: match.start()] + number + text[match.end() :]
    else:
        text = text[:at] + noise + text[at:]
    path = tmp_path / "changed"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    harmless(name, path)


@settings(max_examples=100)
@given(
    name=st.sampled_from(["config.json", "bentpipe-Grid-LeastDelay/GS-2/gsl/1.txt"]),
    at=st.integers(0, 10_000),
    noise=st.text(max_size=20) | st.sampled_from(["|", ",", "0|||0,0,0,0,1e9", "-1", "9" * 30, "null"]),
    cut=st.booleans(),
)
def test_a_mutated_starrynet_folder_is_read_or_refused(
    tmp_path: Path, name: str, at: int, noise: str, cut: bool
) -> None:
    folder = tmp_path / "sn"
    if not folder.exists():
        write_as("starrynet", preset_profile("dumbbell", 1.0), folder)
    file = folder / name
    good = file.read_bytes()
    text = good.decode()
    at %= len(text) + 1
    file.write_bytes((text[:at] + ("" if cut else noise + text[at:])).encode("utf-8", "surrogatepass"))
    try:
        harmless("starrynet", folder)
    finally:
        file.write_bytes(good)


@settings(max_examples=150)
@given(data=st.binary(max_size=300), dressed=st.booleans())
def test_any_bytes_as_a_profile(tmp_path: Path, data: bytes, dressed: bool) -> None:
    path = tmp_path / "noise"
    path.write_bytes(b"PAR1" + data + b"PAR1" if dressed else data)
    with pytest.raises(UserError) as caught:
        read_profile(path)
    assert "\n" not in str(caught.value)

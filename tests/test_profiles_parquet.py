"""Profile files are restored exactly, or refused with one line."""

import json
import os
import random
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from bentpipe._native import Profile
from bentpipe.errors import StoreError, UserError
from bentpipe.files import atomic_write, read_bytes
from bentpipe.profiles.parquet import FORMAT, HASH_KEY, PROFILE_KEY, read_profile, write_profile
from bentpipe.profiles.path import PathView
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.show import summarise
from bentpipe.profiles.table import profile_from_frame, profile_to_frame


def sample(rows: int = 500) -> Profile:
    """Two hops, a route that changes, an event, gaps, all four kinds of series."""
    queue = {"discipline": "drop_tail", "limit": {"bytes": 100_000}}
    fate = {"queue": "keep", "in_flight": "deliver", "order": "clamp"}
    metadata = {
        "format": 1,
        "name": "sample",
        "start_unix_ns": 1_700_000_000_123_456_789,
        "duration_ns": 10**10,
        "basis": "one_way",
        "provenance": {
            "kind": "computed",
            "description": "for tests",
            "made_by": "tests",
            "seed": 7,
            "includes": ["mac_jitter"],
            "recipe": {"a": [1, 0.1]},
        },
        "hops": [{"name": n, "shared_id": None, "up_queue": queue, "down_queue": queue} for n in ("sat:1", "sat:2")],
        "routes": [{"at_ns": 0, "hops": [0]}, {"at_ns": 4 * 10**9, "hops": []}, {"at_ns": 5 * 10**9, "hops": [1]}],
        "events": [
            {
                "at_ns": 5 * 10**9,
                "interruption_ns": 10**8,
                "hop": 0,
                "kind": {
                    "handover": {
                        "from_satellite": "1",
                        "to_satellite": "2",
                        "from_gateway": None,
                        "to_gateway": None,
                        "to_hop": 1,
                    }
                },
                "up": fate,
                "down": fate,
            }
        ],
    }
    draw = np.random.default_rng(1)
    columns: dict[str, list[np.ndarray]] = {"t": [], "hop": [], "direction": [], "kind": [], "value": [], "valid": []}
    for hop in (0, 1):
        for direction in (0, 1):
            for kind, value in (
                (0, draw.random(rows) / 10),
                (1, draw.integers(1, 10**8, rows)),
                (2, draw.random(rows) / 50),
                (3, np.zeros(rows)),
            ):
                columns["t"].append(np.linspace(0, 9.9, rows))
                columns["hop"].append(np.full(rows, hop))
                columns["direction"].append(np.full(rows, direction))
                columns["kind"].append(np.full(rows, kind))
                columns["value"].append(value.astype(float))
                columns["valid"].append(np.ones(rows, bool) if kind == 3 else draw.random(rows) > 0.1)
    joined = {key: np.concatenate(parts) for key, parts in columns.items()}
    return Profile.from_table(
        json.dumps(metadata),
        joined["t"],
        joined["hop"].astype(np.uint32),
        joined["direction"].astype(np.uint8),
        joined["kind"].astype(np.uint8),
        joined["value"],
        joined["valid"],
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "p.parquet"
    write_profile(sample(), target)
    return target


def refused(path: Path) -> str:
    """The one line that reading `path` ends in."""
    with pytest.raises(UserError) as caught:
        read_profile(path)
    line = str(caught.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    return line


def test_a_profile_survives_its_file(path: Path) -> None:
    back = read_profile(path)
    assert back.content_hash() == sample().content_hash()
    assert back.metadata_json() == sample().metadata_json()
    assert back.start_unix_ns == 1_700_000_000_123_456_789


def test_the_same_profile_is_the_same_bytes(path: Path, tmp_path: Path) -> None:
    write_profile(read_profile(path), tmp_path / "again.parquet")
    assert (tmp_path / "again.parquet").read_bytes() == path.read_bytes()


def test_other_libraries_read_the_table(path: Path) -> None:
    frame = pl.read_parquet(path)
    assert frame.columns == ["t_s", "hop", "direction", "kind", "value", "valid"]
    assert set(frame["hop"].unique()) == {"sat:1", "sat:2"}
    metadata = pl.read_parquet_metadata(path)
    assert json.loads(metadata[PROFILE_KEY])["format"] == 1  # with drop-tail queues alone
    assert metadata[HASH_KEY] == sample().content_hash()


def test_a_table_restores_the_profile() -> None:
    frame = profile_to_frame(sample())
    assert profile_from_frame(frame, sample().metadata_json()).content_hash() == sample().content_hash()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop("valid"), "no column valid"),
        (lambda frame: frame.with_columns(pl.col("value").cast(pl.Float32)), "column value holds Float32"),
        (lambda frame: frame.with_columns(hop=pl.lit("sat:9")), "hop 'sat:9' is unknown; expected sat:1, sat:2"),
        (lambda frame: frame.with_columns(kind=pl.lit("rtt_s")), "kind 'rtt_s' is unknown"),
        (lambda frame: frame.with_columns(value=pl.lit(None, pl.Float64)), "empty cell(s)"),
        (lambda frame: frame.with_columns(value=pl.lit(float("nan"))), "NaN at 0 s"),
    ],
)
def test_a_table_that_is_not_a_profiles_is_refused(change, message: str) -> None:
    with pytest.raises(UserError) as caught:
        profile_from_frame(change(profile_to_frame(sample())), sample().metadata_json())
    assert message in str(caught.value)


def test_files_that_are_not_profiles_are_refused_in_one_line(tmp_path: Path) -> None:
    target = tmp_path / "p"
    assert "no such file" in refused(target)
    target.mkdir()
    assert "is a directory" in refused(target)
    target.rmdir()
    target.write_bytes(b"")
    assert "is empty" in refused(target)
    target.write_bytes(b"hello, world")
    assert "not a Parquet file" in refused(target)
    target.write_bytes(b"PAR1....")
    assert "cut short" in refused(target)
    pl.DataFrame({"a": [1]}).write_parquet(target)
    assert "not a Profile" in refused(target)


def test_devices_pipes_and_large_files_are_not_read(tmp_path: Path) -> None:
    assert "is not an ordinary file" in refused(Path("/dev/zero"))
    os.mkfifo(tmp_path / "pipe")
    assert "is not an ordinary file" in refused(tmp_path / "pipe")
    (tmp_path / "ten").write_bytes(b"0123456789")
    assert read_bytes(tmp_path / "ten", limit=10) == b"0123456789"
    with pytest.raises(UserError, match=r"is too large \(10 bytes\); (expected|wanted) at most 9 bytes"):
        read_bytes(tmp_path / "ten", limit=9)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate((2 << 30) + 1)
    assert "is too large" in refused(tmp_path / "sparse")


def test_a_rewritten_profile_is_distinguished_from_a_damaged_one(path: Path) -> None:
    """Another program keeps the metadata and writes its own name; a later bentpipe may prove a file whole otherwise."""
    data = path.read_bytes()
    split = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    rewritten = data[: split - 32] + data[split:].replace(b"Polars", b"Another"[:6])
    path.write_bytes(rewritten)
    assert "was rewritten by another program" in refused(path)
    path.write_bytes(data[: split - 32] + data[split:].replace(b'"format":1', b'"format":%d' % (FORMAT + 1)))
    assert f"has format {FORMAT + 1}" in refused(path)


def test_a_newer_profile_is_distinguished_from_a_damaged_one(path: Path, tmp_path: Path) -> None:
    """A later bentpipe keeps the checksum and raises the format; its table may have other columns."""
    import hashlib
    import io

    buffer = io.BytesIO()
    metadata = json.loads(sample().metadata_json()) | {"format": FORMAT + 1, "surprise": []}
    pl.DataFrame({"other": [1]}).write_parquet(buffer, metadata={PROFILE_KEY: json.dumps(metadata), HASH_KEY: "x"})
    data = buffer.getvalue()
    split = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    path.write_bytes(data[:split] + hashlib.sha256(data).digest() + data[split:])
    assert f"has format {FORMAT + 1}" in refused(path)
    assert "newer bentpipe" in refused(path)


def test_every_flipped_byte_and_every_truncation_is_detected(path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = path.read_bytes()
    draw = random.Random(1)
    for _ in range(400):
        damaged = bytearray(data)
        if draw.random() < 0.3:
            del damaged[draw.randrange(len(data)) :]
        else:
            damaged[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        refused(path)
    assert capfd.readouterr().err == ""  # no panic of a library


def test_a_full_disk_leaves_the_old_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def no_space(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(StoreError, match="no space left on device"):
        write_profile(preset_profile("geo", 1.0), path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_device_is_not_replaced_by_a_file() -> None:
    with pytest.raises(UserError, match="not an ordinary file"):
        write_profile(sample(), "/dev/full")
    assert Path("/dev/full").is_char_device()


def test_a_write_that_fails_inside_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), atomic_write(tmp_path / "a") as file:
        file.write(b"half" * (1 // 0))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="does not exist"), atomic_write(tmp_path / "no" / "a"):
        pass


def test_end_to_end_series_follow_the_route() -> None:
    view = PathView(sample())
    capacity = view.capacity("down")
    at = dict(zip(capacity.t_s, capacity.value, strict=True))
    assert at[4.0] == 0.0  # no path
    assert at[5.0] == 0.0  # the hop taken is interrupted
    assert at[5.1] > 0.0
    loss = view.loss("down")
    assert dict(zip(loss.t_s, loss.value, strict=True))[4.0] == 1.0
    summary = summarise(sample())
    assert summary["handovers"] == 1
    assert summary["no_path_s"] == 1.0
    assert [hop["used_s"] for hop in summary["hops"]] == [4.0, 5.0]
    assert 0 < summary["up"]["valid_fraction"] < 1
    assert summary["up"]["loss_mean"] == pytest.approx(
        0.01, rel=0.2
    )  # uniform up to 0.02, without the second that has no path

"""The manifest of a folder of Runs: extended, replaced by a fresh race, and never an obstacle."""

import json
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bentpipe.errors import UserError
from bentpipe.execution.racing import race
from bentpipe.experiments.experiment import ProfileRef, for_scheme
from bentpipe.profiles.presets import preset_profile
from bentpipe.runs import failed
from bentpipe.runs.manifest import FILE, FORMAT, ManifestWarning, Request, read_manifest

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


def dumbbell():
    return preset_profile("dumbbell:rate=10mbit", 4.0, start_unix_ns=START_UNIX_NS, name="dumbbell")


def test_the_manifest_is_written_before_the_first_run(tmp_path):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(Exception, match="interrupted"):
        race([dumbbell()], ["reno", "cubic"], out=tmp_path, duration_s=4.0, seeds=5, on_progress=stop)
    (entry,) = read_manifest(tmp_path)
    assert [request.scheme for request in entry.requests] == ["reno", "cubic"]
    for request in entry.requests:
        assert request.profiles == ("dumbbell",)
        assert (request.seeds, request.phase) == ((0, 1, 2, 3, 4), "drawn")
        assert request.experiment.duration_ns == 4_000_000_000
    assert len(entry.places()) == 10


def test_races_extend_the_manifest_and_a_fresh_one_replaces_covered_entries(tmp_path):
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=1.0)
    race([dumbbell()], ["cubic"], out=tmp_path, duration_s=1.0)
    assert schemes(tmp_path) == [["reno"], ["cubic"]]
    race([dumbbell()], ["reno", "cubic"], out=tmp_path, duration_s=1.0)
    assert schemes(tmp_path) == [["reno", "cubic"]]
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=2.0, phase_s=0.5, fresh=True)
    (request,) = read_manifest(tmp_path)[-1].requests
    assert (request.phase, request.experiment.offset_ns) == ("given", 500_000_000)


def schemes(out):
    return [[request.scheme for request in entry.requests] for entry in read_manifest(out)]


@given(st.data())
def test_a_damaged_manifest_is_a_warning_at_most(tmp_path, data):
    reference = ProfileRef(role="path", name="p", hash="00")
    experiment = for_scheme("reno", "down", [reference], duration_ns=10**9, seed=0)
    request = Request(profiles=("p",), scheme="reno", seeds=(0,), phase="drawn", experiment=experiment).to_dict()
    entry = {"world": "simulated", "requests": [request]}
    whole = {"format": FORMAT, "requested": [entry]}
    (tmp_path / FILE).write_text(json.dumps(whole), encoding="utf-8")
    assert len(read_manifest(tmp_path)) == 1
    odd = st.sampled_from([None, True, 0, "x", [], {}, [None], [[]], [1.5]])
    part = data.draw(st.sampled_from([entry, request]))
    part[data.draw(st.sampled_from(sorted(part)))] = data.draw(odd)
    text = json.dumps(
        data.draw(st.sampled_from([whole, whole, {"format": FORMAT, "requested": entry}, [entry], entry]))
    )
    cut = data.draw(st.integers(0, len(text)))
    (tmp_path / FILE).write_text(text[:cut] if data.draw(st.booleans()) else text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ManifestWarning)
        for read in read_manifest(tmp_path):
            assert read.places()


@pytest.mark.parametrize("format_", [None, 0, FORMAT - 1, FORMAT + 1, True, str(FORMAT)])
def test_only_a_known_format_is_read(tmp_path, format_):
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=1.0)
    document = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**document, "format": format_}))
    with pytest.warns(ManifestWarning, match="its format is"):
        assert read_manifest(tmp_path) == []


def test_files_of_a_newer_bentpipe_are_not_overwritten(tmp_path):
    race([dumbbell()], ["reno"], out=tmp_path, duration_s=1.0)
    for file, key in ((tmp_path / FILE, "requested"), (tmp_path / failed.FILE, "failed")):
        file.write_text(json.dumps({"format": FORMAT + 1, key: [], "more": 1}))
    before = (tmp_path / failed.FILE).read_text()
    with pytest.warns(ManifestWarning, match="of a newer bentpipe, left unchanged"):
        failed.store_failed(tmp_path, [], [])
    assert (tmp_path / failed.FILE).read_text() == before
    with pytest.raises(UserError, match=rf"race\.json: of a newer format than {FORMAT}"):
        race([dumbbell()], ["cubic"], out=tmp_path, duration_s=1.0)
    assert json.loads((tmp_path / FILE).read_text())["more"] == 1

"""Profiles and scripts of the tests of races."""

import textwrap

import pytest

from bentpipe.profiles.make import make_profile
from bentpipe.profiles.presets import preset_profile

START_UNIX_NS = 1_778_403_600_000_000_000  # 2026-05-10T09:00:00Z


def dumbbell(duration_s=4.0, rate="10mbit", name="dumbbell"):
    return preset_profile(f"dumbbell:rate={rate}", duration_s, start_unix_ns=START_UNIX_NS, name=name)


def computed(seed):
    """A drawn Profile, short."""
    return make_profile("melbourne", "sydney", start_unix_ns=START_UNIX_NS, duration_s=2.0, seed=seed)


def outage():
    """In the middle of the Pacific no satellite sees terminal and gateway at once; without lasers."""
    where = "-30.0,-120.0"
    with pytest.warns(UserWarning, match="an outage"):
        return make_profile(where, "sydney", start_unix_ns=START_UNIX_NS, duration_s=2.0, name="mid-ocean", isl="never")


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


RACE = textwrap.dedent("""
    import sys
    from pathlib import Path
    from bentpipe.profiles import preset_profile
    from bentpipe.execution.racing import race
    path = preset_profile("dumbbell:rate=50mbit", 30.0, start_unix_ns=0, name="dumbbell")
    try:
        race([path], ["reno", "cubic", "bbr"], out=Path(sys.argv[1]), duration_s=30.0, seeds=400, jobs=2)
    except Exception as error:
        print(error)
""")

"""How properties are tried, and fixtures of the emulator's tests; what these are made of is in `emulation`."""

import os
import subprocess

import pytest
from emulation import dumbbell_path, require_emulation
from hypothesis import HealthCheck, settings
from testbed_fixtures import anyio_backend, database_url, postgresql

__all__ = ["anyio_backend", "database_url", "postgresql"]  # fixtures of the testbed's tests

# Tests run beside each other: threads of a library that wait for each other would take all processors.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test fails for a machine that is busy, and none today for what it did not try yesterday: `make fuzz` tries more.
# The examples of a test share its folder and what else it is given.
LEAVE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile("ours", deadline=None, derandomize=True, suppress_health_check=LEAVE)
settings.load_profile("ours")


@pytest.fixture(scope="session")
def emulation():
    """Skips the test on a machine that cannot emulate."""
    require_emulation()


@pytest.fixture(scope="session")
def dumbbell():
    """10 Mbit/s, 30 ms there and back, for a minute."""
    return dumbbell_path()


@pytest.fixture
def small_disk(tmp_path):
    """A disk of a megabyte."""
    if os.geteuid() != 0:
        pytest.skip("to mount a small disk takes root")
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no small disk can be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", place], check=True)

"""Databases and orchestrators of the testbed's tests."""

import contextlib
import os

import pytest

from bentpipe.testbed.orchestrator.running import Settings, serving
from bentpipe.validation import postgresql
from bentpipe.validation.testbed_calendar.world import (
    NOW_MS,
    POLICY,
    Clock,
    csr_of,
    join,
    orchestrator,
    plan_all,
    report,
    user,
    yaml_of,
)

__all__ = [
    "NOW_MS",
    "POLICY",
    "Clock",
    "csr_of",
    "join",
    "orchestrator",
    "plan_all",
    "postgresql_server",
    "report",
    "runs_of",
    "serving_testbed",
    "user",
    "yaml_of",
]


@contextlib.contextmanager
def postgresql_server():
    """PostgreSQL of the distribution; without it the test is skipped."""
    if postgresql.programs() is None:
        if os.environ.get("BENTPIPE_REQUIRE") == "emu":
            pytest.fail("PostgreSQL is not installed (apt install postgresql)")
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    with postgresql.server() as server:
        yield server


@contextlib.asynccontextmanager
async def serving_testbed(home, url, **settings):
    """An orchestrator with ports."""
    async with serving(Settings(home=home, db=url, listen="127.0.0.1:0", agents="127.0.0.1:0", **settings)) as running:
        yield running


async def runs_of(testbed, **where):
    """Runs as users see them."""
    from bentpipe.testbed.orchestrator.services import listings

    return (await listings.list_runs(testbed, "", 500, **where)).items

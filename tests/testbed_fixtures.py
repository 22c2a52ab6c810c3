"""Fixtures of the testbed's tests: they run on both databases."""

import pytest


@pytest.fixture(scope="session")
def postgresql():
    from testbed_orchestrators import postgresql_server

    with postgresql_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    """URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'testbed.db'}"
    return request.getfixturevalue("postgresql").new_database()


@pytest.fixture
def anyio_backend():
    return "asyncio"

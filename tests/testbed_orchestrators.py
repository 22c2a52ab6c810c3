"""Databases and orchestrators of the testbed's tests."""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
import uuid
from pathlib import Path

import pytest

from bentpipe.testbed.orchestrator.running import Settings, opened, serving
from bentpipe.testbed.schemas.node import NodeReport
from bentpipe.testbed.schemas.policy import HostPolicy

POLICY = HostPolicy(schema="bentpipe.policy/1")
NOW_MS = 1_790_000_000_000
"""2026-09-21T14:13:20Z."""


def report(role="client", **fields):
    """What a node says of itself."""
    values = {
        "agent_version": "1",
        "platform": "Linux x86_64",
        "role": role,
        "runners": ("process",),
        "builtins": ("ping", "iperf3", "dish", "irtt"),
        "policy": POLICY,
    }
    if role == "server":
        values["control_address"] = "192.0.2.7:8793"
    return NodeReport(**(values | fields))


class Clock:
    """A clock that a test sets."""

    def __init__(self, now_ms=NOW_MS):
        self.now_ms = now_ms

    def __call__(self):
        return self.now_ms


def postgresql_programs():
    """Folder of PostgreSQL's programs; None: it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "postgres").exists()), None)


@contextlib.contextmanager
def postgresql_server():
    """PostgreSQL of the distribution on a Unix socket in a folder of its own; it refuses to run as root."""
    programs = postgresql_programs()
    if programs is None:
        if os.environ.get("BENTPIPE_REQUIRE") == "emu":
            pytest.fail("PostgreSQL is not installed (apt install postgresql)")
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="bentpipe-pg-", dir="/tmp"))
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    if user:
        shutil.chown(folder, "postgres", "postgres")
    data = folder / "data"
    quick = ["-c", "fsync=off", "-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}"]
    run = functools.partial(
        subprocess.run, check=True, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user
    )
    try:
        run([programs / "initdb", "-D", data, "-U", "test", "-A", "trust", "-N", "-E", "UTF8"])
        options = " ".join([*quick, "-c", "max_connections=200"])
        run([programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start"])
        try:
            yield folder
        finally:
            run([programs / "pg_ctl", "-D", data, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(server):
    """URL of a new database of a server."""
    name = f"t{uuid.uuid4().hex}"
    subprocess.run(
        [postgresql_programs() / "psql", "-q", "-h", server, "-U", "test", "postgres", "-c", f"CREATE DATABASE {name}"],
        check=True,
        capture_output=True,
    )
    return f"postgresql+asyncpg://test@/{name}?host={server}"


@contextlib.asynccontextmanager
async def orchestrator(home, url, clock=None):
    """An orchestrator without ports."""
    async with opened(Settings(home=home, db=url, clock=clock or Clock())) as opened_one:
        yield opened_one


@contextlib.asynccontextmanager
async def serving_testbed(home, url, **settings):
    """An orchestrator with ports."""
    async with serving(Settings(home=home, db=url, listen="127.0.0.1:0", agents="127.0.0.1:0", **settings)) as running:
        yield running


async def join(testbed, name, role="client", owner=None, **fields):
    """A node in the database; returns it as in memory."""
    from cryptography.hazmat.primitives.asymmetric import ec

    from bentpipe.testbed.orchestrator.services import joining
    from bentpipe.testbed.schemas.agent_protocol import EnrolRequest

    token = await joining.issue_join_token(testbed, who="test", owner=owner)
    request = EnrolRequest(
        token=token, name=name, csr_pem=csr_of(ec.generate_private_key(ec.SECP256R1())), report=report(role, **fields)
    )
    answer = await joining.enrol(testbed, request)
    return testbed.nodes.get(answer.node)


def csr_of(key):
    """A signing request for a key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


async def user(testbed, name="ada", role="experimenter"):
    """A user, as callers are."""
    from bentpipe.testbed.orchestrator.services import users

    async with testbed.write() as transaction:
        token, _ = await users.issue(transaction, name, role, who="test")
    return await users.authenticate(testbed, token)


def yaml_of(
    name="ping-home", nodes="{names: [attic]}", run="{builtin: ping, args: {target: 192.0.2.1, seconds: 57}}", **more
):
    """The file of an experiment; `more`: further keys as YAML text."""
    lines = ["schema: bentpipe.experiment/1", f"name: {name}", f"nodes: {nodes}", f"run: {run}"]
    return "\n".join([*lines, *(f"{key.rstrip('_')}: {text}" for key, text in more.items())])


async def plan_all(testbed):
    """Plan until nothing is left."""
    from bentpipe.testbed.orchestrator.services.planner import plan_turn
    from bentpipe.testbed.orchestrator.services.retries import retry_turn

    while await plan_turn(testbed) + await retry_turn(testbed):
        pass


async def runs_of(testbed, **where):
    """Runs as users see them."""
    from bentpipe.testbed.orchestrator.services import listings

    return (await listings.list_runs(testbed, "", 500, **where)).items

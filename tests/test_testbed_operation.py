"""Backup and restore, migrations, metrics, logs, the store, and the testbed's own commands."""

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DBAPIError
from test_testbed_api import client_of, token_of
from testbed_orchestrators import Clock, join, orchestrator, plan_all, runs_of, user, yaml_of
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.testbed.client import TestbedClient
from bentpipe.testbed.credentials import read_credentials, save_credentials
from bentpipe.testbed.orchestrator import logs
from bentpipe.testbed.orchestrator.backup import back_up, restore
from bentpipe.testbed.orchestrator.database import migrations
from bentpipe.testbed.orchestrator.database.engines import Database
from bentpipe.testbed.orchestrator.database.migrate import migrate
from bentpipe.testbed.orchestrator.database.tables import BookingRow, LoginStateRow, Table, UserRow
from bentpipe.testbed.orchestrator.defaults import admin_file
from bentpipe.testbed.orchestrator.running import Settings, serving
from bentpipe.testbed.orchestrator.services import experiments, users
from bentpipe.testbed.orchestrator.storage import Storage


@pytest.mark.anyio
async def test_a_backup_of_a_running_testbed_fits_both_databases(tmp_path, database_url):
    file = tmp_path / "backup.tar.gz"
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic")
        token = await token_of(testbed, "viewer")
        await experiments.submit(testbed, await user(testbed), yaml_of())
        await plan_all(testbed)
        counts = await back_up(database_url, tmp_path, file)
        fingerprint = testbed.authority.fingerprint
    assert (counts["nodes"], counts["runs"], counts["bookings"]) == (1, 1, 1)
    assert file.stat().st_mode & 0o077 == 0
    new = tmp_path / "new"
    assert await restore(file, f"sqlite:///{tmp_path / 'new.db'}", new) == counts
    async with orchestrator(new, f"sqlite:///{tmp_path / 'new.db'}") as testbed:
        assert testbed.authority.fingerprint == fingerprint
        assert (await users.authenticate(testbed, token)).role == "viewer"
        assert [run.state for run in await runs_of(testbed)] == ["planned"]
    with pytest.raises(UserError, match="expected a new folder"):
        await restore(file, database_url, tmp_path)
    with pytest.raises(UserError, match="expected an empty database"):
        await restore(file, database_url, tmp_path / "other")
    with pytest.raises(UserError, match="expected a new file"):
        await back_up(database_url, tmp_path, file)


@pytest.mark.anyio
async def test_a_backup_of_an_older_version_is_restored_and_upgraded(tmp_path, database_url):
    async with orchestrator(tmp_path, f"sqlite:///{tmp_path / 'keys.db'}"):
        pass  # it makes the keys
    old = await Database.open(database_url)
    try:
        await migrate(old, "0001")
        async with old.write() as connection:
            row = {"id": "u" * 32, "name": "ada", "subject": None, "disabled": False, "created_at_ms": 0}
            await connection.execute(insert(UserRow), [row])
    finally:
        await old.close()
    counts = await back_up(database_url, tmp_path, tmp_path / "backup.tar.gz")
    assert (counts["users"], "login_states" in counts) == (1, False)
    url = f"sqlite:///{tmp_path / 'new.db'}"
    assert await restore(tmp_path / "backup.tar.gz", url, tmp_path / "new") == counts
    async with orchestrator(tmp_path / "new", url) as testbed, testbed.read() as transaction:
        assert await transaction.scalar(select(UserRow.name).where(UserRow.id == "u" * 32)) == "ada"
        assert await transaction.rows(select(LoginStateRow.state)) == []


@pytest.mark.anyio
async def test_damaged_backups_are_one_line(tmp_path):
    for content in (b"", b"no backup", None):
        file = tmp_path / "damaged.tar.gz"
        if content is None:
            with tarfile.open(file, "w:gz"):
                pass
        else:
            file.write_bytes(content)
        with pytest.raises(UserError, match="FILE: "):
            await restore(file, f"sqlite:///{tmp_path / 'x.db'}", tmp_path / "home")


@pytest.mark.anyio
async def test_a_newer_database_is_refused(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed, testbed.database.write() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UserError, match="version 9999 of the database is newer than this program"):
        async with orchestrator(tmp_path, database_url):
            pass


@pytest.mark.anyio
async def test_migrations_from_the_first_version_lead_to_the_tables_of_the_program(tmp_path, database_url):
    row = {"id": "b" * 32, "node_id": "n" * 32, "run_id": "r" * 32, "end": "client", "from_at_ms": 0, "to_at_ms": 9}
    row |= {"first_lane": 0, "end_lane": 1, "live": True, "priority": 0}

    def differences(connection):
        return compare_metadata(MigrationContext.configure(connection), Table.metadata)

    database = await Database.open(database_url)
    try:
        await migrate(database, "0001")
        async with database.write() as connection:
            await connection.execute(insert(BookingRow), [row])
        await migrate(database)
        async with database.write() as connection:
            assert await connection.run_sync(differences) == []
            with pytest.raises(DBAPIError, match="no_overlap"):
                await connection.execute(insert(BookingRow), [{**row, "id": "c" * 32}])
            await connection.rollback()
    finally:
        await database.close()


@pytest.mark.anyio
async def test_one_process_per_sqlite_file(tmp_path):
    url = f"sqlite:///{tmp_path / 'a.db'}"
    async with orchestrator(tmp_path, url):
        with pytest.raises(UserError, match="another process uses it"):
            await Database.open(url)
    database = await Database.open(url)
    await database.close()
    for bad in ("nonsense", "mysql://x", "sqlite://", "postgresql+asyncpg://nobody@127.0.0.1:1/x"):
        with pytest.raises(UserError, match="db: "):
            await Database.open(bad)


@pytest.mark.anyio
async def test_metrics_need_a_token_and_count(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url, Clock()) as testbed:
        await join(testbed, "attic")
        await experiments.submit(testbed, await user(testbed), yaml_of())
        await plan_all(testbed)
        async with client_of(testbed, await token_of(testbed, "viewer")) as client:
            content = (await client.get("/metrics")).text
        assert 'bentpipe_nodes{state="offline"} 1.0' in content
        assert 'bentpipe_runs{state="planned"} 1.0' in content


def test_no_token_is_in_a_log(capsys):
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        logs.log_as_json()
        logging.getLogger("bentpipe.testbed").info("got %s", "bpu_abcdefghijkl")
        try:
            raise ValueError("bpj_abcdefghijkl")
        except ValueError:
            logging.getLogger("bentpipe.testbed").exception("failed")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["got bp…", "failed"]
    assert "abcdefghijkl" not in "".join(lines)


@contextlib.contextmanager
def local_s3(monkeypatch):
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    variables = {
        "AWS_ENDPOINT": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    for name, content in variables.items():
        monkeypatch.setenv(name, content)
    import urllib.request

    request = urllib.request.Request(f"http://{host}:{port}/results", method="PUT")
    with urllib.request.urlopen(request):
        pass
    try:
        yield "s3://results/lab"
    finally:
        server.stop()


@pytest.mark.parametrize("kind", ["folder", "s3"])
def test_the_store_keeps_other_content_aside(tmp_path, monkeypatch, kind):
    async def use(storage):
        await storage.put("a/b.txt", b"one")
        await storage.put("a/b.txt", b"two")
        assert await storage.get("a/b.txt") == b"two"
        aside = f"a/b.txt.other-{hashlib.sha256(b'one').hexdigest()[:12]}"
        assert await storage.get(aside) == b"one"
        assert await storage.size("a/b.txt") == 3
        assert await storage.get("a/c.txt") is None
        assert [part async for part in storage.stream("a/b.txt")] == [b"two"]
        large = tmp_path / "large"
        large.write_bytes(os.urandom(9_000_000))
        await storage.put("large", large)
        await storage.put("large", large)
        assert await storage.get("large") == large.read_bytes()

    with contextlib.ExitStack() as stack:
        address = str(tmp_path / "store") if kind == "folder" else stack.enter_context(local_s3(monkeypatch))
        asyncio.run(use(Storage.open(address)))


def test_a_store_of_another_kind_is_refused():
    with pytest.raises(UserError, match="expected a folder or s3://BUCKET/PREFIX"):
        Storage.open("ftp://x")


def test_credentials_are_their_owners_alone(tmp_path, monkeypatch):
    file = save_credentials("http://127.0.0.1:1", "bpu_token", tmp_path / "x" / "testbed.json")
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_credentials(file) == ("http://127.0.0.1:1", "bpu_token")
    file.chmod(0o644)
    with pytest.raises(UserError, match="mode 644; expected 600; try chmod 600"):
        read_credentials(file)
    monkeypatch.delenv("BENTPIPE_TESTBED_TOKEN", raising=False)
    with pytest.raises(UserError, match="token: none"):
        TestbedClient("http://127.0.0.1:1", credentials=tmp_path / "nothing")


def test_the_commands_from_the_first_start_to_a_backup(tmp_path):
    home = tmp_path / "home"
    command = [sys.executable, "-m", "bentpipe"]
    environment = os.environ | {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    environment.pop("BENTPIPE_TESTBED_TOKEN", None)

    def run(*arguments, code=0):
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    process = subprocess.Popen(
        [*command, "testbed", "up", "--home", home, "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        addresses, token = process.stdout.readline(), process.stdout.readline().split()[-1]
        url = addresses.split()[2]
        environment["BENTPIPE_TESTBED"] = url
        assert "bentpipe node join https://127.0.0.1:" in run("testbed", "token", "--home", home, "--role", "node")
        environment["BENTPIPE_TESTBED_TOKEN"] = token
        assert run("testbed", "token", "--role", "viewer", "--name", "vi").startswith("bpu_")
        assert json.loads(run("node", "ls", "--format", "json")) == []
        (tmp_path / "e.yml").write_text(yaml_of())
        assert run("exp", "validate", str(tmp_path / "e.yml")) == "ping-home: valid; a run takes at most 60 s\n"
        assert "no client node 'attic'" in run("exp", "submit", str(tmp_path / "e.yml"), code=2)
        assert run("exp", "ls", "--format", "ids") == ""
        assert "error: no experiment 'x'" in run("exp", "cancel", "x", code=2)
        assert "rows and the keys" in run("testbed", "backup", str(tmp_path / "b.tar.gz"), "--home", home)
        busy = ("testbed", "up", "--home", home, "--listen", "127.0.0.1:0", "--agents", "127.0.0.1:0")
        assert "another process uses it" in run(*busy, code=2)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 0
    assert token not in errors
    assert all(json.loads(line) for line in errors.splitlines())


@pytest.mark.anyio
async def test_a_port_that_is_taken_leaves_no_half_made_testbed(tmp_path):
    home = tmp_path / "home"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=r"agents: 127\.0\.0\.1:.* in use; expected a free HOST:PORT"):
            async with serving(Settings(home=home, listen="127.0.0.1:0", agents=address)):
                pass
    assert not home.exists()
    async with serving(Settings(home=home, listen="127.0.0.1:0", agents="127.0.0.1:0")) as running:
        assert "token of the user admin" in running.lines()[1]


@pytest.mark.anyio
async def test_who_has_the_home_folder_gets_a_new_admins_token(tmp_path):
    settings = Settings(home=tmp_path, listen="127.0.0.1:0", agents="127.0.0.1:0")
    command = ["testbed", "token", "--role", "admin", "--home", str(tmp_path)]
    async with serving(settings) as running:
        done = await asyncio.to_thread(CliRunner().invoke, app, command)
        assert (done.exit_code, "another process uses it" in done.output) == (2, True)
    admin_file(tmp_path).unlink()
    async with serving(settings) as running:
        assert "try `bentpipe testbed token --role admin --home" in running.lines()[1]
    done = await asyncio.to_thread(CliRunner().invoke, app, command)
    async with serving(settings) as running:
        assert (await users.authenticate(running.orchestrator, done.output.strip())).is_admin
        assert "/login?code=" in running.lines()[1]


def test_each_migration_follows_one_other_and_has_its_number():
    """Two branches that both add number 5 are seen here, not when a database is opened."""
    files = sorted(Path(migrations.__file__).parent.glob("versions/[0-9]*.py"))
    assert [file.name[:4] for file in files] == [f"{number:04}" for number in range(1, len(files) + 1)]

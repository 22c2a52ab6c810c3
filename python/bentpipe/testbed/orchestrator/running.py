"""The orchestrator as a program: two ports, workers, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import resource
import signal
import socket
import ssl
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bentpipe.errors import UserError
from bentpipe.testbed.credentials import read_credentials, save_credentials
from bentpipe.testbed.orchestrator import defaults
from bentpipe.testbed.orchestrator.context import Orchestrator, wall_clock_ms
from bentpipe.testbed.orchestrator.database.engines import Database
from bentpipe.testbed.orchestrator.database.migrate import migrate
from bentpipe.testbed.orchestrator.security.authority import Authority
from bentpipe.testbed.orchestrator.services import users
from bentpipe.testbed.orchestrator.services.boots import Boots
from bentpipe.testbed.orchestrator.services.heartbeats import Heartbeats
from bentpipe.testbed.orchestrator.services.idempotency import forget_unfinished
from bentpipe.testbed.orchestrator.services.refusals import UnauthenticatedError
from bentpipe.testbed.orchestrator.services.telemetry import Telemetry
from bentpipe.testbed.orchestrator.services.uploads import Uploads
from bentpipe.testbed.orchestrator.storage import Storage
from bentpipe.testbed.schemas.views import NewToken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    import uvicorn
    from starlette.types import ASGIApp

    from bentpipe.testbed.orchestrator.security.oidc.login import OidcLogin
    from bentpipe.testbed.orchestrator.security.oidc.settings import OidcSettings

log = logging.getLogger("bentpipe.testbed")


@dataclass(frozen=True)
class Settings:
    """How to run an orchestrator.

    Attributes:
        home: Folder of keys, partial uploads, and by default of database and store.
        db: URL of the database; None: SQLite in `home`.
        store: Folder or ``s3://…`` of results; None: in `home`.
        listen: HOST:PORT for users.
        agents: HOST:PORT for agents.
        public: Names and addresses by which nodes reach the agents' port; None: that of `agents`.
        proxy: Address of a proxy that ends the agents' TLS and sends ``Client-Cert`` (RFC 9440); None: none.
        clock: Time [ms since 1970].
        events_days: Days for which events of agents are kept; 0: for ever.
        audit_days: Days for which lines of the audit are kept; 0: for ever.
        oidc: Login at an identity provider; None: none.
        node_bytes: Quota of a node's committed results [bytes]; 0: none.
    """

    home: Path = field(default_factory=defaults.home_folder)
    db: str | None = None
    store: str | None = None
    listen: str = defaults.LISTEN
    agents: str = defaults.AGENTS
    public: str | None = None
    proxy: str | None = None
    clock: Callable[[], int] = wall_clock_ms
    events_days: int = defaults.EVENTS_DAYS
    audit_days: int = defaults.AUDIT_DAYS
    oidc: OidcSettings | None = None
    node_bytes: int = defaults.NODE_BYTES


def address_of(text: str, where: str) -> tuple[str, int]:
    """Parse HOST:PORT. Raises `UserError`.

    Example:
        >>> address_of("127.0.0.1:8791", "listen"), address_of("[::1]:80", "listen")
        (('127.0.0.1', 8791), ('::1', 80))
    """
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UserError(text, where=where, expected=f"HOST:PORT, as {defaults.LISTEN}")
    return host, int(port)


@contextlib.asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Orchestrator]:
    """Yield an orchestrator with its database, brought to this version, and its store. Raises `UserError`."""
    home = settings.home
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise UserError(f"{home}: {error.strerror}", where="home", expected="a folder") from None
    authority = Authority.open(home / "keys")
    storage = Storage.open(settings.store or str(home / "store"))
    database = await Database.open(settings.db or f"sqlite:///{home / 'testbed.db'}")
    try:
        await migrate(database)
        orchestrator = Orchestrator(database, storage, authority, home, settings.clock, node_bytes=settings.node_bytes)
        async with database.read() as connection:
            await orchestrator.nodes.load(connection)
        if database.is_sqlite:
            await forget_unfinished(orchestrator)
        try:
            yield orchestrator
        finally:
            # An event loop that ends cancels a process's start in a way in which CPython 3.11 waits for it for ever.
            await orchestrator.figures.close()
    finally:
        await database.close()


@dataclass
class Running:
    """An orchestrator that serves.

    Attributes:
        orchestrator: It.
        url: Address for users.
        agents_url: Address for agents.
        first_token: Token of the first admin, at the first start; None: later.
        telemetry: Newest samples of nodes.
        login_url: Address that logs a browser in as the first admin, once, within ten minutes; None: its token is gone.
    """

    orchestrator: Orchestrator
    url: str
    agents_url: str
    first_token: str | None
    telemetry: Telemetry
    login_url: str | None

    def lines(self) -> list[str]:
        """Return what the operator should see."""
        lines = [f"testbed on {self.url} for users, on {self.agents_url} for nodes"]
        if self.first_token is not None:
            lines.append(f"token of the user admin, shown once: {self.first_token}")
        if self.login_url is not None:
            lines.append(f"dashboard, once within ten minutes: {self.login_url}")
        else:
            home = self.orchestrator.folder
            lines.append(f"no valid admin's token in {home}; try `bentpipe testbed token --role admin --home {home}`")
        if self.orchestrator.oidc is not None:
            lines.append(
                f"redirect URI to register at {self.orchestrator.oidc.name}: {self.orchestrator.oidc.redirect}"
            )
        return lines


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[Running]:
    """Serve on both ports while the block runs. Raises `UserError`: an address that is taken, and as `opened`."""
    from bentpipe.testbed.orchestrator.routers.agents import AgentRoutes, agents_app
    from bentpipe.testbed.orchestrator.routers.app import users_app
    from bentpipe.testbed.orchestrator.security.client_certificates import CertificateReader
    from bentpipe.testbed.orchestrator.workers import workers

    host, port = address_of(settings.listen, "listen")
    agents_host, agents_port = address_of(settings.agents, "agents")
    async with contextlib.AsyncExitStack() as stack:
        # first: a port that is taken leaves no half-made testbed behind
        users_socket = stack.enter_context(_bound(host, port, "listen"))
        agents_socket = stack.enter_context(_bound(agents_host, agents_port, "agents"))
        orchestrator = await stack.enter_async_context(opened(settings))
        url = f"http://{_in_url(host)}:{users_socket.getsockname()[1]}"
        first_token = await users.ensure_first(orchestrator)
        if first_token is not None:
            save_credentials(url, first_token, defaults.admin_file(settings.home))
        heartbeats, telemetry = Heartbeats(orchestrator, Boots(orchestrator)), Telemetry(orchestrator)
        agents_port = agents_socket.getsockname()[1]
        public = settings.public or agents_host
        scheme = "http" if settings.proxy is not None else "https"
        orchestrator.agents_url = f"{scheme}://{_in_url(public)}:{agents_port}"
        certificates = CertificateReader(orchestrator.authority.certificate, settings.proxy)
        agents = agents_app(AgentRoutes(orchestrator, certificates, heartbeats, Uploads(orchestrator), telemetry))
        context = None if settings.proxy is not None else _tls(orchestrator, [public, agents_host])
        orchestrator.oidc = _oidc(orchestrator, url, settings)
        servers = [
            _server(users_app(orchestrator, telemetry, host, settings.public), None),
            _server(agents, context),
        ]
        days = {"events_days": settings.events_days, "audit_days": settings.audit_days}
        tasks = [
            asyncio.create_task(servers[0].serve([users_socket])),
            asyncio.create_task(servers[1].serve([agents_socket])),
            *(asyncio.create_task(worker) for worker in workers(orchestrator, heartbeats, telemetry, **days)),
        ]
        try:
            while not all(server.started for server in servers):
                await asyncio.sleep(0.01)
                for task in tasks:
                    if task.done():
                        task.result()
            login_url = await _login_url(orchestrator, url, first_token, settings)
            yield Running(orchestrator, url, orchestrator.agents_url, first_token, telemetry, login_url)
        finally:
            orchestrator.wakeups.end()
            for server in servers:
                server.should_exit = True
                server.force_exit = True  # streams never end by themselves
            for task in tasks[2:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await heartbeats.flush()


def _oidc(orchestrator: Orchestrator, url: str, settings: Settings) -> OidcLogin | None:
    """Return the login at the provider of the settings; None: there is none. Raises `UserError`."""
    if settings.oidc is None:
        return None
    from bentpipe.testbed.orchestrator.security.oidc.login import OidcLogin as Login

    key = orchestrator.sessions.key
    return Login.open(settings.oidc, key, orchestrator.clock, url, settings.public)


async def renew_admin(settings: Settings) -> NewToken:
    """Make a token of the user ``admin``, store it in the home and return it. Raises as `opened`."""
    file = defaults.admin_file(settings.home)
    async with opened(settings) as orchestrator, orchestrator.write() as transaction:
        token, token_id = await users.issue(transaction, "admin", "admin", who="owner of the home folder")
    url = read_credentials(file)[0] if file.exists() else None
    save_credentials(url or f"http://{settings.listen}", token, file)
    return NewToken(id=token_id, token=token, name="admin", role="admin")


async def _login_url(orchestrator: Orchestrator, url: str, first_token: str | None, settings: Settings) -> str | None:
    """Return an address with a one-time code of the first admin's token, which is in no address itself."""
    try:
        token = first_token or read_credentials(defaults.admin_file(settings.home))[1]
        caller = None if token is None else await users.authenticate(orchestrator, token)
    except (UserError, UnauthenticatedError):
        return None
    return None if caller is None else f"{url}/login?code={orchestrator.sessions.new_code(caller.token)}"


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _bound(host: str, port: int, where: str) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UserError(f"{host}:{port}: {error.strerror}", where=where, expected="a free HOST:PORT") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise UserError(f"{host}:{port}: {error.strerror}", where=where, expected="a free HOST:PORT") from None
    bound.setblocking(False)
    return bound


def _tls(orchestrator: Orchestrator, names: list[str]) -> ssl.SSLContext:
    """Return the TLS context of the agents' port: a certificate is asked for, and needed but for ``enrol``."""
    certificate, key = orchestrator.authority.server_files([*dict.fromkeys([*names, "localhost", "127.0.0.1"])])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(cadata=orchestrator.authority.pem)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _server(app: ASGIApp, context: ssl.SSLContext | None) -> uvicorn.Server:
    import uvicorn

    from bentpipe.testbed.orchestrator.security.client_certificates import CertificateProtocol

    class Server(uvicorn.Server):
        """A server that leaves signals to the program."""

        @contextlib.contextmanager
        def capture_signals(self) -> Any:  # noqa: ANN401 - a context manager
            yield

    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        http=CertificateProtocol,
        ws="none",
        lifespan="off",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        backlog=4096,
        h11_max_incomplete_event_size=65_536,
    )
    config.load()
    if context is not None:
        config.ssl = context
    return Server(config)


def settle_interpreter() -> None:
    """Keep the pauses of the interpreter short: ten thousand nodes wait for one thread.

    Requests leave no garbage in cycles, so the collector looks often at little and almost never at everything. Threads
    of SQLite take turns of 0.5 ms, since each write to a socket lets them in.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(1_000, 20, 5_000)
    sys.setswitchinterval(0.0005)


def raise_file_limit() -> int:
    """Take as many open files as the machine allows, since each node has two connections; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


async def run(settings: Settings, on_ready: Callable[[Running], object]) -> None:
    """Serve until SIGINT or SIGTERM; `on_ready` is called once both ports listen. Raises as `serving`."""
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    raise_file_limit()
    async with serving(settings) as running:
        settle_interpreter()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end.set)
        on_ready(running)
        await end.wait()

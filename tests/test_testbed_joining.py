"""How nodes join the testbed, and who may call as one."""

import asyncio
import contextlib
import ssl

import aiohttp
import pytest
from testbed_orchestrators import Clock, orchestrator, report, serving_testbed
from typer.testing import CliRunner

from bentpipe.cli.main import app
from bentpipe.errors import UserError
from bentpipe.testbed.agent.entering import join_testbed
from bentpipe.testbed.agent.settings import AgentSettings
from bentpipe.testbed.orchestrator.security.authority import Authority
from bentpipe.testbed.orchestrator.services import joining
from bentpipe.testbed.orchestrator.services.refusals import ConflictError, UnauthenticatedError
from bentpipe.testbed.schemas.agent_protocol import EnrolRequest, Heartbeat
from bentpipe.testbed.schemas.node import NodeStatus

pytestmark = pytest.mark.anyio


def signing_request(names=("attic",), curve=None, extensions=()):
    """A key and a request as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(curve or ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key_pem, pem


def request_with(token, csr_pem, name="attic"):
    return EnrolRequest(token=token, name=name, csr_pem=csr_pem, report=report())


async def test_a_token_joins_one_node_and_gives_the_same_answer_to_the_same_key(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        token = await joining.issue_join_token(testbed, who="test")
        assert token.endswith(testbed.authority.fingerprint)
        _, pem = signing_request()
        first = await joining.enrol(testbed, request_with(token, pem))
        again = await joining.enrol(testbed, request_with(token, pem))
        assert first == again
        with pytest.raises(UnauthenticatedError, match="used by another node"):
            await joining.enrol(testbed, request_with(token, signing_request()[1], "other"))
        with pytest.raises(UnauthenticatedError, match="unknown"):
            await joining.enrol(testbed, request_with("bpj_nothing-of-that-kind", pem))


async def test_an_old_token_a_taken_name_and_another_name_are_refused(tmp_path, database_url):
    clock = Clock()
    async with orchestrator(tmp_path, database_url, clock) as testbed:
        old = await joining.issue_join_token(testbed, who="test")
        clock.now_ms += joining.JOIN_TOKEN_MS
        with pytest.raises(UnauthenticatedError, match="expired"):
            await joining.enrol(testbed, request_with(old, signing_request()[1]))
        named = await joining.issue_join_token(testbed, who="test", name="cellar")
        with pytest.raises(UserError, match="'cellar', as the token says"):
            await joining.enrol(testbed, request_with(named, signing_request()[1]))
        await joining.enrol(testbed, request_with(named, signing_request()[1], "cellar"))
        other = await joining.issue_join_token(testbed, who="test")
        with pytest.raises(ConflictError, match="a node named 'cellar' exists"):
            await joining.enrol(testbed, request_with(other, signing_request()[1], "cellar"))


def test_of_a_signing_request_the_public_key_alone_is_taken(tmp_path):
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    authority = Authority.open(tmp_path)
    _, pem = signing_request(
        ["admin", "other"],
        extensions=[
            x509.BasicConstraints(ca=True, path_length=None),
            x509.SubjectAlternativeName([x509.DNSName("localhost")]),
        ],
    )
    signed = x509.load_pem_x509_certificate(authority.sign_node(pem, "ab" * 16, 30).pem.encode())
    assert signed.subject.rfc4514_string() == f"CN={'ab' * 16}"
    assert signed.extensions.get_extension_for_class(x509.BasicConstraints).value.ca is False
    with pytest.raises(x509.ExtensionNotFound):
        signed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    damaged = pem[:100] + ("A" if pem[100] != "A" else "B") + pem[101:]
    for text in ("", "no request", damaged, signing_request(curve=ec.SECP192R1())[1]):
        with pytest.raises(UserError, match="csr_pem"):
            authority.sign_node(text, "ab" * 16, 30)


def test_the_keys_are_their_owners_alone(tmp_path):
    authority = Authority.open(tmp_path / "keys")
    authority.server_files(["localhost"])
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "keys").glob("*.key")}
    assert modes == {"authority.key": "0o600", "server.key": "0o600"}
    assert (tmp_path / "keys").stat().st_mode & 0o077 == 0
    assert Authority.open(tmp_path / "keys").fingerprint == authority.fingerprint


@contextlib.asynccontextmanager
async def as_node(running, tmp_path, key_pem, certificate_pem, authority_pem):
    """A session with a node's certificate."""
    (tmp_path / "node.pem").write_bytes(key_pem + certificate_pem.encode())
    context = ssl.create_default_context(cadata=authority_pem)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_cert_chain(tmp_path / "node.pem")
    async with aiohttp.ClientSession(running.agents_url, connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield session


def beat(boot="1" * 32):
    heartbeat = Heartbeat(boot_id=boot, sent_at_ms=1.0, status=NodeStatus())
    return {"data": heartbeat.model_dump_json(), "headers": {"Content-Type": "application/json"}}


async def test_a_node_joins_over_tls_and_is_alive(tmp_path, database_url):
    key_pem, pem = signing_request()
    async with serving_testbed(tmp_path, database_url) as running:
        token = await joining.issue_join_token(running.orchestrator, who="test")
        context = ssl.create_default_context(cadata=running.orchestrator.authority.pem)
        async with aiohttp.ClientSession(running.agents_url, connector=aiohttp.TCPConnector(ssl=context)) as session:
            body = request_with(token, pem).model_dump_json(by_alias=True)
            async with session.post("/agent/v1/enrol", data=body) as answer:
                assert answer.status == 200, await answer.text()
                enrolled = await answer.json()
            async with session.post("/agent/v1/heartbeat", **beat()) as answer:
                assert (answer.status, (await answer.json())["code"]) == (401, "unauthenticated")
        async with as_node(
            running, tmp_path, key_pem, enrolled["certificate_pem"], enrolled["authority_pem"]
        ) as session:
            async with session.post("/agent/v1/heartbeat", **beat()) as answer:
                assert answer.status == 200, await answer.text()
                assert {"version": 2, "next_seq": 1}.items() <= (await answer.json()).items()
            async with session.post("/agent/v1/heartbeat", **beat("2" * 32)) as answer:
                assert answer.status == 200
            async with session.post("/agent/v1/heartbeat", **beat()) as answer:
                assert (answer.status, (await answer.json())["code"]) == (409, "older_agent")
            async with session.post("/agent/v1/heartbeat", data=b"{") as answer:
                assert (answer.status, answer.content_type) == (422, "application/problem+json")
            async with session.get("/agent/v1/nothing") as answer:
                assert (answer.status, answer.content_type) == (404, "application/problem+json")


@pytest.mark.parametrize(("chosen", "joined"), [(None, "den"), ("den", "den"), ("attic", None)])
async def test_a_node_without_a_name_takes_the_tokens(tmp_path, database_url, chosen, joined):
    folder = tmp_path / "node"
    async with serving_testbed(tmp_path, database_url) as running:
        token = await joining.issue_join_token(running.orchestrator, who="test", name="den")
        joins = asyncio.to_thread(join_testbed, running.agents_url, token, name=chosen, folder=folder)
        if joined is None:
            with pytest.raises(UserError, match="'den', as the token says"):
                await joins
        else:
            assert (await joins)[1] == AgentSettings.read(folder).name == joined


async def test_the_certificate_of_another_authority_is_refused(tmp_path, database_url):
    key_pem, pem = signing_request()
    foreign = Authority.open(tmp_path / "foreign").sign_node(pem, "ab" * 16, 30)
    async with serving_testbed(tmp_path, database_url) as running:
        session = as_node(running, tmp_path, key_pem, foreign.pem, running.orchestrator.authority.pem)
        async with session as node:
            with pytest.raises(aiohttp.ClientError):
                await node.post("/agent/v1/heartbeat", **beat())


async def test_users_need_a_token_and_a_local_host(tmp_path, database_url):
    async with serving_testbed(tmp_path, database_url) as running, aiohttp.ClientSession(running.url) as session:
        async with session.get("/v1/nodes") as answer:
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        with_token = {"Authorization": f"Bearer {running.first_token}"}
        async with session.get("/v1/nodes", headers=with_token) as answer:
            assert (answer.status, await answer.json()) == (200, {"items": [], "next": None})
        async with session.get("/v1/nodes", headers=with_token | {"Host": "evil.example"}) as answer:
            assert answer.status == 421
        async with session.get("/v1/nodes", headers=with_token | {"Origin": "https://evil.example"}) as answer:
            assert answer.status == 403
        async with session.get("/v1/nodes?limit=0", headers=with_token) as answer:
            assert (await answer.json())["detail"] == "query: limit is '0'; expected greater than or equal to 1"
        async with session.post("/v1/tokens/join", headers=with_token, json={"role": "client"}) as answer:
            assert answer.status == 201
            assert (await answer.json())["command"].startswith(f"bentpipe node join {running.agents_url} bpj_")


@pytest.mark.parametrize(
    ("option", "value", "problem"),
    [
        ("--ports", "8800", "ports: '8800'; expected FIRST-END"),
        ("--ports", "9-8", "ports: 9-8; expected FIRST-END"),
        ("--listen", "home", "listen: 'home'; expected an address"),
        ("--reach", "10.0.0.1/8", "reach: '10.0.0.1/8'; expected a network"),
        ("--weather", "https://a.example/w", "not allowed by the host"),
        ("--router", "eth0@https://a.example/m", "not allowed by the host"),
    ],
)
def test_a_wrong_address_of_a_join_is_one_line(tmp_path, option, value, problem):
    token = "bpj_" + "a" * 43 + "." + "0" * 64
    command = ["node", "join", "https://127.0.0.1:1", token, "--only", "--folder", str(tmp_path), option, value]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 2
    assert problem in done.output
    assert done.output.count("\n") == 1


def test_a_join_keeps_what_a_server_needs():
    values = {
        "url": "https://a:1",
        "name": "a",
        "control_listen": "::1",
        "ports": (1, 9),
        "extra_networks": ["10.0.0.0/8"],
    }
    settings = AgentSettings.check(values, "node")
    assert (settings.control_listen, settings.ports, settings.extra_networks) == ("::1", (1, 9), ("10.0.0.0/8",))

"""Requests that schemathesis makes of the OpenAPI document: whatever comes, the answer is no fault of ours."""

import asyncio
import contextlib
import json

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from testbed_orchestrators import join, orchestrator, plan_all, user, yaml_of

from bentpipe.testbed.orchestrator.routers.app import users_app
from bentpipe.testbed.orchestrator.services import experiments, users
from bentpipe.testbed.orchestrator.services.telemetry import Telemetry

ENDLESS = {"/v1/events"}
"""Streams; test_testbed_api.py reads one."""
EXAMPLES = 5
"""Requests of an operation, for each caller."""


async def token_of(testbed):
    async with testbed.write() as transaction:
        return (await users.issue(transaction, "root", "admin", who="test"))[0]


async def call(app, case, token):
    arguments = case.as_transport_kwargs(base_url="http://127.0.0.1:8791")
    headers = {name: value for name, value in dict(arguments["headers"]).items() if name.lower() != "authorization"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    known = {key: arguments.get(key) for key in ("params", "json") if arguments.get(key) is not None}
    if arguments.get("data") is not None:
        known["content"] = arguments["data"]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport) as client:
        # A client of HTTP refuses some generated headers and addresses itself.
        with contextlib.suppress(httpx.InvalidURL, UnicodeEncodeError, httpx.LocalProtocolError):
            return await client.request(arguments["method"], arguments["url"], headers=headers, **known)


def test_no_generated_request_is_a_fault(tmp_path):
    answers = {None: set(), "admin": set()}
    with asyncio.Runner() as runner, contextlib.ExitStack() as closing:
        stack = contextlib.AsyncExitStack()
        closing.callback(lambda: runner.run(stack.aclose()))

        async def begin():
            testbed = await stack.enter_async_context(orchestrator(tmp_path, f"sqlite:///{tmp_path / 'testbed.db'}"))
            await join(testbed, "attic")
            await experiments.submit(testbed, await user(testbed), yaml_of(when="{every: 6h}"))
            await plan_all(testbed)
            app = users_app(testbed, Telemetry(testbed), "127.0.0.1")
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8791") as one:
                document = (await one.get("/v1/openapi.json")).json()
            return app, document, {None: None, "admin": await token_of(testbed)}

        app, document, tokens = runner.run(begin())
        schema = schemathesis.openapi.from_dict(document)
        operations = [result.ok() for result in schema.get_all_operations()]
        assert len(operations) > 20
        for operation in operations:
            if operation.path in ENDLESS:
                continue

            @seed(20)
            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                database=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def check(case):
                for caller, token in tokens.items():
                    answer = runner.run(call(app, case, token))
                    if answer is None:
                        continue
                    answers[caller].add(answer.status_code)
                    assert answer.status_code < 500, (case.method, case.formatted_path, answer.text)
                    if caller is None:
                        assert answer.status_code in (401, 404, 405), (case.method, case.formatted_path, answer.text)
                    if answer.status_code >= 400:
                        assert {"title", "detail", "code"} <= json.loads(answer.text).keys()

            check()
    assert {200, 404, 422} <= answers["admin"]

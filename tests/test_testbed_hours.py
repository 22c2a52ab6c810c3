"""Hours of hosts: dry runs, plans and displaced runs keep to them, or say why there is no start."""

import pytest
from test_testbed_runs import submitted
from testbed_orchestrators import POLICY, join, orchestrator, runs_of, user, yaml_of

from bentpipe.testbed.orchestrator.services.dry_runs import dry_run
from bentpipe.testbed.schemas.quantities import at_text

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ({"paused": True}, "attic is paused by its host"),
        ({"hours": ("17:00-18:00",)}, "outside of the hours of attic's host (17:00-18:00 local time)"),
        ({"hours": ("16:00-17:00",)}, ""),
    ],
)
async def test_a_dry_run_knows_pause_and_hours_of_the_host(tmp_path, database_url, policy, reason):
    async with orchestrator(tmp_path, database_url) as testbed:  # it is 14:13 UTC, 16:13 at the node
        await join(testbed, "attic", policy=POLICY.replace(**policy), utc_offset_s=7200)
        (start,) = (await dry_run(testbed, await user(testbed), yaml_of(when="now"))).starts
        assert (start.reason, start.start_at_ms is None) == (reason, reason != "")


async def test_plans_keep_to_the_hours_of_both_hosts(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:  # it is 14:13:20 UTC, 16:13:20 at the client
        client = POLICY.replace(hours=("16:30-18:00", "23:00-01:00"))
        await join(testbed, "attic", policy=client, utc_offset_s=7200)
        await join(testbed, "pop", "server", policy=POLICY.replace(hours=("15:00-23:59",)), utc_offset_s=0)
        caller = await user(testbed)
        fields = {"run": "{builtin: irtt, args: {seconds: 30}}", "server": "{near: node}"}
        fields |= {"when": "{every: 1h}", "limits": "{runs: 8, slip: 50m}"}
        starts = (await dry_run(testbed, caller, yaml_of(**fields))).starts
        await submitted(testbed, caller, **fields)
        runs = await runs_of(testbed)
        assert [run.state for run in runs] == ["planned", "planned", *["missed"] * 4, "planned", "planned"]
        at = [None if run.state == "missed" else at_text(run.start_at_ms)[11:19] for run in runs]
        # The first slips to the server's hours, 17:00 at the client, and is prepared in them too.
        assert at == ["15:00:10", "15:13:20", *[None] * 4, "21:00:10", "21:13:20"]
        assert [start.start_at_ms and at_text(start.start_at_ms)[11:19] for start in starts] == at
        assert at_text(starts[2].next_free_at_ms)[11:19] == "21:00:10"
        theirs = "outside of the hours of attic's host (16:30-18:00, 23:00-01:00 local time)"
        assert {start.reason for start in starts} == {"", theirs}
        assert runs[2].reason == f"{theirs} from 2026-09-21T16:13:20Z to 2026-09-21T17:03:20Z"


async def test_displaced_runs_stay_in_the_hours_of_the_host(tmp_path, database_url):
    async with orchestrator(tmp_path, database_url) as testbed:
        await join(testbed, "attic", policy=POLICY.replace(hours=("14:00-14:20",)), utc_offset_s=0)
        fields = {"class_": "exclusive", "when": "{at: '2026-09-21T14:19:00Z'}", "limits": "{slip: 1h}"}
        await submitted(testbed, await user(testbed), name="low", **fields)
        key = await submitted(testbed, await user(testbed, "eve"), name="high", priority="1", **fields)
        high, low = sorted(await runs_of(testbed), key=lambda run: run.experiment != key)
        assert (high.state, low.state) == ("planned", "missed")
        assert low.reason == "displaced by high (priority 1); no slot is free until 2026-09-21T15:19:00Z"

"""The Experiment in Python and in Rust has the same fields, and the simulator reads what Python writes."""

import json
import re
from pathlib import Path

import pytest

from bentpipe import _native
from bentpipe.errors import UserError
from bentpipe.experiments import apps
from bentpipe.experiments import experiment as ex
from bentpipe.profiles import queue_rules
from bentpipe.profiles.presets import preset_profile
from bentpipe.profiles.queues import parse_queue

CRATE = Path(__file__).parents[1] / "crates" / "profile" / "src"
RUST = "\n".join(file.read_text(encoding="utf-8") for file in sorted(CRATE.rglob("*.rs")))
S = 1_000_000_000


@pytest.mark.parametrize(
    ("record", "struct"),
    [
        (ex.Experiment, "Experiment"),
        (ex.ProfileRef, "ProfileRef"),
        (ex.Host, "HostSpec"),
        (ex.Flow, "FlowSpec"),
        (ex.CrossTraffic, "CrossTraffic"),
        (ex.TransferSizes, "TransferSizes"),
        (queue_rules.QueueRule, "QueueRule"),
        (queue_rules.Codel, "Codel"),
        (queue_rules.FqCodel, "FqCodel"),
        (queue_rules.Red, "Red"),
        (queue_rules.Step, "Step"),
    ],
)
def test_a_record_has_the_fields_of_its_struct(record, struct):
    body = re.search(rf"^pub struct {struct} \{{\n(.*?)^}}", RUST, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^    pub (\w+):", body[1], re.MULTILINE)) == set(record.model_fields)


@pytest.mark.parametrize(("union", "enum"), [(apps.App, "AppSpec"), (queue_rules.QueueDiscipline, "QueueDiscipline")])
def test_a_union_has_the_variants_of_its_enum(union, enum):
    body = re.search(rf"^pub enum {enum} \{{\n(.*?)^}}", RUST, re.MULTILINE | re.DOTALL)
    variants = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        for name in re.findall(r"^    ([A-Z]\w+)", body[1], re.MULTILINE)
    }
    names = set()
    for branch in union.__args__:
        names |= set(branch.model_fields if hasattr(branch, "model_fields") else branch.__args__)
    assert names == variants


def full(path):
    """An Experiment with every field set."""
    hosts = {"host": ex.Host(**dict.fromkeys(("rmem_max_bytes", "wmem_max_bytes"), 1_000_000), fq=True, ecn="classic")}
    ends = {"sender": "host", "receiver": "host"}
    sizes = ex.TransferSizes(least_bytes=1000, most_bytes=100_000, tail_index=1.2)
    return ex.Experiment(
        name="full",
        seed=3,
        duration_ns=2 * S,
        warmup_ns=S,
        sample_step_ns=S // 10,
        offset_ns=S,
        profiles=(ex.ProfileRef(role="path", name=path.name, hash=path.content_hash()),),
        hosts=hosts,
        flows=(
            ex.Flow(controller="cubic", options={"hystart": "pp"}, ecn="accurate", stop_ns=S, **ends),
            ex.Flow(controller="bbr", direction="up", app=apps.parse_app("transfers:5kb,n=1")),
            ex.Flow(
                controller="reno",
                start_ns=S // 2,
                app=apps.parse_app("paced:80kbit,every=100ms"),
            ),
        ),
        cross=(ex.CrossTraffic(offered_bps=100_000, sizes=sizes, **ends),),
        queues=tuple(
            parse_queue(text).replace(profile="path")
            for text in ("down=codel", "up=red", "fq_codel", "step:threshold_packets=20", "drop_tail:limit_packets=99")
        ),
    )


def test_the_simulator_reads_every_field_and_a_record_survives_the_round_trip():
    path = preset_profile("dumbbell:rate=10mbit", 4.0, name="dumbbell")
    experiment = full(path)
    summary = json.loads(_native.simulate(experiment.to_json(), [path], None, {}).summary_json())
    assert [flow["controller"] for flow in summary["flows"]] == ["cubic", "bbr", "reno"]
    assert ex.Experiment.check(json.loads(experiment.to_json()), "run.json") == experiment


def test_an_unknown_field_is_refused_on_both_sides():
    path = preset_profile("dumbbell:rate=10mbit", 4.0, name="dumbbell")
    other = {**full(path).to_dict(), "colour": "red"}
    with pytest.raises(UserError, match="colour"):
        _native.simulate(json.dumps(other), [path], None, {})
    with pytest.raises(UserError, match="unknown key 'colour'"):
        ex.Experiment.check(other, "run.json")

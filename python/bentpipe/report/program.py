"""What the program of a Run did, as it says itself: Runs of `bentpipe run` need not have a TCP flow."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from bentpipe.execution.emulation.engine import Spec
from bentpipe.plots.style import scheme_name
from bentpipe.runs import text
from bentpipe.runs.commands import are_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.runs.store import Run
    from bentpipe.runs.summary import SchemeSummary


def sentences(label: str, runs: Sequence[Run]) -> list[str]:
    """What programs said over one Profile; nothing for Runs without a program."""
    found = []
    for run in runs:
        command = _command(run)
        if not command:
            continue
        flows = _flows(run)
        said = [each for flow in flows if (each := _said(flow))]
        if said:
            found.append(f"Over {label}, {command} says: {'; '.join(said)}.")
        elif not run.flows:
            packets = run.record["summary"].get("packets")
            found.append(f"{command} over {label} had no TCP flow; {packets} packets left the path.")
    return found


def carried(label: str, summaries: Sequence[SchemeSummary]) -> list[str]:
    """Return a sentence on each command: its Runs began at different moments, so they are not compared."""
    return [
        f"Over {label}, {scheme_name(summary.scheme)} carried {text.mean(summary.total_bps, text.MBIT)} Mbit/s "
        f"({text.plural(summary.n, 'run')})."
        for summary in summaries
    ]


def repeat(run: Run) -> list[str]:
    """The command that runs the program of a Run again over the same path, from inside its folder; empty: none does."""
    program = run.record.get("program")
    if not isinstance(program, dict) or not _command(run):
        return []
    queues = program.get("queues")
    if not isinstance(queues, list) or not all(isinstance(queue, str) for queue in queues):
        return []  # of an older bentpipe, which did not keep how it was asked for
    how = ["--seed", str(run.seed)] if run.seed else []
    how += ["--offset", f"{run.offset_s:.9g}"] if run.record.get("phase") == "given" else []
    how += ["--at-end", str(program["at_end"])] if program.get("at_end", Spec.at_end) != Spec.at_end else []
    how += ["--mtu", str(program["mtu"])] if program.get("mtu", Spec.mtu) != Spec.mtu else []
    how += ["--gateway-cc", str(program["gateway_controller"])] if program.get("gateway_controller") else []
    how += {"any": ["--allow-local"], "none": ["--no-internet"]}.get(str(program.get("internet")), [])
    how += [word for queue in queues for word in ("--aqm", queue)]
    how += ["--server", str(program["server"])] if program.get("server") else []
    within_s = program.get("listen_within_s", Spec.listen_within_s)
    how += ["--listen-within", f"{within_s:g}"] if within_s != Spec.listen_within_s else []
    return ["bentpipe", "run", f"profiles/{run.label}.parquet", *how, "-o", "again", "--", *program["command"]]


def _command(run: Run) -> str:
    program = run.record.get("program")
    command = program.get("command") if isinstance(program, dict) else None
    return shlex.join(command) if are_words(command) else ""


def _flows(run: Run) -> list[Mapping[str, Any]]:
    output = run.record.get("program_output")
    flows = output.get("flows") if isinstance(output, dict) else None
    return [flow for flow in flows if isinstance(flow, dict)] if isinstance(flows, list) else []


def _said(flow: Mapping[str, Any]) -> str:
    """Of a prober's target: how much came back, and when."""
    sent, median = flow.get("sent_packets"), flow.get("rtt_median_ms")
    if not isinstance(sent, int) or not isinstance(flow.get("received_packets"), int):
        return ""
    came = f"{flow.get('name')}: {flow['received_packets']} of {text.plural(sent, 'packet')} came back"
    if not isinstance(median, int | float):
        return came
    return f"{came}, RTT {text.number(median)} ms in the median, 95 % at most {text.number(flow['rtt_p95_ms'])} ms"

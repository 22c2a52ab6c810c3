"""The report's sentences about a Run's program, from its parsed output: Runs of `bentpipe run` may have no TCP flow."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from bentpipe.execution.emulation.spec import Spec
from bentpipe.plots.style import scheme_name
from bentpipe.runs import text
from bentpipe.runs.profiles import stored_profile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bentpipe.runs.store import Run
    from bentpipe.runs.summary import SchemeSummary


def sentences(label: str, runs: Sequence[Run]) -> list[str]:
    """Return a sentence on each program's output over one Profile; none for Runs without a program."""
    lines = []
    for run in runs:
        command = _command(run)
        if not command:
            continue
        flows = _flows(run)
        probes = [each for flow in flows if (each := _probe_result(flow))]
        if probes:
            lines.append(f"Over {label}, {command} reports: {'; '.join(probes)}.")
        elif not run.flows:
            packets = run.record.summary.get("packets")
            lines.append(f"{command} over {label} had no TCP flow; {packets} packets left the path.")
    return lines


def carried(label: str, summaries: Sequence[SchemeSummary]) -> list[str]:
    """Return a sentence on each command's goodput, if it is known.

    Runs began at different times of the path and are not compared.
    """
    return [
        f"Over {label}, {scheme_name(summary.scheme)} carried {text.mean(summary.total_bps, text.MBIT)} Mbit/s "
        f"({text.plural(summary.n, 'run')})."
        for summary in summaries
        if summary.total_bps is not None
    ]


def repeat(run: Run, out: Path) -> list[str]:
    """Return the command that repeats a program's Run over the same path, which is in the folder; empty: unknown."""
    program = run.record.program
    file = stored_profile(out, run.label)
    if program is None or not program.command or file is None:
        return []
    options = ["--seed", str(run.seed)] if run.seed else []
    options += ["--offset", f"{run.offset_s:.9g}"] if run.record.phase == "given" else []
    options += ["--at-end", program.at_end] if program.at_end != Spec.at_end else []
    options += ["--mtu", str(program.mtu)] if program.mtu != Spec.mtu else []
    options += ["--gateway-cc", program.gateway_controller] if program.gateway_controller else []
    options += {"any": ["--allow-local"], "none": ["--no-internet"]}.get(program.internet, [])
    options += [word for queue in program.queues for word in ("--aqm", queue)]
    options += ["--server", program.server] if program.server else []
    within_s = program.listen_within_s
    options += ["--listen-within", f"{within_s:g}"] if within_s != Spec.listen_within_s else []
    return ["bentpipe", "run", str(file), *options, "-o", "again", "--", *program.command]


def _command(run: Run) -> str:
    return "" if run.record.program is None else shlex.join(run.record.program.command)


def _flows(run: Run) -> list[Mapping[str, Any]]:
    output = run.record.program_output
    flows = output.get("flows") if isinstance(output, dict) else None
    return [flow for flow in flows if isinstance(flow, dict)] if isinstance(flows, list) else []


def _probe_result(flow: Mapping[str, Any]) -> str:
    """Describe the replies of a prober's target: their count and RTT; empty for other flows."""
    sent, median = flow.get("sent_packets"), flow.get("rtt_median_ms")
    if not isinstance(sent, int) or not isinstance(flow.get("received_packets"), int):
        return ""
    replies = f"{flow.get('name')}: {flow['received_packets']} of {text.plural(sent, 'packet')} answered"
    if not isinstance(median, int | float):
        return replies
    return f"{replies}, median RTT {text.number(median)} ms, 95th percentile {text.number(flow['rtt_p95_ms'])} ms"

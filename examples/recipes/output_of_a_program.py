"""Print the RTTs of ping or irtt beside the path's handovers: python output_of_a_program.py RUNS."""

import sys
from pathlib import Path

import polars as pl

from bentpipe.measurements.tool_output.stored import program_output
from bentpipe.runs.store import find_runs

for run in find_runs(Path(sys.argv[1])):
    output = program_output(run)
    if output is None:
        print(f"{run.path.name}: bentpipe does not parse its program's output")
        continue
    handovers = run.events().filter(pl.col("kind") == "handover")["t_s"].to_list()
    print(f"{run.path.name}: {output.tool}, handovers at {[round(t, 1) for t in handovers]} s of the Run")
    for flow in output.flows:
        per_second = (
            flow.samples.with_columns(second=pl.col("t_s").floor())
            .group_by("second", maintain_order=True)
            .agg(pl.len().alias("probes"), pl.col("rtt_ms").median(), pl.col("rtt_ms").null_count().alias("without"))
        )
        for second, probes, rtt_ms, without in per_second.iter_rows():
            median = "no reply" if rtt_ms is None else f"median {rtt_ms:6.1f} ms"
            print(f"  {second:4.0f} s  {probes:4d} probes  {median}  {without} without a reply")

"""Helpers of the tests of probing."""

import json

from bentpipe.measurements.probing.recording import ProbeRequest, Recording
from bentpipe.measurements.probing.spec import Spec, Target

MS, SECOND = 10**6, 10**9
HERE = ("192.0.2.1", 1234)


def request(method="ping", synchronised=False):
    target = Target("server", "192.0.2.9", 0)
    return ProbeRequest("here", Spec(method, (target,), 10 * MS, None), synchronised)


def counts(**other):
    results = {
        "skipped": [0],
        "late_answers": [0],
        "lost_up": [None],
        "same_clock": [None],
        "overruns": 0,
        "over": True,
    }
    results |= {"far_overruns": [None], "far_refused": [None]}
    return (0, json.dumps(results | other))


def recorded(tmp_path, rows, counts_row, **options):
    recording = Recording(tmp_path, request(**options), 1_000 * SECOND, print)
    for row in rows:
        recording.add("probes", row)
    recording.add("counts", counts_row)
    recording.close()
    return recording.folder

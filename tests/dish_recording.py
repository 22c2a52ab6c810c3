"""Helpers of the recorder tests: a terminal with outages, and its recording."""

from dish_world import SECOND, START

from bentpipe.measurements.dish.client import DishClient, DishError
from bentpipe.measurements.dish.recording.reading import scan_recording
from bentpipe.measurements.dish.recording.recorder import Recorder
from bentpipe.measurements.dish.simulation.terminal import LocalTransport


class Faulty(LocalTransport):
    """A terminal that is away at times: `plan` says at which seconds after the start, or does something then."""

    def __init__(self, terminal, away=(), then=()):
        super().__init__(terminal)
        self.away, self.then = away, dict(then)

    def call(self, request):
        now_s = (self.terminal.clock.now_unix_ns() - START) / SECOND
        for when in sorted(self.then):
            if now_s >= when:
                self.then.pop(when)(self)
        if any(a <= now_s < b for a, b in self.away):
            raise DishError("unreachable", "no terminal answers")
        return super().call(request)


def record(transport, folder, for_s, **options):
    changes = []
    recorder = Recorder(
        DishClient(transport), folder, transport.terminal.clock, on_change=lambda c: changes.append(c.kind), **options
    )
    recorder.run(for_s)
    return changes


def since_start(column):
    return [(t - START) / SECOND for t in column.to_list()]


def seconds_of(folder):
    return since_start(scan_recording(folder).collect()["t_unix_ns"])

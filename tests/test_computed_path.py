"""A computed Profile through the simulator, across slot edges: losses where it says, and no capacity from nowhere."""

import numpy as np
import polars as pl
import pytest

from bentpipe._native import simulate
from bentpipe.experiments.experiment import Experiment, Flow, ProfileRef
from bentpipe.profiles.make import make_profile
from bentpipe.profiles.origin import slots
from bentpipe.profiles.path import PathView

#: Begins on a full minute, so that slots (:12, :27, …) begin where one of the simulator's windows of a second does.
DURATION_S = 72
SECONDS = np.arange(DURATION_S + 1.0)
#: Largest packet on the wire, with headers [bytes].
PACKET = 1600


@pytest.fixture(scope="module", params=["down", "up"])
def run(request):
    """The direction, the path, and per window and hop over a satellite: packets lost in episodes, bytes delivered."""
    direction = request.param
    # Every reconfiguration loses packets, at either side of its interruption, and hardly anything else does.
    harsh = {"loss": {"reconfiguration_probability": 1.0}}
    profile = make_profile("melbourne", "sydney", duration_s=float(DURATION_S), seed=5, loss="idle", parameters=harsh)
    experiment = Experiment(
        name="edges",
        seed=1,
        duration_ns=DURATION_S * 10**9,
        profiles=(ProfileRef(role="path", name=profile.name, hash=profile.content_hash()),),
        # Three, so that the queue is never empty for long and all the capacity there is gets used.
        flows=(Flow(controller="bbr", direction=direction),) * 3,
    )
    links = pl.DataFrame(simulate(experiment.to_json(), [profile]).links())
    links = links.filter(pl.col("direction") == direction, pl.col("flow") == -1)
    view = PathView(profile)
    hops = {i: hop["name"] for i, hop in enumerate(view.metadata["hops"]) if hop["name"].startswith("sat:")}
    return direction, view, {i: windows(links.filter(pl.col("hop") == name)) for i, name in hops.items()}


def windows(rows):
    """Per second: what each counter grew by. A window without traffic has no row, and nothing grew."""
    times = rows["t_s"].to_numpy()
    assert np.all(times == np.rint(times))
    grown = {}
    for column in ("drops_loss", "delivered_bytes"):
        counts = np.zeros(DURATION_S)
        counts[times.astype(int) - 1] = np.diff(rows[column].to_numpy().astype(float), prepend=0.0)
        grown[column] = counts
    return grown


def edges_s(view):
    return [int(slot["t_s"]) for slot in slots(view.metadata) if slot["t_s"] > 0]


def test_packets_are_lost_in_episodes_alone_and_most_of_all_around_slot_edges(run):
    direction, view, hops = run
    total = np.zeros(DURATION_S)
    for index, grown in hops.items():
        loss = view.points(index, direction, "loss_probability")
        for second in np.flatnonzero(grown["drops_loss"]):
            # Some point of the series lies above zero from before the window's end to after its begin.
            ends = np.append(loss.t_s[1:], DURATION_S)
            bad = (loss.value > 0) & (loss.t_s < second + 1) & (ends > second)
            assert bad.any(), f"hop {index} loses packets in second {second}, which holds no episode of it"
        total += grown["drops_loss"]
    assert total.sum() > 100
    edges = edges_s(view)
    assert edges == [12, 27, 42, 57]
    around = [second for edge in edges for second in (edge - 1, edge)]
    share_of_loss, share_of_time = total[around].sum() / total.sum(), len(around) / DURATION_S
    assert share_of_loss > 2 * share_of_time, (share_of_loss, share_of_time)


def test_no_second_delivers_more_than_its_capacity(run):
    """Interruptions count as no capacity, and what moves from one satellite's queue to the next must be sent there."""
    direction, view, hops = run
    assert len([event for event in view.handovers() if event["interruption_ns"] > 10_000_000]) == 4
    delivered = np.sum([grown["delivered_bytes"] for grown in hops.values()], axis=0)
    times, bits = view.capacity(direction).cumulative()
    # Bytes leave a hop when they have been sent and have crossed it: what is counted in a second was sent in it, or
    # earlier by no more than the longest way through.
    crossing_s = view.profile.delay_ms(direction, np.arange(0.0, DURATION_S, 0.01)).max() / 1e3
    begins, ends = SECONDS[:-1], SECONDS[1:]
    sent = (np.interp(ends, times, bits) - np.interp(np.maximum(begins - crossing_s, 0.0), times, bits)) / 8
    assert np.all(delivered <= sent + PACKET)
    assert np.all(np.cumsum(delivered) <= np.interp(ends, times, bits) / 8)
    used = delivered.sum() * 8 / bits[-1]
    assert used > 0.8, f"{used:.0%} of the capacity is too little to prove anything"

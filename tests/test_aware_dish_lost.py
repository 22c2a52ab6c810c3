"""The terminal is lost and comes back: the service says how old its samples are. `python FILE 100`: 100 times."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
from dish_world import profile

from bentpipe.aware.client import AwarenessClient
from bentpipe.profiles.parquet import write_profile

pytest.importorskip("grpc")

STALE_S = 5.0
"""Age from which on the service gives a reason."""
AGAIN_S = 30.0
"""Longest time until a terminal that is back is seen."""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def started(*arguments):
    process = subprocess.Popen(
        [sys.executable, "-m", "bentpipe", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout.readline()
    return process


def killed(process):
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def lose(folder, times):
    """Lose the terminal so often; return the longest time until it was seen again [s], and a subscriber's events."""
    path = Path(folder) / "P.parquet"
    write_profile(profile(), path)
    dish_port, listen = free_port(), f"127.0.0.1:{free_port()}"
    dish = ["dish", "simulate", "--profile", path, "--port", dish_port]
    process = started(*dish)
    service = started("aware", "serve", "--dish", f"127.0.0.1:{dish_port}", "--listen", listen)
    client, seen = AwarenessClient(f"http://{listen}"), []

    def subscribe():
        with contextlib.suppress(OSError):  # the service ends
            for _, document in client.events("telemetry"):
                seen.append(document)

    threading.Thread(target=subscribe, daemon=True).start()
    longest_s = 0.0
    try:
        wait_for_sample(client)
        for _ in range(times):
            lost_s = time.time()
            killed(process)
            wait(lambda: client.get("telemetry")["reason"] is not None, AGAIN_S)
            document = client.get("telemetry")
            # It says how old the sample is, and makes no forecast from it.
            assert document["age_s"] >= STALE_S - 1.0
            assert document["t_s"] <= lost_s + 1.0
            assert document["now_s"] - document["t_s"] == pytest.approx(document["age_s"], abs=0.5)
            back_s = time.monotonic()
            process = started(*dish)
            wait_for_sample(client)
            longest_s = max(longest_s, time.monotonic() - back_s)
        assert service.poll() is None
    finally:
        killed(process)
        killed(service)
    return longest_s, seen


def wait_for_sample(client):
    wait(lambda: (client.get("telemetry")["age_s"] or 99.0) < 2.0, AGAIN_S)


def wait(is_so, at_most_s):
    end_s = time.monotonic() + at_most_s
    while not is_so():
        assert time.monotonic() < end_s, "not in time"
        time.sleep(0.2)


def test_a_terminal_that_is_lost_is_said_to_be_and_comes_back(tmp_path):
    _, seen = lose(tmp_path, 2)
    assert len(seen) > 5
    assert all(document["reason"] is not None or document["age_s"] < STALE_S + 2 for document in seen)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1])
        longest_s, seen = lose(folder, count)
        wrong = [each for each in seen if each["reason"] is None and each["age_s"] > STALE_S + 2]
        events = f"{len(seen)} events to a subscriber, {len(wrong)} wrong"
        print(f"{count} losses: seen again within {longest_s:.1f} s, {events}")

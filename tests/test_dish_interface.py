"""The simulated terminal with the rates of a real interface."""

from __future__ import annotations

import contextlib
import socket
import time

import numpy as np
import pytest

from bentpipe.errors import UserError
from bentpipe.measurements.dish.simulation.interface import InterfaceRates
from bentpipe.net_dev import interface_bytes


def test_traffic_of_a_second_is_reported_for_that_second():
    begin = time.monotonic()
    rates = InterfaceRates("lo", lambda: int((time.monotonic() - begin) / 0.2))  # seconds of a fifth
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", 9))
        while time.monotonic() < begin + 0.75:
            with contextlib.suppress(ConnectionRefusedError):  # nobody listens: it was sent all the same
                sender.send(bytes(10_000))
            time.sleep(0.01)
    time.sleep(0.3)
    down, up = rates.in_seconds(np.array([1, 2, 1000]))
    assert np.all(down[:2] > 1e6)  # a hundred times a second at 80 kbit, less what a busy machine leaves out
    assert np.array_equal(down, up)  # of the loopback
    assert down[2] == 0


def test_an_interface_that_is_not_there_is_one_line():
    assert interface_bytes("lo")[0] >= 0
    with pytest.raises(UserError, match="no interface 'nothing0'"):
        InterfaceRates("nothing0", lambda: 0)

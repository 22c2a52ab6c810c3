"""A simulated terminal: the same service and messages, with values from a Profile and its satellites."""

from __future__ import annotations

from bentpipe.measurements.dish.simulation.environment import DishEnvironment, default_profile
from bentpipe.measurements.dish.simulation.server import Server, serve
from bentpipe.measurements.dish.simulation.terminal import LocalTransport, Terminal

__all__ = ["DishEnvironment", "LocalTransport", "Server", "Terminal", "default_profile", "serve"]

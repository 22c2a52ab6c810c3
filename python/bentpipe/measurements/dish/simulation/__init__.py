"""A simulated terminal: the same service with the same messages, its values from a Profile and the sky over it."""

from __future__ import annotations

from bentpipe.measurements.dish.simulation.server import Server, serve
from bentpipe.measurements.dish.simulation.terminal import LocalTransport, Terminal
from bentpipe.measurements.dish.simulation.world import World, default_profile

__all__ = ["LocalTransport", "Server", "Terminal", "World", "default_profile", "serve"]

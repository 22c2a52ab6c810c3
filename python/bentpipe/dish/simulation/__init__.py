"""A simulated terminal: the same service with the same messages, its values from a Profile and the sky over it."""

from __future__ import annotations

from bentpipe.dish.simulation.server import Server, serve
from bentpipe.dish.simulation.terminal import LocalTransport, Terminal
from bentpipe.dish.simulation.world import World, default_profile

__all__ = ["LocalTransport", "Server", "Terminal", "World", "default_profile", "serve"]

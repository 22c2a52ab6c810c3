"""Measuring a path from here: pings, TCP handshakes, one-way delays and traceroutes, as a measured Run.

Two processes: `engine` sends and receives and does nothing else, so that a disk or a table never makes a probe late;
`session` starts it, keeps what it says in crash-safe segments, and makes the Run of them. Why not another tool:
``docs/design/004-probers.md``.
"""

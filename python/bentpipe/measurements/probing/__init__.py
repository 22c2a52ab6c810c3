"""Active probing: pings, TCP handshakes, one-way delays and traceroutes, as a measured Run.

Two processes: `engine` only sends and receives, so that a disk or a table never delays a probe. `session` starts it,
stores its output in crash-safe segments, and converts them to a Run. ``docs/design/004-probers.md`` says why no
existing tool is used.
"""

"""The agent: what runs on a node behind a terminal.

- `signals`: live values of the terminal, pings, satellites and weather; triggers that fire on them.
- `scavenger`: detects the household's own traffic and yields the link.
"""

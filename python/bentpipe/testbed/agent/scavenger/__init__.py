"""Scavenger: the household's traffic comes first. Experiments yield the link when it is used.

- `own_traffic`: what the run itself sends and receives, from its interface's counters.
- `user_traffic`: the household's traffic, from the terminal's readings less the run's own.
- `router_traffic`: the same from a router's counters, in windows of up to two seconds.
- `yielding`: what happens to a run: link down, frozen, ended, tried once more after quiet. A state machine without IO.
- `loop`: reads, decides and acts, with given actions.
"""

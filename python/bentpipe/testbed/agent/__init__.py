"""The agent of a node: dials out to the orchestrator, keeps the calendar, runs experiments, sends results.

- `settings`, `identity`, `connection`: who it is, and how it speaks with the orchestrator.
- `clock`, `store`: the orchestrator's time, and what survives a kill: calendar, events, runs, bytes used.
- `admission`, `agenda`: whether the host's policy allows a run, and which run starts when (pure functions).
- `session`: between the two ends of a run. `client_end`, `server_end`: one end from preparation to result.
- `standby`: one end of an armed trigger's run, prepared in advance; `client_standbys`, `server_standbys`: which.
- `ports`: the ports of a server node's programs. `retries`: preempted runs of a node that is alone.
- `spool`: results that wait for their upload. `executor`: the runs under way.
- `agent`: the loops. `starting`: makes all of it, and runs it until a signal.
- `signals`, `scavenger`: feeds and triggers; the household's traffic.
- `dish`: the terminal: recorded within a disk budget, sliced for runs, newest values for pages.
- `counters`, `fetching`: byte counters of this machine and of a router; small texts from URLs that the host allows.
"""

"""The orchestrator of the testbed: it decides which node runs which experiment when.

- `database`: tables, connections, migrations. The database refuses overlaps and second runs of one due time.
- `services`: decisions in short transactions; slow work is outside of them.
- `routers`: HTTP, translated to calls of services. `security`: certificates, tokens, roles.
- `workers`: what happens without a request: planning, lost nodes, stored heartbeats.
- `running`: the program.
"""

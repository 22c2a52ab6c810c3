"""The awareness service: what a terminal sees, what comes next and when, for any program on the machine.

- `documents`: what the service says, as records with a JSON Schema.
- `state`: keeps the newest telemetry, learns the slot clock, forecasts.
- `feeds`: a terminal that is polled, or a recording that is replayed.
- `hub`: subscribers of events; one that does not read is dropped.
- `service`: HTTP and server-sent events.
- `client`: a client that reconnects.
"""

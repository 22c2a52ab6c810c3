"""The user terminal ("dish"): a client of its gRPC interface, a recorder, and a simulated terminal.

- `client`: `DishClient`; every field of an answer is optional.
- `following`: polls samples with back-off, and reports each change of state once.
- `recording`: `Recorder` writes a recording, `scan_recording` reads it.
- `simulation`: `Terminal` answers like a dish behind a Profile; `serve` puts it on a port.

All parts except reading a recording use gRPC and need the extra ``bentpipe[dish]``.
"""

import os

# gRPC's core logs to stderr, but errors reach us as exceptions. It reads this variable when it is loaded.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
